"""Measuring, cutting and wrapping text by terminal cells, never inside a character.

ALSO: One line of pieces at the left and right end, of which some go when there is no room. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from textual.strip import Strip

from foldline.tui.blocks.styles import Styles

Span = tuple[str, str]
"""Text and the specification of its style; `Styles` says what that looks like."""
Spans = tuple[Span, ...]

_CJK: Final = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
_CLOSING: Final = "，。、！？：；）」』】》〉〕’”％…,.!?:;)"
_MARKS: Final = 64


@cache  # Made for the first line that wraps: that takes 2 ms.
def _unit() -> re.Pattern[str]:
    """What stays together on a line: a word with the spaces before it, or one ideograph and the closing
    punctuation after it (which may not start a line)."""
    return re.compile(rf" *(?:[^ {_CJK}]+|[{_CJK}][{re.escape(_CLOSING)}]*)| +")


def fit(text: str, width: int) -> int:
    """How many characters of `text`, from its start, fit into `width` cells without tearing one apart."""
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
    """`text` in at most `width` cells; what is too long ends in `…`. For prose."""
    if cell_len(text) <= width:
        return text
    return text[: fit(text, width - 1)].rstrip() + "…" if width > 0 else ""


def cut_left(text: str, width: int) -> str:
    """`text` in at most `width` cells; what is too long loses its start: `…/name.py`. For paths."""
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


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """The lines of `text` at `width` cells, each as (start, stop); spaces at a break belong to no line."""
    width = max(width, 2)  # room for one wide character
    lines: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        _wrap_line(line, start, width, lines)
        start += len(line) + 1
    return lines


def _wrap_line(text: str, base: int, width: int, lines: list[tuple[int, int]]) -> None:
    if cell_len(text) <= width:
        lines.append((base, base + len(text)))
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
            lines.append((base + start, base + end))
            start, used = word, cell_len(text[word:stop])
        else:
            used += cells
        if used > width:  # a word longer than a line
            for piece_start, piece_stop in _chopped(text, start, stop, width):
                start, used = piece_start, cell_len(text[piece_start:piece_stop])
                if piece_stop < stop:
                    lines.append((base + piece_start, base + piece_stop))
        end = stop
    if end > start:
        lines.append((base + start, base + end))


def _chopped(text: str, start: int, stop: int, width: int) -> Iterator[tuple[int, int]]:
    """The part of a text between two places in pieces of `width` cells. Linear, whatever it holds: each
    piece looks at its own surroundings only."""
    while start < stop:
        # Marks that take no cell may stand on a character; beyond this many they are cut from it.
        near = text[start : min(stop, start + 4 * width + _MARKS)]
        end = start + max(1, fit(near, width))
        yield start, end
        start = end


def slice_spans(spans: Sequence[Span], start: int, stop: int) -> list[Span]:
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
    text = "".join(text for text, _ in spans)
    if len(spans) == 1:
        style = spans[0][1]
        return [[(text[start:stop], style)] if stop > start else [] for start, stop in wrap(text, width)]
    return [slice_spans(spans, start, stop) for start, stop in wrap(text, width)]


def chop_spans(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """One line of styled text cut hard every `width` cells: code, where every space counts."""
    text = "".join(text for text, _ in spans)
    if cell_len(text) <= width:
        return [list(spans)]
    return [slice_spans(spans, *piece) for piece in _chopped(text, 0, len(text), max(width, 2))]


def width_of(spans: Iterable[Span]) -> int:
    """Cells that styled text takes on one line."""
    return sum(cell_len(text) for text, _ in spans)


def to_strip(spans: Iterable[Span], styles: Styles) -> Strip:
    """One line of styled text as a strip."""
    segments = [Segment(text, styles[style]) for text, style in spans if text]
    return Strip(segments, sum(segment.cell_length for segment in segments))


def estimated_lines(text: str, width: int) -> int:
    """About how many lines `text` takes at `width` cells, from its length alone."""
    return text.count("\n") + 1 + len(text) // max(width, 8)


@dataclass(frozen=True, slots=True)
class Piece:
    """Styled text with the blanks before it."""

    spans: Spans
    rank: int = 0
    """0 stays; of the others the highest goes first."""
    gap: int = 3
    """Blanks between it and the piece before it."""
    cut: Literal["left", "right"] | None = None
    """Where it may be shortened, once everything with a rank has gone."""
    least: int | None = None
    """Cells to which it is shortened before anything with a rank goes; None: only after all of it."""


def piece(
    text: str,
    style: str = "text",
    *,
    rank: int = 0,
    gap: int = 3,
    cut: Literal["left", "right"] | None = None,
) -> Piece:
    """A piece of one style."""
    return Piece(((text, style),), rank, gap, cut)


def row(left: Sequence[Piece], right: Sequence[Piece], width: int, margin: int = 1) -> list[Span]:
    """Exactly `width` cells: left pieces, blanks, right pieces; `margin` cells stay free on both sides."""
    left, right = list(left), list(right)
    room = max(width - 2 * margin, 0)
    while _needed(left, yielding=True) + _needed(right) + (2 if left and right else 0) > room:
        expendable = [part for part in (*left, *right) if part.rank > 0]
        if not expendable:
            break
        goes = max(reversed(expendable), key=lambda part: part.rank)
        (right if any(part is goes for part in right) else left)[:] = [
            part for part in (right if any(part is goes for part in right) else left) if part is not goes
        ]
    over = _needed(left) + _needed(right) + (2 if left and right else 0) - room
    if over > 0:
        shortened: list[Piece] = []
        for part in left:
            short = _shorter(part, over) if part.cut else part
            over = max(over - width_of(part.spans) + width_of(short.spans), 0)
            shortened.append(short)
        left = shortened
    spans = [(" " * margin, ""), *_joined(left)]
    tail = _joined(right)
    blanks = width - margin - width_of(spans) - width_of(tail)
    spans += [(" " * max(blanks, 0), ""), *tail, (" " * margin, "")]
    return crop(spans, width)


def crop(spans: Sequence[Span], width: int) -> list[Span]:
    """Exactly `width` cells: too long is cut at the right, too short filled up with blanks."""
    over = width_of(spans) - width
    if over > 0:
        text = "".join(text for text, _ in spans)
        kept = cut_right(text, width)
        spans = [*slice_spans(spans, 0, len(kept) - 1), (kept[-1:], spans[-1][1])] if kept else []
    return [*spans, (" " * max(width - width_of(spans), 0), "")]


def _needed(parts: Sequence[Piece], *, yielding: bool = False) -> int:
    return sum(_least(part, yielding) + (part.gap if at else 0) for at, part in enumerate(parts))


def _least(part: Piece, yielding: bool) -> int:
    width = width_of(part.spans)
    return min(width, part.least) if yielding and part.cut and part.least is not None else width


def _joined(parts: Sequence[Piece]) -> list[Span]:
    spans: list[Span] = []
    for at, part in enumerate(parts):
        if at:
            spans.append((" " * part.gap, ""))
        spans += part.spans
    return spans


def _shorter(part: Piece, over: int) -> Piece:
    text = "".join(text for text, _ in part.spans)
    room = max(width_of(part.spans) - over, 1)
    if part.cut == "left":
        kept = cut_left(text, room)
        spans = [("…", part.spans[0][1]), *slice_spans(part.spans, len(text) - len(kept) + 1, len(text))]
    else:
        kept = cut_right(text, room)
        spans = [*slice_spans(part.spans, 0, max(len(kept) - 1, 0)), ("…", part.spans[-1][1])]
    return replace(part, spans=tuple(spans))
