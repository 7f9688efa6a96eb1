"""Windows from 2k to 2M: the trigger comes before overflow, and a fold gets below it (invariant 8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.budget import SMALLEST_WINDOW, BudgetSettings, budget_for
from foldline.protocol import FoldlineError

windows = st.integers(SMALLEST_WINDOW, 2_000_000)


@given(windows, st.none() | st.integers(1, 200_000))
def test_every_window_has_room_for_what_a_fold_leaves(window: int, max_output: int | None) -> None:
    budget = budget_for(window, max_output)
    assert 0 < budget.reserve_tokens < window
    assert 0 < budget.max_summary_tokens < budget.reserve_tokens
    left_by_a_fold = budget.keep_recent_tokens + budget.max_summary_tokens
    assert left_by_a_fold < budget.soft_mark < budget.threshold < window


@given(windows)
def test_the_trigger_fits_the_window(window: int) -> None:
    """known-failures: at 32k one triggers at 0 tokens, one at 576, one never; at 1M one triggers at 17 %."""
    assert 0.7 * window <= budget_for(window).threshold <= 0.99 * window


def test_a_small_output_limit_frees_what_the_reserve_does_not_need() -> None:
    assert budget_for(32_768, 2_048).threshold > budget_for(32_768).threshold
    assert budget_for(32_768, 1).reserve_tokens == 32_768 // 16


def test_settings_win_over_defaults() -> None:
    budget = budget_for(100_000, 4_096, BudgetSettings(reserve_tokens=10_000, keep_recent_tokens=5_000))
    assert (budget.reserve_tokens, budget.keep_recent_tokens, budget.max_summary_tokens) == (
        10_000,
        5_000,
        8_000,
    )


def test_a_window_too_small_and_settings_without_room_are_refused_with_what_to_do() -> None:
    with pytest.raises(FoldlineError, match="FOLDLINE_CONTEXT_WINDOW"):
        budget_for(SMALLEST_WINDOW - 1)
    with pytest.raises(FoldlineError, match="lower one of them"):
        budget_for(8_192, settings=BudgetSettings(keep_recent_tokens=7_000))
