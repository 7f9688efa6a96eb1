"""How much room a window gives, and when it is full. All in tokens; scales from 8k to 2M."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from foldline.context.tokens import message_tokens
from foldline.context.view import is_preamble, is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    FoldlineError,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

SMALLEST_WINDOW = 2_048
LEAST_ANSWER = 128
"""Tokens always free between threshold and window: for a short answer or one tool call. No summary is shorter
by default."""
_LEFT_SHARE = 0.3
"""Of the threshold, for the verbatim tail and for the summary each, where nobody set them: what a compaction
leaves is then below the default soft mark."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits compaction works with, for one model."""

    window: int
    reserve_tokens: int
    """Kept free for the answer; also bounds the summary."""
    keep_recent_tokens: int
    """At least this much of the newest work stays verbatim."""
    max_summary_tokens: int
    soft_ratio: float
    """Share of the threshold from which on a natural boundary is a good moment to compact."""
    set_threshold: int | None = None
    """The threshold, where somebody set one."""

    @property
    def threshold(self) -> int:
        """A request of this size or more is compacted first."""
        return self.window - self.reserve_tokens if self.set_threshold is None else self.set_threshold

    @property
    def soft_mark(self) -> int:
        """The soft ratio in tokens: below the threshold, and above what a compaction leaves, where there is
        room for both. So no compaction at a natural boundary is due again at the next one."""
        left_by_a_fold = self.keep_recent_tokens + self.max_summary_tokens
        return min(max(int(self.threshold * self.soft_ratio), left_by_a_fold + 1), self.threshold - 1)

    @property
    def draft_mark(self) -> int:
        """From here on the next compaction is drafted ahead, in tokens. So near the threshold that no more
        comes until then than is kept verbatim anyway: its cut stands (decision 35)."""
        return max(self.soft_mark, self.threshold - self.keep_recent_tokens)


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """What a user may set; None takes the default for the window."""

    threshold: int | None = None
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None
    max_summary_tokens: int | None = None
    soft_ratio: float = 0.75


def budget_for(window: int, max_output: int | None = None, settings: BudgetSettings | None = None) -> Budget:
    """The budget of a window.

    An eighth of the window is reserved, and another eighth kept verbatim; small windows get a larger share (a
    quarter at 8k), large ones no more than 32k and 40k, so that at 1M no compaction begins at 17 %. A known
    output limit below it frees the difference. A threshold that was set goes before the reserve; where
    it is low, the sizes nobody set shrink with it (docs/design/budget.md).

    Raises:
        FoldlineError: the window is too small to hold anything, or the settings leave no room.
    """
    chosen = settings or BudgetSettings()
    if window < SMALLEST_WINDOW:
        raise FoldlineError(
            f"A context window of {window:,} tokens is too small to work in: "
            f"set at least {SMALLEST_WINDOW:,} (FOLDLINE_CONTEXT_WINDOW or --window)."
        )
    wanted = chosen.reserve_tokens or _default_reserve(window, max_output)
    reserve = wanted if chosen.threshold is None else max(1, min(wanted, window - chosen.threshold))
    threshold = window - reserve if chosen.threshold is None else chosen.threshold
    most = max(1, int(threshold * _LEFT_SHARE))
    keep = min(most, 40_960, max(window // 8, min(window // 5, 4_096)))
    summary = min(most, max(LEAST_ANSWER, int(0.8 * wanted)))
    budget = Budget(
        window=window,
        reserve_tokens=reserve,
        keep_recent_tokens=chosen.keep_recent_tokens or keep,
        max_summary_tokens=chosen.max_summary_tokens or summary,
        soft_ratio=chosen.soft_ratio,
        set_threshold=chosen.threshold,
    )
    _check_room(budget)
    return budget


def _default_reserve(window: int, max_output: int | None) -> int:
    reserve = min(32_768, max(window // 8, min(window // 4, 4_096)))
    return min(reserve, max(max_output, window // 16)) if max_output else reserve


def _check_room(budget: Budget) -> None:
    """Raises FoldlineError where the threshold leaves too little room for an answer, or for what a compaction
    leaves: then the next one would be due at once."""
    window, threshold, is_set = budget.window, budget.threshold, budget.set_threshold is not None
    most = window - LEAST_ANSWER
    if threshold > most:
        key, value, limit = (
            ("threshold", threshold, f"at most {most:,}")
            if is_set
            else ("reserve_tokens", budget.reserve_tokens, f"at least {LEAST_ANSWER}")
        )
        raise FoldlineError(
            f"{key} {value:,} leaves no room for an answer in the window of {window:,} tokens: set {limit}."
        )
    keep, summary = budget.keep_recent_tokens, budget.max_summary_tokens
    if keep + summary >= threshold:
        full = f"threshold {threshold:,}" if is_set else f"reserve_tokens {budget.reserve_tokens:,}"
        raise FoldlineError(
            f"The window of {window:,} tokens has no room for keep_recent_tokens {keep:,} and "
            f"max_summary_tokens {summary:,} beside {full}: "
            f"{'lower one of the first two or raise the last' if is_set else 'lower one of them'}."
        )


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the next request, as decisions use it."""

    tokens: int
    estimated: bool
    """Whether no reported usage stands behind it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A tool group, or one message of the user or the assistant; notices stay with what they came after."""

    messages: tuple[BaseMessage, ...]

    @property
    def first(self) -> BaseMessage:
        return self.messages[0]

    @property
    def tokens(self) -> int:
        """Estimate before calibration."""
        return sum(map(message_tokens, self.messages))

    @property
    def asked(self) -> str:
        """What the user typed; empty where this is nothing a user typed."""
        return self.first.typed if isinstance(self.first, UserMessage) else ""

    @property
    def said(self) -> str:
        """What the assistant said, its calls and their results left out."""
        return self.first.text if isinstance(self.first, AssistantMessage) else ""

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return self.first.calls if isinstance(self.first, AssistantMessage) else ()

    @property
    def results(self) -> list[ToolResultMessage]:
        return [message for message in self.messages if isinstance(message, ToolResultMessage)]


def units_of(messages: Iterable[BaseMessage], pins: frozenset[int] = frozenset()) -> list[Unit]:
    """The units of a view, in order. Preamble and summaries are none."""
    found: list[list[BaseMessage]] = []
    for message in messages:
        if is_preamble(message) or is_summary(message):
            continue
        if found and _goes_with(message, found[-1], pins):
            found[-1].append(message)
        else:
            found.append([message])
    return [Unit(tuple(unit)) for unit in found]


def _goes_with(message: BaseMessage, unit: list[BaseMessage], pins: frozenset[int]) -> bool:
    """A notice goes with what it came after. What is pinned is kept whatever becomes of the rest, and takes
    nothing along."""
    if isinstance(message, ToolResultMessage):
        return True
    alike = message.index not in pins and unit[0].index not in pins
    return alike and isinstance(message, DeveloperMessage)


@dataclass(frozen=True, slots=True)
class WindowProof:
    """What was seen of one model's window, in tokens; 0 where nothing was. Immutable."""

    stated: int = 0
    """What was last said of it where its answers came from: by its server, or by another agent."""
    largest: int = 0
    """The largest request that went through, with its answer, as reported."""
    refused: int = 0
    """The smallest request that was refused as too long where a smaller one went through in its place (else
    it may not have been the length), and what a refusal named as the limit."""

    def answered(self, request: int, answer: int, stated: int, refused: int = 0) -> "WindowProof":
        """After a request of this size that went through, in place of one of `refused` tokens."""
        if request < refused:
            smallest = min(self.refused or refused, refused)
        else:
            smallest = self.refused if request < self.refused else 0  # the server takes more than it did
        return WindowProof(stated or self.stated, max(self.largest, request + answer), smallest)

    def bounded(self, named: int) -> "WindowProof":
        """After a refusal that named the window; 0 where it did not."""
        return replace(self, refused=min(self.refused or named, named or self.refused))

    def window(self, believed: int) -> int:
        """The window, where nobody has said for certain that it is `believed` tokens."""
        return max(self.stated or believed, self.largest)


NOTHING_SEEN = WindowProof()
