"""Chooses how the terminal shows images, and decodes images."""

import base64
import struct
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from PIL.Image import Image

NOT_DECODED: Final = "it is damaged, or its format is not supported"
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_MOST: Final = 50_000_000
"""Maximum number of pixels of an image.

The pixels use 150 MB of memory.
"""
USUAL: Final = (10, 20)
"""Default width and height of a cell, in pixels."""


def way_for(
    environ: Mapping[str, str], *, knows_cells: bool
) -> Literal["TGP", "Sixel", "Halfcell"]:
    """Return the image protocol for this terminal.

    Pixels are used only if they are known to work, and never inside tmux or screen, which drop parts of an
    image. Sixel needs the size of a cell. Kitty's protocol (`TGP`) needs 24-bit colours, which are often not
    reported over SSH.
    """
    term = environ.get("TERM", "")
    program = environ.get("LC_TERMINAL") or environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or term.startswith(("screen", "tmux")):
        return "Halfcell"
    if term in ("xterm-kitty", "xterm-ghostty"):
        return (
            "TGP" if environ.get("COLORTERM") in ("truecolor", "24bit") else "Halfcell"
        )
    has_sixel = term.startswith(("foot", "mlterm")) or program in _SIXEL_PROGRAMS
    return "Sixel" if has_sixel and knows_cells else "Halfcell"


_SIXEL_PROGRAMS: Final = ("iTerm.app", "iTerm2", "WezTerm", "mintty")


def cell_size() -> tuple[int, int] | None:
    """Return the width and height of a cell in pixels.

    Returns None if the terminal does not report them.
    """
    with suppress(ImportError, OSError, ZeroDivisionError):
        import fcntl
        import termios

        window_size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
        rows, columns, width, height = struct.unpack("HHHH", window_size)
        if width and height:
            return width // columns, height // rows
    return None


def unpacked(data: str) -> "Image":
    """Decode the image in a message.

    Slow: call this in a thread.

    Raises:
        ValueError: The image is damaged, too large, or of an unsupported type.
    """
    from PIL import Image

    try:
        image = Image.open(BytesIO(base64.b64decode(data)), formats=_FORMATS)
        if image.width * image.height <= _MOST:
            return image.convert("RGB")
    except Exception as error:  # decoders can raise any exception for untrusted data
        raise ValueError(NOT_DECODED) from error
    raise ValueError(f"it is too large ({image.width}×{image.height} pixels)")


def fitted(
    pixels: tuple[int, int], room: tuple[int, int], cell: tuple[int, int]
) -> tuple[int, int]:
    """Return the size of an image, in columns and rows, scaled down to fit into `room`.

    Args:
        room: The maximum number of columns and rows.
        cell: The width and height of a cell, in pixels.
    """
    sides = zip(room, cell, pixels, strict=True)
    scale = min(1.0, *(cells * size / max(side, 1) for cells, size, side in sides))
    columns, rows = (
        round(side * scale / size) for side, size in zip(pixels, cell, strict=True)
    )
    return max(min(columns, room[0]), 1), max(min(rows, room[1]), 1)
