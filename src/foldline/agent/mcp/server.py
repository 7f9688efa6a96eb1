"""One tool server over the life of the agent: connected, lost, started again; its tools stay listed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from foldline.protocol import FoldlineError

from .config import Filled, ServerConfig
from .connection import START_SECONDS, Connection, Gone, Listing, Trouble, Unreached
from .log import ServerLog
from .results import Offered, offered

if TYPE_CHECKING:
    from mcp.types import CallToolResult

State = Literal["not started", "connecting", "connected", "failed"]
Tell = Callable[[str], None]
"""Takes a sentence for the user."""


class Server:
    """Connects in the background. Lost, it is started again by the next call or turn, once a turn."""

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
        self.offers: Sequence[Offered] = ()
        """The tools of its newest listing, by name. They stay when it is lost: it may come back."""
        self.listed: Callable[[], None] = lambda: None
        """Called when these are others than before."""
        self._config = config
        self._log = log
        self._folder = folder
        self._environ = environ
        self._tell = tell
        self._seconds = seconds
        self._connection: Connection | None = None
        self._work: asyncio.Task[None] | None = None
        self._tried = False
        """Whether it was started again in this turn."""
        self._told: set[str] = set()
        """What was said already: a server that fails at every turn says so once."""
        self._closed = False

    @property
    def log_path(self) -> Path:
        return self._log.path

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

    async def restart(self) -> None:
        """At the user's word: end it, and connect anew."""
        await self._end()
        self._told.clear()
        self.start()
        await self.settled()

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: Callable[[str], None]
    ) -> "CallToolResult":
        """
        Raises:
            Trouble: it is not there, is lost, or gave no answer; words that follow its name.
        """
        while True:
            if self.state == "failed" and not self._tried:
                self._tried = True
                self.start()
            await self.settled()
            if self._connection is None or not self._connection.is_open:
                raise Trouble(f"{self.trouble or 'is not connected'}; it is tried again at the next prompt")
            try:
                return await self._connection.call(tool, arguments, progress)
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
        self.state = "not started"

    async def _connect(self) -> None:
        connection: Connection | None = None
        try:
            filled: Filled = self._config.filled_in(self._environ)
            connection = Connection(filled, self._log, self._folder)
            connection.changed = self._relist
            connection.ended = self._lost
            old, self._connection = self._connection, connection
            if old is not None:
                await old.close()
            listing = await connection.open(self._seconds)
        except Trouble as trouble:
            self._fail(str(trouble))
        except FoldlineError as problem:
            self._fail("", str(problem))
        else:
            self.state, self.trouble = "connected", ""
            self._take(listing)

    def _take(self, listing: Listing) -> None:
        before, (self.offers, complaints) = self.offers, offered(self.name, self.prefix, listing)
        for complaint in complaints:
            self._say(complaint)
        if list(before) != list(self.offers):
            self.listed()

    def _relist(self) -> None:
        """It says that its tools have changed. What it lists now counts from the next turn on."""

        async def ask() -> None:
            connection = self._connection
            if connection is not None and self.state == "connected":
                try:
                    self._take(await connection.tools())
                except Trouble as trouble:
                    self._say(f"The MCP server {self.name} {trouble}: its tools stay as they were.")

        if self._work is None or self._work.done():
            self._work = asyncio.create_task(ask())

    def _lost(self, words: str) -> None:
        if self.state == "connected":
            self._told.clear()  # it was well: what happens now is news
            self._fail(words)

    def _fail(self, words: str, sentence: str = "") -> None:
        self.state, self.trouble = "failed", words or sentence
        stays = " Its tools stay listed, and it is started again when one is called." if self.offers else ""
        self._say(sentence or f"The MCP server {self.name} {words}.{stays}")

    def _say(self, sentence: str) -> None:
        self._log.note(sentence)
        if sentence not in self._told and not self._closed:
            self._told.add(sentence)
            self._tell(sentence)
