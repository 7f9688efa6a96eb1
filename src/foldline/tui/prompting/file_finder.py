"""The files that `@` completes.

They are listed in the background, and ranked for the typed text.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any, Final

from foldline.text.harmless import clean_line
from foldline.tui.lists.fuzzy import START, fit

MOST_FILES: Final = 50_000
"""Maximum number of files in a listing.

In a larger tree, the folder being typed is listed separately.
"""
SLICE: Final = 2_000
"""Number of paths matched before yielding to the event loop.

Matching them takes a few milliseconds.
"""
_FRESH: Final = 2.0
"""Seconds for which a listing counts as fresh.

After that, the next completion lists the files again.
"""


@dataclass(frozen=True, slots=True)
class FileListing:
    """Paths relative to a folder. Folders end with `/`."""

    paths: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()
    is_complete: bool = True

    def with_folder(self, root: Path, folder: str) -> "FileListing":
        """Return the listing with the entries of one more folder.

        Blocking: run it in a thread.
        """
        from foldline.agent.tools.tree import entries_in

        if folder.startswith("/") or ".." in folder.split("/"):
            return self
        paths = dict.fromkeys(
            (*self.paths, *_relative(root, entries_in(root / folder)))
        )
        return _listing(paths, is_complete=False)


def _listing(paths: Iterable[str], is_complete: bool) -> FileListing:
    paths = tuple(paths)
    return FileListing(paths, tuple(map(str.lower, paths)), is_complete)


def list_tree(root: Path, most: int = MOST_FILES) -> FileListing:
    """List at most `most` files below `root`, and their folders.

    Blocking: run it in a thread.
    """
    files = list_files(root, most + 1)
    folders: dict[str, None] = {}
    for path in files[:most]:
        folders.update(
            (f"{parent.as_posix()}/", None) for parent in list(Path(path).parents)[:-1]
        )
    return _listing((*folders, *files[:most]), is_complete=len(files) <= most)


def list_files(root: Path, most: int = MOST_FILES) -> tuple[str, ...]:
    """List files below `root` that `.gitignore` does not exclude.

    Blocking: run it in a thread.
    """
    from foldline.agent.tools.tree import files_below  # not needed before the first `@`

    return tuple(islice(_relative(root, files_below(root)), most))


def _relative(root: Path, absolute: Iterable[str]) -> Iterator[str]:
    """Yield the paths relative to `root`.

    Paths with control characters are left out.
    """
    skip = len(str(root.absolute()).rstrip("/")) + 1
    paths = (path[skip:].replace("\\", "/") for path in absolute)
    return (path for path in paths if path.isprintable() or clean_line(path) == path)


_OFFERED: Final = 10
"""Number of paths that are offered."""


def matching(typed: str, listing: FileListing) -> Iterator[tuple[str, ...] | None]:
    """Rank the paths for the typed text.

    Yields None after each batch of `SLICE` paths, and finally the result.

    Case is ignored unless a capital letter was typed. Among equal matches, the shorter path comes first.
    """
    best: list[tuple[float, int, str]] = []
    texts = listing.paths if typed != typed.lower() else listing.lowered
    for start in range(0, len(texts), SLICE):
        if start:
            yield None
        for at, text in enumerate(texts[start : start + SLICE], start):
            score = _score(typed, text)
            if score:
                best.append((-score, len(text), listing.paths[at]))
        best = nsmallest(_OFFERED, best)
    yield tuple(path for _, _, path in best)


def _score(typed: str, path: str) -> float:
    """Score a path.

    A match in its file name scores higher than a match in its folders.
    """
    if path.startswith(typed):
        return START
    name = path[path.rfind("/", 0, -1) + 1 :]
    return fit(typed, name)[0] if typed in name else fit(typed, path)[0] / 2


Work = Callable[[], Coroutine[Any, Any, object]]
"""Background work.

It is a function, so that no coroutine is created if other work replaces it before it starts.
"""
Start = Callable[[Work], object]
"""Starts work, and cancels the work started before."""


class FileFinder:
    """Finds files below `root` for the typed text."""

    def __init__(
        self,
        root: Path | None,
        changed: Callable[[], None],
        start: Start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a finder.

        `changed` is called when `find` would return a new result.
        """
        self._root = root
        self._changed = changed
        self._start = start
        self._clock = clock
        self._listing = FileListing()
        self._folders: set[str] = set()
        """Folders listed separately because the listing is incomplete."""
        self._listed_at: float | None = None
        self.is_listing = False
        """Whether files are being listed."""
        self._typed: str | None = None
        """The text for which `_matches` were found."""
        self._matches: Sequence[str] = ()
        self._search: Iterator[tuple[str, ...] | None] = iter(())
        self._searched = ""

    def find(self, typed: str, *, now: bool = False) -> Sequence[str]:
        """Return the best matching paths.

        A long list is matched in the background: the previous matches are returned, and `changed` is called
        when the new ones are found. With `now`, wait for the new matches.
        """
        folder = typed[: typed.rfind("/") + 1]
        if not self.is_listing and self._is_stale(typed):
            self.is_listing = True
            self._start(self._list)
        elif (
            not self.is_listing and not self.is_complete and folder not in self._folders
        ):
            self.is_listing = True
            self._start(partial(self._list, folder))
        if typed != self._typed:
            self._search = matching(typed, self._listing)
            self._searched = typed
            self._continue()
            while now and self._typed != typed:
                self._continue()
            if self._typed != typed and not self.is_listing:
                self._start(partial(self._finish, typed))
        return self._matches

    @property
    def is_complete(self) -> bool:
        """Whether all files are listed."""
        return self._listing.is_complete

    def _is_stale(self, typed: str) -> bool:
        """Whether to list the files again.

        This happens only at the start of a completion.
        """
        if self._listed_at is None:
            return True
        starts = self._typed is None or not typed.startswith(self._typed or "\0")
        return starts and not typed and self._clock() - self._listed_at > _FRESH

    def _continue(self) -> None:
        matches = next(self._search, None)
        if matches is not None:
            self._matches = matches
            self._typed = self._searched

    async def _finish(self, typed: str) -> None:
        while self._typed != typed and self._searched == typed:
            await asyncio.sleep(0)
            self._continue()
        self._changed()

    async def _list(self, folder: str | None = None) -> None:
        """List all files, or one more folder."""
        try:
            if self._root is not None and folder is not None:
                self._listing = await asyncio.to_thread(
                    self._listing.with_folder, self._root, folder
                )
                self._folders.add(folder)
            elif self._root is not None:
                self._folders.clear()
                self._listing = await asyncio.to_thread(list_tree, self._root)
                self._listed_at = self._clock()
        finally:
            self.is_listing = False
        self._typed = None
        self._changed()
