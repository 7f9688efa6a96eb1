"""Records of a replay: compactions, failures, and the requests that a server would receive.

All figures in a report are computed from these records, not from counters in the code under test.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, TypeVar

from foldline.protocol import BaseMessage, Compaction, TextPart, ToolResultMessage

Messages = Sequence[BaseMessage]
View = tuple[BaseMessage, ...]
"""The messages in a request or view, in order."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that was sent during a run.

    The requests of a run are listed in the order in which they were sent.
    """

    kind: Literal["step", "summary"]
    """Either a step of the recorded agent, or a strategy's request for a summary."""
    messages: View
    """The messages as sent, with calls and results paired."""
    tokens: int
    """Estimated number of input tokens, without tool schemas."""
    output: int
    """Number of output tokens in the recorded answer or in the summary."""
    at: float
    """Time of the request, in seconds on the clock of the recorded session."""
    answer: int | None = None
    """Index of the recorded answer; None for a request for a summary."""
    tools: bool = True
    """Whether tools were offered. If so, their schemas come first in the request."""


@dataclass(frozen=True, slots=True)
class CommittedCompaction:
    """A compaction that was committed between two requests."""

    entry: Compaction
    before: View
    after: View
    requests: int
    """Number of requests sent before the commit, including those made by the compaction itself."""


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A session to replay."""

    name: str
    history: View
    """The recorded messages. Their indexes are the same in every run of the session."""
    cwd: Path
    """The session's working folder, for strategies that need it."""
    pins: frozenset[int] = frozenset()
    """Indexes of messages that are pinned as soon as they are appended."""


@dataclass(slots=True)
class ReplayRun:
    """A session replayed with one strategy at one window."""

    session: RecordedSession
    strategy: str
    window: int
    """Size of the window in tokens; 0 means that there is no limit."""
    requests: list[SentRequest] = field(default_factory=list)
    compactions: list[CommittedCompaction] = field(default_factory=list)
    last_view: View = ()
    """The view after the newest message."""
    clipped: dict[int, BaseMessage] = field(default_factory=dict)
    """Clipped versions of the results that were too large for the window, by index."""
    broken: list[str] = field(default_factory=list)
    """Descriptions of violated view invariants."""
    failures: list[str] = field(default_factory=list)
    """Error messages of failed compactions."""
    due: int = 0
    """Number of times that a compaction was due, including those that failed."""

    def steps(self) -> Iterator[tuple[int, SentRequest]]:
        """Yield the position and the request of each step."""
        for position, sent in enumerate(self.requests):
            if sent.kind == "step":
                yield position, sent


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio: `kept` out of a total of `of`."""

    kept: int
    of: int

    @property
    def value(self) -> float | None:
        """The ratio as a number from 0 to 1.

        None if there was nothing to keep.
        """
        return self.kept / self.of if self.of else None

    @classmethod
    def of_marks(cls, marks: Iterable[bool]) -> "Ratio":
        """Return the ratio of true values to all values."""
        values = list(marks)
        return cls(sum(values), len(values))

    @classmethod
    def total(cls, ratios: Iterable["Ratio"]) -> "Ratio":
        """Return the sum of all kept numbers over the sum of all totals."""
        parts = list(ratios)
        return cls(sum(part.kept for part in parts), sum(part.of for part in parts))


# --- values of messages -------------------------------------------------------------------------------
# Requests share their messages, so a value is computed once for each message. Content is identified by id()
# and kept alive, so that no id is used twice.

T = TypeVar("T")


class PerMessage(Generic[T]):
    """Caches a function of a message's content.

    Copies that differ only in usage or time share one cached value.
    """

    def __init__(self, compute: Callable[[BaseMessage], T]) -> None:
        self._compute = compute
        self._values: dict[tuple[int, str, int, int, str], tuple[BaseMessage, T]] = {}

    def __call__(self, message: BaseMessage) -> T:
        key = _content_key(message)
        if key not in self._values:
            self._values[key] = (message, self._compute(message))
        return self._values[key][1]


def _content_key(message: BaseMessage) -> tuple[int, str, int, int, str]:
    content: object = message.parts
    if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
        # Placeholder results for unanswered calls are new objects in each request, with the same string.
        content = message.parts[0].text
    call_id = message.call_id if isinstance(message, ToolResultMessage) else ""
    return id(content), message.type, message.index, message.nth, call_id


class Presence(Generic[T]):
    """The values contained in a view's messages.

    They are updated incrementally from one view to the next.
    """

    def __init__(self, values_of: Callable[[BaseMessage], Iterable[T]]) -> None:
        self._values_of = values_of
        self._view: dict[int, BaseMessage] = {}
        self._counts: Counter[T] = Counter()

    def show(self, view: Iterable[BaseMessage]) -> None:
        """Switch to another view."""
        messages = {id(message): message for message in view}
        for key in messages.keys() - self._view.keys():
            self._counts.update(self._values_of(messages[key]))
        for key in self._view.keys() - messages.keys():
            self._counts.subtract(self._values_of(self._view[key]))
        self._view = messages

    def __contains__(self, value: T) -> bool:
        return self._counts.get(value, 0) > 0
