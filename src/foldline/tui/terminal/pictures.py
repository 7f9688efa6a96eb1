"""Pictures in the terminal: which way it draws them, and, by Kitty's protocol, what it was sent of them.

sw.kovidgoyal.net/kitty/graphics-protocol: a picture is transmitted, then placed, and stays until deleted.
"""

import asyncio
import base64
import secrets
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from io import BytesIO
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

from foldline.tui.blocks.pictures import Picture, Placement, fitted
from foldline.tui.textual_private import HookedApp

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_MOST: Final = 50_000_000
"""Pixels of a picture that is shown: unpacked, 150 MB."""
USUAL: Final = (10, 20)
"""Pixels of a cell, where the terminal does not say."""
_CELLS: Final = 40_000
"""Cells of pictures that the terminal keeps at once: more than any screen has. 32 MB, or 128 where the cells
are twice as large; Kitty has room for 320."""
_PIECE: Final = 4_096
"""Characters of data that are sent at a time, as the protocol has it."""
_PAUSE: Final = 0.005
"""Seconds until the terminal is looked at again, where it has not taken the last piece yet."""


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


def shows_among_lines(environ: Mapping[str, str]) -> bool:
    """Whether pictures can stand among the lines of this terminal."""
    is_kitty = way_for(environ, knows_cells=True) == "TGP" and "NO_COLOR" not in environ
    return is_kitty and find_spec("PIL") is not None


def cell_size() -> tuple[int, int] | None:
    """Pixels of a cell, where the terminal says."""
    with suppress(ImportError, OSError, ZeroDivisionError):
        import fcntl
        import termios

        asked = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
        rows, columns, width, height = struct.unpack("HHHH", asked)
        return (width // columns, height // rows) if width and height else None
    return None


def unpacked(data: str) -> "Image":
    """The picture of a message. Slow: for a thread.

    Raises:
        ValueError: it is none, or none that is shown.
    """
    from PIL import Image

    try:
        image = Image.open(BytesIO(base64.b64decode(data)), formats=_FORMATS)
        if image.width * image.height <= _MOST:
            return image.convert("RGB")
    except Exception as error:  # anybody's bytes: what decoders raise at those is no closed list
        raise ValueError("it is damaged, or of a kind that is not shown") from error
    raise ValueError(f"{image.width}×{image.height} pixels are too many")


def scaled(picture: Picture, pixels: tuple[int, int]) -> str:
    """A picture as PNG in base64, no larger than this; a grey one for one that cannot be shown: its lines are
    there already. Slow: for a thread."""
    from PIL import Image

    part = picture.load()
    try:
        image = unpacked(part.data if part is not None else "")
        image.thumbnail(pixels)
    except ValueError:
        image = Image.new("RGB", pixels, "grey")
    png = BytesIO()
    image.save(png, "PNG")
    return base64.b64encode(png.getvalue()).decode()


class Pictures:
    """The pictures that the terminal has been sent, or is to be: each once, in pieces between the frames, the
    newest first. When there are too many, all are deleted, and what is seen is sent anew."""

    def __init__(self, app: HookedApp[Any], write: Callable[[str], None], renew: Callable[[], None]) -> None:
        """`write` writes a command of the protocol; `renew` puts new `Pictures` in the place of these and has
        all lines drawn anew."""
        self._app = app
        self._write = write
        self._renew = renew
        self._cell = cell_size() or USUAL
        # Others may have sent pictures to this terminal: their numbers are not likely the next ones.
        self._numbers = count(1 + secrets.randbelow(1 << 23))
        self._places: dict[Picture, Placement] = {}
        self._work: list[Picture] = []
        """Those that have no place yet, or another one."""
        self._works = False
        self._sent: list[int] = []
        self._is_sending = False
        self._ended = False

    def place(self, picture: Picture, width: int) -> Placement | None:
        """Where the terminal has this picture, at most so many cells wide, or will have it in a moment."""
        if self._ended or self._app.terminal_driver is None:
            return None
        columns, rows = picture.room
        size = fitted(picture.pixels, (min(width, columns), rows), self._cell)
        known = self._places.get(picture)
        if known is not None and known[1:] == size:
            return known
        placed = self._places[picture] = Placement(known[0] if known else next(self._numbers), *size)
        self._work.append(picture)
        if not self._works:
            self._works = True
            self._app.run_worker(self._send_all(), group="pictures")
        if sum(columns * rows for _, columns, rows in self._places.values()) > _CELLS:
            self._app.call_later(self._renew)
        return placed

    def end(self) -> None:
        """Have the terminal delete all of them: for good. What is sent just now cannot be left half."""
        if self._is_sending and not self._ended:
            self._write("q=2,m=0")
        self._ended = True
        while self._sent:
            self._write(f"a=d,d=I,i={self._sent.pop()},q=2")

    async def _send_all(self) -> None:
        while self._work and not self._ended:
            picture = self._work.pop()
            number = self._places[picture].number
            if number not in self._sent:
                columns, rows = fitted(picture.pixels, picture.room, self._cell)
                pixels = columns * self._cell[0], rows * self._cell[1]
                await self._send(number, await asyncio.to_thread(scaled, picture, pixels))
            if not self._ended:
                _, columns, rows = self._places[picture]
                self._write(f"a=p,U=1,i={number},p=1,c={columns},r={rows},q=2")
        self._works = False

    async def _send(self, number: int, data: str) -> None:
        """Transmit a picture, each piece once the terminal has taken all before it: no frame waits longer."""
        command, rest = f"a=t,f=100,i={number},", data
        while rest and not self._ended:
            if self._app.unwritten:
                await asyncio.sleep(_PAUSE)
                continue
            if command:
                self._sent.append(number)
            piece, rest = rest[:_PIECE], rest[_PIECE:]
            self._is_sending = bool(rest)
            self._write(f"{command}q=2,m={int(self._is_sending)};{piece}")
            command = ""
            await asyncio.sleep(0)
