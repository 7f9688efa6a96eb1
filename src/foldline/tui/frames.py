"""Frames in few bytes: what the terminal shows already is not written again, and rows that have moved up are
scrolled by the terminal. Else a streamed answer is a screen of bytes for each of its lines.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Final

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.style import Style
from textual.strip import Strip

Look = tuple[str, str]
"""Parameters of SGR, and of OSC 8 those of a link."""
Row = list[tuple[str, Look]]
"""For each cell what is in it, and its look. Empty behind a wide character."""
_PLAIN: Final = ("", "")
_BLANKS: Final = re.compile(" {12,}")
_WORTH_GOING_OVER: Final = 6
"""Cells that are written again rather than gone over."""
_RESET: Final = "0;"


class Frames:
    """Knows what the terminal shows, from the first whole frame on."""

    def __init__(self) -> None:
        self._strips: list[list[Strip]] = []
        """The rows of the last whole frame: most of them are never looked at again."""
        self._rows: dict[int, Row] = {}
        self._width = 0
        self.written = 0
        """Characters written so far, whole frames left out."""

    def show(self, rows: Iterable[Iterable[Strip]]) -> None:
        """The whole screen was written."""
        self._strips, self._rows = [list(strips) for strips in rows], {}
        self._width = sum(strip.cell_length for strips in self._strips[:1] for strip in strips)

    def _row(self, y: int, colors: ColorSystem) -> Row:
        """What the terminal shows there."""
        if y not in self._rows:
            self._rows[y] = [cell for strip in self._strips[y] for cell in _cells(strip, colors)]
        return self._rows[y]

    def write(self, pieces: Iterable[tuple[int, int, Strip]], colors: ColorSystem) -> str | None:
        """What to write for the screen to show these strips, each at its (x, y). None: nobody knows, and
        will not before the next whole frame."""
        rows: dict[int, Row] = {}
        widest = range(0)
        for x, y, strip in pieces:
            cells = _cells(strip, colors)
            is_known = y < len(self._strips) and len(cells) == strip.cell_length
            if is_known:
                _put(rows.setdefault(y, [*self._row(y, colors)]), x, cells)
            if not is_known or len(rows[y]) != self._width:
                self._strips = []
                return None
            widest = max(widest, range(x, x + len(cells)), key=len)
        before = {y: self._rows[y] for y in rows}
        self._rows.update(rows)
        ways = [_all_changed(before, rows)]
        if scrolled := _scrolled(before, rows, slice(widest.start, widest.stop), self._width):
            ways.append(scrolled)
        return min(ways, key=len)


def _all_changed(before: dict[int, Row], rows: dict[int, Row]) -> str:
    return "".join(_changed(before[y], row, y) for y, row in rows.items())


def _scrolled(before: dict[int, Row], rows: dict[int, Row], moving: slice, width: int) -> str:
    """The same by having the terminal scroll, where enough of the rows below each other have moved up; those
    columns of them decide. It scrolls whole rows: what stands beside it is then to be written again."""
    block = _longest_run(sorted(rows))
    now, earlier = ([each[y][moving] for y in block] for each in (rows, before))
    hits = [sum(map(Row.__eq__, now, earlier[by:])) for by in range(len(block))]
    by = max(range(len(hits)), key=hits.__getitem__, default=0)
    if not by or hits[by] * 4 < len(block):
        return ""
    blank: Row = [(" ", _PLAIN)] * width
    shown = [*(before[y] for y in block[by:]), *[blank] * by]
    lines = "\n" * by
    scroll = f"\x1b[{block.start + 1};{block.stop}r\x1b[{block.stop};1H{lines}\x1b[r"
    return scroll + _all_changed(before | dict(zip(block, shown, strict=True)), rows)


def _put(row: Row, x: int, cells: Row) -> None:
    """Put cells in the place of others; of a wide character that is half covered, a blank stays."""
    stop = x + len(cells)
    for half, rest in ((x, x - 1), (stop, stop)):
        if half < len(row) and not row[half][0]:
            row[rest] = (" ", row[rest][1])
    row[x:stop] = cells


def _longest_run(numbers: list[int]) -> range:
    """The longest piece without a gap."""
    runs = [list(run) for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    longest = max(runs, key=len, default=[])
    return range(longest[0][1], longest[-1][1] + 1) if longest else range(0)


def _cells(strip: Strip, colors: ColorSystem) -> Row:
    looks = [(each.text, _look(each.style, colors)) for each in strip if not each.control]
    return [(text, look) for piece, look in looks for text in _in_cells(piece)]


@lru_cache(maxsize=4_096)
def _look(style: Style | None, colors: ColorSystem) -> Look:
    """Without the default colours: they are there after a reset."""
    if style is None:
        return _PLAIN
    codes = [Strip.render_ansi(style.without_color, colors)]
    for color, is_text in ((style.color, True), (style.bgcolor, False)):
        if color is not None and not color.is_default:
            codes += color.downgrade(colors).get_ansi_codes(is_text)
    return ";".join(filter(None, codes)), f"id={style.link_id};{style.link}" if style.link else ""


@lru_cache(maxsize=8_192)
def _in_cells(text: str) -> tuple[str, ...]:
    if text.isascii():
        return tuple(text)
    cells: list[str] = []
    for start, stop, width in split_graphemes(text)[0]:
        if width:
            cells += [text[start:stop], *[""] * (width - 1)]
        elif cells:
            cells[-1] += text[start:stop]
    return tuple(cells)


def _changed(before: Row, now: Row, y: int) -> str:
    """The cells that differ, whole words of them. All of the row where a character is wide: terminals do not
    agree about all of those."""
    differ = [x for x, pair in enumerate(zip(before, now, strict=True)) if pair[0] != pair[1]]
    if differ and any(not text for text, _ in (*before, *now)):
        differ = list(range(len(now)))
    written, at = "", 0
    while differ and differ[-1] >= at:
        start = next(x for x in differ if x >= at)
        while start > at and now[start][0].isalnum() and now[start - 1][0].isalnum():
            start -= 1
        stop = _end_of_run(differ, start, now)
        if not written:
            written = f"\x1b[{y + 1};{start + 1}H"
        elif start > at:  # 0 would be taken for 1
            written += f"\x1b[{start - at}C"
        written += _written(now[start:stop])
        at = stop
    return written


def _end_of_run(differ: list[int], start: int, now: Row) -> int:
    """Where a run ends: going over what is the same is to be worth the bytes that takes."""
    stop = start + 1
    for x in differ:
        if stop <= x <= stop + _WORTH_GOING_OVER:
            stop = x + 1
    while stop < len(now) and now[stop - 1][0].isalnum() and now[stop][0].isalnum():
        stop += 1
    return stop


def _written(cells: Row) -> str:
    written, before = "", ""
    for (codes, link), group in groupby(cells, key=itemgetter(1)):
        text = "".join(cell for cell, _ in group)
        if not codes and not link:
            # Cells erased (ECH) and gone over (CUF).
            text = _BLANKS.sub(lambda blanks: f"\x1b[{len(blanks[0])}X\x1b[{len(blanks[0])}C", text)
        if codes != before:
            text = f"\x1b[{_RESET * bool(before and codes)}{codes}m{text}"
        before = codes
        written += f"\x1b]8;{link}\x1b\\{text}\x1b]8;;\x1b\\" if link else text
    return written + "\x1b[m" * bool(before)
