"""The wire itself: what is no message, what else writes to stdout, and where nobody is at the other end."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from foldline.cli.acp.stdio import MOST
from foldline.cli.arguments import NEEDS_PIPES
from support import warm

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1},
}


class Wire:
    """The two streams of `foldline acp`, without any package between."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self._in, self._out = process, process.stdin, process.stdout

    async def send(self, *lines: Any) -> None:
        for line in lines:
            self._in.write(
                line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            )
        await self._in.drain()

    async def read(self) -> Any:
        """The next answer, past what the agent tells by itself."""
        while "method" in (message := json.loads(await self._out.readuntil(b"\n"))):
            pass
        return message

    async def end(self) -> tuple[int, bytes]:
        """Closes the input; the exit code, and all that was still said."""
        self._in.close()
        said = await self._out.read()
        return await self.process.wait(), said


@asynccontextmanager
async def wired(home: Path, *options: str) -> AsyncIterator[Wire]:
    process = await asyncio.create_subprocess_exec(
        *warm.command("foldline acp", "-m", "offline", *options),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=home.parent,
        env={**os.environ, "FOLDLINE_HOME": str(home), "PYTHONPATH": str(home.parent)}, limit=2 * MOST,
    )  # fmt: skip
    try:
        yield Wire(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{nonsense\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b'"text"\n', -32600),
        (b'{"id": [1], "method": "initialize"}\n', -32600),
        (b'{"id": 1, "method": 5}\n', -32600),
        (b'{"id": 0, "error": "no"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}\n', -32601),
        (
            b'{"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": 5}}\n',
            -32602,
        ),
        (
            b'{"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": []}\n',
            -32602,
        ),
        (
            b'{"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"sessionId": "x"}}\n',
            -32602,
        ),
    ],
)
async def test_what_is_no_message_is_answered_with_an_error_and_read_over(
    tmp_path: Path, line: bytes, code: int
) -> None:
    async with wired(tmp_path / "home") as wire:
        await wire.send(
            line, b"\n", b'{"jsonrpc": "2.0", "id": 99, "result": null}\n', INITIALIZE
        )
        refused = await wire.read()
        assert refused["error"]["code"] == code
        assert refused["error"]["message"]
        assert (await wire.read())["result"]["agentInfo"]["name"] == "foldline"
        assert await wire.end() == (0, b"")


@pytest.mark.slow
async def test_a_message_that_is_far_too_long_is_not_read(tmp_path: Path) -> None:
    async with wired(tmp_path / "home") as wire:
        await wire.send(b"x" * (2 * MOST + 10) + b"\n", INITIALIZE)
        assert (await wire.read())["error"]["code"] == -32600
        assert "result" in await wire.read()


async def test_what_is_claimed_is_what_there_is(tmp_path: Path) -> None:
    async with wired(tmp_path / "home") as wire:
        await wire.send(
            {**INITIALIZE, "params": {"protocolVersion": 77, "clientCapabilities": {}}}
        )
        said = (await wire.read())["result"]
        assert said["protocolVersion"] == 1
        can = said["agentCapabilities"]
        assert can["loadSession"] is True
        assert can["promptCapabilities"] == {
            "image": True,
            "audio": False,
            "embeddedContext": True,
        }
        assert can["mcpCapabilities"] == {"http": True, "sse": False}
        assert set(can["sessionCapabilities"]) == {"list", "resume", "close"}
        assert "foldline" in said["authMethods"][0]["description"]


async def test_what_else_writes_to_stdout_does_not_reach_the_editor(
    tmp_path: Path,
) -> None:
    (tmp_path / "chatty.py").write_text(
        "import os, sys\n"
        "from foldline.compaction import AdaptiveCompaction\n"
        "class Chatty(AdaptiveCompaction):\n"
        "    def __init__(self):\n"
        "        print('to stdout'); os.write(1, b'to its number'); os.system('echo from a child')\n"
        "        super().__init__()\n"
    )
    async with wired(tmp_path / "home", "--strategy", "chatty:Chatty") as wire:
        new = {"cwd": str(tmp_path), "mcpServers": []}
        await wire.send(
            INITIALIZE,
            {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": new},
        )
        assert (await wire.read())["id"] == 0
        answer = await wire.read()
        assert answer.get("result", {}).get("sessionId"), answer
        code, said = await wire.end()
        assert code == 0
        assert b"to stdout" not in said and b"from a child" not in said
        assert all(json.loads(line) for line in said.splitlines())


@pytest.mark.slow
def test_where_stdout_is_a_file_one_sentence_says_so(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "foldline", "acp"],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, check=False,
            env={**os.environ, "FOLDLINE_HOME": str(tmp_path / "home")},
        )  # fmt: skip
    assert done.returncode == 1
    assert NEEDS_PIPES.encode() in done.stderr
    assert done.stderr.count(b"\n") == 1
