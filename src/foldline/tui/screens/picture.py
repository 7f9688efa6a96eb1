"""A picture over the chat: in pixels where the terminal is known to draw them, else in half cells.

In Kitty it is text, as among the lines of the chat; elsewhere `textual-image` draws it. When that is imported
it asks the terminal what it can, and would take keys for the answer: so it gets a standard output that is no
terminal.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from io import StringIO
from typing import Any, Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from foldline.protocol import ImagePart
from foldline.tui.blocks.pictures import MOST_CELLS, Picture, PicturesBlock, fitted
from foldline.tui.blocks.view import BlockView
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import HELP, ScreenKey, bindings, hint_words, table, works
from foldline.tui.panels.frame import Text, hints_row
from foldline.tui.terminal.app import TerminalApp
from foldline.tui.terminal.pictures import USUAL, cell_size, unpacked, way_for

KEYS: Final = table(
    "picture",
    "Program",
    ScreenKey["PictureScreen"](
        "next", ("right", "n"), "The next picture.", hint="next", works=lambda now: now.count > 1
    ),
    HELP,
    ScreenKey("close", ("escape", "q", "enter"), "Back to the chat.", hint="close"),
)


class PictureScreen(ModalScreen[None]):
    """One picture at a time, no larger than it is."""

    DEFAULT_CSS = """
    PictureScreen { layout: vertical; background: ansi_default; }
    PictureScreen > #space { height: 1fr; width: 1fr; }
    """
    BINDINGS = bindings(KEYS, "picture")

    def __init__(self, pictures: Sequence[ImagePart]) -> None:
        super().__init__()
        self._pictures = pictures
        self._at = 0
        self._cell = cell_size()
        self._stdout: Any = sys.__stdout__
        self._words = Text(id="words")
        self._space = Vertical(id="space")
        self._hints = Text(id="hints")

    @property
    def count(self) -> int:
        return len(self._pictures)

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._space
        yield self._hints

    def on_mount(self) -> None:
        sys.__stdout__ = StringIO()  # type: ignore[assignment,misc]

    def on_unmount(self) -> None:
        sys.__stdout__ = self._stdout  # type: ignore[misc]

    def on_resize(self) -> None:
        self._hints.show(hints_row(hint_words(KEYS, self), self.size.width))
        self.run_worker(self._show(), exclusive=True)

    def works_now(self, command: str) -> bool:
        return works(KEYS, command, self)

    def action_picture(self, command: str) -> None:
        """One of the keys of the table."""
        match command:
            case "next":
                self._at = (self._at + 1) % self.count
                self.run_worker(self._show(), exclusive=True)
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)

    async def _show(self) -> None:
        await self._space.remove_children()
        number = f"{self._at + 1} of {self.count} · " if self.count > 1 else ""
        part = self._pictures[self._at]
        try:
            image = await asyncio.to_thread(unpacked, part.data)
        except ValueError as error:
            self._words.show([(f" {number}This picture cannot be shown: {error}", "alert")])
            return
        self._words.show([(f" {number}{image.width}×{image.height}", "muted")])
        width, height = self._space.size
        if isinstance(self.app, TerminalApp) and self.app.pictures is not None:
            room = min(width - 1, MOST_CELLS), height  # a cell is the scrollbar's
            picture = Picture(hash(part.data), lambda: part, image.size, room=room)
            blocks = [PicturesBlock((0, 0), (picture,))]
            shown: Widget = BlockView(blocks, gutter_width=0, margin=0)
        else:
            from textual_image import widget

            way = way_for(os.environ, knows_cells=self._cell is not None)
            shown = getattr(widget, f"{'Sixel' if way == 'Sixel' else 'Halfcell'}Image")(image)
            shown.styles.width, shown.styles.height = fitted(image.size, (width, height), self._cell or USUAL)
        await self._space.mount(shown)
