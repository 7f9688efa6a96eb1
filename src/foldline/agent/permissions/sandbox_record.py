"""Records which self-executing files belong to the user, and which were created by commands."""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from foldline.files import put_aside

from .sandbox_acting import CLOSED, ActingEntry, acting_entry, folder_identity

EXISTED = "it existed before the command"
MAY_BE_YOURS = "it may be the user's own file"


class ActingRecord:
    """Known self-executing files, for all sandboxes of a session.

    Reads from disk.

    Files that exist when a command starts are the user's own, unless other commands are running or new files
    of an earlier command have not been reported yet.
    """

    def __init__(self) -> None:
        self.running = 0
        """Number of commands and servers running in sandboxes."""
        self._known: dict[object, ActingEntry] = {}
        self._of_user: set[object] = set()
        """Keys of the files that the user has created or approved. They are never renamed."""
        self._last: dict[object, ActingEntry] = {}
        """Entries found by the last search."""
        self._is_open = False
        """Whether a command may have created files that have not been reported."""
        self._was_quiet = False
        """Whether no command was running at the last search."""
        self._lock = threading.Lock()

    def enter(self, search: Callable[[], Iterable[ActingEntry]]) -> list[ActingEntry]:
        """Record that a command starts, and return the existing entries."""
        with self._lock:
            entries = self._entries(search)
            vanished = [
                entry for key, entry in self._known.items() if key not in entries
            ]
            if self._is_open or any(entry.state == CLOSED for entry in vanished):
                # Forget vanished entries, because they may reappear with different content.
                self._known = {
                    key: entry for key, entry in self._known.items() if key in entries
                }
            else:
                self._known = entries
                self._of_user |= entries.keys()
            self._is_open = True
            self._was_quiet = False
        return list(entries.values())

    def look(
        self, search: Callable[[], Iterable[ActingEntry]]
    ) -> tuple[ActingEntry, ...]:
        """Return the new and replaced entries that have neither been kept nor removed yet."""
        with self._lock:
            self._was_quiet = self.running == 0
            self._last = self._entries(search)
            new = self._close()
        paths = {entry.path for entry in new}
        return tuple(sorted(entry for entry in new if entry.part_of not in paths))

    def settle(self, entries: Iterable[ActingEntry], *, are_kept: bool = False) -> None:
        """Mark entries and their parts as reported to the user.

        Args:
            are_kept: whether the user keeps the files as their own.
        """
        paths = {entry.path for entry in entries}
        with self._lock:
            for key, entry in self._last.items():  # parts come after their entry
                if entry.path in paths or entry.part_of in paths:
                    paths.add(entry.path)
                    self._known[key] = entry
                    if are_kept:
                        self._of_user.add(key)
            self._close()

    def put_aside(self, entry: ActingEntry) -> str:
        """Rename a file that a command created, and return the new name.

        Raises:
            OSError: the file may be the user's own, or cannot be renamed.
        """
        if entry.key in self._of_user:
            raise OSError(0, EXISTED)
        if entry.is_target or entry.state == CLOSED:
            raise OSError(0, MAY_BE_YOURS)
        path = Path(entry.path)
        name = put_aside(path, entry.folder)
        renamed = acting_entry(
            str(path.with_name(name)), entry.part_of
        )  # not a name that git writes
        with self._lock:
            self._known[renamed.key] = renamed
        return name

    def _close(self) -> list[ActingEntry]:
        """Return the entries of the last search that have not been reported.

        If there are none, and no command was running, the record is closed: all new files have been reported.
        """
        new = []
        for key, entry in self._last.items():
            if key not in self._known or self._known[key].state != entry.state:
                new.append(entry)
        if self._was_quiet and not new:
            self._is_open = False
        return new

    def _entries(
        self, search: Callable[[], Iterable[ActingEntry]]
    ) -> dict[object, ActingEntry]:
        """Search, and return the entries by key, including known ones that the search did not reach."""
        entries: dict[object, ActingEntry] = {entry.key: entry for entry in search()}
        for key, former in self._known.items():
            if key not in entries and former.state != CLOSED:
                with suppress(OSError):
                    os.lstat(former.path)
                    if folder_identity(os.path.dirname(former.path)) == former.folder:  # noqa: PTH120
                        entries[key] = former
        return entries
