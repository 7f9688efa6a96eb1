"""What a compaction costs and saves: in dollars where prices are known, in tokens where they are not."""

from dataclasses import replace

import pytest

from foldline.compaction import plan
from foldline.llm.models import Price
from foldline.protocol import Usage
from foldline.tui.browser.draft.forecast import (
    draft_words,
    forecast_of,
    saving_words,
)
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.draft.words import NEW_DRAFT_COSTS, draft_foot
from support.llm import answer
from support.previews import BUDGET, NOTES, orders, proposal_for

DEAR = Price(input=600, cached=150, write=1, output=2_500)
"""A thousand times what a model costs: sessions of tests are small."""


async def shown(usage: Usage, price: Price | None) -> DraftState:
    made = await proposal_for(orders(), answer(NOTES, usage=usage))
    return DraftState(
        proposal=made, projection=orders().projection(), price=price, draft_price=price
    )


async def test_a_draft_costs_what_it_took_by_the_price_of_its_model() -> None:
    state = await shown(Usage(input=9_700, cached=9_400, output=100), DEAR)
    forecast = forecast_of(state)
    assert forecast is not None
    dollars = (300 * 600 + 9_400 * 150 + 100 * 2_500) / 1e6
    assert draft_words(state, forecast) == f"draft cost ${dollars:.2f}, 97 % from cache"
    assert draft_foot(state) == NEW_DRAFT_COSTS.format(price=f"${dollars:.2f}")


async def test_the_first_request_pays_for_what_is_new_and_later_ones_save() -> None:
    state = await shown(Usage(input=9_700, output=100), DEAR)
    forecast = forecast_of(state)
    assert forecast is not None
    opening = forecast.weights(after=True).system
    first = ((forecast.after - opening) * 600 + opening * 150) / 1e6
    later = (forecast.before - forecast.after) * 150 / 1e6
    assert (
        saving_words(state, forecast)
        == f"next request ${first:.2f}, then −${later:.2f} each"
    )
    assert state.proposal is not None
    stale = replace(state, proposal=state.proposal.out_of_date())
    assert saving_words(stale, forecast).startswith("next request ~$")


@pytest.mark.parametrize("price", [None, DEAR])
async def test_without_a_price_only_tokens_are_said(price: Price | None) -> None:
    state = replace(await shown(Usage(input=9_700, output=100), None), price=price)
    forecast = forecast_of(state)
    assert forecast is not None
    assert draft_words(state, forecast) == "draft took 9.8k" and draft_foot(state) == ""
    assert ("$" in saving_words(state, forecast)) == (price is not None)


def test_what_a_draft_may_cost_is_said_before_it_is_made() -> None:
    projection = orders().projection()
    made = plan(projection, BUDGET, "manual")
    state = DraftState(plan=made, projection=projection, price=DEAR, draft_price=DEAR)
    forecast = forecast_of(state)
    assert forecast is not None and draft_words(state, forecast).startswith(
        "draft up to $"
    )
    assert draft_words(replace(state, draft_price=None), forecast) == ""
