"""Reads pastes and background reports from the terminal's input.

The background colour is queried at the start, and the terminal reports later changes. These reports arrive
mixed with key presses. They are removed from the input, because Textual 8.2.8 would insert them into the
prompt.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.color import Color
from textual.message import Message

from foldline.tui.look.textual_private import (
    KeyParser,
    ResumableDriver,
    app_of,
    read_keys_with,
)
from foldline.tui.terminal.app import Control, write_beside

_START: Final = "\x1b[200~"
_END: Final = "\x1b[201~"
_SIGN: Final = "␛"

_REPLY: Final = re.compile(
    r"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b\[\?997;([12])n"
)
_PARTIAL_REPLY: Final = re.compile(
    r"\x1b(?:\]1(?:1(?:;[^\x07\x1b]*\x1b?)?)?|\[\?9(?:97?(?:;[12]?)?)?)\Z"
)
"""Matches an incomplete reply at the end of the input."""
_LONGEST: Final = 64
"""Maximum number of characters of an incomplete reply.

Longer input is passed on.
"""
_ALT: Final = re.compile(r"\x1b([ac-eg-z])")
"""Matches Alt and a letter.

If more input follows, Textual would type `^` and the letter.
"""
_LIGHT_FROM: Final = 0.5
"""Minimum brightness of a light background, from 0 to 1."""


class PasteGuard:
    """Removes pasted text from the terminal's input.

    The rest of the input is passed on. In Textual 8.2.8, any escape sequence ends a bracketed paste, so that
    a pasted log with colours would be typed into the prompt, including Enter. Most terminals remove escape
    characters from a paste, but tmux does not. Here they are replaced with `␛`. Textual is also slow with
    large pastes: 5 s for 5 MB.
    """

    def __init__(self) -> None:
        self._pastes = False
        self._tail = ""
        """The last characters passed on outside of a paste.

        A paste may begin within them.
        """
        self._partial_end = ""
        """The end of the input, if it may be part of a paste's end sequence."""
        self._text: list[str] = []
        self.texts: list[str] = []
        """The pasted texts, in the order of the parser's paste events.

        The events themselves are empty.
        """

    def passed(self, data: str) -> str:
        """Return the part of the input that the parser should get."""
        passed: list[str] = []
        while data:
            piece, data = self._within(data) if self._pastes else self._outside(data)
            passed.append(piece)
        return "".join(passed)

    def _outside(self, data: str) -> tuple[str, str]:
        """Split input that begins outside of a paste.

        Returns the part to pass on, and the part within a paste.
        """
        seen = self._tail + data
        start = seen.find(_START)
        self._pastes = start >= 0
        if not self._pastes:
            self._tail = seen[1 - len(_START) :]
            return data, ""
        end = start + len(_START) - len(self._tail)
        self._tail = ""
        return data[:end], data[end:]

    def _within(self, data: str) -> tuple[str, str]:
        """Store input that begins within a paste.

        Returns the end sequence of the paste, and the input after the end sequence.
        """
        text, end, after = (self._partial_end + data).partition(_END)
        self._partial_end = ""
        self._pastes = not end
        if self._pastes:
            sizes = range(len(_END) - 1, 0, -1)
            self._partial_end = next(
                (_END[:size] for size in sizes if text.endswith(_END[:size])), ""
            )
            text = text.removesuffix(self._partial_end)
        self._text.append(text.replace("\x1b", _SIGN).replace("\0", ""))
        if end:
            self.texts.append("".join(self._text))
            self._text.clear()
        return end, after


@dataclass
class BackgroundReported(Message):
    """The terminal has reported its background."""

    dark: bool


class TerminalParser(KeyParser):
    """Textual's parser, with pastes and background reports removed from its input."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._guard = PasteGuard()
        self._partial_reply = ""

    def feed(self, data: str) -> Iterable[Message]:
        if not data:
            yield from super().feed(data)  # at the end of the input
            return
        data = self._partial_reply + data
        self._partial_reply = ""
        start = 0
        for reply in _REPLY.finditer(data):
            yield from self._guarded(data[start : reply.start()])
            yield BackgroundReported(_is_dark(reply))
            start = reply.end()
        end = len(data)
        partial_reply = _PARTIAL_REPLY.search(data, start)
        if partial_reply and len(partial_reply[0]) <= _LONGEST:
            end = partial_reply.start()
        self._partial_reply = data[end:]
        yield from self._guarded(data[start:end])

    def _guarded(self, data: str) -> Iterable[Message]:
        passed = self._guard.passed(data)
        if not passed:
            return
        for message in super().feed(
            _ALT.sub(lambda alt: f"\x1b[{ord(alt[1])};3u", passed)
        ):
            if isinstance(message, events.Paste):
                yield events.Paste(self._guard.texts.pop(0))
            else:
                yield message


read_keys_with(TerminalParser)


def _is_dark(reply: re.Match[str]) -> bool:
    if reply[4]:
        return reply[4] == "1"
    red, green, blue = map(_to_byte, reply.group(1, 2, 3))
    return Color(red, green, blue).brightness < _LIGHT_FROM


def _to_byte(digits: str) -> int:
    """Convert a colour value with 1 to 4 hexadecimal digits to the range 0–255."""
    most = (1 << 4 * len(digits)) - 1
    return round(int(digits, 16) * 255 / most)


class BackgroundDriver(ResumableDriver):
    """A driver that queries the terminal's background colour if the app needs it."""

    _has_queried = False

    def start_application_mode(self) -> None:
        """Query the background. A reply is posted as `BackgroundReported`."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if getattr(app_of(self), "wants_background", False):
            write_beside(self, Control.BACKGROUND)
            write_beside(self, Control.REPORT)
            self.flush()
            self._has_queried = True

    def stop_application_mode(self) -> None:
        if self._has_queried:
            write_beside(self, Control.REPORT_NO_MORE)
            self._has_queried = False
        super().stop_application_mode()
