"""How much room a window gives, and when it is full. All in tokens; scales from 8k to 2M."""

from dataclasses import dataclass

from foldline.protocol import FoldlineError

SMALLEST_WINDOW = 2_048


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
    """Share of the threshold from which on a natural boundary is a good moment to fold."""

    @property
    def threshold(self) -> int:
        """A request of this size or more is folded first."""
        return self.window - self.reserve_tokens

    @property
    def soft_mark(self) -> int:
        return int(self.threshold * self.soft_ratio)


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """What a user may set; None takes the default for the window."""

    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None
    max_summary_tokens: int | None = None
    soft_ratio: float = 0.75


def budget_for(window: int, max_output: int | None = None, settings: BudgetSettings | None = None) -> Budget:
    """The budget of a window.

    An eighth of the window is reserved, and another eighth kept verbatim; small windows get a larger
    share (a quarter at 8k), large ones no more than 32k and 40k, so that at 1M the fold does not begin
    at 17 % (known-failures.md). A known output limit below the reserve frees the difference.

    Raises:
        FoldlineError: the window is too small to hold anything, or the settings leave no room.
    """
    chosen = settings or BudgetSettings()
    if window < SMALLEST_WINDOW:
        raise FoldlineError(
            f"A context window of {window:,} tokens is too small to work in: "
            f"set at least {SMALLEST_WINDOW:,} (FOLDLINE_CONTEXT_WINDOW or --window)."
        )
    reserve = chosen.reserve_tokens or min(32_768, max(window // 8, min(window // 4, 4_096)))
    if max_output and chosen.reserve_tokens is None:
        reserve = min(reserve, max(max_output, window // 16))
    keep = chosen.keep_recent_tokens or min(40_960, max(window // 8, min(window // 5, 4_096)))
    summary = chosen.max_summary_tokens or int(0.8 * reserve)
    if reserve + keep + summary >= window:
        raise FoldlineError(
            f"The window of {window:,} tokens has no room for reserve_tokens {reserve:,}, "
            f"keep_recent_tokens {keep:,} and max_summary_tokens {summary:,}: lower one of them."
        )
    return Budget(window, reserve, keep, summary, chosen.soft_ratio)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the next request, as decisions use it."""

    tokens: int
    estimated: bool
    """Whether no reported usage stands behind it."""
