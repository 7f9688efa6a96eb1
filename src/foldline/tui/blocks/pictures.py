"""Pictures among lines, where a terminal has Kitty's placeholders: characters of which each shows a part of
a picture and scrolls like any other. Row and column are marks on it, and the colour is the picture's number.

sw.kovidgoyal.net/kitty/graphics-protocol, "Unicode placeholders".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from foldline.context.harmless import PLACEHOLDER
from foldline.tui.blocks.block import Block
from foldline.tui.blocks.cells import to_strip
from foldline.tui.blocks.styles import Styles

if TYPE_CHECKING:
    from foldline.protocol import ImagePart

_RANGES: Final = """
305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 59c-5a1 5a8-5a9
5ab-5ac 5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec 730 732-733 735-736 73a 73d
73f-741 743 745 747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 829-82d 951 953-954 f82-f83 f86-f87 135d-135f
17dd 193a 1a17 1a75-1a7c 1b6b 1b6d-1b73 1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc 1dd1-1de6 1dfe
20d0-20d1 20d4-20d7 20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d a6f0-a6f1 a8e0-a8f1 aab0
aab2-aab3 aab7-aab8 aabe-aabf aac1 fe20-fe26 10a0f 10a38 1d185-1d189 1d1aa-1d1ad 1d242-1d244
"""
_MARKS: Final = "".join(
    chr(code)
    for first, _, last in (each.partition("-") for each in _RANGES.split())
    for code in range(int(first, 16), int(last or first, 16) + 1)
)
"""What marks row or column 0, 1, 2 …: Kitty's rowcolumn-diacritics.txt."""
MOST_CELLS: Final = len(_MARKS)
ROOM: Final = 60, 12
"""Columns and rows of a picture among lines, at most."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be shown. Its data are read when they are needed: there may be 50 of 5 MB."""

    digest: int
    """Of its data: the same picture is sent once, wherever it stands."""
    load: "Callable[[], ImagePart | None]" = field(compare=False)
    """Reads it, in a thread; None where it is gone."""
    pixels: tuple[int, int] = field(compare=False)
    """(0, 0): nobody knows. How many lines it takes is to be known before they are drawn."""
    caption: str = field(default="", compare=False)
    """Stands above it."""
    words: str = field(default="", compare=False)
    """What stands there where it is not shown; may be nothing."""
    room: tuple[int, int] = ROOM


class Placement(NamedTuple):
    """A picture in the terminal: its number, and how large it is there."""

    number: int
    columns: int
    rows: int


def fitted(pixels: tuple[int, int], room: tuple[int, int], cell: tuple[int, int]) -> tuple[int, int]:
    """Columns and rows of a picture in this room: as large as it is, or as there is."""
    scale = min(
        1.0, *(cells * size / max(side, 1) for cells, size, side in zip(room, cell, pixels, strict=True))
    )
    columns, rows = (round(side * scale / size) for side, size in zip(pixels, cell, strict=True))
    return max(min(columns, room[0]), 1), max(min(rows, room[1]), 1)


@lru_cache(maxsize=32)
def lines_of(placed: Placement) -> tuple[Strip, ...]:
    """The lines that show a picture, no text of which is copied."""
    number, columns, rows = placed
    color = Color.from_rgb(number >> 16, number >> 8 & 0xFF, number & 0xFF)
    style = Style(color=color, meta={"deco": True})
    lines = ("".join(PLACEHOLDER + row + column for column in _MARKS[:columns]) for row in _MARKS[:rows])
    return tuple(Strip([Segment(line, style)], columns) for line in lines)


@dataclass(frozen=True, slots=True, eq=False)
class PicturesBlock(Block):
    """Pictures below each other, or what stands in their place."""

    pictures: tuple[Picture, ...]
    indent: int = 0

    def render(self, width: int, styles: Styles) -> list[Strip]:
        margin = to_strip([(" " * self.indent, "deco")], styles)
        strips: list[Strip] = []
        for each in self.pictures:
            placed = None
            if styles.pictures is not None and all(each.pixels):
                placed = styles.pictures(each, width - self.indent)
            words = (each.caption, "muted deco") if placed else (each.words, "muted")
            strips += [to_strip([words], styles)] if words[0] else []
            strips += lines_of(placed) if placed else ()
        return [Strip.join([margin, strip]) for strip in strips]

    def estimate(self, width: int) -> int:
        return sum(bool(each.words) for each in self.pictures)

    def text(self) -> str:
        return "\n".join(each.words for each in self.pictures if each.words)
