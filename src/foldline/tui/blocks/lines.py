"""Lines that are styled already, and blocks that are made when they are first drawn."""

from collections.abc import Callable
from dataclasses import dataclass

from textual.strip import Strip

from foldline.tui.blocks.block import MIN_WIDTH, Block
from foldline.tui.blocks.cells import Spans, to_strip, wrap_spans
from foldline.tui.blocks.styles import Styles


@dataclass(frozen=True, slots=True, eq=False)
class LinesBlock(Block):
    """Lines of styled text, one below the other; what is too long is wrapped. Their text must be clean."""

    lines: tuple[Spans, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        inner = max(width, MIN_WIDTH)
        return [to_strip(part, styles) for line in self.lines for part in wrap_spans(line, inner)]

    def estimate(self, width: int) -> int:
        return sum(1 + sum(len(text) for text, _ in line) // max(width, MIN_WIDTH) for line in self.lines)

    def text(self) -> str:
        return "\n".join("".join(text for text, _ in line) for line in self.lines)


@dataclass(frozen=True, slots=True, eq=False)
class LaterBlock(Block):
    """A block that holds nothing but the way to make another, and about how many lines that has."""

    make: Callable[[], Block]
    lines: int

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return self.make().render(width, styles)

    def estimate(self, width: int) -> int:
        return self.lines

    def text(self) -> str:
        return self.make().text()
