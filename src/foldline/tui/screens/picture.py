"""A picture over the chat: in pixels where the terminal is known to draw them, else in half cells.

In Kitty it is text, as among the lines of the chat; elsewhere `textual-image` draws it. When that is imported
it asks the terminal what it can, and would take keys for the answer: so it gets a standard output that is no
terminal, and leads to where the frames go.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from io import StringIO
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.driver import Driver
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from foldline.protocol import ImagePart
from foldline.tui.blocks import Picture
from foldline.tui.blocks.pictures import fitted, lines_of
from foldline.tui.blocks.styles import Themed
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
_WIDEST: Final = 297
"""Cells for which Kitty has marks."""


class _BehindFrames(StringIO):
    """Stands for standard output while pictures are shown: no terminal."""

    def __init__(self, driver: Driver | None) -> None:
        super().__init__()
        self._driver = driver

    def write(self, text: str, /) -> int:
        if self._driver is not None:
            self._driver.write(text)
        return len(text)


class _Placed(Themed):
    """A picture that Kitty draws, and forgets afterwards."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture

    def on_unmount(self) -> None:
        if isinstance(self.app, TerminalApp) and self.app.pictures is not None:
            self.app.pictures.forget(self._picture)

    def render_line(self, y: int) -> Strip:
        place = self.roles.pictures
        placed = place(self._picture, self.size.width) if place is not None else None
        lines = lines_of(placed) if placed is not None else ()
        return lines[y] if y < len(lines) else Strip.blank(self.size.width)


class PictureScreen(ModalScreen[None]):
    """One picture at a time, no larger than it is."""

    DEFAULT_CSS: ClassVar[str] = """
    PictureScreen { layout: vertical; background: ansi_default; }
    PictureScreen > #space { height: 1fr; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "picture")

    def __init__(self, pictures: Sequence[ImagePart]) -> None:
        super().__init__()
        self._pictures = pictures
        self._at = 0
        self._cell = cell_size()
        self._stdout: Any = sys.__stdout__
        self._words = Text(id="words")
        self._space = Widget(id="space")
        self._hints = Text(id="hints")

    @property
    def count(self) -> int:
        return len(self._pictures)

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._space
        yield self._hints

    def on_mount(self) -> None:
        driver = self.app.terminal_driver if isinstance(self.app, TerminalApp) else None
        sys.__stdout__ = _BehindFrames(driver)  # type: ignore[assignment,misc]

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
        room = min(self._space.size.width, _WIDEST), self._space.size.height
        columns, rows = fitted(image.size, room, self._cell or USUAL)
        if isinstance(self.app, TerminalApp) and self.app.pictures is not None:
            shown: Widget = _Placed(Picture(hash(part.data), lambda: part, image.size, room=room))
        else:
            from textual_image import widget

            way = way_for(os.environ, knows_cells=self._cell is not None)
            shown = getattr(widget, f"{'Sixel' if way == 'Sixel' else 'Halfcell'}Image")(image)
        shown.styles.width, shown.styles.height = columns, rows
        await self._space.mount(shown)
