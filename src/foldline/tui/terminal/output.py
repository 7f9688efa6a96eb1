"""What the terminal is written to with: frames come whole, and a terminal that vanished stops nobody."""

import io
import sys
from typing import Any, TextIO

if sys.platform != "win32":
    import termios


def whole(stream: TextIO) -> TextIO:
    """A stream to the same file that loses nothing of what is written.

    With PYTHONUNBUFFERED, as in most containers, standard error hands a frame to the system in one call and
    drops what that did not take: where the terminal changes its size in between, half a frame is seen.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False)


class Lasting:
    """A stream whose writes never fail. What cannot be written goes nowhere.

    Textual writes in a thread that an error would end; its queue then fills, and the event loop waits for
    room in it for ever, deaf even to the signal that says that the terminal is gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def is_gone(stream: TextIO | None) -> bool:
    """Whether this was a terminal, and is none any more: its window was closed, its connection ended."""
    if stream is None or sys.platform == "win32":
        return False
    try:
        termios.tcgetattr(stream.fileno())
    except termios.error:
        return True
    except (OSError, ValueError):
        return False
    return False
