"""What a tool has put out, below its row. Foreign text of any size: cleaned when it is drawn, not before."""

from dataclasses import dataclass
from typing import Final

from textual.strip import Strip

from foldline.tui.blocks import Block, Styles, TextBlock, clean

MOST_LINES: Final = 400
"""Lines of output shown when a call is opened; the Inspector shows all."""


@dataclass(frozen=True, slots=True, eq=False)
class OutputBlock(Block):
    """The first lines of an output, below the command that made it where `head` gives one."""

    source: str
    head: str = ""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        strips: list[Strip] = []
        if self.head:
            strips += TextBlock(self.key, clean(self.head)).render(width, styles)
        return strips + TextBlock(self.key, self._shown(), "muted").render(width, styles)

    def estimate(self, width: int) -> int:
        head = self.head.count("\n") + 1 if self.head else 0
        return head + min(self.source.count("\n") + 1, MOST_LINES)

    def text(self) -> str:
        return "\n".join(part for part in (clean(self.head), self._shown()) if part)

    def _shown(self) -> str:
        lines = self.source.split("\n", MOST_LINES)
        rest = lines.pop() if len(lines) > MOST_LINES else ""
        text = clean("\n".join(lines)).rstrip("\n")
        if rest.strip():
            text += f"\n… {rest.count(chr(10)) + 1:,} more lines: F2 shows all"
        return text or "(no output)"
