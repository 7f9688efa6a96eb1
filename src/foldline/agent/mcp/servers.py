"""The tool servers of an agent: each is connected, lost, started again, and its tools stay listed."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from foldline.context.numbers import many
from foldline.llm.base import ToolSpec, spec_tokens
from foldline.protocol import FoldlineError, Rule

from ..tools import Tool, ToolContext, ToolFailure, ToolOutcome, failed
from ..tools.base import RuleSet, refuse_half_characters
from ..tools.text import one_line
from .connection import INSTALL, START_SECONDS, Connection, Gone, Unreached
from .elicitation import Ask
from .listing import Listing, Resource, ServerPrompt, Trouble
from .sign_in import open_page, sign_out
from .tools import marked, nullable_arguments, offered, outcome_of, prefixes
from .transport import ServerConfig, ServerLog

if TYPE_CHECKING:
    from mcp.types import CallToolResult, GetPromptResult, ReadResourceResult

    from ..sandbox import Sandbox

State = Literal["not started", "connecting", "connected", "failed"]
T = TypeVar("T")
Tell = Callable[[str], None]
"""Takes a sentence for the user."""
SandboxOf = Callable[[ServerConfig], Awaitable[tuple[str, "Sandbox | None"]]]
"""The sandbox a server has to run in now and the mode that wants it; neither, where it runs outside."""


async def _outside(config: ServerConfig) -> tuple[str, None]:
    return "", None


class Server:
    """One tool server. Connects in the background; lost, the next call starts it again, once a turn."""

    def __init__(
        self,
        config: ServerConfig,
        prefix: str,
        log: ServerLog,
        folder: Path,
        environ: Mapping[str, str],
        tell: Tell,
        seconds: float = START_SECONDS,
    ) -> None:
        self.name = config.name
        self.prefix = prefix
        """How the names of its tools begin."""
        self.state: State = "not started"
        self.trouble = ""
        """Why it is not connected, as words that follow its name."""
        self.offers: Mapping[str, ToolSpec] = {}
        """Its tools, by its own names, as last listed. They stay when it is lost: it may come back."""
        self._nullable: Mapping[str, frozenset[str]] = {}
        """By tool: required arguments that are sent as `null` if a call leaves them out."""
        self._legacy = False
        """Whether it last spoke the protocol with a handshake: then it is not asked for a newer one."""
        self.weight = 0
        """What their schemas take of each request, before calibration, in tokens."""
        self.resources: Sequence[Resource] = ()
        self.prompts: Sequence[ServerPrompt] = ()
        self.listed: Callable[[], None] = lambda: None
        """Called when what it offers is something else than before."""
        self.sandbox_of: SandboxOf = _outside
        self.ask: Ask | None = None
        """Asks the user what it wants to know; None where nobody is there."""
        self._mode = ""
        self._box: Sandbox | None = None
        """The sandbox it was started in, and the mode that wanted it."""
        self._config = config
        self._log = log
        self._folder = folder
        self._environ = environ
        self._tell = tell
        self._seconds = seconds
        self._connection: Connection | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_stale = False
        """Whether it offers something else than was listed."""
        self._tried = False
        """Whether it was started again in this turn."""
        self._told: set[str] = set()
        """What was said already: a server that fails at every turn says so once."""
        self._may_ask = False
        """Whether it is started at the user's word, who can sign in."""
        self._closed = False

    @property
    def shown(self) -> "ServerState":
        return ServerState(self.name, self.state, self.trouble, len(self.offers), self._log.path)

    def start(self) -> None:
        """Connect, unless it is connected or under way."""
        if self.state not in ("connecting", "connected") and not self._closed:
            self.state = "connecting"
            self._work = asyncio.create_task(self._connect())

    def begin_turn(self) -> None:
        """A new turn: what was lost is started again, and may be once more by a call."""
        self._tried = False
        if self.state == "failed":
            self.start()

    async def settled(self) -> None:
        """Wait until it is connected or has failed."""
        if self._work is not None:
            await asyncio.wait({self._work})

    async def is_misplaced(self) -> bool:
        """Whether it runs otherwise than the mode wants it now."""
        runs = self.state in ("connecting", "connected")
        return runs and (await self.sandbox_of(self._config))[0] != self._mode

    def kept_from(self, text: str) -> str:
        """What the sandbox refused it, by what it said, and what can be done; empty where nothing. Reads the
        disk."""
        refused = self._box.refused(text) if self._box is not None else None
        if refused is None:
            return ""
        where = f"set sandbox, writable or hosts in [mcp.{self.name}]"
        return f"the sandbox refused {refused.words}: {where} to allow it"

    async def restart(self) -> None:
        """Ends it and connects again, at the word of the user, who may be asked to sign in."""
        await self._end()
        self._told.clear()
        self._may_ask = True
        self.start()
        await self.settled()
        self._may_ask = False

    def sign_out(self) -> bool:
        """Forget what a sign-in left; whether there was anything. Raises OSError."""
        return sign_out(self._log.path)

    async def _show_page(self, page: str) -> None:
        opened = await open_page(page)
        where = "in the browser, or here" if opened else "here"
        self._tell(f"The MCP server {self.name} wants you to sign in {where}: {page}")

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: Callable[[str], None]
    ) -> "CallToolResult":
        """
        Raises:
            Trouble: it is not there, is lost, or gave no answer; words that follow its name.
        """
        completed = {**dict.fromkeys(self._nullable.get(tool, ())), **arguments}
        return await self._asked(lambda connection: connection.call(tool, completed, progress))

    async def read(self, uri: str) -> "ReadResourceResult":
        """What is in a resource. Raises as `call`."""
        return await self._asked(lambda connection: connection.read(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> "GetPromptResult":
        """A prompt, filled in. Raises as `call`."""
        return await self._asked(lambda connection: connection.prompt(name, arguments))

    async def _asked(self, request: Callable[[Connection], Awaitable[T]]) -> T:
        while True:
            if self.state == "failed" and not self._tried:
                self._tried = True
                self.start()
            await self.settled()
            if self.state == "failed" or self._connection is None or not self._connection.is_open:
                raise Trouble(f"{self.trouble or 'is not connected'}; it is tried again at the next prompt")
            try:
                return await request(self._connection)
            except Unreached as gone:
                self._lost(str(gone))  # and once more, or it is said above that it is not there
            except Gone as gone:
                self._lost(str(gone))
                raise Gone(f"{gone}: the call may have run in part. The next call starts it again") from None

    async def aclose(self) -> None:
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait({self._work})
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        if self._box is not None:
            await self._box.aclose()
        self._box, self.state = None, "not started"

    async def _connect(self) -> None:
        connection: Connection | None = None
        try:
            filled = self._config.filled_in(self._environ)
            old, left, self._connection = self._connection, self._box, None
            self._mode, self._box = await self.sandbox_of(self._config)
            show = self._show_page if self._may_ask else None
            connection = Connection(filled, self._log, self._folder, self._box, show, legacy=self._legacy)
            self._legacy = False
            connection.changed = self._relist
            connection.ask = partial(self.ask, self.name) if self.ask is not None else None
            connection.ended = self._lost
            self._connection = connection
            if old is not None:
                await old.close()
            if left is not None:
                await left.aclose()
            listing = await connection.open(self._seconds)
        except Trouble as trouble:
            self._fail(str(trouble))
        except FoldlineError as problem:
            self._fail("", str(problem))
        else:
            self.state, self.trouble = "connected", ""
            self._legacy = connection.legacy
            self._take(listing)

    def _take(self, listing: Listing) -> None:
        before = [*self.offers.items()], self.resources, self.prompts
        self.offers, complaints = offered(self.name, self.prefix, listing)
        self._nullable = {
            tool.name: nullable_arguments(tool.schema) for tool in listing.tools if tool.name in self.offers
        }
        self.resources, self.prompts = listing.resources, listing.prompts
        for complaint in complaints:
            self._say(complaint)
        if before != ([*self.offers.items()], self.resources, self.prompts):
            self.weight = sum(map(spec_tokens, self.offers.values()))
            self.listed()

    def _relist(self) -> None:
        """Asks again what it offers, as that has changed. New tools count from the next turn on."""
        self._is_stale = True

        async def ask() -> None:
            while self._is_stale and self._connection is not None and self.state == "connected":
                self._is_stale = False
                try:
                    self._take(await self._connection.listing())
                except Trouble as trouble:
                    self._say(f"The MCP server {self.name} {trouble}: its tools stay as they were.")

        if self._work is None or self._work.done():
            self._work = asyncio.create_task(ask())

    def _lost(self, words: str) -> None:
        if self.state == "connected":
            self._told.clear()  # it was well: what happens now is news
            self._fail(words)

    def _fail(self, words: str, sentence: str = "") -> None:
        if words and (why := self.kept_from(self._log.said)):
            words = f"{words}; {why}"
        self.state, self.trouble = "failed", words or sentence
        stays = " Its tools stay listed, and it is started again when one is called." if self.offers else ""
        self._say(sentence or f"The MCP server {self.name} {words}.{stays}")

    def _say(self, sentence: str) -> None:
        self._log.note(sentence)
        if sentence not in self._told and not self._closed:
            self._told.add(sentence)
            self._tell(sentence)


class ServerTool(Tool):
    """A tool of a server. Always of level `run`: that it is harmless is only the server's own word."""

    level = "run"

    def __init__(self, spec: ToolSpec, tool: str, server: Server) -> None:
        """`tool` is what its server calls it."""
        self.spec = spec
        self.server = server
        self._tool = tool

    def title(self, arguments: dict[str, Any]) -> str:
        given = json.dumps(arguments, ensure_ascii=False) if arguments else ""
        return one_line(f"{self.server.name}: {self._tool} {given}")

    def rules(self, arguments: dict[str, Any], cwd: Path | None = None) -> Sequence[RuleSet]:
        """An "always" stands for this one tool, whatever it is given; or for all of its server. Nothing tells
        where that reaches: the user's word on the tool has to do."""
        return ((Rule(tool=self.spec.name),), (Rule(tool=f"{self.server.prefix}*"),))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        try:
            refuse_half_characters(self.spec.name, arguments)
            result = await self.server.call(self._tool, arguments, context.output)
        except ToolFailure as failure:
            return failed(failure)
        except Trouble as trouble:
            return failed(ToolFailure(f"The MCP server {self.server.name} {trouble}."))
        outcome = await outcome_of(result, context, self.spec.name)
        if outcome.is_error and (why := await asyncio.to_thread(self.server.kept_from, outcome.text)):
            return replace(outcome, text=f"{outcome.text}\n[{why}]")
        return outcome


MISSING = f"MCP servers are set up, and the package they need is not there: {INSTALL}."


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of one server, for people."""

    name: str
    state: State
    trouble: str
    """Why it is not connected."""
    tools: int
    log: Path

    def __str__(self) -> str:
        match self.state:
            case "connected":
                return f"connected, {many(self.tools, 'tool')}"
            case "failed":
                return f"failed: {self.trouble}"
            case _:
                return self.state


class ToolServers:
    """All tool servers of an agent, started together. A turn asks for `tools` once, and keeps the answer."""

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        *,
        folder: Path,
        logs: Path,
        environ: Mapping[str, str],
        seconds: float = START_SECONDS,
    ) -> None:
        """`folder` is where programs run unless they are set to run elsewhere, `logs` where their error
        output goes. A server has `seconds` to start."""
        self.tell: Callable[[str], None] = lambda _: None
        """Takes sentences for the user."""
        self.listed: Callable[[], None] = lambda: None
        """Called when one of them offers something else than before."""
        self.sandbox_of: SandboxOf = _outside
        beginnings = prefixes([config.name for config in configs])
        self._servers = {
            config.name: Server(
                config,
                beginnings[config.name],
                ServerLog(logs / f"{_file_name(config.name)}.log"),
                folder,
                environ,
                lambda text: self.tell(text),
                seconds,
            )
            for config in sorted(configs, key=lambda config: config.name)
        }
        for server in self._servers.values():
            server.listed = lambda: self.listed()
            server.sandbox_of = lambda config: self.sandbox_of(config)
        self._begun = False
        self._waited = False
        self._moving = asyncio.Lock()

    def start(self) -> None:
        """Start them all, once; without the package `mcp`, say so."""
        if self._begun or not self._servers:
            return
        self._begun = True
        if find_spec("mcp") is None:
            self._waited = True
            for server in self._servers.values():
                server.state, server.trouble = "failed", "the package mcp is not installed"
            self.tell(MISSING)
            return
        for server in self._servers.values():
            server.start()

    def begin_turn(self) -> None:
        """A new turn: what was lost is tried again, in the background."""
        if self._begun and find_spec("mcp") is not None:
            for server in self._servers.values():
                server.begin_turn()

    @property
    def awaited(self) -> tuple[str, ...]:
        """The servers that a first turn should wait for. Empty from then on: who is late comes later."""
        if self._waited:
            return ()
        return tuple(server.name for server in self._servers.values() if server.state == "connecting")

    async def settled(self, seconds: float) -> None:
        """Wait so long at most until each is connected or has failed. It is waited for once only."""
        try:
            async with asyncio.timeout(seconds):
                for server in self._servers.values():
                    await server.settled()
        except TimeoutError:
            pass
        finally:
            self._waited = True

    @property
    def tools(self) -> list[Tool]:
        """The tools offered now, by server, then by name."""
        return [
            ServerTool(spec, tool, server)
            for server in self._servers.values()
            for tool, spec in server.offers.items()
        ]

    @property
    def weight(self) -> int:
        """What all of their tools take of each request, before calibration, in tokens."""
        return sum(server.weight for server in self._servers.values())

    def ask_with(self, ask: Ask) -> None:
        """From their next start on, somebody is there to be asked."""
        for server in self._servers.values():
            server.ask = ask

    @property
    def by_name(self) -> Mapping[str, Server]:
        return self._servers

    @property
    def states(self) -> list[ServerState]:
        return [server.shown for server in self._servers.values()]

    async def follow_mode(self) -> None:
        """Start those anew that have to run in the sandbox now, in another, or outside."""
        async with self._moving:
            moved = [server for server in self._servers.values() if await server.is_misplaced()]
            if moved:
                self.tell(
                    f"Tool servers were started anew for this mode: {', '.join(each.name for each in moved)}."
                )
            await asyncio.gather(*(server.restart() for server in moved))

    async def restart(self, name: str) -> ServerState:
        """Restarts one server at the user's word; returns its new state."""
        await self._servers[name].restart()
        return self._servers[name].shown

    async def aclose(self) -> None:
        """End them all, at once; no program is left behind."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))


def _file_name(name: str) -> str:
    plain = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)[:80]
    return plain if plain == name else marked(plain, name)
