"""Blocks one below the other that stand for one thing: the body of an opened row."""

from dataclasses import dataclass

from textual.strip import Strip

from foldline.tui.blocks.block import Block
from foldline.tui.blocks.styles import Styles


@dataclass(frozen=True, slots=True, eq=False)
class StackBlock(Block):
    """Its parts in order, each with its gap above it; the gap of the first is the stack's own business."""

    parts: tuple[Block, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        strips: list[Strip] = []
        for at, part in enumerate(self.parts):
            strips += [Strip.blank(0)] * (part.gap if at else 0)
            strips += part.render(width, styles)
        return strips

    def estimate(self, width: int) -> int:
        return sum(part.estimate(width) + (part.gap if at else 0) for at, part in enumerate(self.parts))

    def text(self) -> str:
        return "\n".join(part.text() for part in self.parts)
