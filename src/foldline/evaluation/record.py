"""What a replay writes down: every request as a server would get it, every compaction, and what went wrong.

All figures of a report are computed from these records, none from counters of the code that is measured.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from foldline.protocol import BaseMessage, Compaction, TextPart, ToolResultMessage

Messages = Sequence[BaseMessage]
View = tuple[BaseMessage, ...]
"""Messages as a request or a view held them, in order."""


@dataclass(frozen=True, slots=True)
class Meter:
    """How long a message is, in tokens, under a named tokenizer."""

    name: str
    tokens: Callable[[BaseMessage], int]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request. Requests stand in the order in which they left."""

    kind: Literal["step", "summary"]
    """The recorded agent's own, or one of a strategy that summarises."""
    messages: View
    """As they were sent: calls and results paired."""
    tokens: int
    """Input under the run's meter."""
    output: int
    """Tokens of the answer: recorded, or of the summary."""
    at: float
    """Seconds on the recorded session's clock."""
    answer: int | None = None
    """Index of the recorded answer, for a step."""
    tools: bool = True
    """Whether the session's tools were offered: their schemas are then a prefix of the request. `tokens` is
    without them."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """One compaction that was committed, between two requests."""

    entry: Compaction
    before: View
    """The view it was made from."""
    after: View
    requests: int
    """How many requests had left when it was committed, its own included."""


@dataclass(frozen=True, slots=True)
class Run:
    """One session replayed under one strategy at one window."""

    session: str
    strategy: str
    window: int
    """Tokens; 0 where there is no limit."""
    summariser: str
    """What wrote the summaries: `digest`, a test double, or a model."""
    history: View
    """The recorded messages. Their indices are the same in every run of the session."""
    requests: tuple[Sent, ...]
    compactions: tuple[Compacted, ...]
    last_view: View
    """The view after the newest message."""
    clipped: Mapping[int, BaseMessage] = field(default_factory=dict)
    """By index: results larger than there was room for, as the agent let them in."""
    pins: frozenset[int] = frozenset()
    broken: tuple[str, ...] = ()
    """What a compaction did to the history that must not be (`context.invariants`): sentences."""
    failures: tuple[str, ...] = ()
    """Compactions that were due and failed: sentences."""
    due: int = 0
    """How often a compaction was due, whatever came of it."""
    counted_from: int = 0
    """Index of the first message whose answer counts for recall: before it, all arms hold the same."""


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    kept: int
    of: int

    @property
    def value(self) -> float | None:
        """None where there was nothing to keep."""
        return self.kept / self.of if self.of else None


# --- values of messages -------------------------------------------------------------------------------
# A thousand requests of five hundred messages are cheap to look at because they share their messages. These
# are known by identity and kept alive, so that no identity is used twice.

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
