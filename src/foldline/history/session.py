"""A session: a history, its projection, and the file that is the truth of both."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.context.projection import Projection
from foldline.protocol import NEW, Entry, FoldlineError, SessionHeader

from .log import NO_DAMAGE, Damage, Log, WriteFailed, read_log
from .meta import Describer, Meta
from .paths import EVENTS, META, data_home, events_file, new_session_id, real_path, session_dir

if TYPE_CHECKING:
    import asyncio

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class Session:
    """One history, in memory and (unless it is read-only) on disk.

    Memory never runs ahead of the disk: an entry is in `entries` and `projection` only after it was
    written, and everything that was written is there, also after a failure or a cancel. So the session
    that is loaded again is the session that was alive.
    """

    def __init__(
        self,
        header: SessionHeader,
        entries: Sequence[Entry] = (),
        *,
        log: Log | None = None,
        damage: Damage = NO_DAMAGE,
        now: Clock = utc_now,
        read_only: str = "",
    ) -> None:
        self.header = header
        self.damage = damage
        """What the file held that could not be read."""
        self.on_append: list[Callable[[Entry], None]] = []
        """Called with each entry once it is on disk and in the projection, in order."""
        self.read_only = read_only
        """Why nothing can be appended, as a sentence; empty where it can."""
        self.projection = Projection()
        self._log = log
        self._now = now
        self._describer = Describer(header)
        self._last_index = NEW
        self._appending: asyncio.Lock | None = None
        for entry in entries:
            self._take(entry)

    # --- where sessions come from ------------------------------------------------------------------

    @classmethod
    def create(
        cls, cwd: Path | str, *, home: Path | None = None, now: Clock = utc_now, session_id: str | None = None
    ) -> "Session":
        """A new session for this working folder. Nothing is on disk before its first entry."""
        created = now()
        header = SessionHeader(
            id=session_id or new_session_id(created), created_at=created, cwd=real_path(cwd)
        )
        folder = session_dir(home or data_home(), cwd, header.id)
        return cls(header, log=Log(folder / EVENTS, header), now=now)

    @classmethod
    def open(cls, path: Path | str, *, now: Clock = utc_now) -> "Session":
        """The session in this folder or event file. Only reads; the first append claims it for writing.

        Raises:
            FoldlineError: there is none, or it is not one of ours.
        """
        events = events_file(Path(path))
        loaded = read_log(events)
        log = Log(events, loaded.header, loaded=loaded)
        return cls(loaded.header, loaded.entries, log=log, damage=loaded.damage, now=now)

    @classmethod
    def from_entries(
        cls, header: SessionHeader, entries: Iterable[Entry], *, damage: Damage = NO_DAMAGE
    ) -> "Session":
        """A session to look at, such as another agent's: nothing can be appended to it."""
        reason = f"The session {header.id} is open for reading only: import it to continue it."
        return cls(header, tuple(entries), damage=damage, read_only=reason)

    async def copy(
        self,
        *,
        home: Path | None = None,
        cwd: Path | str | None = None,
        now: Clock = utc_now,
        session_id: str | None = None,
    ) -> "Session":
        """A new session with the same entries, indices included: a fork, or an import. The original stays."""
        copy = Session.create(
            self.header.cwd if cwd is None else cwd, home=home, now=now, session_id=session_id
        )
        await copy._commit(self.entries, durable=True)
        return copy

    # --- reading -----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def cwd(self) -> str:
        return self.header.cwd

    @property
    def entries(self) -> list[Entry]:
        """All entries in index order. For reading: only `append` adds to it."""
        return self.projection.entries

    @property
    def path(self) -> Path | None:
        """The event file; None for a session that is only in memory. It exists from the first append on."""
        return self._log.path if self._log else None

    @property
    def next_index(self) -> int:
        """The index the next entry gets: above every index ever used here, lost records included."""
        return max(self._last_index, self._log.last_index if self._log else NEW) + 1

    def meta(self) -> Meta:
        return self._describer.meta(self._log.size if self._log else 0, str(self.damage))

    # --- writing -----------------------------------------------------------------------------------

    async def append(self, *entries: Entry, durable: bool = False) -> list[Entry]:
        """Give these entries their index and time, write them, fold them in; returns them as stored.

        An append that has begun is finished, also when the caller is cancelled meanwhile (the
        cancellation is raised afterwards): memory and disk never differ. `durable` waits for the disk.

        Raises:
            WriteFailed: the disk refused; what did get there is in `entries`, the rest is nowhere.
            FoldlineError: the session is read-only, or another process writes to it.
        """
        if self.read_only:
            raise FoldlineError(self.read_only)
        import asyncio

        if self._appending is None:
            self._appending = asyncio.Lock()
        task = asyncio.ensure_future(self._append(entries, durable, self._appending))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def _append(self, entries: Sequence[Entry], durable: bool, turn: "asyncio.Lock") -> list[Entry]:
        async with turn:
            at = self._now()
            numbered = [
                entry.model_copy(update={"index": index, "at": at})
                for index, entry in enumerate(entries, start=self.next_index)
            ]
            await self._commit(numbered, durable)
            return numbered

    async def _commit(self, numbered: Sequence[Entry], durable: bool) -> None:
        assert self._log is not None, "a session that can be appended to has a log"
        try:
            await self._log.append(numbered, durable)
        except WriteFailed as failure:
            self._fold_in(numbered[: failure.written])
            raise
        self._fold_in(numbered)

    def _fold_in(self, written: Sequence[Entry]) -> None:
        for entry in written:
            self._take(entry)
            for listener in self.on_append:
                listener(entry)

    def _take(self, entry: Entry) -> None:
        self.projection.append(entry)
        self._describer.add(entry)
        self._last_index = entry.index

    def claim(self) -> None:
        """Become the one writer now, rather than at the first append.

        Raises:
            FoldlineError: the session is read-only, or another process writes to it.
        """
        if self.read_only or self._log is None:
            raise FoldlineError(self.read_only)
        self._log.claim()

    def close(self) -> None:
        """Let other processes write to the session. Reading goes on; an append claims it again."""
        if self._log is not None:
            self._log.close()

    def save_meta(self) -> None:
        """Write the snapshot for lists, beside the history, in one step: the old one or the new one.

        A snapshot that cannot be written is no loss: lists then read the history itself.
        """
        if self._log is None or not self._log.exists:
            return
        target = self._log.path.with_name(META)
        draft = target.with_name(f".{META}.{os.getpid()}")
        with suppress(OSError):
            try:
                draft.write_bytes(self.meta().model_dump_json().encode())
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
