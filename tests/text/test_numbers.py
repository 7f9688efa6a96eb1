"""The one formatter of numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.text import numbers


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (38, "38"),
        (99, "99"),
        (100, "0.1k"),
        (450, "0.5k"),
        (499, "0.5k"),
        (8_600, "8.6k"),
        (116_200, "116.2k"),
        (99_950, "100.0k"),
        (999_949, "999.9k"),
        (999_950, "1.00M"),
        (1_234_567, "1.23M"),
    ],
)
def test_token_counts_are_formatted_as_in_the_design(count: int, shown: str) -> None:
    assert numbers.tokens(count) == shown


def test_an_estimate_has_a_tilde() -> None:
    assert numbers.tokens(4_600, estimated=True) == "~4.6k"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (131_072, "131k"),
        (113_000, "113k"),
        (26_600, "26.6k"),
        (32_000, "32k"),
        (8_192, "8.2k"),
        (1_048_576, "1.05M"),
        (1_000_000, "1M"),
        (2_000_000, "2M"),
        (64, "64"),
    ],
)
def test_window_sizes_are_short(count: int, shown: str) -> None:
    assert numbers.short_tokens(count) == shown


def test_a_plans_sizes_are_whole_thousands() -> None:
    assert numbers.about_tokens(27_400) == "~27k"
    assert numbers.about_tokens(5_470) == "~5.5k"
    assert numbers.about_tokens(640) == "~0.6k"


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (116_200, 131_072, "89%"),
        (26_700, 131_072, "20%"),
        (0, 100, "0%"),
        (1, 1000, "<1%"),
        (999, 1000, "99%"),
        (1000, 1000, "100%"),
        (1500, 1000, "150%"),
        (5, 0, "?%"),
    ],
)
def test_a_share_below_all_never_rounds_to_100_percent(
    part: int, whole: int, shown: str
) -> None:
    assert numbers.percent(part, whole) == shown


@pytest.mark.parametrize(
    ("given_", "shown"),
    [(14.9, "0:14"), (725, "12:05"), (3723, "1:02:03"), (-1, "0:00")],
)
def test_running_time_is_formatted_for_a_counter(given_: float, shown: str) -> None:
    assert numbers.elapsed(given_) == shown


@pytest.mark.parametrize(
    ("given_", "shown"),
    [(0.04, "0.0 s"), (1.44, "1.4 s"), (9.3, "9.3 s"), (123.4, "123 s")],
)
def test_a_duration_is_formatted_with_its_unit(given_: float, shown: str) -> None:
    assert numbers.seconds(given_) == shown


def test_changes_are_signed_and_prices_are_in_dollars() -> None:
    assert numbers.change(31, 12) == "+31 −12"
    assert numbers.change(24, 0) == "+24"
    assert numbers.change(0, 0) == ""
    assert numbers.price(1.84) == "$1.84"
    assert numbers.price(0.03) == "$0.030"


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_larger_count_is_never_formatted_as_a_smaller_one(
    low: int, high: int
) -> None:
    def value(text: str) -> float:
        factor = {"k": 1e3, "M": 1e6}.get(text[-1], 1)
        return float(text.rstrip("kM")) * factor

    low, high = sorted((low, high))
    assert value(numbers.tokens(low)) <= value(numbers.tokens(high))
    assert value(numbers.short_tokens(low)) <= value(numbers.short_tokens(high))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_an_invalid_time_is_shown_as_unknown(value: float) -> None:
    assert numbers.seconds(value) == "? s"
