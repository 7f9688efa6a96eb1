"""How one kind of API is spoken: what a request looks like, and how its answer is read. Two of them exist."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from foldline.protocol import AssistantMessage

from .answer import most_characters
from .base import ModelInfo, Request, TextChunk, ThinkingChunk, ToolCallChunk
from .failures import Failure

Said = TextChunk | ThinkingChunk | ToolCallChunk


class Reading(Protocol):
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

    def reading(self, request: Request, info: ModelInfo) -> Reading: ...

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
