"""A session: a history, its projection, and the file that is the truth of both."""

import json
import shutil
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from foldline.context.outline import Entries, MemoryEntries
from foldline.context.projection import Projection
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

from .catalog import save_snapshot
from .children import child_events, copy_children
from .contents import share_files
from .index import LEAST, Index, open_file
from .log import NO_DAMAGE, ByteRange, Damage, Log, Progress, WriteFailed
from .meta import Describer, Meta, describer_of
from .origin import FOLDER, PARENT, SPAWNED, FolderMark, Parent, Spawned, foreign_upto, mark_of, recorded_mark
from .paths import events_file, new_session_id, session_dir
from .stored import Records, StoredEntries, without_gc

if TYPE_CHECKING:
    import asyncio

Clock = Callable[[], datetime]

_COPIED_AT_A_TIME = 1_000


def utc_now() -> datetime:
    return datetime.now(UTC)


class Session:
    """One history, in memory and (unless it is read-only) on disk.

    Memory never runs ahead of the disk: an entry is in `entries` and `projection` only after it was written,
    and everything that was written is there, also after a failure or a cancel.
    """

    def __init__(
        self,
        header: SessionHeader,
        entries: Iterable[Entry] = (),
        *,
        log: Log | None = None,
        describer: Describer | None = None,
        index: Index | None = None,
        damage: Damage = NO_DAMAGE,
        now: Clock = utc_now,
        read_only: str = "",
        cwd: Path | str | None = None,
    ) -> None:
        """`describer` knows these entries already; `index` is what the file is opened with the next time."""
        self.header = header
        self.cwd = header.cwd if cwd is None else real_path(cwd)
        """The working folder: where its tools work. Not where the header says after the folder was moved."""
        self.damage = damage
        """What the file held that could not be read."""
        self.on_append: list[Callable[[Entry], None]] = []
        """Called with each entry once it is on disk and in the projection, in order."""
        self.mask: Callable[[str], str] = str
        """Takes out of each entry, as JSON, what must not be stored, such as keys."""
        self.read_only = read_only
        """Why nothing can be appended, as a sentence; empty where it can."""
        self.projection = Projection(entries if isinstance(entries, Entries) else MemoryEntries(entries))
        self._log = log
        self._index = index
        self._now = now
        self._describer = describer or describer_of(header, self.entries)
        self._appending: asyncio.Lock | None = None
        self._opened_with = NEW
        """The last entry that was read from its file."""

    def now(self) -> datetime:
        """The time by the clock that dates its entries."""
        return self._now()

    # --- where sessions come from ------------------------------------------------------------------

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
        """A new session for this working folder; nothing is on disk before its first entry. `mark` is what is
        known of the folder from when it was there."""
        created = now()
        now_there = mark_of(real_path(cwd))
        known = {FOLDER: (now_there if now_there.id or mark is None else mark).model_dump()}
        if parent is not None:
            known[PARENT] = parent.model_dump()
        header = SessionHeader(
            id=session_id or new_session_id(created), created_at=created, cwd=real_path(cwd), **known
        )
        return cls._at(session_dir(home or data_home(), cwd, header.id) / EVENTS, header, now)

    @classmethod
    def _at(cls, events: Path, header: SessionHeader, now: Clock) -> "Session":
        """An empty session that will be written to this file."""
        log, index = Log(events, header), Index(events)
        return cls(header, StoredEntries(Records(events)), log=log, index=index, now=now)

    def child(self, child: str, call: str, agent: str) -> "Session":
        """A new session in the folder of this one, in which an agent answers a call of this one; nothing is
        on disk before its first entry."""
        assert self.path is not None, "a session that can be appended to has a file"
        known = {
            FOLDER: recorded_mark(self.header),
            SPAWNED: Spawned(session=self.id, call=call, agent=agent),
        }
        fields = {name: record.model_dump() for name, record in known.items()}
        header = SessionHeader(id=child, created_at=self._now(), cwd=self.cwd, **fields)
        return self._at(child_events(self.path, child), header, self._now)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        cwd: Path | str | None = None,
        now: Clock = utc_now,
        index_from: int = LEAST,
    ) -> "Session":
        """The session in this folder or event file. Only reads; the first append claims it for writing.

        Entries are parsed when somebody looks at them. A file of `index_from` bytes gets an index beside it.
        It works in `cwd`, where its own folder has moved there. Raises FoldlineError.
        """
        events = events_file(Path(path))
        with without_gc():
            opened = open_file(events, index_from=index_from)
            session = cls(
                opened.header,
                opened.entries,
                log=opened.log,
                describer=opened.describer,
                index=opened.index,
                damage=opened.damage,
                now=now,
                cwd=cwd,
            )
        session._opened_with = session.projection.last_index
        return session

    @classmethod
    def from_entries(
        cls, header: SessionHeader, entries: Iterable[Entry], *, damage: Damage = NO_DAMAGE
    ) -> "Session":
        """A session to look at, such as another agent's: nothing can be appended to it."""
        return cls(
            header,
            tuple(entries),
            damage=damage,
            read_only=f"The session {header.id} is open for reading only: import it to continue it.",
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
        """A new session with the same entries, indices, kept contents and outputs: a fork, or an import.

        With `until`, only entries up to and including this index. `named`: the folder is the one it names
        itself, and its user is in another. Raises FoldlineError where there is no such entry, or the disk
        refused.
        """
        outlines, count = self.entries.outlines, len(self.entries)
        if until is not None:
            first, last = (outlines[0].index, outlines[-1].index) if outlines else (0, NEW)
            if not first <= until <= last:
                there = f"has entries {first} to {last}" if outlines else "is empty"
                raise FoldlineError(f"The session {self.id} {there}: it cannot be forked at {until}.")
            count = self.projection.count_up_to(until)
        upto = outlines[count - 1].index if count else NEW
        named = named or self.meta().imported
        parent = Parent(id=self.id, index=upto, foreign=min(upto, self.foreign), named=named)
        folder = self.cwd if cwd is None else cwd
        mark = recorded_mark(self.header) if str(folder) == self.header.cwd else None
        copy = Session.create(folder, home=home, now=now, session_id=session_id, parent=parent, mark=mark)
        copy.mask = self.mask
        try:
            if self.path is not None and copy.path is not None:
                share_files(self.path.parent, copy.path.parent)
            for start in range(0, count or 1, _COPIED_AT_A_TIME):
                stop = min(start + _COPIED_AT_A_TIME, count)
                await copy._commit(self.entries[start:stop], durable=stop == count)
            if self.path is not None and copy.path is not None:
                marked = [entry.child for entry in copy.entries.outlines if isinstance(entry, Subagent)]
                copy_children(self.path, copy.path, copy.id, marked)
        except BaseException as error:
            copy.close()  # and nothing of it stays: half a session would pass for a whole one
            if copy.path is not None:
                shutil.rmtree(copy.path.parent, ignore_errors=True)
            if isinstance(error, OSError):
                why = system_words(error)
                raise FoldlineError(f"The session {self.id} cannot be copied: {why}.") from None
            raise
        return copy

    # --- reading -----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def foreign(self) -> int:
        """Up to which index its entries were not written here, and may be anybody's word; `NEW` for none. All
        of them, where it is only in memory or lay outside the data folder when it was opened."""
        if self.path is None:
            return self.projection.last_index
        brought = NEW if is_kept(data_home(), self.path) else self._opened_with
        return max(brought, foreign_upto(self.header))

    @property
    def moved_from(self) -> str:
        """The folder it was held in, where it works in another one now; else empty."""
        return self.header.cwd if self.header.cwd != self.cwd else ""

    @property
    def entries(self) -> Entries:
        """All entries in index order. For reading: only `append` adds to it."""
        return self.projection.entries

    @property
    def path(self) -> Path | None:
        """The event file; None for a session that is only in memory. It exists from the first append on."""
        return self._log.path if self._log else None

    @property
    def next_index(self) -> int:
        """The index the next entry gets: above every index ever used here, lost records included."""
        return max(self.projection.last_index, self._log.last_index if self._log else NEW) + 1

    def meta(self) -> Meta:
        return self._describer.meta(self._log.size if self._log else 0, str(self.damage))

    # --- writing -----------------------------------------------------------------------------------

    async def append(self, *entries: Entry, durable: bool = False) -> list[Entry]:
        """Give these entries their index and time, write them, project them; gives them as stored.

        An append that has begun is finished, also when the caller is cancelled (which is raised afterwards):
        memory and disk never differ. `durable` waits for the disk.

        Raises:
            WriteFailed: the disk refused; what did get there is in `entries`, the rest is nowhere.
            FoldlineError: the session is read-only, or another process writes to it.
        """
        if self.read_only:
            raise FoldlineError(self.read_only)
        import asyncio

        if self._appending is None:
            self._appending = asyncio.Lock()
        return await finished(self._append(entries, durable, self._appending))

    async def _append(self, entries: Sequence[Entry], durable: bool, turn: "asyncio.Lock") -> list[Entry]:
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
            places = await self._log.append(entries, durable, [line for _, line in stored])
        except WriteFailed as failure:
            self._project(entries[: failure.written], failure.places)
            raise
        self._project(entries, places)
        return entries

    def _masked(self, entry: Entry) -> tuple[Entry, bytes]:
        line = dump_entry(entry)
        written = line.decode()
        masked = self.mask(written)
        return (entry, line) if masked == written else (parse_entry(masked), masked.encode())

    @property
    def progress(self) -> Progress | None:
        """How far the file was read, to continue from there; None where its end is torn, or there is none."""
        return self._log.settled if self._log else None

    def take_in(self, written: Sequence[Entry]) -> None:
        """Take in what somebody else has written to the file, as `history.follower` reads it."""
        for entry in written:
            self.projection.append(entry)
            self._noted(entry)

    def _project(self, written: Sequence[Entry], places: Sequence[ByteRange]) -> None:
        entries = self.entries
        assert isinstance(entries, StoredEntries), "a session that can be appended to is stored"
        for entry, place in zip(written, places, strict=True):
            entries.written(entry, place)
            self.projection.follow()
            self._noted(entry)

    def _noted(self, entry: Entry) -> None:
        self._describer.add(entry)
        for listener in self.on_append:
            listener(entry)

    def claim(self) -> None:
        """Become the one writer now, rather than at the first append. Raises FoldlineError."""
        if self.read_only or self._log is None:
            raise FoldlineError(self.read_only)
        self._log.claim()

    def close(self) -> None:
        """Let other processes write to the session. Reading still works; an append claims it again."""
        if self._log is not None:
            self._log.close()

    def save_meta(self) -> None:
        """Write the snapshot for lists, and the index, beside the history. One that cannot be written is no
        loss."""
        if self._log is None or not self._log.exists:
            return
        save_snapshot(self._log.path, self.meta())
        entries = self.entries
        if self._index is not None and self._log.settled is not None and isinstance(entries, StoredEntries):
            self._index.save(entries, self._log.settled, self._describer.meta())


UNSENT: Final = "unsent.json"
"""Beside the events of a session, and gone once it was given back."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """Prompts that waited, in order, and the text that was being written."""

    queued: tuple[str, ...] = ()
    draft: str = ""

    def __bool__(self) -> bool:
        return bool(self.queued or self.draft.strip())


def keep_unsent(folder: Path, unsent: Unsent) -> None:
    """Keep it in the folder of a session, where that is on disk. Raises OSError."""
    if unsent and folder.is_dir():
        data = json.dumps({"queued": unsent.queued, "draft": unsent.draft}, ensure_ascii=False)
        put_private(folder / UNSENT, data.encode("utf-8", "surrogatepass"))


def take_unsent(folder: Path) -> Unsent:
    """What was kept there, once. A file that is none of ours gives nothing, and stays."""
    path = folder / UNSENT
    try:
        kept = json.loads(read_regular(path))
        queued, draft = kept["queued"], kept["draft"]
        unsent = Unsent(tuple(map(str, queued)), str(draft))
        path.unlink()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Unsent()
    return unsent


_T = TypeVar("_T")


async def finished(work: Coroutine[None, None, _T]) -> _T:
    """The result of the work, which a cancel does not stop: the cancel is raised once it has ended."""
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
