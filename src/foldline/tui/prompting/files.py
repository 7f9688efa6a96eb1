"""The files and folders `@` completes: listed in the background, matched in slices as one types."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Final

from foldline.context.harmless import clean_line
from foldline.tui.prompting.fuzzy import in_order

MOST_FILES: Final = 50_000
"""Files listed at most; a tree this large is found by longer paths anyway."""
SLICE: Final = 2_000
"""Paths that are matched at a time: a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths below a folder, relative to it; folders end in `/`."""

    paths: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()


def listing_of(root: Path, most: int = MOST_FILES) -> Listing:
    """All files below `root` and the folders they are in. Slow: for a thread."""
    files = list_files(root, most)
    folders = {f"{parent.as_posix()}/": None for path in files for parent in list(Path(path).parents)[:-1]}
    paths = (*folders, *files)
    return Listing(paths, tuple(path.lower() for path in paths))


def list_files(root: Path, most: int = MOST_FILES) -> tuple[str, ...]:
    """Paths below `root`, relative to it, without what `.gitignore` leaves out. Slow: for a thread.

    A name that would do something to the terminal, or turns text around, is left out: it would be typed into
    the prompt as it is.
    """
    from foldline.agent.tools.walk import files_below  # the tools are not needed before the first `@`

    skip = len(str(root.absolute()).rstrip("/")) + 1
    paths = (path[skip:].replace("\\", "/") for path in islice(files_below(root), most))
    return tuple(path for path in paths if path.isprintable() or clean_line(path) == path)


def match_files(typed: str, paths: Sequence[str], most: int = 10) -> tuple[str, ...]:
    """The best `most` paths for what was typed."""
    listing = Listing(tuple(paths), tuple(path.lower() for path in paths))
    return next(found for found in matching(typed, listing, most) if found is not None)


def matching(typed: str, listing: Listing, most: int = 10) -> Iterator[tuple[str, ...] | None]:
    """The best `most` paths for what was typed, as the last value; None after each slice of work before.

    The name begins with it, the name holds it, the path holds it, the path has its letters in order. Case
    counts only where a capital was typed. Shorter paths first among equals.
    """
    best: list[tuple[int, int, str]] = []
    compared = listing.paths if typed != typed.lower() else listing.lowered
    for start in range(0, len(compared), SLICE):
        if start:
            yield None
        found = [
            (rank, len(each), listing.paths[at])
            for at, each in enumerate(compared[start : start + SLICE], start)
            if (rank := _rank(typed, each)) is not None
        ]
        best = nsmallest(most, best + found)
    yield tuple(path for _, _, path in best)


def _rank(typed: str, path: str) -> int | None:
    name = path[path.rfind("/", 0, -1) + 1 :]
    if name.startswith(typed) or path.startswith(typed):
        return 0
    if typed in name:
        return 1
    if typed in path:
        return 2
    return 3 if in_order(typed, path) else None
