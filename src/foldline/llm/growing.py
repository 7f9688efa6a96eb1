"""Text of an answer that grows, up to a limit and until it repeats itself endlessly."""

import re

from foldline.text.patterns import lazy_pattern

MOST_CALLS = 1_000
"""Each tool call uses up 1/1000 of the answer's limit.

Endless empty calls therefore also reach the limit.
"""


class Room:
    """Counts how many more characters an answer may have."""

    def __init__(self, characters: int | None = None) -> None:
        """Set the limit in characters. By default, the answer is unlimited."""
        self._left = characters
        self._a_call = 0 if characters is None else characters // MOST_CALLS
        self.taken = 0
        self.repeated = ""
        """The text that the answer repeats endlessly; empty if there is none."""

    @property
    def full(self) -> bool:
        """Whether text was dropped because of the limit, or the answer repeats itself endlessly."""
        return bool(self.repeated) or (self._left is not None and self._left < 0)

    def take(self, text: str) -> str:
        """Return the beginning of a string, up to the limit."""
        self.taken += len(text)
        if self._left is None:
            return text
        fits = text[: max(0, self._left)]
        self._left -= len(text)
        return fits

    def give_back(self, characters: int) -> None:
        """Return the characters of a replaced string to the limit."""
        if self._left is not None:
            self._left += characters

    def take_call(self) -> None:
        """Count a tool call or another item against the limit, in addition to its text."""
        if self._left is not None:
            self._left -= self._a_call


class Growing:
    """Text that is received in pieces.

    Split surrogate pairs are joined; a lone surrogate becomes U+FFFD.
    """

    def __init__(self, room: Room, *, watched: bool = False) -> None:
        """Start with empty text.

        Args:
            watched: whether to detect endless repetition.
        """
        self._room = room
        self._watched = watched
        self._pieces: list[str] = []
        self._half = ""
        self._length = 0
        self._newest = ""
        self._unseen = 0
        """Number of characters since the last check for repetition."""

    def __len__(self) -> int:
        return self._length

    def add(self, text: str) -> str:
        """Add a piece, and return the text that can be displayed now."""
        text = self._half + self._room.take(text)
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        if text:
            text = valid_unicode(text)
            self._pieces.append(text)
            self._length += len(text)
            if self._watched:
                self._watch(text)
        return text

    def _clear(self, *, kept: int) -> None:
        """Drop the text, which still counts towards the limit by `kept` characters."""
        self._room.give_back(max(0, self._length - kept))
        self._pieces = []
        self._half = ""
        self._length = 0

    def _watch(self, text: str) -> None:
        self._newest = (self._newest + text)[-_LONG_LOOP:]
        self._unseen += len(text)
        if self._unseen > _LOOK_EVERY and not self._room.repeated:
            self._unseen = 0
            self._room.repeated = repeated_at_the_end(self._newest)

    def __str__(self) -> str:
        """Return the text received so far."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0] + valid_unicode(self._half)


_LOOP = 1_500
"""Repetition of a sentence counts as endless if it has this many characters.

Real answers do not repeat a sentence this often.
"""
_LONG_LOOP = 12_000
"""The same limit for repeated text that is not a sentence.

Examples are tables of numbers, and lines of dashes.
"""
_LONGEST_UNIT = 300
"""Maximum length of the repeated text, in characters.

Repetitions of longer text are not detected.
"""
_LEAST_TIMES = 8
"""Minimum number of repetitions that count as endless."""
_LOOK_EVERY = 400
"""Number of characters between two checks for repetition."""
_SENTENCE = lazy_pattern(r"[^\W\d_]+\W+[^\W\d_]+\W+[^\W\d_]+|[\u4e00-\u9fff]{5}")


def repeated_at_the_end(text: str) -> str:
    """Return the text that the end of `text` repeats exactly, or an empty string."""
    tail = text[-_LOOP:]
    if len(tail) < _LOOP:
        return ""
    probe = tail[-40:]
    period = len(tail) - 40 - tail.rfind(probe, 0, -1)
    is_short = 0 < period <= _LONGEST_UNIT and period * _LEAST_TIMES <= _LOOP
    if not is_short or tail[period:] != tail[:-period]:
        return ""
    unit = tail[-period:]
    if end := re.search(r"[.!?。\n]\s*", unit):  # from the beginning of its sentence
        unit = unit[end.end() :] + unit[: end.end()]
    unit = unit.strip()
    if _SENTENCE.search(unit):
        return unit
    tail = text[-_LONG_LOOP:]
    is_long = len(tail) == _LONG_LOOP and tail[period:] == tail[:-period]
    return unit if is_long else ""


def valid_unicode(text: str) -> str:
    """Join surrogate pairs, and replace lone surrogates with U+FFFD.

    UTF-8 cannot encode surrogates.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
