"""Holds one Foldline for each open page, and lets nobody in but who has the address.

A page of a stranger, open in the same browser, can send requests to any port of this machine. What keeps it
out: a secret in the path, the `Origin` of the socket, which no page can forge, and the `Host`, which is
another one where a stranger's name was pointed at this machine (DNS rebinding).
"""

import asyncio
import hmac
import json
import shlex
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import textual_serve
from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from foldline.agent.tools.process import Family, end_all, marked, new_mark
from foldline.cli.output import say
from foldline.cli.streams import flush_out

_STATIC: Final = Path(textual_serve.__file__).parent / "static"
_PAGE: Final = Path(__file__).with_name("page.html")
_DRIVER: Final = "foldline.tui.terminal.served:ServedDriver"
_PATIENCE: Final = 10.0
"""Seconds a Foldline has to end when its page was closed."""
_HURRY: Final = 1.0
"""Seconds it has where the server itself is to end, which has two (`foldline.termination`)."""
_MOST_PAGES: Final = 16
"""Open at a time: behind each runs a Foldline, with some 70 MB."""
_WIDEST, _HIGHEST = 1_000, 500
"""Cells of a page. What is larger is no screen, and would be painted all the same."""
_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one message: a paste."""
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_BEHIND: Final = "There is nothing here: open the address that `foldline serve` has printed.\n"

T = TypeVar("T", str, bytes)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Served(AppService):
    """One Foldline, behind pipes."""

    _kin: Family | None = None

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Without a shell around it, and with a mark: whatever it started is found again at its end."""
        mark = new_mark()
        process = await asyncio.create_subprocess_exec(
            *shlex.split(self.command),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=marked(self._build_environment(width, height), mark),
            start_new_session=True,
        )
        self._kin = Family(process.pid, mark.encode(), output=0, leash=0)
        self._process, self._stdin = process, process.stdin
        return process

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        environment = super()._build_environment(width, height)
        environment.pop("COLORFGBG", None)  # that is of the terminal of the server
        return environment | {"TEXTUAL_DRIVER": _DRIVER}

    async def end(self, patience: float = _PATIENCE) -> None:
        """Ask it to end, and wait so many seconds; then it is ended with all that it started."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.stop()
        kin, self._kin = self._kin, None
        if kin is not None:
            await asyncio.to_thread(end_all, kin)


class FoldlineServer:
    """Serves pages at `http://HOST:PORT/TOKEN/`; `options` go to each Foldline."""

    def __init__(
        self, host: str, port: int, token: str, options: Sequence[str], *, has_other_names: bool = False
    ) -> None:
        """`has_other_names`: whoever exposes it may reach it by names that are not known here."""
        self._host = host
        self._port = port
        self._token = token
        self._has_other_names = has_other_names
        start = "import sys; from foldline.cli import main; sys.exit(main())"
        # -P: modules of the folder it runs in are not ours.
        self._command = shlex.join([sys.executable, "-P", "-c", start, *options])
        self._pages: dict[web.WebSocketResponse, Served] = {}

    async def run(self) -> int:
        """Serve until cancelled; then every page is closed, and what ran behind it ends.

        Raises:
            OSError: nobody can listen there.
        """
        runner = web.AppRunner(self.app(), access_log=None, handle_signals=False)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port)
            await site.start()
            self._port = runner.addresses[0][1]
            say(f"Foldline is at http://{self._place}/{self._token}/ as long as this runs; Ctrl+C ends it.")
            say("Whoever has this address runs commands here as you.")
            flush_out()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()
        return 0

    def app(self) -> web.Application:
        """What answers requests."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guard(request, handler)

        app = web.Application(middlewares=[guard])
        app.router.add_get("/{token}/", self._page)
        app.router.add_get("/{token}/ws", self._socket)
        app.router.add_get("/page.js", self._script)
        app.router.add_static("/static", _STATIC)
        app.on_shutdown.append(self._close_pages)
        return app

    # --- who may come in --------------------------------------------------------------------------------

    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Only requests to this server by its own name, and with the token, but for what is no secret.

        What a request is for is asked of the route that will answer it: paths that look alike go elsewhere
        (`/static%2F/ws`).
        """
        found = request.match_info
        may_have_it = self._is_token(found["token"]) if "token" in found else found.http_exception is None
        if not (self._is_our_name(request.host) and may_have_it):
            return web.Response(status=403, text=_BEHIND, headers=_HEADERS)
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            refused.headers.update(_HEADERS)
            raise
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token.encode())

    def _is_our_name(self, host: str) -> bool:
        """Whether a request was sent to a name of this machine."""
        names = {f"{name}:{self._port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        return host in (names | {self._place}) or self._has_other_names

    @property
    def _place(self) -> str:
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    # --- what they get ----------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.Response:
        text = await asyncio.to_thread(_PAGE.read_text, "utf-8")
        socket = f"ws://{request.host}/{self._token}/ws"
        return web.Response(text=text.replace("{{socket}}", socket), content_type="text/html")

    async def _script(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(_PAGE.with_suffix(".js").read_text, "utf-8")
        return web.Response(text=text, content_type="text/javascript")

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Origin") != f"http://{request.host}":
            return web.Response(status=403, text=_BEHIND)
        if len(self._pages) >= _MOST_PAGES:
            return web.Response(status=503, text=f"{_MOST_PAGES} pages are open: close one first.\n")
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=_LARGEST)
        self._pages[socket] = served = Served(
            self._command,
            write_bytes=partial(_sent, socket.send_bytes),
            write_str=partial(_sent, socket.send_str),
            close=partial(_closed, socket),
            download_manager=DownloadManager(),
        )
        try:
            await socket.prepare(request)
            width, height = (_number(request, name, usual) for name, usual in (("width", 80), ("height", 24)))
            await served.start(*_bounded(width, height))
            await _pass_on(socket, served)
        finally:
            await asyncio.shield(served.end())
            del self._pages[socket]
        return socket

    async def _close_pages(self, _: web.Application) -> None:
        pages = tuple(self._pages.items())
        await asyncio.gather(*(served.end(_HURRY) for _, served in pages))
        await asyncio.gather(*(socket.close() for socket, _ in pages))


async def _sent(send: Callable[[T], Awaitable[None]], data: T) -> None:
    """Send to the page, if it is still there: what it leaves behind may have more to say."""
    with suppress(ConnectionError):
        await send(data)


async def _closed(socket: web.WebSocketResponse) -> None:
    await socket.close()


async def _pass_on(socket: web.WebSocketResponse, served: Served) -> None:
    """What the page sends: keys, sizes, whether it has the focus."""
    async for message in socket:
        if message.type != WSMsgType.TEXT:
            continue
        match _read(message.data):
            case ["stdin", str() as keys]:
                await served.send_bytes(keys.encode())
            case ["resize", {"width": int() as width, "height": int() as height}]:
                await served.set_terminal_size(*_bounded(width, height))
            case ["ping", data]:
                await socket.send_json(["pong", data])
            case ["blur", *_]:
                await served.blur()
            case ["focus", *_]:
                await served.focus()
            case _:
                pass


def _read(text: str) -> object:
    """A message of the page; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _bounded(width: int, height: int) -> tuple[int, int]:
    return min(max(width, 1), _WIDEST), min(max(height, 1), _HIGHEST)


def _number(request: web.Request, name: str, usual: int) -> int:
    given = request.query.get(name, "")
    return int(given) if given.isdecimal() and len(given) < 5 else usual
