"""Which files that act by themselves the user had, and which of them commands of a session made."""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from foldline.files import put_aside

from .sandbox_acting import CLOSED, ActingEntry, acting_entry, folder_identity


class ActingRecord:
    """What acts by itself and is known, for all sandboxes of a session. Its methods read the disk.

    What is there when a command enters is the user's own, unless others run, or one ran and the user does not
    know yet what it made.
    """

    def __init__(self) -> None:
        self.running = 0
        """Commands and servers that are in a sandbox now."""
        self._known: dict[object, ActingEntry] = {}
        self._of_user: set[object] = set()
        """What the user had or agreed to: it is never renamed."""
        self._last: dict[object, ActingEntry] = {}
        """What the last look found."""
        self._is_open = False
        """Whether a command may have made something that the user does not know of."""
        self._was_quiet = False
        """Whether no command ran at the last look, nor entered since."""
        self._lock = threading.Lock()

    def enter(self, search: Callable[[], Iterable[ActingEntry]]) -> list[ActingEntry]:
        """What is there when a command enters."""
        with self._lock:
            entries = self._entries(search)
            vanished = [entry for key, entry in self._known.items() if key not in entries]
            if self._is_open or any(entry.state == CLOSED for entry in vanished):
                # What vanished is not held from here on: it may come back with another content.
                self._known = {key: entry for key, entry in self._known.items() if key in entries}
            else:
                self._known = entries
                self._of_user |= entries.keys()
            self._is_open = True
            self._was_quiet = False
        return list(entries.values())

    def look(self, search: Callable[[], Iterable[ActingEntry]]) -> tuple[ActingEntry, ...]:
        """What is new, or was replaced, until it is settled."""
        with self._lock:
            self._was_quiet = self.running == 0
            self._last = self._entries(search)
            new = self._close()
        paths = {entry.path for entry in new}
        return tuple(sorted(entry for entry in new if entry.part_of not in paths))

    def settle(self, entries: Iterable[ActingEntry], *, are_kept: bool = False) -> None:
        """Note that the user knows of these, or keeps them, with all that is part of them."""
        paths = {entry.path for entry in entries}
        with self._lock:
            for key, entry in self._last.items():  # what others are part of comes first
                if entry.path in paths or entry.part_of in paths:
                    paths.add(entry.path)
                    self._known[key] = entry
                    if are_kept:
                        self._of_user.add(key)
            self._close()

    def put_aside(self, entry: ActingEntry) -> str:
        """Give what a command made another name, which this returns.

        Raises:
            OSError: the user had it, or may have; or the disk refused.
        """
        if entry.key in self._of_user:
            raise OSError(0, "it was there before")
        if entry.is_target or entry.state == CLOSED:
            raise OSError(0, "it may be yours")
        path = Path(entry.path)
        name = put_aside(path, entry.folder)
        renamed = acting_entry(str(path.with_name(name)), entry.part_of)  # no name that git writes, either
        with self._lock:
            self._known[renamed.key] = renamed
        return name

    def _close(self) -> list[ActingEntry]:
        """What the last look found new. If that is nothing, all is known that commands made until then."""
        before = self._known
        new = [
            entry
            for key, entry in self._last.items()
            if key not in before or before[key].state != entry.state
        ]
        if self._was_quiet and not new:
            self._is_open = False
        return new

    def _entries(self, search: Callable[[], Iterable[ActingEntry]]) -> dict[object, ActingEntry]:
        """By key; what is known counts also beyond the bound of a search."""
        entries: dict[object, ActingEntry] = {entry.key: entry for entry in search()}
        for key, former in self._known.items():
            if key not in entries and former.state != CLOSED:
                with suppress(OSError):
                    os.lstat(former.path)
                    if folder_identity(os.path.dirname(former.path)) == former.folder:  # noqa: PTH120
                        entries[key] = former
        return entries
