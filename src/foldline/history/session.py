"""A session, with its entries, their projection, and its log."""

import json
import shutil
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from foldline.data import EVENTS, data_home, is_kept, real_path
from foldline.files import put_private, read_regular
from foldline.protocol import (
    NEW,
    Entry,
    FoldlineError,
    SessionHeader,
    Subagent,
    dump_entry,
    parse_entry,
    system_words,
)
from foldline.view.outline import Entries, MemoryEntries
from foldline.view.projection import Projection

from .catalog import save_snapshot
from .children import child_events, copy_children
from .contents import share_files
from .loader import open_file
from .log import NO_DAMAGE, ByteRange, Damage, EventLog, Progress, WriteFailed
from .meta import Describer, Meta, describer_of
from .origin import (
    FOLDER,
    PARENT,
    SPAWNED,
    FolderMark,
    Parent,
    Spawned,
    foreign_upto,
    mark_of,
    recorded_mark,
)
from .outline_cache import SMALLEST_LOG, OutlineCache
from .paths import events_file, new_session_id, session_dir
from .stored import Records, StoredEntries, without_gc

if TYPE_CHECKING:
    import asyncio

Clock = Callable[[], datetime]

_COPY_BATCH = 1_000
"""Number of entries that are copied in one append."""
IN_MEMORY = "The session {id} is read-only: import it to continue it."
COPY_FAILED = "The session {id} cannot be copied: {reason}."
NO_SUCH_ENTRY = "The session {id} has no entry {until} to fork at: {entries}."


def utc_now() -> datetime:
    return datetime.now(UTC)


class Session:
    """A history in memory and, unless it is read-only, on disk.

    Memory and disk always agree, even after a failure or a cancellation, because an entry is added to
    `entries` and `projection` only after it has been written.
    """

    def __init__(
        self,
        header: SessionHeader,
        entries: Iterable[Entry] = (),
        *,
        log: EventLog | None = None,
        describer: Describer | None = None,
        cache: OutlineCache | None = None,
        damage: Damage = NO_DAMAGE,
        now: Clock = utc_now,
        read_only: str = "",
        cwd: Path | str | None = None,
    ) -> None:
        """Create a session from entries.

        `create`, `open` and `from_entries` are easier to use.

        Args:
            log: event file that contains the entries; None for a session in memory.
            describer: describer that has processed the entries.
            cache: outline cache of the log.
            damage: damaged records in the log.
            now: clock that supplies the times of entries.
            read_only: reason why appending is not allowed, as a sentence.
            cwd: current path of the working folder, if the folder was moved.
        """
        self.header = header
        self.cwd = header.cwd if cwd is None else real_path(cwd)
        """Working folder for tools.

        Differs from the folder in the header if the folder was moved.
        """
        self.damage = damage
        """Damaged records in the session's file."""
        self.on_append: list[Callable[[Entry], None]] = []
        """Listeners that are called with each new entry.

        By then, the entry has been added to the disk and the projection.
        """
        self.mask: Callable[[str], str] = str
        """Replaces secrets, such as API keys, in an entry's JSON before it is written."""
        self.read_only = read_only
        """Reason why appending is not allowed, as a sentence.

        Empty if it is allowed.
        """
        if not isinstance(entries, Entries):
            entries = MemoryEntries(entries)
        self.projection = Projection(entries)
        self._log = log
        self._cache = cache
        self._now = now
        self._describer = describer or describer_of(header, self.entries)
        self._appending: asyncio.Lock | None = None
        self._opened_with = NEW
        """Index of the last entry when the session was opened."""

    def now(self) -> datetime:
        """Return the current time according to the session's clock."""
        return self._now()

    # --- creating sessions -------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        cwd: Path | str,
        *,
        home: Path | None = None,
        now: Clock = utc_now,
        session_id: str | None = None,
        parent: Parent | None = None,
        mark: FolderMark | None = None,
    ) -> "Session":
        """Create a new session for a working folder.

        Nothing is written before the first entry is appended.

        Args:
            home: data folder. By default, this is `data_home()`.
            session_id: id of the session. By default, a new id is generated.
            parent: origin of a fork or import.
            mark: mark to record for the folder, if the folder's identity cannot be determined.
        """
        created = now()
        path = real_path(cwd)
        current_mark = mark_of(path)
        if mark is not None and not current_mark.id:
            current_mark = mark
        fields = {FOLDER: current_mark.model_dump()}
        if parent is not None:
            fields[PARENT] = parent.model_dump()
        header = SessionHeader(
            id=session_id or new_session_id(created),
            created_at=created,
            cwd=path,
            **fields,
        )
        folder = session_dir(home or data_home(), cwd, header.id)
        return cls._at(folder / EVENTS, header, now)

    @classmethod
    def _at(cls, events: Path, header: SessionHeader, now: Clock) -> "Session":
        """Create an empty session that will be written to this file."""
        log = EventLog(events, header)
        cache = OutlineCache(events)
        return cls(
            header, StoredEntries(Records(events)), log=log, cache=cache, now=now
        )

    def child(self, child: str, call: str, agent: str) -> "Session":
        """Create a new session for a subagent.

        Nothing is written before the first entry is appended.

        Args:
            child: id of the new session.
            call: id of the `task` call that the subagent works on.
            agent: name of the agent.
        """
        assert self.path is not None, "a session that can be appended to has a file"
        fields = {
            FOLDER: recorded_mark(self.header).model_dump(),
            SPAWNED: Spawned(session=self.id, call=call, agent=agent).model_dump(),
        }
        header = SessionHeader(id=child, created_at=self._now(), cwd=self.cwd, **fields)
        return self._at(child_events(self.path, child), header, self._now)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        cwd: Path | str | None = None,
        now: Clock = utc_now,
        cache_from: int = SMALLEST_LOG,
    ) -> "Session":
        """Open the session in a folder or event file.

        The first append takes the writer's lock. Entries are parsed when they are accessed.

        Args:
            cwd: current path of the working folder, if the folder was moved.
            cache_from: minimum size, in bytes, of a log whose outlines are cached.

        Raises:
            FoldlineError: the file cannot be read, or is not a session.
        """
        events = events_file(Path(path))
        with without_gc():
            opened = open_file(events, cache_from=cache_from)
            session = cls(
                opened.header,
                opened.entries,
                log=opened.log,
                describer=opened.describer,
                cache=opened.cache,
                damage=opened.damage,
                now=now,
                cwd=cwd,
            )
        session._opened_with = session.projection.last_index
        return session

    @classmethod
    def from_entries(
        cls,
        header: SessionHeader,
        entries: Iterable[Entry],
        *,
        damage: Damage = NO_DAMAGE,
    ) -> "Session":
        """Create a read-only session in memory.

        For example, this is used for another agent's history.
        """
        return cls(
            header,
            tuple(entries),
            damage=damage,
            read_only=IN_MEMORY.format(id=header.id),
        )

    async def copy(
        self,
        *,
        home: Path | None = None,
        cwd: Path | str | None = None,
        now: Clock = utc_now,
        session_id: str | None = None,
        until: int | None = None,
        named: bool = False,
    ) -> "Session":
        """Copy the session to a new one, as a fork or an import.

        Entries keep their indices. File contents and outputs are also copied.

        Args:
            home: data folder. By default, this is `data_home()`.
            cwd: working folder of the copy. By default, this session's folder.
            session_id: id of the copy. By default, a new id is generated.
            until: index of the last entry to copy. By default, all entries are copied.
            named: whether the working folder was chosen by an imported file, not by the user.

        Raises:
            FoldlineError: there is no entry `until`, or writing to disk failed.
        """
        count = self._count_until(until)
        last = self.entries.outlines[count - 1].index if count else NEW
        named = named or self.meta().imported
        parent = Parent(
            id=self.id, index=last, foreign=min(last, self.foreign), named=named
        )
        folder = self.cwd if cwd is None else cwd
        mark = None
        if str(folder) == self.header.cwd:
            mark = recorded_mark(self.header)
        copy = Session.create(
            folder, home=home, now=now, session_id=session_id, parent=parent, mark=mark
        )
        copy.mask = self.mask
        try:
            if self.path is not None and copy.path is not None:
                share_files(self.path.parent, copy.path.parent)
            for start in range(0, count or 1, _COPY_BATCH):
                stop = min(start + _COPY_BATCH, count)
                await copy._commit(self.entries[start:stop], durable=stop == count)
            if self.path is not None and copy.path is not None:
                marked = [
                    entry.child
                    for entry in copy.entries.outlines
                    if isinstance(entry, Subagent)
                ]
                copy_children(self.path, copy.path, copy.id, marked)
        except BaseException as error:
            # Delete the copy, because a partial session would look complete.
            copy.close()
            if copy.path is not None:
                shutil.rmtree(copy.path.parent, ignore_errors=True)
            if isinstance(error, OSError):
                reason = system_words(error)
                raise FoldlineError(COPY_FAILED, id=self.id, reason=reason) from None
            raise
        return copy

    def _count_until(self, until: int | None) -> int:
        """Return the number of entries up to an index, including the entry itself.

        Raises:
            FoldlineError: the index is out of range.
        """
        if until is None:
            return len(self.entries)
        outlines = self.entries.outlines
        entries = "it is empty"
        if outlines:
            first = outlines[0].index
            last = outlines[-1].index
            if first <= until <= last:
                return self.projection.count_up_to(until)
            entries = f"its entries are {first} to {last}"
        raise FoldlineError(NO_SUCH_ENTRY, id=self.id, until=until, entries=entries)

    # --- reading -----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def foreign(self) -> int:
        """Index of the last entry that is not trusted, because it was written elsewhere.

        `NEW` if all entries are trusted. For a session in memory, this is the last entry. For a session
        outside the data folder, it is the last entry when the session was opened.
        """
        if self.path is None:
            return self.projection.last_index
        outside = NEW if is_kept(data_home(), self.path) else self._opened_with
        return max(outside, foreign_upto(self.header))

    @property
    def moved_from(self) -> str:
        """Original working folder, if the folder was moved; otherwise empty."""
        return self.header.cwd if self.header.cwd != self.cwd else ""

    @property
    def entries(self) -> Entries:
        """All entries, in index order. Read-only."""
        return self.projection.entries

    @property
    def path(self) -> Path | None:
        """The session's event file, which the first append creates.

        None for a session that is only in memory.
        """
        return self._log.path if self._log else None

    @property
    def next_index(self) -> int:
        """Index of the next entry.

        It is above all indices in use, including those of lost records.
        """
        last_in_log = self._log.last_index if self._log else NEW
        return max(self.projection.last_index, last_in_log) + 1

    def meta(self) -> Meta:
        size = self._log.size if self._log else 0
        return self._describer.meta(size, str(self.damage))

    # --- writing -----------------------------------------------------------------------------------

    async def append(self, *entries: Entry, durable: bool = False) -> list[Entry]:
        """Append entries, and return them as stored.

        Sets the entries' indices and times, writes the entries, and adds them to the projection. A
        cancellation takes effect only after the append has finished, so that memory and disk agree.

        Args:
            durable: whether to wait until the data is on disk.

        Raises:
            WriteFailed: writing to disk failed. Entries that were written are in `entries`; the others are
                lost.
            FoldlineError: the session is read-only, or another process is writing to it.
        """
        if self.read_only:
            raise FoldlineError(self.read_only)
        import asyncio

        if self._appending is None:
            self._appending = asyncio.Lock()
        return await finished(self._append(entries, durable, self._appending))

    async def _append(
        self, entries: Sequence[Entry], durable: bool, turn: "asyncio.Lock"
    ) -> list[Entry]:
        async with turn:
            at = self._now()
            numbered = [
                entry.model_copy(update={"index": index, "at": at})
                for index, entry in enumerate(entries, start=self.next_index)
            ]
            return await self._commit(numbered, durable)

    async def _commit(self, numbered: Sequence[Entry], durable: bool) -> list[Entry]:
        assert self._log is not None, "a session that can be appended to has a log"
        stored = [self._masked(entry) for entry in numbered]
        entries = [entry for entry, _ in stored]
        try:
            places = await self._log.append(
                entries, durable, [line for _, line in stored]
            )
        except WriteFailed as failure:
            self._project(entries[: failure.written], failure.places)
            raise
        self._project(entries, places)
        return entries

    def _masked(self, entry: Entry) -> tuple[Entry, bytes]:
        line = dump_entry(entry)
        written = line.decode()
        masked = self.mask(written)
        if masked == written:
            return entry, line
        return parse_entry(masked), masked.encode()

    @property
    def progress(self) -> Progress | None:
        """Progress at the end of the file.

        None if there is no file, or if the last line has no line end.
        """
        return self._log.settled if self._log else None

    def take_in(self, written: Sequence[Entry]) -> None:
        """Add entries that another process has written to the file.

        `history.follower` has read these entries.
        """
        for entry in written:
            self.projection.append(entry)
            self._notify(entry)

    def _project(self, written: Sequence[Entry], places: Sequence[ByteRange]) -> None:
        entries = self.entries
        assert isinstance(entries, StoredEntries), (
            "a session that can be appended to is stored"
        )
        for entry, place in zip(written, places, strict=True):
            entries.add_written(entry, place)
            self.projection.follow()
            self._notify(entry)

    def _notify(self, entry: Entry) -> None:
        self._describer.add(entry)
        for listener in self.on_append:
            listener(entry)

    def claim(self) -> None:
        """Take the writer's lock before the first append.

        Raises:
            FoldlineError: another process is writing, or has written since the file was read.
        """
        if self.read_only or self._log is None:
            raise FoldlineError(self.read_only)
        self._log.claim()

    def close(self) -> None:
        """Release the writer's lock.

        The session can still be read. The next append takes the lock again.
        """
        if self._log is not None:
            self._log.close()

    def save_meta(self) -> None:
        """Write the snapshot for lists and the outline cache.

        Disk errors are ignored.
        """
        self.save_snapshot()
        write_cache = self.prepare_cache()
        if write_cache is not None:
            write_cache()

    def save_snapshot(self) -> None:
        """Write the snapshot for lists."""
        if self._log is not None and self._log.exists:
            save_snapshot(self._log.path, self.meta())

    def prepare_cache(self) -> Callable[[], None] | None:
        """Return a function that writes the outline cache.

        Returns None if the cache is up to date.

        The function takes 0.15 s for 100,000 entries. It may run in another thread while entries are
        appended.
        """
        entries = self.entries
        progress = self.progress
        if self._cache is None or progress is None:
            return None
        if not isinstance(entries, StoredEntries) or not self._cache.is_due(progress):
            return None
        return partial(
            self._cache.save, entries, len(entries), progress, self._describer.meta()
        )


UNSENT: Final = "unsent.json"
"""Name of the file for unsent prompts in a session's folder.

The file is deleted after the prompts have been restored.
"""


@dataclass(frozen=True, slots=True)
class Unsent:
    """The prompts in the queue, in order, and the text in the editor."""

    queued: tuple[str, ...] = ()
    draft: str = ""

    def __bool__(self) -> bool:
        return bool(self.queued or self.draft.strip())


def keep_unsent(folder: Path, unsent: Unsent) -> None:
    """Store unsent prompts in a session's folder, if the folder exists.

    Raises:
        OSError: writing to disk failed.
    """
    if unsent and folder.is_dir():
        data = json.dumps(
            {"queued": unsent.queued, "draft": unsent.draft}, ensure_ascii=False
        )
        put_private(folder / UNSENT, data.encode("utf-8", "surrogatepass"))


def take_unsent(folder: Path) -> Unsent:
    """Restore unsent prompts, and delete their file.

    A malformed file is ignored, but not deleted.
    """
    path = folder / UNSENT
    try:
        data = json.loads(read_regular(path))
        unsent = Unsent(tuple(map(str, data["queued"])), str(data["draft"]))
        path.unlink()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Unsent()
    return unsent


_T = TypeVar("_T")


async def finished(work: Coroutine[None, None, _T]) -> _T:
    """Await a coroutine until it has finished, even if the caller is cancelled.

    The cancellation is raised afterwards.
    """
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
