"""Sessions are compared in pairs, and few of them give no interval."""

import random

from hypothesis import given
from hypothesis import strategies as st

from foldline.evaluation.recall import LEAST_SESSIONS, difference


def by_session(values: list[float]) -> dict[str, float | None]:
    return {f"s{at}": value for at, value in enumerate(values)}


def test_too_few_sessions_give_no_difference() -> None:
    values = by_session([0.5] * (LEAST_SESSIONS - 1))
    assert difference("hide", "cost", values, values) is None


def test_a_session_that_lacks_a_figure_is_left_out_of_both() -> None:
    ours, base = by_session([0.7] * 12), by_session([0.5] * 12)
    ours["s3"] = None
    del base["s4"]
    found = difference("hide", "cost", ours, base)
    assert found is not None
    assert (found.sessions, round(found.mean, 6)) == (10, 0.2)


def test_a_difference_larger_than_its_scatter_is_clear_and_noise_is_not() -> None:
    chance = random.Random(3)
    base = [chance.random() for _ in range(20)]
    better = difference("a", "recall", by_session([b + 0.2 for b in base]), by_session(base))
    noise = difference("b", "recall", by_session([b + chance.gauss(0, 0.2) for b in base]), by_session(base))
    assert better is not None
    assert noise is not None
    assert better.is_clear
    assert not noise.is_clear


@given(st.lists(st.floats(-1, 1), min_size=LEAST_SESSIONS, max_size=30))
def test_the_mean_lies_in_its_interval_and_both_are_the_same_each_time(values: list[float]) -> None:
    base = by_session([0.0] * len(values))
    found = difference("a", "cost", by_session(values), base)
    assert found is not None
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert found == difference("a", "cost", by_session(values), base)
