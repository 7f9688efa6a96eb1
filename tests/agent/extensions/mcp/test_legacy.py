"""Servers that know only the handshake, whatever they do at the question which protocol they speak."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foldline.agent.extensions.mcp import ServerConfig
from foldline.agent.extensions.mcp.connection import LAST_OUTPUT
from support import legacy_mcp

from .conftest import ServerHarness

pytestmark = pytest.mark.quick_cases(1)

SCRIPT = str(Path(legacy_mcp.__file__))


def heard(harness: ServerHarness) -> Counter[str]:
    """What the server was asked, by method."""
    return Counter(
        json.loads(line)["method"] for line in harness.diary.read_text().splitlines()
    )


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer the question is given up soon."""
    import mcp.client.session

    monkeypatch.setattr(mcp.client.session, "DISCOVER_TIMEOUT_SECONDS", 0.3)


def program(harness: ServerHarness, how: str) -> ServerConfig:
    return ServerConfig(
        "old", command=sys.executable, args=(SCRIPT, str(harness.diary), how)
    )


@asynccontextmanager
async def address(harness: ServerHarness, how: str) -> AsyncIterator[ServerConfig]:
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        SCRIPT,
        str(harness.diary),
        how,
        "--http",
        stdout=asyncio.subprocess.PIPE,
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
async def test_a_program_is_asked_once_which_protocol_it_speaks(
    harness: ServerHarness, how: str
) -> None:
    servers = await harness.start(program(harness, how))
    assert [str(state) for state in servers.states] == ["connected, 1 tool"]
    outcome = await harness.call(servers, "old:echo", text="hi", times=2)
    assert json.loads(outcome.text) == {"text": "hi", "times": 2}
    await servers.restart("old")
    assert [str(state) for state in servers.states] == ["connected, 1 tool"]
    assert heard(harness)["server/discover"] == 1, "it is remembered"


@pytest.mark.parametrize("how", ["answers", "ends", "rubbish", "hangs", "fails"])
@pytest.mark.usefixtures("soon")
async def test_an_address_is_asked_once_which_protocol_it_speaks(
    harness: ServerHarness, how: str
) -> None:
    async with address(harness, how) as config:
        servers = await harness.start(config)
        assert [str(state) for state in servers.states] == ["connected, 1 tool"]
        outcome = await harness.call(servers, "old:echo", text="hi", times=2)
        assert json.loads(outcome.text) == {"text": "hi", "times": 2}
        await servers.restart("old")
        assert heard(harness)["server/discover"] == 1


async def test_one_that_ends_at_the_handshake_too_is_started_twice_and_no_more(
    harness: ServerHarness,
) -> None:
    config = ServerConfig(
        "old",
        command="sh",
        args=("-c", f"echo x >> {harness.diary}; echo lost >&2; exit 1"),
    )
    servers = await harness.start(config)
    assert [str(state) for state in servers.states] == [
        f"failed: {LAST_OUTPUT.format(output='lost')}"
    ]
    assert harness.diary.read_text() == "x\nx\n"


async def test_a_nullable_argument_that_is_left_out_is_sent_as_null(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(program(harness, "answers"))
    (tool,) = servers.tools
    assert tool.spec.parameters["required"] == ["text"]
    outcome = await harness.call(servers, "old:echo", text="hi")
    assert json.loads(outcome.text) == {"text": "hi", "times": None}
