"""Starts, restarts and calls an agent's tool servers.

The tools of a failed server stay listed.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from foldline.agent.tools import Tool, ToolContext, ToolFailure, ToolOutcome, failed
from foldline.agent.tools.base import RuleSet, refuse_half_characters
from foldline.data import Environ
from foldline.json_text import JsonObject
from foldline.llm.base import ToolSpec, spec_tokens
from foldline.protocol import FoldlineError, Rule
from foldline.text.harmless import escaped_line
from foldline.text.numbers import many

from .connection import INSTALL, START_SECONDS, Connection, ConnectionEnded, Unreached
from .elicitation import Ask
from .listing import Resource, ServerListing, Trouble
from .sign_in import open_page, sign_out
from .tools import marked, nullable_arguments, offered, outcome_of, prefixes
from .transport import ServerConfig, ServerLog

if TYPE_CHECKING:
    from mcp.types import (
        CallToolResult,
        GetPromptResult,
        Prompt,
        ReadResourceResult,
    )

    from foldline.agent.permissions.sandbox import Sandbox

SENTENCE = "The MCP server {server} {words}."
"""A message about a server. `words` follow the server's name."""
STAYS_LISTED = (
    " Its tools stay listed, and a call to one of them starts the server again."
)
UNCHANGED = "The MCP server {server} {trouble}. Its tools stay unchanged."
NOT_CONNECTED = "is not connected"
RETRIED_LATER = "{trouble}; the next prompt tries to start the server again"
PARTLY_RUN = "{error}: the call may have been partly executed. The next call starts the server again"
SIGN_IN = "To sign in to the MCP server {server}, open this page: {page}"
SIGN_IN_OPENED = "To sign in to the MCP server {server}, use the page that was opened in the browser: {page}"
BLOCKED = "the sandbox refused {access}: set sandbox, writable or hosts in [mcp.{server}] to allow it"
MISSING = (
    f"MCP servers are configured, but the `mcp` package is not installed: {INSTALL}."
)
NO_PACKAGE = "the `mcp` package is not installed"
RESTARTED = "Restarted these tool servers for the new mode: {names}."

State = Literal["not started", "connecting", "connected", "failed"]
T = TypeVar("T")
SandboxOf = Callable[[ServerConfig], Awaitable[tuple[str, "Sandbox | None"]]]
"""Returns the sandboxed mode and the sandbox for a server.

Returns an empty string and None if the server runs outside a sandbox.
"""


async def _outside(config: ServerConfig) -> tuple[str, None]:
    return "", None


class ToolServer:
    """A tool server, to which Foldline connects in the background.

    After a failure, a call starts the server again, at most once per turn.
    """

    def __init__(
        self,
        config: ServerConfig,
        prefix: str,
        log: ServerLog,
        folder: Path,
        environ: Environ,
        servers: "ToolServers",
        seconds: float,
    ) -> None:
        self.name = config.name
        self.prefix = prefix
        """Prefix of the names of the server's tools."""
        self.state: State = "not started"
        self.trouble = ""
        """Reason why the server is not connected.

        The words follow the server's name in a sentence.
        """
        self.offers: Mapping[str, ToolSpec] = {}
        """The tools of the newest listing, by the server's own names.

        They are kept after a failure.
        """
        self._nullable: Mapping[str, frozenset[str]] = {}
        """Each tool's required arguments that are sent as `null` if a call omits them."""
        self._legacy = False
        """Whether the server last used the older protocol, which has a handshake."""
        self.weight = 0
        """Size of the server's tool schemas in a request, in uncalibrated tokens."""
        self.resources: Sequence[Resource] = ()
        self.prompts: Sequence[Prompt] = ()
        self._mode = ""
        """Sandboxed mode in which the server was started.

        Empty if it runs outside a sandbox.
        """
        self._box: Sandbox | None = None
        self._config = config
        self._log = log
        self._folder = folder
        self._environ = environ
        self._servers = servers
        self._seconds = seconds
        self._connection: Connection | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_stale = False
        """Whether the server's listing has changed since it was read."""
        self._tried = False
        """Whether the server has been started again in this turn."""
        self._messages: set[str] = set()
        """Messages that have been shown. A repeated failure is shown only once."""
        self._may_ask = False
        """Whether the user started the server and may therefore be asked to sign in."""
        self._closed = False

    def __str__(self) -> str:
        """Return the state in words, such as `connected, 3 tools`."""
        match self.state:
            case "connected":
                return f"connected, {many(len(self.offers), 'tool')}"
            case "failed":
                return f"failed: {self.trouble}"
            case _:
                return self.state

    @property
    def log(self) -> Path:
        return self._log.path

    def start(self) -> None:
        """Connect to the server, unless it is connected or connecting."""
        if self.state not in ("connecting", "connected") and not self._closed:
            self.state = "connecting"
            self._work = asyncio.create_task(self._connect())

    def begin_turn(self) -> None:
        """Start a failed server again, and allow one more restart in this turn."""
        self._tried = False
        if self.state == "failed":
            self.start()

    async def settled(self) -> None:
        """Wait until the server is connected or has failed."""
        if self._work is not None:
            await asyncio.wait({self._work})

    async def is_misplaced(self) -> bool:
        """Return whether the server runs in a different sandbox than the mode requires."""
        if self.state not in ("connecting", "connected"):
            return False
        mode, _ = await self._servers.sandbox_of(self._config)
        return mode != self._mode

    def sandbox_hint(self, text: str) -> str:
        """Describe the access that the sandbox denied, and give advice.

        Searches the output in `text`. Returns an empty string if it shows no denied access. Blocking, because
        it reads from disk.
        """
        blocked = self._box.blocked(text) if self._box is not None else None
        if blocked is None:
            return ""
        return BLOCKED.format(access=blocked.words, server=self.name)

    async def restart(self) -> None:
        """Restart the server at the user's request.

        The user may be asked to sign in.
        """
        await self._end()
        self._messages.clear()
        self._may_ask = True
        self.start()
        await self.settled()
        self._may_ask = False

    def sign_out(self) -> bool:
        """Delete the stored sign-in. Returns whether there was one.

        Raises:
            OSError: the file could not be deleted.
        """
        return sign_out(self._log.path)

    async def _show_page(self, page: str) -> None:
        sentence = SIGN_IN_OPENED if await open_page(page) else SIGN_IN
        self._servers.tell(sentence.format(server=self.name, page=page))

    async def call(
        self, tool: str, arguments: JsonObject, progress: Callable[[str], None]
    ) -> "CallToolResult":
        """Call a tool.

        Raises:
            Trouble: the server is not connected, failed, or timed out.
        """
        completed = {**dict.fromkeys(self._nullable.get(tool, ())), **arguments}
        return await self._send(
            lambda connection: connection.call(tool, completed, progress)
        )

    async def read(self, uri: str) -> "ReadResourceResult":
        """Read a resource. Raises the same errors as `call`."""
        return await self._send(lambda connection: connection.read(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> "GetPromptResult":
        """Get a prompt with its arguments filled in.

        Raises the same errors as `call`.
        """
        return await self._send(lambda connection: connection.prompt(name, arguments))

    async def _send(self, request: Callable[[Connection], Awaitable[T]]) -> T:
        while True:
            if self.state == "failed" and not self._tried:
                self._tried = True
                self.start()
            await self.settled()
            if (
                self.state == "failed"
                or self._connection is None
                or not self._connection.is_open
            ):
                trouble = self.trouble or NOT_CONNECTED
                raise Trouble(RETRIED_LATER, trouble=trouble)
            try:
                return await request(self._connection)
            except Unreached as error:
                self._lost(str(error))  # start the server and try once more
            except ConnectionEnded as error:
                self._lost(str(error))
                raise ConnectionEnded(PARTLY_RUN, error=error) from None

    async def aclose(self) -> None:
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait({self._work})
        connection = self._connection
        self._connection = None
        await _close(connection, self._box)
        self._box = None
        self.state = "not started"

    async def _connect(self) -> None:
        connection: Connection | None = None
        try:
            filled = self._config.filled_in(self._environ)
            old_connection = self._connection
            old_box = self._box
            self._connection = None
            self._mode, self._box = await self._servers.sandbox_of(self._config)
            show = self._show_page if self._may_ask else None
            connection = Connection(
                filled, self._log, self._folder, self._box, show, legacy=self._legacy
            )
            self._legacy = False
            connection.changed = self._relist
            if self._servers.ask is not None:
                connection.ask = partial(self._servers.ask, self.name)
            connection.ended = self._lost
            self._connection = connection
            await _close(old_connection, old_box)
            listing = await connection.open(self._seconds)
        except Trouble as trouble:
            self._fail(str(trouble))
        except FoldlineError as problem:
            self._fail("", str(problem))
        else:
            self.state = "connected"
            self.trouble = ""
            self._legacy = connection.legacy
            self._take(listing)

    def _take(self, listing: ServerListing) -> None:
        before = [*self.offers.items()], self.resources, self.prompts
        self.offers, complaints = offered(self.name, self.prefix, listing)
        self._nullable = {
            tool.name: nullable_arguments(tool.input_schema)
            for tool in listing.tools
            if tool.name in self.offers
        }
        self.resources = listing.resources
        self.prompts = listing.prompts
        for complaint in complaints:
            self._notify(complaint)
        if before != ([*self.offers.items()], self.resources, self.prompts):
            self.weight = sum(map(spec_tokens, self.offers.values()))
            self._servers.listed()

    def _relist(self) -> None:
        """List the server's tools again.

        New tools become available in the next turn.
        """
        self._is_stale = True

        async def relist() -> None:
            while (
                self._is_stale
                and self._connection is not None
                and self.state == "connected"
            ):
                self._is_stale = False
                try:
                    self._take(await self._connection.listing())
                except Trouble as trouble:
                    self._notify(UNCHANGED.format(server=self.name, trouble=trouble))

        if self._work is None or self._work.done():
            self._work = asyncio.create_task(relist())

    def _lost(self, words: str) -> None:
        if self.state == "connected":
            self._messages.clear()  # the server has worked since, so show the next failure
            self._fail(words)

    def _fail(self, words: str, sentence: str = "") -> None:
        hint = self.sandbox_hint(self._log.text) if words else ""
        if hint:
            words = f"{words}; {hint}"
        self.state = "failed"
        self.trouble = words or sentence
        if not sentence:
            sentence = SENTENCE.format(server=self.name, words=words)
            if self.offers:
                sentence += STAYS_LISTED
        self._notify(sentence)

    def _notify(self, sentence: str) -> None:
        self._log.note(sentence)
        if sentence not in self._messages and not self._closed:
            self._messages.add(sentence)
            self._servers.tell(sentence)


async def _close(connection: Connection | None, box: "Sandbox | None") -> None:
    if connection is not None:
        await connection.close()
    if box is not None:
        await box.aclose()


class ServerTool(Tool):
    """A tool offered by a server.

    Its level is `run`, because a server's claim that a tool is harmless is not trusted.
    """

    level = "run"

    def __init__(self, spec: ToolSpec, tool: str, server: ToolServer) -> None:
        """
        Args:
            tool: the server's name for the tool.
        """
        self.spec = spec
        self.server = server
        self._tool = tool

    def title(self, arguments: JsonObject) -> str:
        argument_text = json.dumps(arguments, ensure_ascii=False) if arguments else ""
        return escaped_line(f"{self.server.name}: {self._tool} {argument_text}")

    def rules(
        self, arguments: JsonObject, cwd: Path | None = None
    ) -> Sequence[RuleSet]:
        """Return a rule for this tool with any arguments, and one for all tools of its server.

        There are no rules for specific arguments, because arguments do not show what a call can access.
        """
        return ((Rule(tool=self.spec.name),), (Rule(tool=f"{self.server.prefix}*"),))

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutcome:
        try:
            refuse_half_characters(self.spec.name, arguments)
            result = await self.server.call(self._tool, arguments, context.output)
        except ToolFailure as failure:
            return failed(failure)
        except Trouble as trouble:
            sentence = SENTENCE.format(server=self.server.name, words=trouble)
            return failed(ToolFailure(sentence))
        outcome = await outcome_of(result, context, self.spec.name)
        if outcome.is_error:
            hint = await asyncio.to_thread(self.server.sandbox_hint, outcome.text)
            if hint:
                return replace(outcome, text=f"{outcome.text}\n[{hint}]")
        return outcome


class ToolServers:
    """All of an agent's tool servers.

    A turn reads `tools` once and then keeps these tools.
    """

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        *,
        folder: Path,
        logs: Path,
        environ: Environ,
        seconds: float = START_SECONDS,
    ) -> None:
        """
        Args:
            folder: default working folder of the programs.
            logs: folder for the error output of the programs.
            seconds: maximum time for a server to start, in seconds.
        """
        self.tell: Callable[[str], None] = lambda _: None
        """Shows a message to the user."""
        self.listed: Callable[[], None] = lambda: None
        """Called when a server's tools, resources or prompts have changed."""
        self.sandbox_of: SandboxOf = _outside
        self.ask: Ask | None = None
        """Asks the user questions from a server, starting with the server's next start.

        None if there is no user to ask.
        """
        tool_prefixes = prefixes([config.name for config in configs])
        self._servers = {
            config.name: ToolServer(
                config,
                tool_prefixes[config.name],
                ServerLog(logs / f"{_file_name(config.name)}.log"),
                folder,
                environ,
                self,
                seconds,
            )
            for config in sorted(configs, key=lambda config: config.name)
        }
        self._started = False
        self._waited = False
        self._moving = asyncio.Lock()

    def start(self) -> None:
        """Start all servers, or warn if the `mcp` package is missing.

        Further calls do nothing.
        """
        if self._started or not self._servers:
            return
        self._started = True
        if find_spec("mcp") is None:
            self._waited = True
            for server in self._servers.values():
                server.state = "failed"
                server.trouble = NO_PACKAGE
            self.tell(MISSING)
            return
        for server in self._servers.values():
            server.start()

    def begin_turn(self) -> None:
        """Start failed servers again, in the background."""
        if self._started and find_spec("mcp") is not None:
            for server in self._servers.values():
                server.begin_turn()

    @property
    def awaited(self) -> tuple[str, ...]:
        """Names of the servers that the first turn should wait for; empty in later turns."""
        if self._waited:
            return ()
        return tuple(
            server.name
            for server in self._servers.values()
            if server.state == "connecting"
        )

    async def settled(self, seconds: float) -> None:
        """Wait at most `seconds` until each server is connected or has failed."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    for server in self._servers.values():
                        await server.settled()
        finally:
            self._waited = True

    @property
    def tools(self) -> list[Tool]:
        """The current tools, sorted by server and name."""
        return [
            ServerTool(spec, tool, server)
            for server in self._servers.values()
            for tool, spec in server.offers.items()
        ]

    @property
    def weight(self) -> int:
        """Size of all tools' schemas in each request, in tokens before calibration."""
        return sum(server.weight for server in self._servers.values())

    @property
    def by_name(self) -> Mapping[str, ToolServer]:
        return self._servers

    @property
    def states(self) -> list[ToolServer]:
        return list(self._servers.values())

    async def follow_mode(self) -> None:
        """Restart servers that the current mode moves into or out of a sandbox."""
        async with self._moving:
            moved = [
                server
                for server in self._servers.values()
                if await server.is_misplaced()
            ]
            if moved:
                names = ", ".join(server.name for server in moved)
                self.tell(RESTARTED.format(names=names))
            await asyncio.gather(*(server.restart() for server in moved))

    async def restart(self, name: str) -> ToolServer:
        """Restart a server at the user's request, and return the server."""
        server = self._servers[name]
        await server.restart()
        return server

    async def aclose(self) -> None:
        """Stop all servers and their programs."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))


def _file_name(name: str) -> str:
    plain = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)[
        :80
    ]
    return plain if plain == name else marked(plain, name)
