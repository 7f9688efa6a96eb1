"""What is pasted is text, whatever it holds.

Textual 8.2.8 reads an escape sequence within a bracketed paste as the end of it, and what follows as keys: a
pasted log with colours would type itself into the prompt, and press Enter. Most terminals take such
characters out of a paste; tmux does not.
"""

from collections.abc import Iterable
from typing import Final

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

_START: Final = "\x1b[200~"
_END: Final = "\x1b[201~"
_SIGN: Final = "␛"


class PasteGuard:
    """Passes on what a terminal sends, in whatever pieces it comes; an escape within a paste as its sign."""

    def __init__(self) -> None:
        self._pastes = False
        self._tail = ""
        """The last characters passed on outside of a paste: one may begin in them."""
        self._held = ""
        """What may be the beginning of the end of a paste."""

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
        return text.replace("\x1b", _SIGN) + end, rest


class GuardedParser(XTermParser):
    """Textual's parser behind a `PasteGuard`. It also knows Alt+Enter, which 8.2.8 takes for Enter where the
    terminal sends it as terminals always have: an escape before the key."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._guard = PasteGuard()

    def feed(self, data: str) -> Iterable[Message]:
        passed = self._guard.passed(data)
        if passed or not data:  # nothing at all means the end of the input
            yield from super().feed(passed)

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence == "\x1b\r":
            return (events.Key("alt+enter", None),)
        return super()._sequence_to_key_events(sequence, alt)
