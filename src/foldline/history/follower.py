"""Follows a session while another process writes it.

The follower itself never writes to the session.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from foldline.data import EVENTS
from foldline.files import opened
from foldline.protocol import Entry, FoldlineError, system_words

from .children import child_events
from .lock import Holder, holder_of
from .log import Damage, LineReader, Progress, cannot_be_read, parse_header
from .paths import events_file
from .session import Session

FOLLOWED = "The session {id} is read-only: it is only being followed."
MOVED = "{session} was moved or deleted. The entries read so far are kept."
UNREADABLE = "{session} can no longer be read: {reason}."
REPLACED = "{session} was replaced by another file. Open it again to read that file."
SHORTER = "{session} has become shorter. Open it again to read what remains."


class NoLongerFollowed(FoldlineError):
    """Raised if the file can no longer be followed.

    The entries read so far are kept.
    """


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """The state of a file, with the entries appended since the last update."""

    holder: Holder | None
    """Process that is writing to the file, if any."""
    size: int
    changed_at: int
    """Modification time of the file, in nanoseconds."""
    entries: tuple[Entry, ...]
    progress: Progress
    """Progress at the end of the last complete line."""


class Follower:
    """A read-only session that grows with its file.

    A last line without a line end is still being written. It is read once it is complete.
    """

    def __init__(self, path: Path) -> None:
        """Read the session in an event file or session folder.

        Raises:
            FoldlineError: the session cannot be read.
        """
        self.path = events_file(path)
        self.holder: Holder | None = None
        """Process that was writing to the session at the time of the last update."""
        self._ended: NoLongerFollowed | None = None
        try:
            status = self.path.stat()
            self.session = Session.open(self.path)
            progress = self.session.progress
            if progress is None:
                # The last line is incomplete. Read everything again, line by line.
                self.session, progress = self._empty_session()
        except OSError as error:
            raise cannot_be_read(self.path, error) from None
        self._state = LogUpdate(None, progress.upto, 0, (), progress)
        self.session.read_only = FOLLOWED.format(id=self.session.id)
        self._file = status.st_dev, status.st_ino
        self.catch_up()

    def _empty_session(self) -> tuple[Session, Progress]:
        with opened(self.path) as file:
            header_line = file.readline()
        header = parse_header(header_line.rstrip(b"\n"), self.path)
        progress = Progress(upto=len(header_line), lines=header_line.count(b"\n"))
        return Session.from_entries(header, ()), progress

    def child(self, id: str) -> "Follower":
        """Return a follower for a subagent's session.

        Raises:
            FoldlineError: the session cannot be read.
        """
        return Follower(child_events(self.path, id))

    def catch_up(self) -> list[Entry]:
        """Add the appended entries to the session, and return them.

        `on_append` is called for each entry.

        Raises:
            NoLongerFollowed: the file was replaced, shortened or deleted.
        """
        return self.take(self.look())

    def look(self) -> LogUpdate:
        """Read the appended entries without adding them.

        This may be called in another thread.

        If nothing was appended, this only takes one `stat` call.

        Raises:
            NoLongerFollowed: the file was replaced, shortened or deleted.
        """
        if self._ended is not None:
            raise self._ended
        try:
            return self._look()
        except FileNotFoundError:
            self._ended = self._end(MOVED)
        except OSError as error:
            self._ended = self._end(UNREADABLE, reason=system_words(error))
        except NoLongerFollowed as end:
            self._ended = end
        raise self._ended

    def _look(self) -> LogUpdate:
        # Find the holder before reading, so that all bytes of a writer that has exited are read.
        holder = holder_of(self.path.parent)
        status = self.path.stat()
        if (status.st_dev, status.st_ino) != self._file:
            raise self._end(REPLACED)
        state = self._state
        if status.st_size < state.size:
            raise self._end(SHORTER)
        if (status.st_size, status.st_mtime_ns) == (state.size, state.changed_at):
            return replace(state, holder=holder)
        with opened(self.path) as file:
            file.seek(state.progress.upto)
            *lines, _ = file.read().split(b"\n")
        reader = LineReader(state.progress)
        located = [reader.take(line + b"\n") for line in lines]
        return LogUpdate(
            holder=holder,
            size=status.st_size,
            changed_at=status.st_mtime_ns,
            entries=tuple(item.entry for item in located if item is not None),
            progress=reader.progress,
        )

    def take(self, update: LogUpdate) -> list[Entry]:
        """Add an update to the session, and return the new entries."""
        self.holder = update.holder
        self._state = replace(update, entries=())
        self.session.damage = Damage(update.progress.damaged)
        self.session.take_in(update.entries)
        return list(update.entries)

    def _end(self, sentence: str, **values: str) -> NoLongerFollowed:
        name = self.path.parent.name if self.path.name == EVENTS else self.path
        return NoLongerFollowed(
            sentence.format(session=f"The session {name}", **values)
        )
