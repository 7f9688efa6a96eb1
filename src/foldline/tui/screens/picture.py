"""A picture over the chat: in pixels where the terminal is known to draw them, else in half cells.

`textual-image` draws it. When it is imported it asks the terminal what that can, and would take keys for the
answer; and it writes beside Textual's frames. So it gets a standard output that is no terminal, and leads
to where the frames go.
"""

import asyncio
import base64
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.driver import Driver
from textual.screen import ModalScreen
from textual.widget import Widget

from foldline.protocol import ImagePart
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import HELP, ScreenKey, bindings, hint_words, table, works
from foldline.tui.panels.frame import Text, hints_row
from foldline.tui.terminal.app import TerminalApp

if TYPE_CHECKING:
    from PIL.Image import Image

KEYS: Final = table(
    "picture",
    "Program",
    ScreenKey["PictureScreen"](
        "next", ("right", "n"), "The next picture.", hint="next", works=lambda now: now.count > 1
    ),
    HELP,
    ScreenKey("close", ("escape", "q", "enter"), "Back to the chat.", hint="close"),
)
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_MOST: Final = 50_000_000
"""Pixels of a picture that is shown: unpacked, 150 MB."""
_USUAL: Final = (10, 20)  # pixels of a cell


def way_for(environ: Mapping[str, str], *, knows_cells: bool) -> Literal["TGP", "Sixel", "Halfcell"]:
    """How this terminal gets pictures. Pixels only where they are known to work, and never through tmux or
    screen, which pass on a part of them; Sixel needs the size of a cell, and Kitty's signs are told apart by
    a colour of 24 bits, which few programs that log in elsewhere say they have."""
    term, program = environ.get("TERM", ""), environ.get("LC_TERMINAL") or environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or term.startswith(("screen", "tmux")):
        return "Halfcell"
    if term in ("xterm-kitty", "xterm-ghostty"):
        return "TGP" if environ.get("COLORTERM") in ("truecolor", "24bit") else "Halfcell"
    sixel = term.startswith(("foot", "mlterm")) or program in ("iTerm.app", "iTerm2", "WezTerm", "mintty")
    return "Sixel" if sixel and knows_cells else "Halfcell"


def cell_size() -> tuple[int, int] | None:
    """Pixels of a cell, where the terminal says."""
    with suppress(ImportError, OSError, ZeroDivisionError):
        import fcntl
        import termios

        asked = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
        rows, columns, width, height = struct.unpack("HHHH", asked)
        return (width // columns, height // rows) if width and height else None
    return None


def fitted(pixels: tuple[int, int], room: tuple[int, int], cell: tuple[int, int]) -> tuple[int, int]:
    """Columns and rows of a picture in this room: as large as it is, or as there is."""
    scale = min(
        1.0, *(cells * size / max(side, 1) for cells, size, side in zip(room, cell, pixels, strict=True))
    )
    columns, rows = (round(side * scale / size) for side, size in zip(pixels, cell, strict=True))
    return max(min(columns, room[0]), 1), max(min(rows, room[1]), 1)


def unpacked(data: str) -> "Image":
    """The picture of a message. Slow: for a thread.

    Raises:
        ValueError: it is none, or none that is shown.
    """
    from PIL import Image

    try:
        image = Image.open(BytesIO(base64.b64decode(data)), formats=_FORMATS)
        if image.width * image.height > _MOST:
            raise ValueError(f"{image.width}×{image.height} pixels are too many")
        return image.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError("it is damaged, or of a kind that is not shown") from error


class _BehindFrames(StringIO):
    """Stands for standard output while pictures are shown: no terminal."""

    def __init__(self, driver: Driver | None) -> None:
        super().__init__()
        self._driver = driver

    def write(self, text: str, /) -> int:
        if self._driver is not None:
            self._driver.write(text)
        return len(text)


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
                self._forget()
                self.dismiss(None)

    def _forget(self) -> None:
        """Let the terminal forget the picture: Kitty keeps what it was sent."""
        for shown in self._space.children:
            shown.image = None  # type: ignore[attr-defined]

    async def _show(self) -> None:
        self._forget()
        await self._space.remove_children()
        number = f"{self._at + 1} of {self.count} · " if self.count > 1 else ""
        try:
            image = await asyncio.to_thread(unpacked, self._pictures[self._at].data)
        except ValueError as error:
            self._words.show([(f" {number}This picture cannot be shown: {error}", "alert")])
            return
        self._words.show([(f" {number}{image.width}×{image.height}", "muted")])
        from textual_image import widget

        way = way_for(os.environ, knows_cells=self._cell is not None)
        shown: Widget = getattr(widget, f"{way}Image")(image)
        columns, rows = fitted(image.size, self._space.size, self._cell or _USUAL)
        shown.styles.width, shown.styles.height = columns, rows
        await self._space.mount(shown)
