"""What an answer is put together from, whichever API it comes through: texts that grow, within a bound."""

from collections.abc import Collection

LEAST_BOUND = 1_000_000
"""Characters; a window that was guessed too low must not cut off an honest answer."""
CHARACTERS_A_TOKEN = 8
"""More than any text has on average: prose comes to 4, source code to 3."""
MOST_CALLS = 1_000
"""Each call counts for a thousandth of the bound, whatever it says: empty calls without end are no answer."""


def most_characters(window: int) -> int:
    """How long an answer can be, in characters, from a model with this window, in tokens.

    No model can say more than its window. What goes on beyond this is a server that does not stop.
    """
    return max(LEAST_BOUND, CHARACTERS_A_TOKEN * window)


class Room:
    """Characters an answer may still have."""

    def __init__(self, characters: int | None = None) -> None:
        """None is without bound."""
        self._left = characters
        self._a_call = 0 if characters is None else characters // MOST_CALLS
        self.taken = 0

    @property
    def full(self) -> bool:
        """Whether something had to be left out."""
        return self._left is not None and self._left < 0

    def take(self, text: str) -> str:
        """As much of a text as there is room for."""
        self.taken += len(text)
        if self._left is None:
            return text
        fits = text[: max(0, self._left)]
        self._left -= len(text)
        return fits

    def take_call(self) -> None:
        """Counts one more tool call, or another item of an answer, apart from its text."""
        if self._left is not None:
            self._left -= self._a_call


class Growing:
    """A text that comes in pieces. Halves of a character are joined; one without its other becomes U+FFFD."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._pieces: list[str] = []
        self._half = ""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, text: str) -> str:
        """What of it can be shown now."""
        text = self._half + self._room.take(text)
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if text:
            text = whole(text)
            self._pieces.append(text)
            self._length += len(text)
        return text

    def __str__(self) -> str:
        """All of it so far."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0] + whole(self._half)


class CallIds:
    """Ids of tool calls, unique within the session: a missing or repeated one is replaced."""

    def __init__(self, taken: Collection[str], stem: str) -> None:
        """`taken` are ids not to be given again; `stem` begins the ids made up here."""
        self._used = set(taken)
        self._stem = stem

    def unique(self, call_id: str, number: int) -> str:
        """The id itself, or one made of the stem and the number of the call."""
        call_id = whole(call_id)
        if not call_id or call_id in self._used:
            call_id = f"{self._stem}_{number}"
        self._used.add(call_id)
        return call_id


def whole(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates, which no UTF-8 can hold, as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
