"""Which local servers are marked as running, and that nobody waits for the others."""

import asyncio
import time

import pytest

from foldline.llm.providers import answers
from support.server import running_server


async def test_a_model_server_is_seen() -> None:
    with running_server() as server:
        assert await answers(server.base_url, 5)
    assert not await answers(server.base_url, 5), "it has gone"


async def test_a_server_that_wants_a_key_first_is_there() -> None:
    with running_server(key="sk-other") as server:
        assert await answers(server.base_url, 5)


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>my web shop</html>",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"\x00\xff" * 9_000,
    ],
    ids=["404", "web", "ssh", "nothing", "noise"],
)
async def test_whatever_else_listens_there_is_none(says: bytes) -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        assert not await answers(f"http://127.0.0.1:{port}/v1", 5)


async def test_one_that_says_nothing_is_not_waited_for() -> None:
    async def keep_still(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100_000)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(keep_still, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        before = time.monotonic()
        assert not await answers(f"http://127.0.0.1:{port}/v1", 0.05)
        assert time.monotonic() - before < 10, "it is given up, not waited for"


async def test_no_address_is_no_server() -> None:
    assert not await answers("http://[::1", 5)
    assert not await answers("http://localhost:99999/v1", 5)
