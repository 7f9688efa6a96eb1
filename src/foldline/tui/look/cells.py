"""Measures, shortens, wraps and lays out styled text in terminal cells, without splitting characters."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from textual.strip import Strip

from foldline.tui.look.styles import ROLES, Styles

Span = tuple[str, str]
"""(text, style). The style is a specification for `Styles`."""
Spans = tuple[Span, ...]
Side = Literal["left", "right"]

_CJK: Final = (
    "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
)
_CLOSING: Final = "，。、！？：；）」』】》〉〕’”％…,.!?:;)"
_MARKS: Final = 64
"""Maximum number of combining marks on one character. Further marks are removed."""

# --- Text ---------------------------------------------------------------------------------------------------


def fit(text: str, width: int) -> int:
    """Return how many characters from the start of `text` fit into `width` cells."""
    if width <= 0:
        return 0
    if text.isascii():
        return min(len(text), width)
    end = used = 0
    for _, stop, cells in split_graphemes(text)[0]:
        used += cells
        if used > width:
            break
        end = stop
    return end


def cut_right(text: str, width: int) -> str:
    """Shorten prose to `width` cells, with `…` at its end."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    return text[: fit(text, width - 1)].rstrip() + "…"


def cut_left(text: str, width: int) -> str:
    """Shorten a path to `width` cells, with `…` at its start: `…/name.py`."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    graphemes, cells_left = split_graphemes(text)
    start = 0
    for _, stop, cells in graphemes:
        if cells_left <= width - 1:
            break
        cells_left -= cells
        start = stop
    slash = text.find("/", start)
    if 0 <= slash < len(text) - 1:
        start = slash
    return "…" + text[start:]


_LEAST_PATH = 8
"""Minimum width, in cells, at which a shortened path is still recognisable."""


def cut_words(text: str, width: int) -> str:
    """Shorten `text` to `width` cells.

    If the text ends with a path, only the path is shortened: `read …/name.py`.
    """
    words, _, path = text.rpartition(" ")
    room = width - cell_len(words) - 1
    if "/" in path and cell_len(text) > width and room >= _LEAST_PATH:
        return f"{words} {cut_left(path, room)}"
    return cut_right(text, width)


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """Wrap `text` at `width` cells, and return the (start, stop) offsets of each line.

    Spaces at a line break do not belong to any line.
    """
    width = max(width, 2)  # room for one wide character
    lines: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        lines += [(start + low, start + high) for low, high in _wrapped(line, width)]
        start += len(line) + 1
    return lines


@cache  # Compiled only when the first line wraps, because compiling takes 2 ms.
def _unit() -> re.Pattern[str]:
    """Return a pattern that matches an unbreakable unit.

    A unit is a word with the spaces before it, or an ideograph with the closing punctuation after it.
    """
    return re.compile(rf" *(?:[^ {_CJK}]+|[{_CJK}][{re.escape(_CLOSING)}]*)| +")


def _wrapped(text: str, width: int) -> Iterator[tuple[int, int]]:
    if cell_len(text) <= width:
        yield 0, len(text)
        return
    start = end = 0  # the current line, without trailing spaces
    used = 0
    for match in _unit().finditer(text):
        unit, stop = match[0], match.end()
        cells = cell_len(unit)
        if used + cells <= width:
            used += cells
            if not unit.isspace():
                end = stop
            continue
        word = match.start() + len(unit) - len(unit.lstrip(" "))
        if word == stop:  # only spaces, more than fit
            continue
        if end > start:
            yield start, end
            start, used = word, cell_len(text[word:stop])
        else:
            used += cells
        if used > width:  # a word longer than a line
            *full_lines, (start, _) = chop(text, width, start, stop)
            yield from full_lines
            used = cell_len(text[start:stop])
        end = stop
    if end > start:
        yield start, end


def chop(
    text: str, width: int, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, int]]:
    """Split `text[start:stop]` into pieces of `width` cells, as (start, stop) offsets.

    Takes linear time, because only nearby text is read for each piece.
    """
    if stop is None:
        stop = len(text)
    while start < stop:
        near = text[start : min(stop, start + 4 * width + _MARKS)]
        end = start + max(1, fit(near, width))
        yield start, end
        start = end


def estimated_lines(text: str, width: int) -> int:
    """Estimate the number of lines that `text` takes at a width of `width` cells.

    The estimate is based on the length of the text.
    """
    return text.count("\n") + 1 + len(text) // max(width, 8)


# --- Styled text --------------------------------------------------------------------------------------------


def text_of(spans: Iterable[Span]) -> str:
    return "".join(text for text, _ in spans)


def width_of(spans: Iterable[Span]) -> int:
    """Return the width of styled text on one line, in cells."""
    return sum(cell_len(text) for text, _ in spans)


def slice_spans(spans: Iterable[Span], start: int, stop: int) -> list[Span]:
    """Return the characters from `start` up to `stop` of styled text."""
    part: list[Span] = []
    position = 0
    for text, style in spans:
        low, high = max(start - position, 0), min(stop - position, len(text))
        if low < high:
            part.append((text[low:high], style))
        position += len(text)
        if position >= stop:
            break
    return part


def wrap_spans(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """Wrap styled text at `width` cells."""
    return [
        slice_spans(spans, start, stop) for start, stop in wrap(text_of(spans), width)
    ]


def chop_spans(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """Split a line of styled code every `width` cells, keeping all spaces."""
    text = text_of(spans)
    if cell_len(text) <= width:
        return [list(spans)]
    return [slice_spans(spans, *piece) for piece in chop(text, max(width, 2))]


def shorten(spans: Sequence[Span], width: int, side: Side = "right") -> list[Span]:
    """Shorten styled text to `width` cells, at its right or left end."""
    text = text_of(spans)
    if cell_len(text) <= width:
        return list(spans)
    if width <= 0:
        return []
    if side == "left":
        characters = len(cut_left(text, width)) - 1
        return [
            ("…", spans[0][1]),
            *slice_spans(spans, len(text) - characters, len(text)),
        ]
    return [
        *slice_spans(spans, 0, len(cut_right(text, width)) - 1),
        ("…", spans[-1][1]),
    ]


def crop(spans: Sequence[Span], width: int) -> list[Span]:
    """Shorten or pad styled text to exactly `width` cells."""
    shown = shorten(spans, width)
    return [*shown, (" " * max(width - width_of(shown), 0), "")]


def in_reverse(spans: Iterable[Span]) -> list[Span]:
    """Draw a selected row in reverse video and in a single colour.

    Bold and underline are kept.
    """
    return [
        (
            text,
            " ".join(
                ["text reverse", *(word for word in style.split() if word not in ROLES)]
            ),
        )
        for text, style in spans
    ]


def to_strip(spans: Iterable[Span], styles: Styles) -> Strip:
    """Convert a line of styled text to a strip."""
    segments = [Segment(text, styles[style]) for text, style in spans if text]
    return Strip(segments, sum(segment.cell_length for segment in segments))


# --- Rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowPiece:
    """A part of a row that may be shortened or dropped if the row is too narrow."""

    spans: Spans
    rank: int = 0
    """Pieces with the highest rank are dropped first. Rank 0 is never dropped."""
    gap: int = 3
    """Number of cells between this piece and the previous piece."""
    cut: Side | None = None
    """The end at which the piece may be shortened; None if the piece must not be shortened."""
    least: int | None = None
    """Width, in cells, to which the piece is shortened before any pieces with a rank are dropped.

    If None, the piece is shortened only after those pieces have been dropped.
    """


def piece(
    text: str,
    style: str = "text",
    *,
    rank: int = 0,
    gap: int = 3,
    cut: Side | None = None,
) -> RowPiece:
    """Create a row piece with a single style."""
    return RowPiece(((text, style),), rank, gap, cut)


def row(
    left: Sequence[RowPiece], right: Sequence[RowPiece], width: int, margin: int = 1
) -> list[Span]:
    """Lay out pieces at both ends of a row of exactly `width` cells.

    There are `margin` blank cells on each side.
    """
    left_pieces = list(left)
    right_pieces = list(right)
    while True:
        room = width - 2 * margin - (2 if left_pieces and right_pieces else 0)
        lowest = max(
            reversed([*left_pieces, *right_pieces]),
            key=lambda part: part.rank,
            default=None,
        )
        has_room = (
            cells_needed(left_pieces, yielding=True) + cells_needed(right_pieces)
            <= room
        )
        if has_room or lowest is None or lowest.rank <= 0:
            break
        left_pieces = [part for part in left_pieces if part is not lowest]
        right_pieces = [part for part in right_pieces if part is not lowest]
    excess = cells_needed(left_pieces) + cells_needed(right_pieces) - max(room, 0)
    for at, part in enumerate(left_pieces):
        if part.cut and excess > 0:
            cells = width_of(part.spans)
            short_spans = shorten(part.spans, max(cells - excess, 1), part.cut)
            left_pieces[at] = replace(part, spans=tuple(short_spans))
            excess -= cells - width_of(short_spans)
    start = [(" " * margin, ""), *_joined(left_pieces)]
    end = _joined(right_pieces)
    blanks = width - margin - width_of(start) - width_of(end)
    return crop([*start, (" " * max(blanks, 0), ""), *end, (" " * margin, "")], width)


def cells_needed(parts: Sequence[RowPiece], *, yielding: bool = False) -> int:
    """Return the total width of these pieces in a row, in cells.

    If `yielding`, the `least` width is used for pieces that may be shortened.
    """
    cells = 0
    for at, part in enumerate(parts):
        own = width_of(part.spans)
        if yielding and part.cut and part.least is not None:
            own = min(own, part.least)
        cells += own + (part.gap if at else 0)
    return cells


def _joined(parts: Sequence[RowPiece]) -> list[Span]:
    spans: list[Span] = []
    for at, part in enumerate(parts):
        spans += [(" " * part.gap, ""), *part.spans] if at else part.spans
    return spans


def change_spans(added: int, removed: int) -> Spans:
    """Return the numbers of added and removed lines as `+12 −3`.

    A number that is zero is left out.
    """
    plus = ((f"+{added}", "live"),) if added else ()
    minus = ((f"−{removed}", "alert"),) if removed else ()
    space = ((" ", ""),) if plus and minus else ()
    return (*plus, *space, *minus)
