"""Reading along: what another process appends to a session, taken in as it comes. Never writes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from foldline.data import EVENTS
from foldline.files import opened
from foldline.protocol import Entry, FoldlineError, system_words

from .children import child_events
from .lock import Holder, holder_of
from .log import Damage, LineReader, Progress, cannot_be_read, parse_header
from .paths import events_file
from .session import Session

_SEAM = 256
"""Bytes before what is new that are compared with what was read there."""


class NoLongerFollowed(FoldlineError):
    """The file is not the one that was read, grown: what was read stays as it is."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the file holds beyond what is known of it."""

    holder: Holder | None
    """Who writes to it; None where nobody does."""
    size: int
    changed_at: int
    """As the file system counts, in ns."""
    entries: tuple[Entry, ...]
    whole: Progress
    """How far it goes in whole lines."""
    all: Progress
    """The same with a last line that has no end: it is being written, or was torn."""
    seam: bytes
    """The last bytes of the whole lines."""


class Follower:
    """A session, for reading only, and the file it grows with.

    A line without an end is left for the next look, unless its record is whole; once nobody writes, or
    another line follows, it counts as damage.
    """

    def __init__(self, path: Path) -> None:
        """Reads what is there; `path` is an event file or its folder. Raises FoldlineError."""
        self.path = events_file(path)
        self.holder: Holder | None = None
        """Who writes to it, as of the last look."""
        self._ended: NoLongerFollowed | None = None
        try:
            status = self.path.stat()
            self.session = Session.open(self.path)
            begun = self.session.progress
            if begun is None:  # its end is torn, or being written: read up to there, line by line
                self.session, begun = self._from_the_start()
            self._known = Look(None, begun.upto, 0, (), begun, begun, self._seam_before(begun.upto))
        except OSError as error:
            raise cannot_be_read(self.path, error) from None
        self.session.read_only = f"The session {self.session.id} is open for reading only."
        self._file = status.st_dev, status.st_ino
        self.catch_up()

    def _from_the_start(self) -> tuple[Session, Progress]:
        with opened(self.path) as file:
            first = file.readline()
        session = Session.from_entries(parse_header(first.rstrip(b"\n"), self.path), ())
        return session, Progress(upto=len(first), lines=first.count(b"\n"))

    def _seam_before(self, offset: int) -> bytes:
        with opened(self.path) as file:
            file.seek(max(offset - _SEAM, 0))
            return file.read(min(_SEAM, offset))

    def child(self, id: str) -> "Follower":
        """The same of one of its subagents. Raises FoldlineError."""
        return Follower(child_events(self.path, id))

    def catch_up(self) -> list[Entry]:
        """Take in what was appended since; the new entries, after `on_append` heard of them. Raises
        NoLongerFollowed where the file is not the one that was read, grown."""
        return self.take(self.look())

    def look(self) -> Look:
        """What is new, without taking it in: for a thread. One `stat` where nothing is. Raises
        NoLongerFollowed."""
        if self._ended is not None:
            raise self._ended
        try:
            return self._look()
        except FileNotFoundError:
            self._ended = NoLongerFollowed(f"{self._what} was moved or deleted: what was read of it stays.")
        except OSError as error:
            self._ended = NoLongerFollowed(f"{self._what} cannot be read any more: {system_words(error)}.")
        except NoLongerFollowed as end:
            self._ended = end
        raise self._ended

    def _look(self) -> Look:
        # Asked first: whatever a writer that is gone by now has written is found below.
        holder = holder_of(self.path.parent)
        status = self.path.stat()
        if (status.st_dev, status.st_ino) != self._file:
            raise NoLongerFollowed(f"{self._what} was replaced by another file: open it again to see that.")
        known = self._known
        if status.st_size < max(known.whole.upto, known.size):
            raise NoLongerFollowed(f"{self._what} has become shorter: open it again to see what is left.")
        if (status.st_size, status.st_mtime_ns) == (known.size, known.changed_at):
            return replace(known, holder=holder)
        with opened(self.path) as file:
            file.seek(known.whole.upto - len(known.seam))
            data = file.read()
        if not data.startswith(known.seam):
            raise NoLongerFollowed(f"{self._what} was rewritten: open it again to see it as it is now.")
        lines = list(BytesIO(data[len(known.seam) :]))
        rest = [lines.pop()] if lines and not lines[-1].endswith(b"\n") else []
        entries, whole = _read(lines, known.whole)
        at_the_end, everything = _read(rest, whole)
        seam = data[: len(known.seam) + whole.upto - known.whole.upto][-_SEAM:]
        return Look(
            holder, status.st_size, status.st_mtime_ns, (*entries, *at_the_end), whole, everything, seam
        )

    def take(self, look: Look) -> list[Entry]:
        """Take in what was seen, in the order it was looked at."""
        self.holder = look.holder
        self._known = replace(look, entries=())
        newest = self.session.projection.last_index
        # The record of a line without an end is met again when the line has one.
        fresh = [entry for entry in look.entries if entry.index > newest]
        seen = look.whole if look.holder is not None else look.all
        self.session.damage = Damage(seen.damaged)
        self.session.take_in(fresh)
        return fresh

    @property
    def _what(self) -> str:
        name = self.path.parent.name if self.path.name == EVENTS else str(self.path)
        return f"The session {name}"


def _read(lines: Iterable[bytes], since: Progress) -> tuple[list[Entry], Progress]:
    reader = LineReader(since)
    found = [reader.take(line) for line in lines]
    return [each.entry for each in found if each is not None], reader.progress
