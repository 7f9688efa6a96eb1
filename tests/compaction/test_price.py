"""When hiding pays before the window is full, and how fast a window fills."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.compaction.price import (
    gain,
    least_hidden,
    ledger_room,
    steps_until_full,
    tier_gain,
)
from foldline.llm.models import CACHED, cached_price, price_table

CHEAP = 0.02


def test_only_large_results_cost_more_to_keep_than_to_read_again() -> None:
    least = least_hidden(0.1)
    assert least == pytest.approx(4_000)
    assert (
        gain([least * 1.1], resent=0, steps=10, cached=0.1)
        > 0
        > gain([least * 0.9], resent=0, steps=10, cached=0.1)
    )


def test_nearly_free_cached_input_hides_nothing_early() -> None:
    assert least_hidden(CHEAP) == float("inf")
    assert gain([50_000] * 5, resent=0, steps=100, cached=CHEAP) < 0


def test_future_steps_must_pay_for_the_tokens_sent_again() -> None:
    hidden = [8_000.0] * 5
    assert (
        gain(hidden, resent=8_000, steps=10, cached=0.1)
        > 0
        > gain(hidden, resent=8_000, steps=4, cached=0.1)
    )


@given(st.floats(0.06, 1), st.floats(0, 200), st.floats(0, 1e6))
def test_more_steps_never_make_hiding_a_large_result_more_expensive(
    cached: float, steps: float, resent: float
) -> None:
    hidden = [least_hidden(cached) + 1]
    now, later = (
        gain(hidden, resent=resent, steps=n, cached=cached) for n in (steps, steps + 1)
    )
    assert later >= now


def at_200k(steps: float, factor: float = 2, left: float = 50_000) -> float:
    return tier_gain(
        200_000, left, steps=steps, factor=factor, cached=0.1, written=40_000
    )


def test_a_price_tier_justifies_a_compaction_if_enough_requests_would_pay_it() -> None:
    """Each pays 20,000 more; the draft costs 2 x (20,000 + 40,000), the new view 45,000 again."""
    assert at_200k(8) < 0 < at_200k(9)
    assert at_200k(2, factor=5) < 0 < at_200k(5, factor=5)


def test_no_tier_justifies_a_compaction_without_a_surcharge_or_future_requests() -> (
    None
):
    assert at_200k(1_000, factor=1) < 0
    assert at_200k(0, factor=5) < 0


@given(st.floats(0, 200), st.floats(1, 10), st.floats(0, 200_000))
def test_more_steps_or_a_smaller_view_never_make_avoiding_a_tier_less_worthwhile(
    steps: float, factor: float, left: float
) -> None:
    assert at_200k(steps + 1, factor, left) >= at_200k(steps, factor, left)
    assert at_200k(steps, factor, left) >= at_200k(steps, factor, left + 1)


def test_the_pace_predicts_steps_to_a_full_window_but_no_more_than_were_taken() -> None:
    assert steps_until_full(30_000, [1_000, 11_000, 2_000, 12_000]) == pytest.approx(
        4
    )  # 4.5 at this pace
    assert steps_until_full(10_000, [1_000, 11_000, 2_000, 12_000]) == pytest.approx(
        1.5
    )
    assert steps_until_full(10_000, []) == 0


def test_a_ledger_gets_fewer_tokens_if_the_next_steps_fill_the_window() -> None:
    assert ledger_room(10_000, freed=50_000, steps=100, is_early=False) == 10_000
    assert ledger_room(10_000, freed=50_000, steps=3, is_early=False) == 2_500
    assert ledger_room(10_000, freed=50_000, steps=100, is_early=True) < 10_000


def test_a_model_without_a_price_gets_typical_ratios() -> None:
    assert cached_price("nobody-heard-of-it") == CACHED
    for model, price in price_table().by_model.items():
        assert cached_price(model) == pytest.approx(
            price.cached / (price.input * price.write)
        )
