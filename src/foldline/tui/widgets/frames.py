"""Frames drawn as text, so that no title is parsed as markup: heavy has the focus, light has not."""

from dataclasses import dataclass

from foldline.tui.blocks.cells import Span, Spans, width_of
from foldline.tui.widgets.rows import Piece, crop, row


@dataclass(frozen=True, slots=True)
class Frame:
    """The strokes of a frame and the style they are drawn in."""

    strokes: str
    """Top left, top right, bottom left, bottom right, horizontal, vertical."""
    style: str


HEAVY = Frame("┏┓┗┛━┃", "accent")
LIGHT = Frame("┌┐└┘─│", "muted")


def frame(focused: bool) -> Frame:
    return HEAVY if focused else LIGHT


def edge(look: Frame, top: bool, left: Spans, right: Spans, width: int) -> list[Span]:
    """The upper or lower edge with a title left and a remark right: `┏━ left ━━━━━━ right ━┓`."""
    start, end = (look.strokes[0], look.strokes[1]) if top else (look.strokes[2], look.strokes[3])
    stroke = look.strokes[4]
    if right and width_of(left) + width_of(right) + 10 > width:
        right = ()
    spans: list[Span] = [(start + stroke, look.style)]
    if left:
        room = max(width - 6, 0)
        text = left if width_of(left) <= room else tuple(crop(left, room))
        spans += [(" ", ""), *text, (" ", "")]
    tail: list[Span] = [(" ", ""), *right, (" ", "")] if right else []
    tail.append((stroke + end, look.style))
    fill = width - width_of(spans) - width_of(tail)
    return [*spans, (stroke * max(fill, 0), look.style), *tail]


def sides(look: Frame, inside: list[Span], width: int) -> list[Span]:
    """A line between the two sides; `inside` is cut or filled to `width` - 2 cells."""
    side = (look.strokes[5], look.style)
    return [side, *crop(inside, max(width - 2, 0)), side]


def framed_row(look: Frame, left: list[Piece], right: list[Piece], width: int) -> list[Span]:
    """A line between the two sides with pieces left and right."""
    side = (look.strokes[5], look.style)
    return [side, *row(left, right, max(width - 2, 0)), side]
