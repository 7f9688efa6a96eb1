"""What makes a thousand requests of five hundred messages cheap to look at: they share their messages.

Nothing is compared: messages are known by identity. What is known is kept alive, so that an identity is never
used again meanwhile.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from foldline.protocol import BaseMessage, TextPart, ToolResultMessage

T = TypeVar("T")


class PerMessage(Generic[T]):
    """A function of what a message says, computed once. Some values may be known already.

    A copy that differs only in usage or time shares what it says with the original, and so its value.
    """

    def __init__(
        self, compute: Callable[[BaseMessage], T], known: Iterable[tuple[BaseMessage, T]] = ()
    ) -> None:
        self._compute = compute
        self._seen = {id(message): (message, value) for message, value in known}
        self._known = {_identity(message): value for message, value in self._seen.values()}

    def __call__(self, message: BaseMessage) -> T:
        seen = self._seen.get(id(message))
        if seen is None:
            seen = self._seen[id(message)] = (message, self._value(message))
        return seen[1]

    def _value(self, message: BaseMessage) -> T:
        identity = _identity(message)
        if identity not in self._known:
            self._known[identity] = self._compute(message)
        return self._known[identity]


def _identity(message: BaseMessage) -> tuple[int, str, int, int, str]:
    parts = message.parts
    # The stated results of calls without one are made anew for each request, of the same text.
    said = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else parts
    call_id = message.call_id if isinstance(message, ToolResultMessage) else ""
    return id(said), message.type, message.index, message.nth, call_id


class Presence(Generic[T]):
    """What the messages of a view hold, view after view: only what came and what went is counted."""

    def __init__(self, held_by: Callable[[BaseMessage], Iterable[T]]) -> None:
        self._held_by = held_by
        self._shown: dict[int, BaseMessage] = {}
        self._counts: Counter[T] = Counter()

    def show(self, view: Iterable[BaseMessage]) -> None:
        shown = {id(message): message for message in view}
        for came in shown.keys() - self._shown.keys():
            self._counts.update(self._held_by(shown[came]))
        for went in self._shown.keys() - shown.keys():
            self._counts.subtract(self._held_by(self._shown[went]))
        self._shown = shown

    def __contains__(self, held: T) -> bool:
        return self._counts.get(held, 0) > 0
