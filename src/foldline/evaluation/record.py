"""What a replay writes down: every request as a server would get it, every fold, and what went wrong.

All figures of a report are computed from these records, none from counters of the code that is measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from foldline.protocol import BaseMessage, Compaction


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
    messages: tuple[BaseMessage, ...]
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
class Folded:
    """One fold that was committed, between two requests."""

    entry: Compaction
    before: tuple[BaseMessage, ...]
    """The view it was made from."""
    after: tuple[BaseMessage, ...]
    requests: int
    """How many requests had left when it was committed, its own included."""
    model_calls: int


@dataclass(frozen=True, slots=True)
class Run:
    """One session replayed under one strategy at one window."""

    session: str
    strategy: str
    window: int
    """Tokens; 0 where there is no limit."""
    summariser: str
    """What wrote the summaries: `digest`, a test double, or a model."""
    history: tuple[BaseMessage, ...]
    """The recorded messages. Their indices are the same in every run of the session."""
    requests: tuple[Sent, ...]
    folds: tuple[Folded, ...]
    last_view: tuple[BaseMessage, ...]
    """The view after the newest message."""
    clipped: Mapping[int, BaseMessage] = field(default_factory=dict)
    """By index: results larger than there was room for, as the agent let them in."""
    pins: frozenset[int] = frozenset()
    broken: tuple[str, ...] = ()
    """What a fold did to the history that must not be (`context.invariants`): sentences."""
    failures: tuple[str, ...] = ()
    """Folds that were due and failed: sentences."""
    due: int = 0
    """How often a fold was due, whatever came of it."""
