"""Saying something in the status row of a screen, or in the lower edge of a box that has none."""

from typing import Protocol, runtime_checkable

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span
from foldline.tui.keys.escape import QUIT_WITHIN
from foldline.tui.widgets.frames import HEAVY, edge
from foldline.tui.widgets.lines import Lines


@runtime_checkable
class Tells(Protocol):
    """A screen above the chat that can answer a key."""

    def tell(self, words: str) -> None:
        """Say something in the status row."""


class Telling(Lines):
    """Lines of which the last is the lower edge of a heavy frame. It says something for as long as a second
    Ctrl+C quits."""

    told = ""

    def tell(self, words: str) -> None:
        """Say this in place of the keys."""
        self.told = clean_line(words)
        self.update()
        self.set_timer(QUIT_WITHIN, self._say_keys)

    def _say_keys(self) -> None:
        self.told = ""
        self.update()

    def with_told(self, lines: list[list[Span]], width: int) -> list[list[Span]]:
        """These lines, the last of them with what is told, if anything is."""
        if not self.told:
            return lines
        return [*lines[:-1], edge(HEAVY, False, ((self.told, "text"),), (), width)]
