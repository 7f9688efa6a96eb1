"""The Picture screen: shows an image.

`textual-image` draws the image, in pixels if the terminal supports that, otherwise with half-block
characters. When `textual-image` is imported, it queries the terminal, and would mistake typed keys for the
reply. Standard output is therefore replaced while the screen is open, so that `textual-image` finds no
terminal.
"""

import asyncio
import base64
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from foldline.frontend.keymap import HELP, ScreenKey, hint_words, table, works
from foldline.protocol import ImagePart
from foldline.tui.browser.panels.app_actions import open_help
from foldline.tui.browser.panels.frame import TextLines, hints_row
from foldline.tui.keys.bindings import bindings
from foldline.tui.look.textual_private import HookedApp
from foldline.tui.terminal.pictures import (
    NOT_DECODED,
    USUAL,
    cell_size,
    fitted,
    unpacked,
    way_for,
)

KEYS: Final = table(
    "picture",
    "Program",
    ScreenKey["PictureScreen"](
        "next",
        ("right", "n"),
        "Shows the next picture.",
        hint="next",
        works=lambda now: now.count > 1,
    ),
    ScreenKey(
        "open",
        ("o",),
        "Opens the picture in the desktop's viewer.",
        hint="open in the viewer",
        title="Open in the viewer",
    ),
    HELP,
    ScreenKey("close", ("escape", "q", "enter"), "Closes the screen.", hint="close"),
)


UNREADABLE: Final = "This picture cannot be shown: {error}."
AN_EXTRA: Final = "To show pictures here, run: pip install 'foldline[pictures]'"
NO_VIEWER: Final = "There is no desktop to open the picture on"
OPENED: Final = "Opened in the viewer"


class _PictureCommands(StringIO):
    """A stand-in for standard output, which passes Kitty's picture commands on to the terminal.

    The terminal's driver writes them between two frames.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write_command = write

    def write(self, text: str) -> int:
        if text.startswith("\x1b_G"):
            self._write_command(text)
        return len(text)


@cache
def _folder() -> TemporaryDirectory[str]:
    """Return the folder of the opened pictures, which is deleted when Foldline exits."""
    return TemporaryDirectory(prefix="foldline-")


async def open_in_viewer(part: ImagePart) -> str:
    """Open an image in the desktop's viewer, and return a message for the user."""
    from foldline.agent.extensions.mcp.sign_in import open_on_desktop
    from foldline.agent.tools.images import media_type

    content = base64.b64decode(part.data)
    kind = media_type(content)
    if kind is None:  # the desktop might run a file of another type
        return UNREADABLE.format(error=NOT_DECODED)
    file = Path(_folder().name, f"picture.{kind.removeprefix('image/')}")
    try:
        await asyncio.to_thread(file.write_bytes, content)
    except OSError as error:
        return UNREADABLE.format(error=error)
    return OPENED if await open_on_desktop(str(file)) else NO_VIEWER


class PictureScreen(ModalScreen[None]):
    """Shows one image at a time. Images are not enlarged."""

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
        self._words = TextLines(id="words")
        self._space = Vertical(id="space")
        self._hints = TextLines(id="hints")

    @property
    def count(self) -> int:
        return len(self._pictures)

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._space
        yield self._hints

    def on_mount(self) -> None:
        driver = cast("HookedApp[Any]", self.app).terminal_driver
        write = len if driver is None else driver.write
        sys.__stdout__ = _PictureCommands(write)  # type: ignore[assignment,misc]

    def on_unmount(self) -> None:
        sys.__stdout__ = self._stdout  # type: ignore[misc]

    def on_resize(self) -> None:
        self._hints.show(hints_row(hint_words(KEYS, self), self.size.width))
        self.run_worker(self._show(), exclusive=True)

    def works_now(self, command: str) -> bool:
        return works(KEYS, command, self)

    def action_picture(self, command: str) -> None:
        """Run a command from the key table."""
        match command:
            case "next":
                self._at = (self._at + 1) % self.count
                self.run_worker(self._show(), exclusive=True)
            case "open":
                self.run_worker(self._open(), group="open", exclusive=True)
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)

    async def _open(self) -> None:
        part = self._pictures[self._at]
        self._words.show([(f" {await open_in_viewer(part)}", "muted")])

    async def _show(self) -> None:
        await self._space.remove_children()
        if find_spec("textual_image") is None:
            self._words.show([(f" {AN_EXTRA}", "muted")])
            return
        number = f"{self._at + 1} of {self.count} · " if self.count > 1 else ""
        part = self._pictures[self._at]
        try:
            image = await asyncio.to_thread(unpacked, part.data)
        except ValueError as error:
            self._words.show([(f" {number}{UNREADABLE.format(error=error)}", "alert")])
            return
        self._words.show([(f" {number}{image.width}×{image.height}", "muted")])
        from textual_image import widget

        way = way_for(os.environ, knows_cells=self._cell is not None)
        shown: Widget
        match way:
            case "TGP":
                shown = widget.TGPImage(image)
            case "Sixel":
                shown = widget.SixelImage(image)
            case "Halfcell":
                shown = widget.HalfcellImage(image)
        shown.styles.width, shown.styles.height = fitted(
            image.size, self._space.size, self._cell or USUAL
        )
        await self._space.mount(shown)
