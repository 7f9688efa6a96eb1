"""Minimal terminal output: writes only changed cells, and scrolls rows that moved up.

Without this, each line of a streamed response would rewrite the whole screen.
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

CellStyle = tuple[str, str]
"""The parameters of a cell's SGR sequence and OSC 8 link."""
CellRow = list[tuple[str, CellStyle]]
"""Text and style of each cell. The cell after a wide character is empty."""
_PLAIN: Final = ("", "")
_BLANKS: Final = re.compile(" {12,}")
_REWRITTEN_GAP: Final = 6
"""Maximum length, in cells, of an unchanged gap that is rewritten.

Moving the cursor past such a gap would take at least as many bytes as writing it again.
"""
_RESET: Final = "0;"


class Frames:
    """Tracks what the terminal shows, starting with the first full frame."""

    def __init__(self) -> None:
        self._strips: list[list[Strip]] = []
        """Rows of the last full frame. They are converted to cells only when needed."""
        self._rows: dict[int, CellRow] = {}
        self._width = 0
        self.written = 0
        """Number of characters written so far, not counting full frames."""

    def show(self, rows: Iterable[Iterable[Strip]]) -> None:
        """Record a full frame."""
        self._strips = [list(strips) for strips in rows]
        self._rows = {}
        self._width = sum(
            strip.cell_length for strips in self._strips[:1] for strip in strips
        )

    def _row(self, y: int, colors: ColorSystem) -> CellRow:
        """Return the cells of a row."""
        if y not in self._rows:
            self._rows[y] = [
                cell for strip in self._strips[y] for cell in _cells(strip, colors)
            ]
        return self._rows[y]

    def write(
        self, pieces: Iterable[tuple[int, int, Strip]], colors: ColorSystem
    ) -> str | None:
        """Return the output that shows these strips, each at its (x, y).

        Returns None if the terminal's content is not known. It becomes known with the next full frame.
        """
        rows: dict[int, CellRow] = {}
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
        changed = _all_changed(before, rows)
        scrolled = _scrolled(
            before, rows, slice(widest.start, widest.stop), self._width
        )
        return min(changed, scrolled or changed, key=len)


def _all_changed(before: dict[int, CellRow], rows: dict[int, CellRow]) -> str:
    return "".join(_changed(before[y], row, y) for y, row in rows.items())


def _scrolled(
    before: dict[int, CellRow], rows: dict[int, CellRow], moving: slice, width: int
) -> str:
    """Return output that scrolls the terminal, if enough adjacent rows have moved up.

    Only the columns in `moving` are compared. The terminal scrolls full rows, so the text in other columns is
    rewritten.
    """
    block = _longest_run(sorted(rows))
    now = [rows[y][moving] for y in block]
    earlier = [before[y][moving] for y in block]
    hits = [sum(map(CellRow.__eq__, now, earlier[by:])) for by in range(len(block))]
    by = max(range(len(hits)), key=hits.__getitem__, default=0)
    if not by or hits[by] * 4 < len(block):
        return ""
    blank: CellRow = [(" ", _PLAIN)] * width
    shown = [*(before[y] for y in block[by:]), *[blank] * by]
    lines = "\n" * by
    scroll = f"\x1b[{block.start + 1};{block.stop}r\x1b[{block.stop};1H{lines}\x1b[r"
    return scroll + _all_changed(before | dict(zip(block, shown, strict=True)), rows)


def _put(row: CellRow, x: int, cells: CellRow) -> None:
    """Replace cells, starting at `x`.

    A wide character that would be half covered becomes a space.
    """
    stop = x + len(cells)
    for covered, remaining in ((x, x - 1), (stop, stop)):
        if covered < len(row) and not row[covered][0]:
            row[remaining] = (" ", row[remaining][1])
    row[x:stop] = cells


def _longest_run(numbers: list[int]) -> range:
    """Return the longest run of consecutive numbers."""
    runs = [
        list(run)
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ]
    longest = max(runs, key=len, default=[])
    return range(longest[0][1], longest[-1][1] + 1) if longest else range(0)


def _cells(strip: Strip, colors: ColorSystem) -> CellRow:
    styled = [
        (segment.text, _cell_style(segment.style, colors))
        for segment in strip
        if not segment.control
    ]
    return [(cell, style) for text, style in styled for cell in _in_cells(text)]


@lru_cache(maxsize=4_096)
def _cell_style(style: Style | None, colors: ColorSystem) -> CellStyle:
    """Convert a style to SGR and OSC 8 parameters.

    Default colours are left out, because a reset restores them.
    """
    if style is None:
        return _PLAIN
    codes = [Strip.render_ansi(style.without_color, colors)]
    for color, is_text in ((style.color, True), (style.bgcolor, False)):
        if color is not None and not color.is_default:
            codes += color.downgrade(colors).get_ansi_codes(is_text)
    link = f"id={style.link_id};{style.link}" if style.link else ""
    return ";".join(filter(None, codes)), link


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


def _changed(before: CellRow, now: CellRow, y: int) -> str:
    """Return output for the changed words of a row.

    A row with wide characters is rewritten completely, because terminals disagree about their width.
    """
    differ = [
        x for x, pair in enumerate(zip(before, now, strict=True)) if pair[0] != pair[1]
    ]
    if differ and any(not text for text, _ in (*before, *now)):
        differ = list(range(len(now)))
    written = ""
    at = 0
    while differ and differ[-1] >= at:
        start = next(x for x in differ if x >= at)
        while start > at and now[start][0].isalnum() and now[start - 1][0].isalnum():
            start -= 1
        stop = _end_of_run(differ, start, now)
        if not written:
            written = f"\x1b[{y + 1};{start + 1}H"
        elif start > at:  # terminals read 0 as 1
            written += f"\x1b[{start - at}C"
        written += _written(now[start:stop])
        at = stop
    return written


def _end_of_run(differ: list[int], start: int, now: CellRow) -> int:
    """Return the end of a run of changes.

    The run is extended over short gaps and to whole words.
    """
    stop = start + 1
    for x in differ:
        if stop <= x <= stop + _REWRITTEN_GAP:
            stop = x + 1
    while stop < len(now) and now[stop - 1][0].isalnum() and now[stop][0].isalnum():
        stop += 1
    return stop


def _written(cells: CellRow) -> str:
    written = ""
    before = ""
    for (codes, link), group in groupby(cells, key=itemgetter(1)):
        text = "".join(cell for cell, _ in group)
        if not codes and not link:
            # Erase cells (ECH), and move the cursor over them (CUF).
            text = _BLANKS.sub(
                lambda blanks: f"\x1b[{len(blanks[0])}X\x1b[{len(blanks[0])}C", text
            )
        if codes != before:
            reset = _RESET if before and codes else ""
            text = f"\x1b[{reset}{codes}m{text}"
        before = codes
        written += f"\x1b]8;{link}\x1b\\{text}\x1b]8;;\x1b\\" if link else text
    return f"{written}\x1b[m" if before else written
