"""Another agent's session that grows while it is looked at: its file is read anew. Never writes."""

from dataclasses import dataclass
from pathlib import Path

from foldline.history import Session
from foldline.history.follow import NoLongerFollowed
from foldline.history.holder import Holder
from foldline.protocol import Entry, FoldlineError

from .base import ForeignSession
from .reader import file_of, read_foreign

LIMIT = 8_000_000
"""Bytes up to which a file is read anew: a tenth of a second, beside what the reader does."""


@dataclass(frozen=True, slots=True)
class Reread:
    """What a look found."""

    size: int
    changed_at: int
    """As the file system counts, in ns."""
    found: ForeignSession | None
    """None where the file is as it was."""


class Rereader:
    """A foreign session and its file. Other agents lock nothing: who writes is not known.

    Their records do not map to entries one by one, so that the newest entries may change as the file grows;
    `session` is then another one.
    """

    holder: Holder | None = None

    def __init__(self, path: Path, format: str | None, session: Session) -> None:
        """`session` is what `read_foreign` made of the file, as this format."""
        self.session = session
        self._path = path
        self._format = format
        status = file_of(path).stat()
        self._known = Reread(status.st_size, status.st_mtime_ns, None)

    def look(self) -> Reread:
        """What the file holds now, without taking it in: for a thread. One `stat` where nothing changed.

        Raises:
            NoLongerFollowed: it is gone, too large to be read again and again, or not what it was.
        """
        try:
            status = file_of(self._path).stat()
        except OSError:
            raise NoLongerFollowed(f"{self._path} was moved or deleted: what was read of it stays.") from None
        if (status.st_size, status.st_mtime_ns) == (self._known.size, self._known.changed_at):
            return Reread(status.st_size, status.st_mtime_ns, None)
        if status.st_size > LIMIT:
            raise NoLongerFollowed(f"{self._path} has changed: open it again to see it as it is now.")
        try:
            found = read_foreign(self._path, self._format)
        except FoldlineError as error:
            raise NoLongerFollowed(f"{error} What was read before stays.") from None
        return Reread(status.st_size, status.st_mtime_ns, found)

    def take(self, look: Reread) -> list[Entry]:
        """Take in what was seen; the entries beyond those that are as they were."""
        self._known = look
        if look.found is None:
            return []
        before, now = list(self.session.entries), list(look.found.entries)
        same = next(
            (at for at, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), None
        )
        if same is None and len(now) >= len(before):
            self.session.damage = look.found.damage
            self.session.take_in(now[len(before) :])
            return now[len(before) :]
        self.session = Session.from_entries(look.found.header, now, damage=look.found.damage)
        return now[len(now) if same is None else same :]
