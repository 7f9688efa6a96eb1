"""Budgets of windows from 2k to 2M tokens."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foldline.protocol import FoldlineError
from foldline.view.budget import (
    LEAST_ANSWER,
    SMALLEST_WINDOW,
    Budget,
    BudgetSettings,
    budget_for,
)

windows = st.integers(SMALLEST_WINDOW, 2_000_000)
output_limits = st.none() | st.integers(1, 2_000_000)


@st.composite
def shares(draw: st.DrawFn, window: int) -> int | None:
    """Draw None or a size up to the whole window, uniform in magnitude."""
    if draw(st.booleans()):
        return None
    return max(
        1, int(window * draw(st.floats(0, 1.1)) ** draw(st.sampled_from((1, 3))))
    )


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    """Draw a valid budget of a window with some sizes set."""
    window = draw(windows)
    settings = BudgetSettings(
        threshold=draw(shares(window)),
        reserve_tokens=draw(shares(window)),
        keep_recent_tokens=draw(shares(window)),
        max_summary_tokens=draw(shares(window)),
        soft_ratio=draw(st.floats(0, 1, exclude_min=True)),
    )
    try:
        return budget_for(window, draw(output_limits), settings)
    except FoldlineError as refused:
        assert any(key in str(refused) for key in ("threshold", "reserve_tokens"))
        assume(False)
        raise


@given(windows, output_limits)
def test_every_window_has_room_for_the_compacted_view(
    window: int, max_output: int | None
) -> None:
    budget = budget_for(window, max_output)
    assert 0 < budget.reserve_tokens < window
    assert 0 < budget.max_summary_tokens <= budget.reserve_tokens
    left_by_a_compaction = budget.keep_recent_tokens + budget.max_summary_tokens
    assert left_by_a_compaction < budget.soft_mark < budget.threshold < window


@given(budgets())
def test_any_budget_triggers_before_overflow_and_not_right_after_a_compaction(
    budget: Budget,
) -> None:
    assert budget.threshold + LEAST_ANSWER <= budget.window
    assert budget.reserve_tokens >= 1
    assert budget.keep_recent_tokens >= 1
    assert budget.max_summary_tokens >= 1
    left_by_a_compaction = budget.keep_recent_tokens + budget.max_summary_tokens
    assert left_by_a_compaction < budget.threshold
    assert left_by_a_compaction <= budget.soft_mark < budget.threshold


@given(windows, output_limits)
def test_the_trigger_fits_the_window(window: int, max_output: int | None) -> None:
    """Other agents: at 32k one triggers at 0 tokens, one at 576, one never; at 1M one triggers at 17 %."""
    budget = budget_for(window, max_output)
    assert 0.7 * window <= budget.threshold <= 0.99 * window
    assert budget.soft_mark >= 0.5 * window


@given(windows, st.floats(0.02, 0.98))
def test_a_set_threshold_is_the_trigger_and_determines_the_other_sizes(
    window: int, share: float
) -> None:
    threshold = min(max(10, int(window * share)), window - LEAST_ANSWER)
    budget = budget_for(window, settings=BudgetSettings(threshold=threshold))
    assert budget.threshold == threshold
    assert (
        budget.keep_recent_tokens + budget.max_summary_tokens
        < budget.soft_mark
        < threshold
    )
    assert threshold + budget.reserve_tokens <= window


def test_a_threshold_takes_precedence_over_the_reserve() -> None:
    both = BudgetSettings(threshold=90_000, reserve_tokens=50_000)
    assert budget_for(100_000, settings=both).threshold == 90_000
    assert budget_for(100_000, settings=both).reserve_tokens == 10_000


def test_a_small_output_limit_shrinks_the_reserve() -> None:
    assert budget_for(32_768, 2_048).threshold > budget_for(32_768).threshold
    assert budget_for(32_768, 1).reserve_tokens == 32_768 // 16


def test_settings_override_defaults() -> None:
    budget = budget_for(
        100_000, 4_096, BudgetSettings(reserve_tokens=10_000, keep_recent_tokens=5_000)
    )
    assert (
        budget.reserve_tokens,
        budget.keep_recent_tokens,
        budget.max_summary_tokens,
    ) == (
        10_000,
        5_000,
        8_000,
    )


def test_a_window_too_small_is_refused_with_advice() -> None:
    with pytest.raises(FoldlineError, match="FOLDLINE_CONTEXT_WINDOW"):
        budget_for(SMALLEST_WINDOW - 1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            BudgetSettings(keep_recent_tokens=7_000),
            "keep_recent_tokens 7,000 ",
        ),
        (
            BudgetSettings(reserve_tokens=8_192),
            " reserve_tokens 8,192",
        ),
        (
            BudgetSettings(reserve_tokens=100),
            "reserve_tokens 100 .* at least 128",
        ),
        (
            BudgetSettings(threshold=8_192),
            "threshold 8,192 .* at most 8,064",
        ),
        (
            BudgetSettings(threshold=4_000, keep_recent_tokens=3_500),
            "keep_recent_tokens 3,500 .* max_summary_tokens 1,200 .* threshold 4,000",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_settings_without_room_are_refused_by_name_with_advice(
    settings: BudgetSettings, sentence: str
) -> None:
    with pytest.raises(FoldlineError, match=sentence):
        budget_for(8_192, settings=settings)


def test_the_soft_mark_lies_between_the_compacted_size_and_the_threshold() -> None:
    never, early = BudgetSettings(soft_ratio=1), BudgetSettings(soft_ratio=0.01)
    assert (
        budget_for(32_768, settings=never).soft_mark == budget_for(32_768).threshold - 1
    )
    budget = budget_for(32_768, settings=early)
    assert budget.soft_mark == budget.keep_recent_tokens + budget.max_summary_tokens + 1
