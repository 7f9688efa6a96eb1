"""Servers that know only the handshake, whatever they do at the question which protocol they speak."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foldline.agent.mcp import ServerConfig
from support import legacy_mcp

from .conftest import House

SCRIPT = str(Path(legacy_mcp.__file__))


def heard(house: House) -> Counter[str]:
    """What the server was asked, by method."""
    return Counter(json.loads(line)["method"] for line in house.diary.read_text().splitlines())


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer the question is given up soon."""
    import mcp.client.session

    monkeypatch.setattr(mcp.client.session, "DISCOVER_TIMEOUT_SECONDS", 0.3)


def program(house: House, how: str) -> ServerConfig:
    return ServerConfig("old", command=sys.executable, args=(SCRIPT, str(house.diary), how))


@asynccontextmanager
async def address(house: House, how: str) -> AsyncIterator[ServerConfig]:
    server = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, str(house.diary), how, "--http", stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        port = int(await server.stdout.readline())
        yield ServerConfig("old", url=f"http://127.0.0.1:{port}/mcp")
    finally:
        server.kill()
        await server.wait()


@pytest.mark.parametrize("how", ["answers", "ends", "rubbish", "hangs", "spoiled"])
@pytest.mark.usefixtures("soon")
async def test_a_program_is_asked_once_which_protocol_it_speaks(house: House, how: str) -> None:
    servers = await house.started(program(house, how))
    assert [str(state) for state in servers.states] == ["connected, 1 tool"]
    outcome = await house.call(servers, "old:echo", text="hi", times=2)
    assert json.loads(outcome.text) == {"text": "hi", "times": 2}
    await servers.restart("old")
    assert [str(state) for state in servers.states] == ["connected, 1 tool"]
    assert heard(house)["server/discover"] == 1, "it is remembered"


@pytest.mark.parametrize("how", ["answers", "ends", "rubbish", "hangs", "fails"])
@pytest.mark.usefixtures("soon")
async def test_an_address_is_asked_once_which_protocol_it_speaks(house: House, how: str) -> None:
    async with address(house, how) as config:
        servers = await house.started(config)
        assert [str(state) for state in servers.states] == ["connected, 1 tool"]
        outcome = await house.call(servers, "old:echo", text="hi", times=2)
        assert json.loads(outcome.text) == {"text": "hi", "times": 2}
        await servers.restart("old")
        assert heard(house)["server/discover"] == 1


async def test_one_that_ends_at_the_handshake_too_is_started_twice_and_no_more(house: House) -> None:
    config = ServerConfig("old", command="sh", args=("-c", f"echo x >> {house.diary}; echo lost >&2; exit 1"))
    servers = await house.started(config)
    assert [str(state) for state in servers.states] == ["failed: has ended, its last words: lost"]
    assert house.diary.read_text() == "x\nx\n"


async def test_a_nullable_argument_that_is_left_out_is_sent_as_null(house: House) -> None:
    servers = await house.started(program(house, "answers"))
    (tool,) = servers.tools
    assert tool.spec.parameters["required"] == ["text"]
    outcome = await house.call(servers, "old:echo", text="hi")
    assert json.loads(outcome.text) == {"text": "hi", "times": None}
