"""The files `@` completes: listed once in the background, matched as one types."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

MOST_FILES = 50_000
"""Files listed at most; a tree this large is found by longer paths anyway."""


def list_files(root: Path, most: int = MOST_FILES) -> tuple[str, ...]:
    """Paths below `root`, relative to it, without what `.gitignore` leaves out. Slow: for a thread."""
    from foldline.agent.tools.walk import files_below  # the tools are not needed before the first `@`

    return tuple(_first((Path(path).relative_to(root).as_posix() for path in files_below(root)), most))


def _first(paths: Iterator[str], most: int) -> Iterator[str]:
    for path, _ in zip(paths, range(most), strict=False):
        yield path


def match_files(typed: str, paths: Iterable[str], most: int = 10) -> tuple[str, ...]:
    """The best `most` paths for what was typed: name begins with it, name holds it, path holds it, its
    letters in order. Case counts only where a capital was typed. Shorter paths first among equals."""
    found: list[tuple[int, int, str]] = []
    exact = typed != typed.lower()
    for path in paths:
        rank = _rank(typed, path if exact else path.lower())
        if rank is not None:
            found.append((rank, len(path), path))
    return tuple(path for _, _, path in sorted(found)[:most])


def _rank(typed: str, path: str) -> int | None:
    name = path[path.rfind("/") + 1 :]
    if name.startswith(typed) or path.startswith(typed):
        return 0
    if typed in name:
        return 1
    if typed in path:
        return 2
    return 3 if _in_order(typed, path) else None


def _in_order(letters: Sequence[str], text: str) -> bool:
    at = -1
    for letter in letters:
        at = text.find(letter, at + 1)
        if at < 0:
            return False
    return True
