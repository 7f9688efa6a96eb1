"""Who gets in at `foldline serve`: whoever has the address, and no page of a stranger in the same browser."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from aiohttp.test_utils import TestServer, unused_port
from yarl import URL

from foldline.cli.serve.server import FoldlineServer, Served
from support.front_door import FrontDoor

PLACE = "t0ken"


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Where a server is, behind which no Foldline is started."""

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(Served, "start", nothing)
    port = unused_port()
    server = TestServer(FoldlineServer("127.0.0.1", port, PLACE, []).app(), port=port)
    await server.start_server()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.close()


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


def test_other_machines_are_let_in_only_where_that_is_said(door: FrontDoor) -> None:
    said = door("serve", "--host", "192.0.2.1")
    assert said.code == 2
    assert "--expose" in said.err and "run commands as you" in said.err


def test_without_the_extra_it_says_what_brings_it(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldline.cli.serve.find_spec", lambda _: None)
    said = door("serve")
    assert (said.code, said.out) == (1, "")
    assert "pip install 'foldline[serve]'" in said.err
