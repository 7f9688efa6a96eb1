"""Unified diffs as blocks draw them: ours, and those of agents that write the numbers into the text."""

import re
from collections.abc import Iterator
from typing import Final

from foldline.context.harmless import clean_code, nothing_hidden
from foldline.tui.blocks.plain import DiffLine

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NUMBERED: Final = re.compile(r"([ +-]) *(\d+)[| ](.*)$")
"""`- 87 old` or `-446|old`: sign, number, text."""


def lines_of_diff(text: str) -> Iterator[DiffLine]:
    """The lines of a diff with their numbers, clean; file heads are left out."""
    lines = [clean_code(line) for line in text.rstrip("\n").split("\n")]
    changes = [line for line in lines if line[:1] in "+-" and not line.startswith(("--- ", "+++ "))]
    if changes and all(_NUMBERED.match(line) for line in changes):
        return _numbered(lines)
    return _counted(lines)


def lines_of_our_diff(text: str) -> Iterator[DiffLine]:
    """The lines of a diff that a tool of ours made and somebody is to approve: nothing in them is hidden, or
    taken for a number."""
    return _counted([nothing_hidden(line) for line in text.rstrip("\n").split("\n")])


def _numbered(lines: list[str]) -> Iterator[DiffLine]:
    for line in lines:
        match = _NUMBERED.match(line)
        if match is not None:
            yield _line(match[1], int(match[2]), match[3])
        elif line.strip() == "...":
            yield DiffLine("skip", 0, "")


def _counted(lines: list[str]) -> Iterator[DiffLine]:
    """Numbers from the hunk heads; without one they count from 1."""
    old = new = 1
    hunks = 0
    for line in lines:
        sign = line[:1]
        if (hunk := _HUNK.match(line)) is not None:
            old, new = int(hunk[1]), int(hunk[2])
            if hunks:
                yield DiffLine("skip", 0, "")
            hunks += 1
        elif sign == "\\" or (not hunks and line.startswith(("--- ", "+++ ", "diff ", "index "))):
            continue
        elif sign == "-":
            yield _line(sign, old, line[1:])
            old += 1
        else:
            yield _line(sign, new, line[1:])
            new += 1
            old += sign != "+"


def _line(sign: str, number: int, content: str) -> DiffLine:
    return DiffLine("old" if sign == "-" else "new" if sign == "+" else "same", number, content)
