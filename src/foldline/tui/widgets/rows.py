"""One line of pieces at the left and right end, of which some go when there is no room. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from foldline.tui.blocks.cells import Span, Spans, cut_left, cut_right, slice_spans, width_of


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
