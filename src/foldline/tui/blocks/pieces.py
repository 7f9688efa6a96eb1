"""What Markdown is cut into: pieces of prose, of code, of a table."""

import re
from dataclasses import dataclass

from foldline.tui.blocks.code import Fence


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown drawn as one piece; `number` is that of its first list item, where a list goes on."""

    source: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Lines `start` to `stop` of a fence."""

    fence: Fence
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table. `sample` (head and first rows) decides the columns' widths for all its pieces."""

    sample: tuple[str, ...]
    aligns: tuple[str, ...]
    rows: tuple[str, ...]
    head: bool
    """Whether `rows` starts with the head."""


Content = Prose | Code | Table


@dataclass(frozen=True, slots=True)
class Piece:
    """What one block shows."""

    content: Content
    indent: int
    """Cells it stands to the right: the inside of a list item."""
    gap: bool
    """Whether a blank line sets it off from the piece before."""


def split_row(row: str) -> list[str]:
    """The cells of a table row; `\\|` is a bar, not a border."""
    cells = re.split(r"(?<!\\)\|", row.strip())
    if cells and not cells[0].strip():
        cells = cells[1:]
    if cells and not cells[-1].strip() and row.rstrip().endswith("|"):
        cells = cells[:-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]
