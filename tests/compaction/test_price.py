"""When hiding pays before the window is full, and how fast a window fills."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.compaction.price import gain, least_hidden, ledger_room, steps_until_full, tier_gain
from foldline.llm.models import CACHED, cached_price, price_table

CHEAP = 0.02


def test_only_large_results_cost_more_to_hold_than_to_miss() -> None:
    least = least_hidden(0.1)
    assert least == pytest.approx(4_000)
    assert (
        gain([least * 1.1], resent=0, steps=10, cached=0.1)
        > 0
        > gain([least * 0.9], resent=0, steps=10, cached=0.1)
    )


def test_where_cached_input_is_nearly_free_nothing_is_hidden_before_it_must() -> None:
    assert least_hidden(CHEAP) == float("inf")
    assert gain([50_000] * 5, resent=0, steps=100, cached=CHEAP) < 0


def test_what_has_to_be_sent_again_must_be_earned_by_the_steps_to_come() -> None:
    hidden = [8_000.0] * 5
    assert (
        gain(hidden, resent=8_000, steps=10, cached=0.1) > 0 > gain(hidden, resent=8_000, steps=4, cached=0.1)
    )


@given(st.floats(0.06, 1), st.floats(0, 200), st.floats(0, 1e6))
def test_more_steps_never_make_a_large_result_dearer_to_hide(
    cached: float, steps: float, resent: float
) -> None:
    hidden = [least_hidden(cached) + 1]
    now, later = (gain(hidden, resent=resent, steps=n, cached=cached) for n in (steps, steps + 1))
    assert later >= now


def at_200k(steps: float, factor: float = 2, left: float = 50_000) -> float:
    return tier_gain(200_000, left, steps=steps, factor=factor, cached=0.1, written=40_000)


def test_a_tier_is_worth_a_compaction_where_enough_requests_would_pay_it() -> None:
    """Each would pay 20,000 more; the draft takes 2 x (20,000 + 40,000), what is left 45,000 anew."""
    assert at_200k(8) < 0 < at_200k(9)
    assert at_200k(2, factor=5) < 0 < at_200k(5, factor=5)


def test_without_a_surcharge_or_requests_to_come_no_tier_is_a_reason() -> None:
    assert at_200k(1_000, factor=1) < 0
    assert at_200k(0, factor=5) < 0


@given(st.floats(0, 200), st.floats(1, 10), st.floats(0, 200_000))
def test_more_steps_and_a_smaller_view_never_make_a_tier_less_worth_avoiding(
    steps: float, factor: float, left: float
) -> None:
    assert at_200k(steps + 1, factor, left) >= at_200k(steps, factor, left)
    assert at_200k(steps, factor, left) >= at_200k(steps, factor, left + 1)


def test_a_window_is_full_after_as_many_steps_as_the_pace_says_and_no_more_than_there_were() -> None:
    assert steps_until_full(30_000, [1_000, 11_000, 2_000, 12_000]) == pytest.approx(4)  # 4.5 at this pace
    assert steps_until_full(10_000, [1_000, 11_000, 2_000, 12_000]) == pytest.approx(1.5)
    assert steps_until_full(10_000, []) == 0


def test_a_ledger_gets_less_where_the_next_few_steps_fill_the_window() -> None:
    assert ledger_room(10_000, freed=50_000, steps=100, early=False) == 10_000
    assert ledger_room(10_000, freed=50_000, steps=3, early=False) == 2_500
    assert ledger_room(10_000, freed=50_000, steps=100, early=True) < 10_000


def test_a_model_without_a_price_is_taken_to_be_like_most() -> None:
    assert cached_price("nobody-heard-of-it") == CACHED
    for model, price in price_table().by_model.items():
        assert cached_price(model) == pytest.approx(price.cached / (price.input * price.write))
