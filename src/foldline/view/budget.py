"""The token limits used by compaction, derived from a model's window."""

from dataclasses import dataclass
from typing import NamedTuple

from foldline.protocol import FoldlineError

SMALLEST_WINDOW = 2_048
LEAST_ANSWER = 128
"""Tokens that always stay free between threshold and window.

They are enough for a short response or one tool call. The shortest summary has the same length by default.
"""
_KEPT_SHARE = 0.3
"""Default share of the threshold for the verbatim tail, and also for the summary.

Together, the two stay below the soft mark.
"""
_LEAST_EARLY = 32_000
"""View size, in tokens, below which hiding results early is not worthwhile, because steps cost so little."""


class RequestSize(NamedTuple):
    """The size of one request, in tokens."""

    entry: int
    """Index of the request's record or, in a history without records, of the answer."""
    position: int
    """Position of that entry in the list of all entries."""
    estimated: int
    """Estimated size, calibrated by earlier requests."""
    reported: int = 0
    """Size as counted by the provider; 0 if unknown."""

    @property
    def tokens(self) -> int:
        """The reported size, or the estimate if no size was reported."""
        return self.reported or self.estimated

    @property
    def is_estimated(self) -> bool:
        return not self.reported

    @property
    def error(self) -> float | None:
        """Relative error of the estimate.

        For example, -0.01 means that the estimate is one per cent too low. None if no size was reported.
        """
        return (
            (self.estimated - self.reported) / self.reported if self.reported else None
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """The token limits for one model."""

    window: int
    reserve_tokens: int
    """Tokens reserved for the response. They also limit the length of a summary."""
    keep_recent_tokens: int
    """Minimum size of the newest messages that stay verbatim, in tokens."""
    max_summary_tokens: int
    soft_ratio: float
    """Fraction of the threshold above which a view is compacted at the next natural boundary."""
    set_threshold: int | None = None
    """The threshold set by the user, if any."""

    @property
    def threshold(self) -> int:
        """Request size, in tokens, at which the view is compacted before the request is sent."""
        return (
            self.window - self.reserve_tokens
            if self.set_threshold is None
            else self.set_threshold
        )

    @property
    def soft_mark(self) -> int:
        """View size, in tokens, above which a natural boundary triggers a compaction.

        The soft mark lies below the threshold and, if there is room, above the size after a compaction. A
        compaction at one natural boundary therefore does not make another one due at the next.
        """
        size_after = self.keep_recent_tokens + self.max_summary_tokens
        return min(
            max(int(self.threshold * self.soft_ratio), size_after + 1),
            self.threshold - 1,
        )

    @property
    def early_mark(self) -> int:
        """View size, in tokens, above which large results may be hidden at the end of a task.

        Below this size, hiding has been found to remove results that had just been read for the next task
        (decision 39).
        """
        return max(self.threshold // 3, _LEAST_EARLY)

    @property
    def draft_mark(self) -> int:
        """View size, in tokens, at which drafting of the next compaction starts.

        The mark is so close to the threshold that everything added after the draft is kept verbatim anyway.
        The cut of the draft therefore stays valid (decision 35).
        """
        return max(self.soft_mark, self.threshold - self.keep_recent_tokens)


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """The user's settings; None stands for the default value for the window."""

    threshold: int | None = None
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None
    max_summary_tokens: int | None = None
    soft_ratio: float = 0.75


def budget_for(
    window: int, max_output: int | None = None, settings: BudgetSettings | None = None
) -> Budget:
    """Return the budget for a window.

    An eighth of the window is reserved, and another eighth is kept verbatim. For small windows, the share is
    larger (a quarter at 8k). For large windows, the limits are 32k and 40k tokens; without them, a window of
    1M would be compacted at 17 %. If the model's known output limit is below the reserve, the reserve is
    reduced to this limit. A threshold set by the user overrides the reserve. If this threshold is low, the
    sizes that the user did not set are reduced accordingly (docs/design/budget.md).

    Raises:
        FoldlineError: the window is too small to work in, or the settings leave no room.
    """
    chosen = settings or BudgetSettings()
    if window < SMALLEST_WINDOW:
        raise FoldlineError(
            f"A context window of {window:,} tokens is too small. "
            f"Set at least {SMALLEST_WINDOW:,} (FOLDLINE_CONTEXT_WINDOW or --window)."
        )
    reserve = chosen.reserve_tokens or _default_reserve(window, max_output)
    summary = int(0.8 * reserve)
    if chosen.threshold is None:
        threshold = window - reserve
    else:
        threshold = chosen.threshold
        reserve = max(1, min(reserve, window - threshold))
    most = max(1, int(threshold * _KEPT_SHARE))
    keep = min(most, 40_960, max(window // 8, min(window // 5, 4_096)))
    summary = min(most, max(LEAST_ANSWER, summary))
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
    """Check that there is room for a response, and for the view after a compaction.

    Raises:
        FoldlineError: there is too little room.
    """
    window = budget.window
    threshold = budget.threshold
    is_set = budget.set_threshold is not None
    highest = window - LEAST_ANSWER
    if threshold > highest:
        setting = (
            f"threshold {threshold:,}"
            if is_set
            else f"reserve_tokens {budget.reserve_tokens:,}"
        )
        limit = f"at most {highest:,}" if is_set else f"at least {LEAST_ANSWER}"
        raise FoldlineError(
            f"The setting {setting} leaves no room for an answer in the window of {window:,} tokens. "
            f"Set {limit}."
        )
    keep = budget.keep_recent_tokens
    summary = budget.max_summary_tokens
    if keep + summary >= threshold:
        setting = (
            f"threshold {threshold:,}"
            if is_set
            else f"reserve_tokens {budget.reserve_tokens:,}"
        )
        advice = (
            "Lower one of the first two settings, or raise the last"
            if is_set
            else "Lower one of these settings"
        )
        raise FoldlineError(
            f"The window of {window:,} tokens has no room for keep_recent_tokens {keep:,} and "
            f"max_summary_tokens {summary:,} in addition to {setting}. {advice}."
        )


@dataclass(frozen=True, slots=True)
class Size:
    """The size of messages or of a request, in tokens, on which decisions are based."""

    tokens: int
    estimated: bool
    """Whether the size was estimated without using any reported usage."""
