"""What the terminal is written to with: frames come whole, a terminal that vanished stops nobody, and what is
written beside Textual's frames goes through one function."""

import io
import sys
from enum import Enum
from typing import Any, Protocol, TextIO

from foldline.context.harmless import clean_line

if sys.platform != "win32":
    import termios


class Control(Enum):
    """All that is ever written beside Textual's frames; `{}` stands for the text that goes with it."""

    KEEP_TITLE = "\x1b[22;2t"
    """The title before ours is on the terminal's stack meanwhile (xterm's window operations 22 and 23)."""
    OLD_TITLE = "\x1b[23;2t"
    TITLE = "\x1b]2;{}\x1b\\"
    BACKGROUND = "\x1b]11;?\x1b\\"
    """Which colour is the background? (xterm, "OSC Ps ; Pt ST", Ps = 11; tmux and nearly all know it.)"""
    REPORT = "\x1b[?2031h"
    """Tell when it changes between dark and light: Contour's protocol, in Ghostty, kitty, foot, iTerm2,
    tmux 3.6. Others ignore a private mode they do not know."""
    REPORT_NO_MORE = "\x1b[?2031l"
    NO_MOUSE = "".join(f"\x1b[?{mode}l" for mode in (1000, 1003, 1015, 1006))


class _Writable(Protocol):
    def write(self, data: str, /) -> object: ...


def write_beside(terminal: _Writable, sequence: Control, text: str = "") -> None:
    """Write one of the sequences. Its text may be anybody's: nothing in it acts on the terminal."""
    terminal.write(sequence.value.format(clean_line(text)))


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
