"""Programs of tool servers in the sandbox, in the modes that have one."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.extensions.mcp import ServerConfig
from foldline.agent.extensions.mcp.servers import BLOCKED, RESTARTED
from foldline.agent.permissions.sandbox import NETWORK_ACCESS, WRITE_ACCESS
from foldline.history import Session
from foldline.protocol import events, operations
from support.agents import PATIENCE, PlayedLLM
from support.mcp_server import stdio_server
from support.sandboxes import require_engine

from .conftest import ServerHarness

pytestmark = pytest.mark.quick_cases(1)

ASKS = "import urllib.request as u; u.urlopen('http://example.org/', timeout=9)"


@pytest.fixture
async def agent(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agent]:
    """In the mode `sandboxed`, in a folder beside that of the harness."""
    require_engine("bubblewrap")
    monkeypatch.setenv(
        "HOME", str(tmp_path)
    )  # in `/tmp`, programs have files of their own
    (tmp_path / "shop").mkdir()
    session = Session.create(tmp_path / "shop", home=tmp_path / "home")
    agent = Agent(session, llm=PlayedLLM(), approvals="sandboxed")
    yield agent
    await agent.aclose()


async def states(
    agent: Agent, harness: ServerHarness, *configs: ServerConfig
) -> list[str]:
    servers = harness.servers(*configs)
    servers.sandbox_of = agent.state.permissions.sandbox_of_server
    servers.start()
    await servers.settled(PATIENCE)
    return [str(state) for state in servers.states]


def in_it(harness: ServerHarness) -> list[bool]:
    """Of each start, whether it was in the sandbox, where processes are counted anew."""
    return [pid < 50 for pid in harness.log.pids]


async def test_it_runs_there_and_writes_in_the_folder(
    agent: Agent, harness: ServerHarness
) -> None:
    diary = agent.state.cwd / "diary"
    [said] = await states(agent, harness, stdio_server("one", diary, cold=True))
    assert said.startswith("connected")
    assert in_it(ServerHarness(agent.state.cwd)) == [True]


async def test_one_that_fails_because_of_it_says_so(
    agent: Agent, harness: ServerHarness
) -> None:
    asks = ServerConfig("net", command=sys.executable, args=("-c", ASKS))
    said = await states(
        agent, harness, asks, stdio_server("one", harness.diary, cold=True)
    )
    access = f"{NETWORK_ACCESS}: example.org"
    assert said[0].endswith(f"; {BLOCKED.format(access=access, server='net')}")
    access = WRITE_ACCESS.format(paths=harness.diary)
    assert said[1].endswith(f"; {BLOCKED.format(access=access, server='one')}")
    assert not harness.diary.exists()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("outside", [True, False])
async def test_what_its_settings_allow_it_may(
    agent: Agent, harness: ServerHarness, outside: bool
) -> None:
    writable = () if outside else (str(harness.folder),)
    config = stdio_server(
        "one", harness.diary, cold=True, sandbox=not outside, writable=writable
    )
    [said] = await states(agent, harness, config)
    assert said.startswith("connected")
    assert in_it(harness) == [not outside]


async def test_a_call_that_fails_because_of_it_says_so(
    agent: Agent, harness: ServerHarness
) -> None:
    await states(
        agent, harness, stdio_server("one", agent.state.cwd / "diary", cold=True)
    )
    [servers] = harness.all_servers
    outcome = await harness.call(
        servers, "one:fail", text="EROFS: read-only file system, open '/etc/new'"
    )
    hint = BLOCKED.format(access=WRITE_ACCESS.format(paths="/etc/new"), server="one")
    assert outcome.text.endswith(f"\n[{hint}]")
    assert (await harness.call(servers, "one:fail")).text == "it cannot be done"


@pytest.mark.slow
async def test_a_change_of_the_mode_starts_it_anew(
    harness: ServerHarness, tmp_path: Path
) -> None:
    require_engine("bubblewrap")
    servers = harness.servers(
        stdio_server("one", harness.diary, cold=True),
        stdio_server("two", harness.diary, cold=True, sandbox=False),
    )
    session = Session.create(harness.folder, home=tmp_path / "home")
    agent = Agent(session, llm=PlayedLLM(), approvals="ask", servers=servers)
    heard: list[events.Event] = []
    agent.executor.subscribe(heard.append)
    agent.start()
    await servers.settled(PATIENCE)

    async def switched(mode: str, starts: int) -> None:
        agent.executor.submit(operations.SwitchApprovals.model_validate({"mode": mode}))
        await harness.until(lambda: len(harness.log.pids) == starts)
        await harness.until(lambda: servers.states[0].state == "connected")

    assert in_it(harness) == [False, False]
    await switched("edits", 2)
    await switched("sandboxed", 3)
    await switched("ask", 4)
    await agent.aclose()
    assert in_it(harness)[2:] == [True, False]
    said = [event.text for event in heard if isinstance(event, events.Notice)]
    assert said == [RESTARTED.format(names="one")] * 2
