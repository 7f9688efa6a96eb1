"""What a line of Markdown is by its looks, and where it is cut when it is too long. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from foldline.tui.blocks.pieces import split_row

LINE_LENGTH: Final = 2_000
"""Longer lines are cut at a space: one line of megabytes must not be one piece."""

FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*|(?<=~)[^\n]*)$")
HEADING: Final = re.compile(r" {0,3}#{1,6}(?:\s|$)")
RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)\s*$")
ITEM: Final = re.compile(r"( {0,3})([-*+]|(\d{1,9})([.)]))(?:( {1,4})(?=\S)| |$)")
QUOTE: Final = re.compile(r" {0,3}>")
DELIMITER: Final = re.compile(r" {0,3}\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*$")
UNDECIDED: Final = re.compile(r"[\s\-=*_`~#>|+:]*$|\s*\d{1,9}[.)]?\s*$")
"""The start of a line that may still become anything: not shown before there is more of it."""


def parts_of(line: str) -> Iterator[str]:
    """A line, where it is too long in parts: each cut at its last space that fits, else hard."""
    start = 0
    while len(line) - start > LINE_LENGTH:
        space = line.rfind(" ", start + 1, start + LINE_LENGTH)
        stop = space if space > 0 else start + LINE_LENGTH
        yield line[start:stop]
        start = stop + (space > 0)
    yield line[start:]


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def dedented(line: str, cells: int) -> str:
    """A line without up to `cells` spaces at its start."""
    return line[min(indent_of(line), cells) :]


def cells_of(row: str) -> int:
    return len(split_row(row))


def align_of(cell: str) -> str:
    match cell.startswith(":"), cell.endswith(":"):
        case True, True:
            return "center"
        case False, True:
            return "right"
        case _:
            return "left"
