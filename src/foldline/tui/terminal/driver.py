"""What the terminal sends besides keys: pastes, whatever they hold, and whether its background is dark.

The background is queried while the screen is set up; the terminal reports later changes. The answers come
between the keys; Textual 8.2.8 would type them into the prompt, so its parser gets only what they leave.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.color import Color
from textual.message import Message

from foldline.tui.terminal.app import Control, write_beside
from foldline.tui.textual_private import KeyParser, ResumableDriver, app_of, read_keys_with

_START: Final = "\x1b[200~"
_END: Final = "\x1b[201~"
_SIGN: Final = "␛"

_REPLY: Final = re.compile(
    r"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b\[\?997;([12])n"
)
_BEGUN: Final = re.compile(r"\x1b(?:\]1(?:1(?:;[^\x07\x1b]*\x1b?)?)?|\[\?9(?:97?(?:;[12]?)?)?)\Z")
"""The start of one at the end of what was read."""
_LONGEST: Final = 64
"""Characters of a reply that has begun; more than that is none."""
_ALT: Final = re.compile(r"\x1b([ac-eg-z])")
"""Alt and a letter: Textual waits whether more follows, and where it does, types `^` and the letter."""
_LIGHT_FROM: Final = 0.5
"""Brightness, of 1, from which a background counts as light."""


class PasteGuard:
    """Passes on what a terminal sends, in whatever pieces it comes, and keeps what was pasted; an escape
    within a paste as its sign.

    Textual 8.2.8 takes an escape sequence within a bracketed paste for its end, and what follows for keys:
    a pasted log with colours would type itself into the prompt, and press Enter. Most terminals take such
    characters out of a paste; tmux does not. And it reads sign by sign: 5 MB would take it 5 s.
    """

    def __init__(self) -> None:
        self._pastes = False
        self._tail = ""
        """The last characters passed on outside of a paste: one may begin in them."""
        self._held = ""
        """What may be the beginning of the end of a paste."""
        self._text: list[str] = []
        self.texts: list[str] = []
        """What was pasted, for the parser's pastes: to it they are empty."""

    def passed(self, data: str) -> str:
        """What may go on to the parser."""
        passed, rest = [], data
        while rest:
            piece, rest = self._within(rest) if self._pastes else self._outside(rest)
            passed.append(piece)
        return "".join(passed)

    def _outside(self, data: str) -> tuple[str, str]:
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
        data, self._held = self._held + data, ""
        text, end, rest = data.partition(_END)
        self._pastes = not end
        if self._pastes:
            begun = next((size for size in range(len(_END) - 1, 0, -1) if text.endswith(_END[:size])), 0)
            text, self._held = (text[:-begun], text[-begun:]) if begun else (text, "")
        self._text.append(text.replace("\x1b", _SIGN).replace("\0", ""))
        if end:
            self.texts.append("".join(self._text))
            self._text.clear()
        return end, rest


@dataclass
class BackgroundReported(Message):
    """The terminal has said whether its background is dark."""

    dark: bool


class TerminalParser(KeyParser):
    """Textual's parser behind a `PasteGuard`, without the replies about the background."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._guard = PasteGuard()
        self._held = ""

    def feed(self, data: str) -> Iterable[Message]:
        if not data:
            yield from super().feed(data)  # the end of the input
            return
        data, self._held = self._held + data, ""
        start = 0
        for reply in _REPLY.finditer(data):
            yield from self._guarded(data[start : reply.start()])
            yield BackgroundReported(_is_dark(reply))
            start = reply.end()
        begun = _BEGUN.search(data, start)
        end = begun.start() if begun and len(begun[0]) <= _LONGEST else len(data)
        self._held = data[end:]
        yield from self._guarded(data[start:end])

    def _guarded(self, data: str) -> Iterable[Message]:
        if passed := self._guard.passed(data):
            for message in super().feed(_ALT.sub(lambda alt: f"\x1b[{ord(alt[1])};3u", passed)):
                yield events.Paste(self._guard.texts.pop(0)) if isinstance(message, events.Paste) else message


read_keys_with(TerminalParser)


def _is_dark(reply: re.Match[str]) -> bool:
    if reply[4]:
        return reply[4] == "1"
    red, green, blue = (round(int(part, 16) * 255 / (16 ** len(part) - 1)) for part in reply.group(1, 2, 3))
    return Color(red, green, blue).brightness < _LIGHT_FROM


class AskingDriver(ResumableDriver):
    """Asks for the background where the app wants to know it."""

    _asked = False

    def start_application_mode(self) -> None:
        """The answer, if any comes, is a `BackgroundReported`."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if getattr(app_of(self), "wants_background", False):
            write_beside(self, Control.BACKGROUND)
            write_beside(self, Control.REPORT)
            self.flush()
            self._asked = True

    def stop_application_mode(self) -> None:
        if self._asked:
            write_beside(self, Control.REPORT_NO_MORE)
            self._asked = False
        if (pictures := getattr(app_of(self), "pictures", None)) is not None:
            pictures.end()  # before the screen is left: what is sent there is of the other one
        super().stop_application_mode()
