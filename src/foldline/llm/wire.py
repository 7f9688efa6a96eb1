"""How one kind of API is spoken: what a request looks like, and how its answer is read. Two of them exist."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from foldline.protocol import AssistantMessage

from .base import ModelInfo, Request, TextChunk, ThinkingChunk, ToolCallChunk
from .failures import Failure

Said = TextChunk | ThinkingChunk | ToolCallChunk


class AnswerReader(Protocol):
    """One answer, while it arrives. Pure, and forgiving."""

    @property
    def started(self) -> bool:
        """Whether anything of the answer has arrived."""
        ...

    @property
    def characters(self) -> int:
        """How much has arrived, what was left out included: grows with everything that is said."""
        ...

    @property
    def full(self) -> bool:
        """Whether more came than a model can say, and was left out."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the server has said how it ended."""
        ...

    @property
    def over(self) -> bool:
        """Whether nothing can follow: the stream need not be read to its end."""
        ...

    @property
    def overflowed(self) -> bool:
        """Whether it ended because the window was full."""
        ...

    def feed(self, piece: object) -> Sequence[Said]:
        """Takes one decoded piece of the stream; what it adds to the answer."""
        ...

    def message(self, error: str | None = None) -> AssistantMessage:
        """The answer so far; with `error`, as what was left by a failure."""
        ...


class Wire(Protocol):
    """One API. It may give up what a server refuses, hence it has a state."""

    @property
    def name(self) -> str:
        """The dialect recorded with each request."""
        ...

    @property
    def path(self) -> str:
        """Below the base URL."""
        ...

    def body(self, request: Request, model: str) -> dict[str, Any]: ...

    def reading(self, request: Request, info: ModelInfo) -> AnswerReader: ...

    def concede(self, failure: Failure) -> bool:
        """Whether the server refused something that can be done without. From then on it is not sent."""
        ...


@dataclass(frozen=True, slots=True)
class Expected:
    """What a reading has to know of the request it answers."""

    model: str
    taken: frozenset[str] = frozenset()
    """Call ids of the request, not to be given again."""
    stem: str = "call"
    """Begins the call ids made up here."""
    most: int | None = None
    """Characters the answer may have."""


def expected(request: Request, info: ModelInfo) -> Expected:
    taken = {
        call.call_id
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    # Entry indices are never re-used, so ids made from the newest one are unique in the session.
    newest = max((message.index for message in request.messages), default=0)
    return Expected(info.id, frozenset(taken), f"call_{newest}", most_characters(info.window))


TOO_MUCH = "The answer went on beyond what the window of {model} can hold: it was cut off, what came is kept."
"""The `error` of an answer that was cut off; its stop reason is `length`."""


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
