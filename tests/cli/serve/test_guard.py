"""Who gets in at `foldline serve`: whoever has the address, and no page of a stranger in the same browser."""

import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from aiohttp.test_utils import TestServer, unused_port
from textual_serve.download_manager import DownloadManager
from yarl import URL

from foldline.cli.serve import server
from foldline.cli.serve.server import FoldlineServer, Served
from support.front_door import FrontDoor
from support.processes import gone, pids

PLACE = "t0ken"


def own(address: str) -> dict[str, str]:
    """The headers of our own page."""
    return {"Host": address, "Origin": f"http://{address}"}


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Where a server is, behind which no Foldline is started."""

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(Served, "start", nothing)
    port = unused_port()
    running = TestServer(FoldlineServer("127.0.0.1", port, PLACE, []).app(), port=port)
    await running.start_server()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await running.close()


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        (f"/{PLACE}/", None, 200),
        (f"/{PLACE}/", "localhost", 200),
        ("/static/js/textual.js", None, 200),
        ("/page.js", None, 200),
        ("/", None, 403),
        ("/wrong/", None, 403),
        ("/wrong/ws", None, 403),
        ("/static/", None, 403),
        ("/static%2Fx/", None, 403),  # as a path that needs no token, and as one behind a token
        ("/%73tatic%2Fx/", None, 403),
        ("/%FF/", None, 403),
        ("/static/..%2f..%2fapp_service.py", None, 404),
        (f"/{PLACE}/", "evil.example", 403),
        ("/static/js/textual.js", "evil.example", 403),
    ],
)
async def test_a_page(address: str, path: str, host: str | None, status: int) -> None:
    headers = {"Host": address.replace("127.0.0.1", host)} if host else {}
    url = URL(f"http://{address}{path}", encoded=True)
    async with ClientSession() as client, client.get(url, headers=headers) as answer:
        assert answer.status == status
        assert (PLACE in await answer.text()) == (path == f"/{PLACE}/" and status == 200)
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("origin", "host", "opens"),
    [
        ("http://{address}", "{address}", True),
        (None, "{address}", False),
        ("null", "{address}", False),
        ("https://evil.example", "{address}", False),
        ("http://127.0.0.1:1", "{address}", False),
        ("http://evil.example", "evil.example", False),
    ],
)
async def test_a_socket_opens_for_our_own_page_only(
    address: str, origin: str | None, host: str, opens: bool
) -> None:
    headers = {"Host": host.format(address=address)}
    if origin is not None:
        headers["Origin"] = origin.format(address=address)
    async with ClientSession() as client:
        try:
            async with client.ws_connect(f"http://{address}/{PLACE}/ws", headers=headers):
                opened = True
        except WSServerHandshakeError as refused:
            assert refused.status == 403
            opened = False
    assert opened == opens


async def test_a_page_cannot_ask_for_more_than_a_screen(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []

    async def sized(_: Served, width: int, height: int) -> None:
        sizes.append((width, height))

    monkeypatch.setattr(Served, "start", sized)
    monkeypatch.setattr(Served, "set_terminal_size", sized)
    url = f"http://{address}/{PLACE}/ws?width=9999&height=9999"
    async with ClientSession() as client, client.ws_connect(url, headers=own(address)) as page:
        await page.send_json(["resize", {"width": 100_000, "height": -5}])
        await page.send_json(["ping", 1])
        assert await page.receive_json() == ["pong", 1]
    assert sizes == [(1_000, 500), (1_000, 1)]


async def test_only_so_many_pages_are_open_at_a_time(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server._MOST_PAGES == 16
    monkeypatch.setattr(server, "_MOST_PAGES", 1)
    url = f"http://{address}/{PLACE}/ws"
    async with ClientSession() as client, client.ws_connect(url, headers=own(address)) as page:
        await page.send_json(["ping", 1])
        await page.receive_json()
        with pytest.raises(WSServerHandshakeError, match="503"):
            await client.ws_connect(url, headers=own(address))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc to find them by")
async def test_a_foldline_that_does_not_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    script = (
        "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "left = subprocess.Popen(['setsid', 'sleep', '1000']);"
        "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n{left.pid}\\n'); time.sleep(1000)"
    )
    unused = cast(Any, None)
    served = Served(
        shlex.join([sys.executable, "-c", script, str(tmp_path / "p")]),
        write_bytes=unused, write_str=unused, close=unused, download_manager=DownloadManager(),
    )  # fmt: skip
    await served.start(80, 24)
    started = await pids(tmp_path / "p", 2)
    await served.end(patience=0)
    for pid in started:
        await gone(pid)


def test_other_machines_are_let_in_only_where_that_is_said(door: FrontDoor) -> None:
    said = door("serve", "--host", "192.0.2.1")
    assert said.code == 2
    assert "--expose" in said.err and "run commands as you" in said.err


def test_without_the_extra_it_says_what_brings_it(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldline.cli.serve.find_spec", lambda _: None)
    said = door("serve")
    assert (said.code, said.out) == (1, "")
    assert "pip install 'foldline[serve]'" in said.err
