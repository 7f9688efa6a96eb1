"""Prices are data with a date; a model that is not listed has none."""

from datetime import date

import pytest

from foldline.llm.models import Price, model_info, price_of, price_table
from foldline.protocol import Usage


def test_the_table_names_its_date_and_source() -> None:
    assert isinstance(price_table().date, date)


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-4-5",
        "claude-opus-4-5-20251101",
        "anthropic/claude-opus-4-5",
        "Claude-Opus-4-5",
        "claude-opus-4-5-latest",
    ],
)
def test_a_model_is_found_with_and_without_provider_and_date(name: str) -> None:
    assert price_of(name) == Price(input=5, cached=0.5, write=1.25, output=25)


def test_a_date_with_hyphens_is_recognised() -> None:
    assert price_of("gpt-5-2025-08-07") == price_of("gpt-5")


@pytest.mark.parametrize(
    "name", ["gpt-5-nana", "gpt-4o-max", "gpt", "", "offline", "claude-opus-4-5-fast"]
)
def test_a_name_that_only_begins_like_a_known_model_has_no_price(name: str) -> None:
    assert price_of(name) is None


@pytest.mark.parametrize(
    ("name", "rho", "w", "omega"),
    [
        ("gpt-4o", 0.5, 1, 4),
        ("gpt-4.1", 0.25, 1, 4),
        ("gpt-5.5", 0.1, 1, 6),
        ("gpt-5.6", 0.1, 1.25, 5),
        ("claude-haiku-4-5", 0.1, 1.25, 5),
        ("kimi-k3", 0.1, 1, 5),
        ("deepseek-flash", 0.02, 1, 4),
    ],
)
def test_price_ratios_match_the_research(
    name: str, rho: float, w: float, omega: float
) -> None:
    price = price_of(name)
    assert price is not None
    assert (price.cached_ratio, price.write, price.output_ratio) == pytest.approx(
        (rho, w, omega)
    )


def test_cached_input_never_costs_more_and_no_price_is_zero() -> None:
    for model, price in price_table().by_model.items():
        assert 0 < price.cached <= price.input <= price.output, model
        assert price.write >= 1, model


def test_a_long_request_is_charged_entirely_at_the_higher_rate() -> None:
    price = price_of("gpt-5.4")
    assert price is not None
    assert price.long is not None
    short, long = price.long.above, price.long.above + 1
    assert price.cost(short, 0, 1000) == pytest.approx((short * 2.5 + 1000 * 15) / 1e6)
    assert price.cost(1, short, 1000) == pytest.approx(
        (5 + short * 0.5 + 1000 * 22.5) / 1e6
    )
    assert price.cost(long, 0) == pytest.approx(2 * price.cost(short, 0), rel=1e-4)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (
            Usage(input=1_000_000, output=1_000_000),
            5 * 1.25 + 25,
        ),  # all of it new, and so written
        (Usage(input=1_000_000, cached=900_000, output=0), 0.1 * 5 * 1.25 + 0.9 * 0.5),
        (
            Usage(input=1_000_000, cached=900_000, written=60_000),
            0.04 * 5 + 0.06 * 5 * 1.25 + 0.9 * 0.5,
        ),
        (Usage(input=100_000, written=100_000, written_1h=100_000), 0.1 * 5 * 2),
        (
            Usage(input=10, cached=1_000_000),
            0.5,
        ),  # more from the cache than there was: nothing is new
        (Usage(), 0),
    ],
)
def test_the_cost_of_a_request_follows_from_its_usage(
    usage: Usage, dollars: float
) -> None:
    price = price_of("claude-opus-4-5")
    assert price is not None and price.paid(usage) == pytest.approx(dollars, rel=1e-4)


def test_a_long_request_costs_twice_as_much() -> None:
    price = price_of("gpt-5.4")
    assert price is not None and price.long is not None
    usage = Usage(input=price.long.above + 1, cached=price.long.above, output=1_000)
    assert price.paid(usage) == pytest.approx(
        (5 + price.long.above * 0.5 + 1_000 * 22.5) / 1e6
    )


def test_manual_entries_override_the_generated_table() -> None:
    assert model_info("gpt-5.4").window == 922_000  # the source counts the answer in
    assert model_info("gpt-5.3-chat-latest").window_from == "table"
