"""A connection to a server, made with the `mcp` package.

The package's context managers must be exited by the task that entered them. Therefore, a separate task keeps
the connection open. Calls are made, and cancelled, in other tasks.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foldline.json_text import JsonObject
from foldline.protocol import system_words
from foldline.version import __version__

from .listing import ServerListing, Trouble, listing_of, remove_broken_tools
from .sign_in import SIGN_IN_SECONDS, Show, SignInNeeded, signed_in
from .transport import (
    FilledConfig,
    ServerLog,
    import_package,
    on_one_line,
    over_http,
    program,
    relayed,
    status_words,
)

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

    from foldline.agent.permissions.sandbox import Sandbox

T = TypeVar("T")
INSTALL = "pip install 'foldline[mcp]'"
TIMED_OUT = "did not answer within {seconds:g} s"
HAS_STOPPED = "has stopped"
LAST_OUTPUT = "has stopped; its last output: {output}"
STOPPED_IN_CALL = "stopped during the call"
UNUSABLE = (
    "cannot be used, because the `mcp` package could not be loaded ({error}): {install}"
)
NOT_A_MESSAGE = "not a message: {text}"
NOT_STARTED = "could not be started: {path}: {reason}"
FAILED = "failed: {error}"
UNREACHABLE = "cannot be reached: {error}"
CLOSED = "closed the connection: {error}"
REFUSED = "returned an error: {error}"
START_SECONDS = 60.0
"""Maximum time for a server to start and list its tools, in seconds.

`npx` and `uvx` first install packages.
"""
_PROGRAM_ENDS = 4.0
"""Maximum time to wait for a program to stop, in seconds.

It takes at most 1.5 s, unless the machine is busy.
"""
_GOODBYE = 0.5
"""Maximum time to wait for an HTTP session to end, in seconds.

After that, the server is left to drop the session.
"""
_CANCEL_SECONDS = 0.1
"""Maximum time to notify the server of a cancelled call, in seconds.

A cancellation must be complete within 200 ms.
"""
_SLICE = 0.5
"""Interval between two checks of a running call, in seconds.

A check finds out whether the call is taking too long or waiting for the user.
"""
_REASON_SECONDS = 1.0
"""Maximum time to wait for the reason why a call was interrupted, in seconds."""
_ENDING_SECONDS = 0.2
"""The same limit, in seconds, if the connection's own task has not reported the end yet."""
_STAND_INS = frozenset(
    {"Server returned an error response", "Not Found", "Session terminated"}
)
"""Error texts that the `mcp` package uses for an HTTP status without a protocol error."""


class ConnectionEnded(Trouble):
    """Raised if the connection to the server has ended."""


class Unreached(ConnectionEnded):
    """Raised if a call did not reach the server, and can therefore be repeated."""


class Connection:
    """A connection to a server.

    `ended` is called if the connection ends without `close`.
    """

    def __init__(
        self,
        filled: FilledConfig,
        log: ServerLog,
        folder: Path,
        box: "Sandbox | None" = None,
        show_page: Show | None = None,
        *,
        legacy: bool = False,
    ) -> None:
        """
        Args:
            box: sandbox in which the server's program runs.
            show_page: shows the user the sign-in page, if the user has asked to sign in.
            legacy: whether the server speaks the older protocol, which begins with a handshake.
        """
        self.legacy = legacy
        self._filled = filled
        self._show_page = show_page
        self._scope: CancelScope | None = None
        """Cancel scope with the time limit for the start."""
        self._box = box
        self._config = filled.config
        self._log = log
        self._folder = folder
        self._leave = asyncio.Event()
        self._refused: list[tuple[int, bool]] = []
        """HTTP error statuses received during the current call.

        The second value of each pair is whether the server no longer knows the session.
        """
        self._end_reason: Trouble | None = None
        """Reason why the connection ended. None until it is known."""
        self._client: Client | None = None
        self._holder: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._broken: list[str] = []
        """Descriptions of the invalid tools in the newest listing."""
        self._questions: set[asyncio.Task[ElicitResult]] = set()
        """Tasks of the server's questions that the user has not answered yet."""
        self.ask: (
            Callable[[ElicitRequestParams], Coroutine[Any, Any, ElicitResult]] | None
        ) = None
        """Asks the user a question from the server.

        None if there is no user to ask.
        """
        self.changed: Callable[[], None] = lambda: None
        """Called when the server reports that its tools, resources or prompts have changed."""
        self.ended: Callable[[str], None] = lambda _: None
        """Called once if the connection ends without `close`.

        Takes the reason, in words that follow the server's name in a sentence.
        """

    async def open(self, seconds: float) -> ServerListing:
        """Start the server or connect to it, and list its tools.

        Raises:
            Trouble: the server could not be reached, failed, or took too long.
        """
        opened: asyncio.Future[ServerListing] = (
            asyncio.get_running_loop().create_future()
        )
        opened.add_done_callback(_ignore_exception)
        self._holder = asyncio.create_task(self._hold(opened, seconds))
        try:
            return await asyncio.shield(opened)
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection and stop the program, waiting only a limited time."""
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

    async def listing(self) -> ServerListing:
        """List the tools again. Raises the same errors as `call`."""
        return await self._in_time(self._list(self._open_client()))

    async def read(self, uri: str) -> "ReadResourceResult":
        """Read a resource. Raises the same errors as `call`."""
        return await self._in_time(self._open_client().read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> "GetPromptResult":
        """Get a prompt with its arguments filled in.

        Raises the same errors as `call`.
        """
        return await self._in_time(self._open_client().get_prompt(name, arguments))

    async def call(
        self, tool: str, arguments: JsonObject, output: Callable[[str], None]
    ) -> "CallToolResult":
        """Call a tool.

        If the call is cancelled, the server is notified.

        Raises:
            ConnectionEnded: the connection ended during the call.
            Trouble: the call took too long, or the server returned an error.
        """

        async def show(
            progress: float, total: float | None, message: str | None
        ) -> None:
            line = f"{progress:g}"
            if total:
                line += f" of {total:g}"
            if message:
                line += f": {message}"
            output(f"{line}\n")

        return await self._in_time(
            self._open_client().call_tool(tool, arguments, progress_callback=show)
        )

    async def _in_time(self, request: Coroutine[Any, Any, T]) -> T:
        """Await a request within the timeout.

        Time spent waiting for the user's answers does not count.
        """
        self._refused.clear()
        call = asyncio.create_task(request)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        call.add_done_callback(_ignore_exception)
        seconds = self._config.timeout
        try:
            while not call.done() and seconds > 0:
                time_slice = min(seconds, _SLICE)
                await asyncio.wait({call}, timeout=time_slice)
                if not self._questions:
                    seconds -= time_slice
        except asyncio.CancelledError:
            await self._give_up(call)
            raise
        if not call.done():
            await self._give_up(call)
            raise Trouble(TIMED_OUT, seconds=self._config.timeout)
        if call.cancelled():
            raise ConnectionEnded(STOPPED_IN_CALL)
        error = call.exception()
        if error is None:
            return call.result()
        if not isinstance(error, Exception):
            raise error
        raise self._trouble(await self._reason(error)) from None

    async def _reason(self, error: Exception) -> Exception:
        """Return the reason why the connection ended, or `error` if it has not ended."""
        from mcp.shared.exceptions import MCPError
        from mcp.types import CONNECTION_CLOSED

        if (
            self._holder is None
            or not isinstance(error, MCPError)
            or error.code != CONNECTION_CLOSED
        ):
            return error
        patience = _REASON_SECONDS if self._client is None else _ENDING_SECONDS
        await asyncio.wait({self._holder}, timeout=patience)
        return self._end_reason or error

    async def _give_up(self, call: "asyncio.Task[Any]") -> None:
        """Cancel a call and its questions to the user."""
        for question in self._questions:
            question.cancel()
        call.cancel()
        await asyncio.wait({call}, timeout=_CANCEL_SECONDS)

    async def _elicit(
        self, context: Any, params: "ElicitRequestParams"
    ) -> "ElicitResult":
        """Ask the user a question from the server."""
        from mcp.types import ElicitResult

        assert self.ask is not None
        question = asyncio.create_task(self.ask(params))
        self._questions.add(question)
        try:
            await asyncio.wait({question})
            if question.cancelled():
                return ElicitResult(action="cancel")
            return question.result()
        finally:
            question.cancel()
            self._questions.discard(question)

    def _open_client(self) -> "Client":
        if self._client is None:
            raise ConnectionEnded(HAS_STOPPED)
        return self._client

    # --- the task that holds the connection ----------------------------------------------------------

    async def _hold(
        self, opened: asyncio.Future[ServerListing], seconds: float
    ) -> None:
        trouble: Trouble | None = None
        try:
            await asyncio.to_thread(import_package)
            import anyio

            with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
                self._scope = scope
                watcher = asyncio.create_task(self._cancel_start(scope))
                try:
                    async with AsyncExitStack() as stack:
                        client = await self._reach(stack)
                        self._accept_any_result(client)
                        listing = await self._list(client)
                        scope.deadline = math.inf
                        self._client = client
                        opened.set_result(listing)
                        listening = asyncio.create_task(self._listen(client))
                        try:
                            await self._leave.wait()
                        finally:
                            listening.cancel()
                            await asyncio.wait({listening})
                finally:
                    watcher.cancel()
                    self._client = None
            if scope.cancelled_caught and not self._leave.is_set():
                trouble = Trouble(TIMED_OUT, seconds=seconds)
        except ImportError as error:
            trouble = Trouble(UNUSABLE, error=error, install=INSTALL)
        except Exception as error:  # noqa: BLE001 - any error of the package concerns only this server
            trouble = self._trouble(error)
        finally:
            if not self._config.url and (
                trouble is None or isinstance(trouble, ConnectionEnded)
            ):
                await asyncio.to_thread(self._log.caught_up)
                trouble = ConnectionEnded(self._end_words())
            self._end_reason = (
                self._end_reason or trouble or ConnectionEnded(HAS_STOPPED)
            )
            if not opened.done():
                opened.set_exception(self._end_reason)
            else:
                self.ended(str(self._end_reason))

    async def _reach(self, stack: AsyncExitStack) -> "Client":
        """Connect to the server.

        The connection lasts until `stack` is exited.

        The package first asks for the protocol version (`server/discover`), and falls back to the older
        handshake after an error. Some servers, such as those built with the Rust SDK rmcp, exit if they get a
        request before the handshake. These are started again, with the handshake only.
        """
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        if not self.legacy:
            try:
                client = await stack.enter_async_context(self._new_client())
                self.legacy = client.protocol_version not in MODERN_PROTOCOL_VERSIONS
                return client
            except Exception as error:
                if not self._may_need_handshake(error):
                    raise
            self.legacy = True
            self._refused.clear()
        return await stack.enter_async_context(self._new_client())

    def _may_need_handshake(self, error: BaseException) -> bool:
        """Return whether a server that failed may need the older handshake.

        The server must have been started or reached, and must not require a sign-in.
        """
        import httpx2

        if any(
            status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
            for status, _ in self._refused
        ):
            return False
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return not isinstance(error, Trouble | OSError | httpx2.ConnectError)

    async def _list(self, client: "Client") -> ServerListing:
        return await listing_of(client, self._broken, self._log.note)

    async def _cancel_start(self, scope: Any) -> None:
        """Wait until `close` is called, and then cancel the start."""
        await self._leave.wait()
        if self._client is None:
            scope.cancel()

    def _new_client(self) -> "Client":
        """Create a client, without connecting it."""
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
            elif not isinstance(message, ServerNotification):
                text = self._filled.masked(str(message))[:500]
                self._log.note(NOT_A_MESSAGE.format(text=text))

        return mcp.client.Client(
            self._transport(),
            message_handler=hear,
            client_info=Implementation(name="foldline", version=__version__),
            elicitation_callback=None if self.ask is None else self._elicit,
            mode="legacy" if self.legacy else "auto",
            cache=None,
        )

    def _accept_any_result(self, client: "Client") -> None:
        """Disable validation against output schemas, because the model reads only the text."""

        async def any_result(name: str, result: "CallToolResult") -> None:
            pass

        client.session.validate_tool_result = any_result  # type: ignore[method-assign]

    async def _listen(self, client: "Client") -> None:
        """Subscribe to the server's change notifications.

        Servers that speak the older protocol send these without a subscription.
        """
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        capabilities = client.server_capabilities
        kinds = (capabilities.tools, capabilities.resources, capabilities.prompts)
        tools, resources, prompts = [bool(kind and kind.list_changed) for kind in kinds]
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (
            tools or resources or prompts
        ):
            return
        # Without a subscription, changes are noticed at the next start.
        with suppress(Exception):
            async with client.listen(
                tools_list_changed=tools,
                resources_list_changed=resources,
                prompts_list_changed=prompts,
            ) as changes:
                async for _ in changes:
                    self.changed()

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        """Provide the message streams, without tools that the `mcp` package would reject."""

        def repair(result: Any) -> None:
            remove_broken_tools(result, self._broken)

        async with (
            self._streams() as (read, write),
            relayed(read, repair, self._output_ended) as messages,
        ):
            yield messages, write

    def _streams(self) -> Any:
        if self._config.url:
            return self._http_streams()
        return program(self._filled, self._log, self._folder, self._box)

    @asynccontextmanager
    async def _http_streams(self) -> AsyncGenerator[Any]:
        """Connect over HTTP, and sign in unless the configuration has an authorization header."""
        show = self._show if self._show_page is not None else None
        has_own = "authorization" in map(str.lower, self._config.headers)
        async with (
            nullcontext()
            if has_own
            else signed_in(self._config.url, self._log.path, show) as auth,
            over_http(self._config, self._refused.append, auth) as streams,
        ):
            yield streams

    async def _show(self, page: str) -> None:
        assert self._show_page is not None and self._scope is not None
        # If the sign-in expires during a call, do not open a page without the user's request.
        if self.is_open:
            raise SignInNeeded
        self._scope.deadline += SIGN_IN_SECONDS
        await self._show_page(page)

    async def _output_ended(self) -> None:
        """Handle the end of a program's output, which means that the program has stopped.

        Does nothing for HTTP, because HTTP streams may end at any time.
        """
        if self._config.url or self._client is None:
            return
        self._client = None
        await asyncio.to_thread(self._log.caught_up)
        self._end_reason = ConnectionEnded(self._end_words())
        ended = self.ended
        self.ended = lambda _: None
        self._leave.set()
        ended(str(self._end_reason))

    # --- errors ----------------------------------------------------------------------------------------

    def _trouble(self, error: BaseException) -> Trouble:
        """Describe an error, with secrets masked.

        The words follow the server's name in a sentence.
        """
        from mcp.shared.exceptions import MCPError

        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        match error:
            case Trouble():
                return error
            case MCPError():
                return self._refusal(error)
            case OSError() if not self._config.url:
                path = self._config.command
                if isinstance(error.filename, str):
                    path = error.filename
                path = self._filled.masked(path)
                reason = system_words(error)
                return Trouble(NOT_STARTED, path=path, reason=reason)
        words = self._filled.masked(on_one_line(str(error)) or type(error).__name__)
        if not self._config.url:
            return Trouble(FAILED, error=words)
        import httpx2

        kind = Unreached if isinstance(error, httpx2.ConnectError) else ConnectionEnded
        return kind(UNREACHABLE.format(error=words))

    def _refusal(self, error: "MCPError") -> Trouble:
        """Convert a protocol error to a reason for the failure."""
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        words = self._filled.masked(on_one_line(error.message))
        if error.code == REQUEST_TIMEOUT:
            return Trouble(TIMED_OUT, seconds=self._config.timeout)
        status = 0
        is_unknown_session = False
        if self._refused:
            status, is_unknown_session = self._refused.pop()
        is_stand_in = error.message in _STAND_INS
        # The status for an unknown session is 404 in the protocol, and 400 in the TypeScript SDK's example.
        if status == 404 and (is_stand_in or "session" in error.message.lower()):
            is_unknown_session = True
        if is_unknown_session:
            return Unreached(status_words(status))
        if status and is_stand_in:
            return ConnectionEnded(status_words(status))
        if error.code == CONNECTION_CLOSED and self._config.url:
            # The server may use the code for its own errors, too, so include the message.
            return ConnectionEnded(CLOSED, error=words)
        if error.code == CONNECTION_CLOSED and self._client is None:
            return ConnectionEnded(self._end_words())
        return Trouble(REFUSED, error=words)

    def _end_words(self) -> str:
        if self._log.last:
            return LAST_OUTPUT.format(output=self._log.last[:200])
        return HAS_STOPPED


def _ignore_exception(future: "asyncio.Future[Any]") -> None:
    """Mark the exception as retrieved, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
