"""Programs of tool servers in the sandbox, in the modes that have one."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.mcp import ServerConfig
from foldline.history import Session
from foldline.protocol import events, operations
from support.agents import PATIENCE, PlayedLLM
from support.mcp_server import stdio_server
from support.sandboxes import need

from .conftest import House

ASKS = "import urllib.request as u; u.urlopen('http://example.org/', timeout=9)"

ADVICE = "set sandbox, writable or hosts in [mcp.{}] to allow it"


@pytest.fixture
async def agent(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    """In the mode `sandboxed`, in a folder beside that of the house."""
    need("bubblewrap")
    monkeypatch.setenv("HOME", str(tmp_path))  # in `/tmp`, programs have files of their own
    (tmp_path / "shop").mkdir()
    session = Session.create(tmp_path / "shop", home=tmp_path / "home")
    agent = Agent(session, llm=PlayedLLM(), approvals="sandboxed")
    yield agent
    await agent.aclose()


async def states(agent: Agent, house: House, *configs: ServerConfig) -> list[str]:
    servers = house.servers(*configs)
    servers.sandbox_of = agent.state.sandbox_of_server
    servers.start()
    await servers.settled(PATIENCE)
    return [str(state) for state in servers.states]


def in_it(house: House) -> list[bool]:
    """Of each start, whether it was in the sandbox, where processes are counted anew."""
    return [pid < 50 for pid in house.noted.pids]


async def test_it_runs_there_and_writes_in_the_folder(agent: Agent, house: House) -> None:
    diary = agent.state.cwd / "diary"
    [said] = await states(agent, house, stdio_server("one", diary, cold=True))
    assert said.startswith("connected")
    assert in_it(House(agent.state.cwd)) == [True]


async def test_one_that_fails_because_of_it_says_so(agent: Agent, house: House) -> None:
    asks = ServerConfig("net", command=sys.executable, args=("-c", ASKS))
    said = await states(agent, house, asks, stdio_server("one", house.diary, cold=True))
    assert said[0].endswith(f"; the sandbox refused the network: example.org: {ADVICE.format('net')}")
    assert said[1].endswith(f"; the sandbox refused to write outside: {house.diary}: {ADVICE.format('one')}")
    assert not house.diary.exists()


@pytest.mark.parametrize("outside", [True, False])
async def test_what_its_settings_allow_it_may(agent: Agent, house: House, outside: bool) -> None:
    writable = () if outside else (str(house.folder),)
    config = stdio_server("one", house.diary, cold=True, sandbox=not outside, writable=writable)
    [said] = await states(agent, house, config)
    assert said.startswith("connected")
    assert in_it(house) == [not outside]


async def test_a_call_that_fails_because_of_it_says_so(agent: Agent, house: House) -> None:
    await states(agent, house, stdio_server("one", agent.state.cwd / "diary", cold=True))
    [servers] = house.opened
    outcome = await house.call(servers, "one:fail", text="EROFS: read-only file system, open '/etc/new'")
    advice = ADVICE.format("one")
    assert outcome.text.endswith(f"\n[the sandbox refused to write outside: /etc/new: {advice}]")
    assert (await house.call(servers, "one:fail")).text == "it cannot be done"


async def test_a_change_of_the_mode_starts_it_anew(house: House, tmp_path: Path) -> None:
    need("bubblewrap")
    servers = house.servers(
        stdio_server("one", house.diary, cold=True),
        stdio_server("two", house.diary, cold=True, sandbox=False),
    )
    session = Session.create(house.folder, home=tmp_path / "home")
    agent = Agent(session, llm=PlayedLLM(), approvals="ask", servers=servers)
    heard: list[events.Event] = []
    agent.executor.subscribe(heard.append)
    agent.start()
    await servers.settled(PATIENCE)

    async def switched(mode: str, starts: int) -> None:
        agent.executor.submit(operations.SwitchApprovals.model_validate({"mode": mode}))
        await house.until(lambda: len(house.noted.pids) == starts)
        await house.until(lambda: servers.states[0].state == "connected")

    assert in_it(house) == [False, False]
    await switched("edits", 2)
    await switched("sandboxed", 3)
    await switched("ask", 4)
    await agent.aclose()
    assert in_it(house)[2:] == [True, False]
    said = [event.text for event in heard if isinstance(event, events.Notice)]
    assert said == ["Tool servers were started anew for this mode: one."] * 2
