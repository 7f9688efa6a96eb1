"""One live connection to a server: the only place that speaks with the package `mcp`.

Its context managers belong to the task that entered them. So a task of its own holds the connection for as
long as it lives; calls come from wherever they are made, and are cancelled there.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foldline.protocol import system_words
from foldline.version import __version__

from .listing import Listing, Trouble, listing_of, mended
from .sign_in import SIGN_IN_SECONDS, Show, SignInNeeded, signed_in
from .transport import Filled, ServerLog, over_http, program, relayed

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp import Client
    from mcp.client import IncomingMessage
    from mcp.shared.exceptions import MCPError
    from mcp.types import (
        CallToolResult,
        ElicitRequestParams,
        ElicitResult,
        GetPromptResult,
        ReadResourceResult,
    )

    from ..sandbox import Sandbox

T = TypeVar("T")
START_SECONDS = 60.0
"""How long a server may take to start and list its tools: `npx` and `uvx` fetch packages first."""
_PROGRAM_ENDS = 4.0
"""Seconds that the end of a program is waited for. It takes 1.5 s at the most, unless the machine is busy:
`transport.program`."""
_GOODBYE = 0.5
"""Seconds that the end of a session at an address is waited for: who does not hear it forgets it some day."""
_CANCEL_SECONDS = 0.1
"""How long a cancelled call waits until the server hears of it: a cancel must be done within 200 ms."""
_SLICE = 0.5
"""Seconds after which it is looked whether a call takes too long, or just waits for the user."""
_REASON_SECONDS = 1.0
"""How long a call that broke off waits for the reason of it."""
_ENDING_SECONDS = 0.2
"""How long where nothing but the call says that the connection has ended."""
_STAND_INS = frozenset({"Server returned an error response", "Not Found", "Session terminated"})
"""What the package says where a server refused with a status and without a word of the protocol."""
INSTALL = "pip install 'foldline[mcp]'"


class Gone(Trouble):
    """The connection has ended."""


class Unreached(Gone):
    """The connection has ended, and the call never reached the server: it can be made again."""


class Connection:
    """Open from `open` to `close`, or until the server ends it: then `ended` is called with what was seen."""

    def __init__(
        self,
        filled: Filled,
        log: ServerLog,
        folder: Path,
        box: "Sandbox | None" = None,
        show_page: Show | None = None,
        *,
        legacy: bool = False,
    ) -> None:
        """`show_page` is there where the user wants to sign in, if that is asked for."""
        self.legacy = legacy
        """Whether the server speaks the protocol that begins with a handshake."""
        self._filled = filled
        self._show_page = show_page
        self._scope: CancelScope | None = None
        """In which it is opened."""
        self._box = box
        self._config = filled.config
        self._log = log
        self._folder = folder
        self._leave = asyncio.Event()
        self._refused: list[tuple[int, bool]] = []
        """HTTP statuses that were refusals, each with whether it said that the session is forgotten."""
        self._why: Trouble | None = None
        """Why it ended, once that is known."""
        self._client: Client | None = None
        self._holder: asyncio.Task[None] | None = None
        self._left: set[asyncio.Task[Any]] = set()
        self._broken: list[str] = []
        """What of the newest listing is no tool."""
        self._questions: set[asyncio.Task[ElicitResult]] = set()
        """What the server asks the user now."""
        self.ask: Callable[[ElicitRequestParams], Coroutine[Any, Any, ElicitResult]] | None = None
        """Asks the user what the server wants to know; None where nobody is there."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the server says that what it offers is something else now."""
        self.ended: Callable[[str], None] = lambda _: None
        """Called once, if the connection ends without `close`, with words that follow the server's name."""

    async def open(self, seconds: float) -> Listing:
        """Start or reach the server; its tools.

        Raises:
            Trouble: it could not be reached, or did not do as it should in time.
        """
        opened: asyncio.Future[Listing] = asyncio.get_running_loop().create_future()
        opened.add_done_callback(lambda end: end.cancelled() or end.exception())  # also where nobody waits
        self._holder = asyncio.create_task(self._hold(opened, seconds))
        try:
            return await asyncio.shield(opened)
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """End it, and the program, if there is one. Waits until it is gone, within bounds."""
        self.ended = lambda _: None
        self._leave.set()
        if self._holder is not None:
            patience = _GOODBYE if self._config.url else _PROGRAM_ENDS
            done, _ = await asyncio.wait({self._holder}, timeout=patience)
            if not done:
                self._holder.cancel()
                await asyncio.wait({self._holder}, timeout=_GOODBYE)

    @property
    def is_open(self) -> bool:
        return self._client is not None

    async def listing(self) -> Listing:
        """What it lists now. Raises as `call`; Trouble also where its listing has no end."""
        return await self._done_in_time(self._listed(self._demand()))

    async def read(self, uri: str) -> "ReadResourceResult":
        """What is in a resource. Raises as `call`."""
        return await self._done_in_time(self._demand().read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> "GetPromptResult":
        """A prompt, filled in. Raises as `call`."""
        return await self._done_in_time(self._demand().get_prompt(name, arguments))

    async def call(
        self, tool: str, arguments: dict[str, Any], output: Callable[[str], None]
    ) -> "CallToolResult":
        """Calls a tool. On cancel the server is notified, and nothing more is waited for.

        Raises:
            Gone: the connection ended before there was an answer.
            Trouble: it took too long, or the server refused.
        """

        async def say(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            output(f"{share}: {message}\n" if message else f"{share}\n")

        return await self._done_in_time(self._demand().call_tool(tool, arguments, progress_callback=say))

    async def _done_in_time(self, request: Coroutine[Any, Any, T]) -> T:
        """What comes of a request. The time in which the server waits for the user does not count."""
        self._refused.clear()
        call = asyncio.create_task(request)
        self._left.add(call)
        call.add_done_callback(self._done)
        left = self._config.timeout
        try:
            while not call.done() and left > 0:
                waited = min(left, _SLICE)
                await asyncio.wait({call}, timeout=waited)
                left -= 0 if self._questions else waited
        except asyncio.CancelledError:
            await self._give_up(call)
            raise
        if not call.done():
            await self._give_up(call)
            raise Trouble(f"did not answer within {self._config.timeout:g} s")
        if call.cancelled():
            raise Gone("ended during the call")
        error = call.exception()
        if error is None:
            return call.result()
        if not isinstance(error, Exception):
            raise error
        raise self._trouble(await self._reason(error)) from None

    async def _reason(self, error: Exception) -> Exception:
        """Why the connection ended, if it has: the call itself only learns that it did."""
        from mcp.shared.exceptions import MCPError
        from mcp.types import CONNECTION_CLOSED

        if self._holder is None or not isinstance(error, MCPError) or error.code != CONNECTION_CLOSED:
            return error
        patience = _REASON_SECONDS if self._client is None else _ENDING_SECONDS
        await asyncio.wait({self._holder}, timeout=patience)
        return self._why if self._why is not None else error

    async def _give_up(self, call: "asyncio.Task[Any]") -> None:
        """The server is told; what it asks the user during the call is withdrawn."""
        for question in self._questions:
            question.cancel()
        call.cancel()
        await asyncio.wait({call}, timeout=_CANCEL_SECONDS)

    async def _elicit(self, context: Any, params: "ElicitRequestParams") -> "ElicitResult":
        """Has the user asked what the server wants to know."""
        from mcp.types import ElicitResult

        assert self.ask is not None
        question = asyncio.create_task(self.ask(params))
        self._questions.add(question)
        try:
            await asyncio.wait({question})
            return ElicitResult(action="cancel") if question.cancelled() else question.result()
        finally:
            question.cancel()
            self._questions.discard(question)

    def _done(self, call: "asyncio.Task[Any]") -> None:
        self._left.discard(call)
        if not call.cancelled():
            call.exception()  # looked at: a call nobody waits for any more may fail in silence

    def _demand(self) -> "Client":
        if self._client is None:
            raise Gone("has ended")
        return self._client

    # --- the task that holds it ----------------------------------------------------------------------

    async def _hold(self, opened: asyncio.Future[Listing], seconds: float) -> None:
        trouble: Trouble | None = None
        try:
            await asyncio.to_thread(_import_package)
            import anyio

            with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
                self._scope = scope
                left = asyncio.create_task(self._left_early(scope))
                try:
                    async with AsyncExitStack() as held:
                        entered = await self._reached(held)
                        self._quiet(entered)
                        listing = await self._listed(entered)
                        scope.deadline = math.inf
                        self._client = entered
                        opened.set_result(listing)
                        listening = asyncio.create_task(self._listen(entered))
                        try:
                            await self._leave.wait()
                        finally:
                            listening.cancel()
                            await asyncio.wait({listening})
                finally:
                    left.cancel()
                    self._client = None
            if scope.cancelled_caught and not self._leave.is_set():
                trouble = Trouble(f"did not answer within {seconds:g} s")
        except ImportError as error:
            trouble = Trouble(f"cannot be used, the package mcp is not as expected ({error}): {INSTALL}")
        except Exception as error:  # noqa: BLE001 - whatever the package raises, it is about this server
            trouble = self._trouble(error)
        finally:
            if not self._config.url and (trouble is None or isinstance(trouble, Gone)):
                await asyncio.to_thread(self._log.caught_up)
                trouble = Gone(self._words_of_end())
            self._why = self._why or trouble or Gone("has ended")
            if not opened.done():
                opened.set_exception(self._why)
            else:
                self.ended(str(self._why))

    async def _reached(self, held: AsyncExitStack) -> "Client":
        """The server, after its handshake, until `held` is left.

        The package asks a server first which protocol it speaks (`server/discover`), and falls back to the
        older handshake if it answers with an error or not at all. Some end at a request that comes before
        the handshake (the Rust SDK, rmcp): these are started once more, without that question.
        """
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        if not self.legacy:
            try:
                client = await held.enter_async_context(self._new_client())
                self.legacy = client.protocol_version not in MODERN_PROTOCOL_VERSIONS
                return client
            except Exception as error:
                if not self._may_have_ended_at_question(error):
                    raise
            self.legacy = True
            self._refused.clear()
        return await held.enter_async_context(self._new_client())

    def _may_have_ended_at_question(self, error: BaseException) -> bool:
        """Whether a server failed that could be started or reached, and asked for no sign-in."""
        import httpx2

        if any(status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) for status, _ in self._refused):
            return False
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return not isinstance(error, Trouble | OSError | httpx2.ConnectError)

    async def _listed(self, client: "Client") -> Listing:
        return await listing_of(client, self._broken, self._log.note)

    async def _left_early(self, scope: Any) -> None:
        """Gives up the start when `close` is called before the server has answered."""
        await self._leave.wait()
        if self._client is None:
            scope.cancel()

    def _new_client(self) -> "Client":
        """A client that is not entered yet."""
        import mcp.client
        from mcp.types import (
            Implementation,
            PromptListChangedNotification,
            ResourceListChangedNotification,
            ServerNotification,
            ToolListChangedNotification,
        )

        changes = (
            ToolListChangedNotification,
            ResourceListChangedNotification,
            PromptListChangedNotification,
        )

        async def hear(message: "IncomingMessage") -> None:
            if isinstance(message, changes):
                self.changed()
            elif not isinstance(message, ServerNotification):  # a line that is no message: a stray print
                self._log.note(f"not a message: {self._filled.masked(str(message))[:500]}")

        return mcp.client.Client(
            self._transport(),
            message_handler=hear,
            client_info=Implementation(name="foldline", version=__version__),
            elicitation_callback=None if self.ask is None else self._elicit,
            mode="legacy" if self.legacy else "auto",
            cache=None,
        )

    def _quiet(self, client: "Client") -> None:
        """Accepts results that break the server's own output schema: the model reads text."""

        async def any_result(name: str, result: "CallToolResult") -> None:
            pass

        client.session.validate_tool_result = any_result  # type: ignore[method-assign]

    async def _listen(self, client: "Client") -> None:
        """Servers of the newer protocol are asked to report changes; the older ones do so by themselves."""
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        offers = client.server_capabilities
        lists = [
            bool(each and each.list_changed) for each in (offers.tools, offers.resources, offers.prompts)
        ]
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not any(lists):
            return
        tools, resources, prompts = lists
        with suppress(Exception):  # without it, changes are seen at the next start: no reason to say a word
            async with client.listen(
                tools_list_changed=tools, resources_list_changed=resources, prompts_list_changed=prompts
            ) as changes:
                async for _ in changes:
                    self.changed()

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        """The server's messages, with listings mended that the package would refuse."""
        async with (
            self._streams() as (read, write),
            relayed(read, lambda message: mended(message, self._broken), self._output_ended) as heard,
        ):
            yield heard, write

    def _streams(self) -> Any:
        if self._config.url:
            return self._signed()
        return program(self._filled, self._log, self._folder, self._box)

    @asynccontextmanager
    async def _signed(self) -> AsyncGenerator[Any]:
        """Over HTTP, signed in where somebody has, or is to. A header that was set for it does without."""
        show = self._show if self._show_page is not None else None
        has_own = "authorization" in map(str.lower, self._config.headers)
        async with (
            nullcontext() if has_own else signed_in(self._config.url, self._log.path, show) as auth,
            over_http(self._config, self._refused.append, auth) as streams,
        ):
            yield streams

    async def _show(self, page: str) -> None:
        assert self._show_page is not None and self._scope is not None
        if self.is_open:  # signed out since: in mid-call nobody has asked for a page
            raise SignInNeeded
        self._scope.deadline += SIGN_IN_SECONDS
        await self._show_page(page)

    async def _output_ended(self) -> None:
        """A program has ended, also between two calls, where nobody waits. An address has no end."""
        if self._config.url or self._client is None:
            return
        self._client = None
        await asyncio.to_thread(self._log.caught_up)
        self._why = Gone(self._words_of_end())
        ended, self.ended = self.ended, lambda _: None
        self._leave.set()
        ended(str(self._why))

    # --- what went wrong -------------------------------------------------------------------------------

    def _trouble(self, error: BaseException) -> Trouble:
        """The error in words that follow the server's name, with secrets masked."""
        from mcp.shared.exceptions import MCPError

        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        match error:
            case Trouble():
                return error
            case MCPError():
                return self._refusal(error)
            case OSError() if not self._config.url:
                what = error.filename if isinstance(error.filename, str) else self._config.command
                words = f"could not be started: {self._filled.masked(what)}: {system_words(error)}"
                return Trouble(words)
        words = self._filled.masked(on_one_line(str(error)) or type(error).__name__)
        if not self._config.url:
            return Trouble(f"failed: {words}")
        import httpx2

        kind = Unreached if isinstance(error, httpx2.ConnectError) else Gone
        return kind(f"cannot be reached: {words}")

    def _refusal(self, error: "MCPError") -> Trouble:
        """What an error of the protocol means."""
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        words = self._filled.masked(on_one_line(error.message))
        if error.code == REQUEST_TIMEOUT:
            return Trouble(f"did not answer within {self._config.timeout:g} s")
        status, forgotten = self._refused.pop() if self._refused else (0, False)
        is_stand_in = error.message in _STAND_INS
        # Of a forgotten session a server says 404 (MCP), or 400 (the example of the SDK for TypeScript).
        if forgotten or (status == 404 and (is_stand_in or "session" in error.message.lower())):
            return Unreached(refused(status))
        if status and is_stand_in:
            return Gone(refused(status))
        if error.code == CONNECTION_CLOSED and self._config.url:
            # Or an error of the server's own: the code has two meanings, so its words are given.
            return Gone(f"broke off: {words}")
        if error.code == CONNECTION_CLOSED and self._client is None:
            return Gone(self._words_of_end())
        return Trouble(f"refused: {words}")

    def _words_of_end(self) -> str:
        last = f", its last words: {self._log.last[:200]}" if self._log.last else ""
        return f"has ended{last}"


def _import_package() -> None:
    """Import the package. In a thread: it takes a while."""
    import mcp.client  # noqa: F401

    # Without a handler, Python would write the package's warnings across the screen.
    for name in ("mcp", "client", "mcp_types"):
        if not (logger := logging.getLogger(name)).handlers:
            logger.addHandler(logging.NullHandler())


def refused(status: int) -> str:
    """What an HTTP status says."""
    words = HTTPStatus(status).phrase if status in set(HTTPStatus) else "an error"
    advice = ": check its headers in the settings" if status in (401, 403) else ""
    if status == 401:
        advice += ", or sign in with `foldline mcp login NAME`"
    return f"answered {status} {words}{advice}"


def on_one_line(text: str) -> str:
    """A foreign message on one line, bounded, for use in a sentence."""
    return " ".join(text.split())[:300].removesuffix(".")
