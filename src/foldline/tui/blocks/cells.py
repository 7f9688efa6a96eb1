"""Measuring, shortening, wrapping and laying out styled text by terminal cells, never inside a character."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from textual.strip import Strip

from foldline.tui.blocks.styles import ROLES, Styles

Span = tuple[str, str]
"""Text and the specification of its style, as `Styles` reads it."""
Spans = tuple[Span, ...]
Side = Literal["left", "right"]

_CJK: Final = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
_CLOSING: Final = "，。、！？：；）」』】》〉〕’”％…,.!?:;)"
_MARKS: Final = 64
"""Marks without a cell of their own that may stand on one character; more are cut from it."""

# --- Text ---------------------------------------------------------------------------------------------------


def fit(text: str, width: int) -> int:
    """How many characters of `text`, from its start, fit into `width` cells."""
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
    """`text` in at most `width` cells, with `…` in the place of its end. For prose."""
    if cell_len(text) <= width:
        return text
    return text[: fit(text, width - 1)].rstrip() + "…" if width > 0 else ""


def cut_left(text: str, width: int) -> str:
    """`text` in at most `width` cells, with `…` in the place of its start: `…/name.py`. For paths."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    spans, left = split_graphemes(text)
    start = 0
    for _, stop, cells in spans:
        if left <= width - 1:
            break
        left -= cells
        start = stop
    slash = text.find("/", start)
    if 0 <= slash < len(text) - 1:
        start = slash
    return "…" + text[start:]


_LEAST_PATH = 8
"""Cells that the end of a path needs to tell it from others."""


def cut_words(text: str, width: int) -> str:
    """Cut text to `width` cells; of a path that ends it, the end stays: `read …/name.py`."""
    words, _, path = text.rpartition(" ")
    room = width - cell_len(words) - 1
    if "/" in path and cell_len(text) > width and room >= _LEAST_PATH:
        return f"{words} {cut_left(path, room)}"
    return cut_right(text, width)


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """The lines of `text` at `width` cells, each as (start, stop); spaces at a break belong to no line."""
    width = max(width, 2)  # room for one wide character
    lines: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        lines += [(start + low, start + high) for low, high in _wrapped(line, width)]
        start += len(line) + 1
    return lines


@cache  # Made for the first line that wraps: that takes 2 ms.
def _unit() -> re.Pattern[str]:
    """What stays together on a line: a word with the spaces before it, or one ideograph and the closing
    punctuation after it (which may not start a line)."""
    return re.compile(rf" *(?:[^ {_CJK}]+|[{_CJK}][{re.escape(_CLOSING)}]*)| +")


def _wrapped(text: str, width: int) -> Iterator[tuple[int, int]]:
    if cell_len(text) <= width:
        yield 0, len(text)
        return
    start = end = 0  # the open line, without spaces at its end
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
        if word == stop:  # only spaces, too many
            continue
        if end > start:
            yield start, end
            start, used = word, cell_len(text[word:stop])
        else:
            used += cells
        if used > width:  # a word longer than a line
            *whole, (start, _) = _chopped(text, start, stop, width)
            yield from whole
            used = cell_len(text[start:stop])
        end = stop
    if end > start:
        yield start, end


def _chopped(text: str, start: int, stop: int, width: int) -> Iterator[tuple[int, int]]:
    """Pieces of `width` cells between two places. Linear: each piece looks at its own surroundings only."""
    while start < stop:
        near = text[start : min(stop, start + 4 * width + _MARKS)]
        end = start + max(1, fit(near, width))
        yield start, end
        start = end


def chop(text: str, width: int) -> Iterator[tuple[int, int]]:
    """One line of code in lines of `width` cells, cut after a blank where one is near. Leaves nothing out."""
    start = 0
    while start < len(text):
        end = start + max(1, fit(text[start : start + 4 * width + _MARKS], width))
        blank = text.rfind(" ", start + 2 * (end - start) // 3, end) + 1 if end < len(text) else 0
        yield start, blank or end
        start = blank or end


def estimated_lines(text: str, width: int) -> int:
    """About how many lines `text` takes at `width` cells, from its length alone."""
    return text.count("\n") + 1 + len(text) // max(width, 8)


# --- Styled text --------------------------------------------------------------------------------------------


def text_of(spans: Iterable[Span]) -> str:
    return "".join(text for text, _ in spans)


def width_of(spans: Iterable[Span]) -> int:
    """Cells that styled text takes on one line."""
    return sum(cell_len(text) for text, _ in spans)


def slice_spans(spans: Iterable[Span], start: int, stop: int) -> list[Span]:
    """The part of `spans` between two character positions of their joined text."""
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
    """The lines of styled text at `width` cells."""
    return [slice_spans(spans, start, stop) for start, stop in wrap(text_of(spans), width)]


def chop_spans(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """One line of styled text cut hard every `width` cells: code, where every space counts."""
    text = text_of(spans)
    if cell_len(text) <= width:
        return [list(spans)]
    return [slice_spans(spans, *piece) for piece in _chopped(text, 0, len(text), max(width, 2))]


def shorten(spans: Sequence[Span], width: int, side: Side = "right") -> list[Span]:
    """Styled text in at most `width` cells, cut at its right or left side."""
    text = text_of(spans)
    if cell_len(text) <= width:
        return list(spans)
    if width <= 0:
        return []
    if side == "left":
        kept = len(cut_left(text, width)) - 1
        return [("…", spans[0][1]), *slice_spans(spans, len(text) - kept, len(text))]
    return [*slice_spans(spans, 0, len(cut_right(text, width)) - 1), ("…", spans[-1][1])]


def crop(spans: Sequence[Span], width: int) -> list[Span]:
    """Styled text in exactly `width` cells: shortened at the right, or filled up with blanks."""
    shown = shorten(spans, width)
    return [*shown, (" " * max(width - width_of(shown), 0), "")]


def ruled(label: str, width: int, style: str, stroke: str) -> list[Span]:
    """A label in exactly `width` cells, with a rule from there to the right end."""
    *shown, (blanks, _) = crop([(f"{label} ", style)], width)
    return [*shown, (stroke * len(blanks), style)]


def in_reverse(spans: Iterable[Span]) -> list[Span]:
    """A marked row: in reverse from end to end, in one colour; bold and underlines stay."""
    return [
        (text, " ".join(["text reverse", *(word for word in style.split() if word not in ROLES)]))
        for text, style in spans
    ]


def to_strip(spans: Iterable[Span], styles: Styles) -> Strip:
    """One line of styled text as a strip."""
    segments = [Segment(text, styles[style]) for text, style in spans if text]
    return Strip(segments, sum(segment.cell_length for segment in segments))


# --- Rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a row."""

    spans: Spans
    rank: int = 0
    """0 stays; where there is no room, of the others the highest goes first."""
    gap: int = 3
    """Blanks between it and the piece before it."""
    cut: Side | None = None
    """Where it may be shortened, once everything with a rank has gone."""
    least: int | None = None
    """Cells to which it is shortened before anything with a rank goes; None: only after all of it."""


def piece(text: str, style: str = "text", *, rank: int = 0, gap: int = 3, cut: Side | None = None) -> Piece:
    """A piece of one style."""
    return Piece(((text, style),), rank, gap, cut)


def row(left: Sequence[Piece], right: Sequence[Piece], width: int, margin: int = 1) -> list[Span]:
    """Exactly `width` cells: left pieces, blanks, right pieces; `margin` cells stay free on both sides."""
    left, right = list(left), list(right)
    while True:
        room = width - 2 * margin - (2 if left and right else 0)
        goes = max(reversed([*left, *right]), key=lambda part: part.rank, default=None)
        has_room = cells_needed(left, yielding=True) + cells_needed(right) <= room
        if has_room or goes is None or goes.rank <= 0:
            break
        left = [part for part in left if part is not goes]
        right = [part for part in right if part is not goes]
    over = cells_needed(left) + cells_needed(right) - max(room, 0)
    for at, part in enumerate(left):
        if part.cut and over > 0:
            cells = width_of(part.spans)
            left[at] = replace(part, spans=tuple(shorten(part.spans, max(cells - over, 1), part.cut)))
            over -= cells - width_of(left[at].spans)
    start, end = [(" " * margin, ""), *_joined(left)], _joined(right)
    blanks = width - margin - width_of(start) - width_of(end)
    return crop([*start, (" " * max(blanks, 0), ""), *end, (" " * margin, "")], width)


def cells_needed(parts: Sequence[Piece], *, yielding: bool = False) -> int:
    """Cells these take; `yielding`: as short as they become before others go."""
    cells = 0
    for at, part in enumerate(parts):
        own = width_of(part.spans)
        if yielding and part.cut and part.least is not None:
            own = min(own, part.least)
        cells += own + (part.gap if at else 0)
    return cells


def _joined(parts: Sequence[Piece]) -> list[Span]:
    spans: list[Span] = []
    for at, part in enumerate(parts):
        spans += [(" " * part.gap, ""), *part.spans] if at else part.spans
    return spans


def change_spans(added: int, removed: int) -> Spans:
    """`+12 −3`; zeros are left out."""
    plus = ((f"+{added}", "live"),) if added else ()
    minus = ((f"−{removed}", "alert"),) if removed else ()
    return (*plus, (" ", ""), *minus) if plus and minus else (*plus, *minus)
