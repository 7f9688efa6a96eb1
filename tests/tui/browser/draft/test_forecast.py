"""What would be: sizes agree with the proposal's, rows say what stays and what goes."""

from dataclasses import replace

import pytest

from foldline.compaction import (
    CompactionStrategy,
    DigestCompaction,
    Proposal,
    plan,
)
from foldline.tui.blocks.block import Block
from foldline.tui.browser.draft.forecast import ViewForecast, forecast_of
from foldline.tui.browser.draft.rows import CUT_KEY, HELD_KEY, ProposedView
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.draft.words import draft_head
from foldline.tui.browser.panels.entry_list import TOOLS_KEY, row_key
from foldline.tui.browser.panels.entry_rows import ItemRow
from foldline.tui.look.styles import Styles
from support import scenes
from support.hiding import HidingAllBut
from support.history import call
from support.previews import BUDGET, LONG, index_of, orders, proposal_for
from support.stories import Story


def seen(**fields: object) -> ViewForecast:
    forecast = forecast_of(
        DraftState(**{"projection": orders().projection(), **fields})
    )
    assert forecast is not None
    return forecast


def rows_of(
    forecast: ViewForecast, story: Story | None = None, held: str | None = None
) -> list[Block]:
    projection = (story or orders()).projection()
    return ProposedView(forecast, projection, held).rows()


def words(forecast: ViewForecast, held: str | None = None) -> list[str]:
    """The rows: the state of each item and its number, with `*` if it is pinned."""
    names = {TOOLS_KEY: "tools", CUT_KEY: "cut", HELD_KEY: "held"}
    rows = []
    for row in rows_of(forecast, held=held):
        if isinstance(row, ItemRow):
            pin = "*" * (row.item.index in forecast.pins)
            rows.append(f"{forecast.fates[row.item.key][0]}{pin}{row.item.index}")
        else:
            rows.append(names[row.key])
    return rows


def fates(forecast: ViewForecast) -> dict[int, str]:
    return {item.index: forecast.fates[item.key] for item in forecast.items}


def index_at(forecast: ViewForecast, position: int) -> int:
    return forecast.items[position].index


async def test_the_sizes_are_those_of_the_proposal() -> None:
    made = await proposal_for(orders(), overhead=900)
    for proposal in (made, made.moved(index_of(made, "Try"))):
        forecast, outline = seen(proposal=proposal), proposal.sizes
        stays = proposal._kept_keys()
        compacted = sum(item.tokens for item in proposal.view if item.key not in stays)
        assert forecast.compacted == round(compacted * proposal.scale)
        assert forecast.after == outline.tokens_after


async def test_the_cut_is_between_what_is_compacted_and_what_is_kept() -> None:
    forecast = seen(proposal=await proposal_for(orders(), overhead=900))
    assert words(forecast, "and cancel") == [
        "tools",
        *("l0", "l1", "l*2", "s3", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12"),
        "cut",
        *(f"l{index}" for index in range(13, 20)),
        "held",
    ]


async def test_a_turn_that_the_cut_divides_keeps_its_request() -> None:
    made = await proposal_for(orders())
    states = fates(seen(proposal=made.moved(16)))
    assert (states[13], states[14], states[16]) == ("live", "summarised", "live")


async def test_cut_points_are_those_where_the_engine_can_cut_and_each_compacts_something_else() -> (
    None
):
    made = await proposal_for(orders())
    forecast = seen(proposal=made)
    compacted = [forecast.compacted_at(place) for place in forecast.cut_points]
    after = [
        made.moved(index_at(forecast, place)).sizes.tokens_after
        for place in forecast.cut_points
    ]
    assert after == sorted(after, reverse=True)
    assert len(set(compacted)) == len(compacted) and compacted == sorted(compacted)


async def test_behind_a_request_there_is_no_place_of_its_own() -> None:
    made = await proposal_for(orders())
    forecast = seen(proposal=made)
    assert [index_at(forecast, place) for place in forecast.cut_points] == [
        5,
        8,
        9,
        12,
        13,
        16,
        19,
    ]


async def test_pinning_costs_what_the_proposal_grows_by() -> None:
    made = await proposal_for(orders())
    forecast = seen(proposal=made)
    made_group = orders().projection().group
    for index in (6, 10, 12):
        grown = made.revised(pins=frozenset({index})).sizes.tokens_after
        assert grown - made.sizes.tokens_after == pytest.approx(
            forecast.cost_of_pinning(made_group(index)), abs=1
        )


async def test_the_whole_tool_group_of_a_pinned_entry_stays() -> None:
    made = (await proposal_for(orders())).revised(pins=frozenset({6}))
    rows = words(seen(proposal=made))
    assert "l*6" in rows and "l*7" in rows and "s5" in rows


async def test_the_gutter_shows_state_pin_cut_point_and_number() -> None:
    forecast = seen(proposal=await proposal_for(orders()))
    rows = {row.key: row for row in rows_of(forecast)}

    def gutter(index: int) -> str:
        key = row_key(index)
        view = ProposedView(forecast, orders().projection(), None)
        spans = view.gutter(rows[key], key, 0, 10)
        return "".join(text for text, _ in spans)

    assert [gutter(2), gutter(5), gutter(14)] == [
        " L┃*    2 ",
        " S┊ ├   5 ",
        " L┃    14 ",
    ]


async def test_the_weights_of_both_bars_are_the_sizes_beside_them() -> None:
    made = await proposal_for(scenes.shop_api(), budget=BUDGET)
    forecast = seen(proposal=made, projection=scenes.shop_api().projection())
    assert forecast.weights(after=True).total == pytest.approx(forecast.after, abs=4)
    now = forecast.weights(after=False)
    assert now.compacting > 0 and now.summaries > 0 and now.system > 0


async def test_an_earlier_summary_goes_into_the_draft() -> None:
    made = await proposal_for(scenes.shop_api())
    forecast = seen(proposal=made, projection=scenes.shop_api().projection())
    summary = next(item for item in forecast.items if item.written)
    assert forecast.is_gone(summary) and fates(forecast)[26] == "summarised"


async def test_results_that_would_be_hidden_have_their_letter() -> None:
    made = await proposal_for(orders(), strategy=HidingAllBut(keep=1), reason="manual")
    assert "hidden" in fates(seen(proposal=made)).values()


@pytest.mark.parametrize("strategy", [DigestCompaction(), HidingAllBut(keep=1)])
async def test_a_strategy_without_a_cut_has_no_row_for_one(
    strategy: CompactionStrategy,
) -> None:
    made = await proposal_for(orders(), strategy=strategy, reason="manual")
    made = replace(made, cut=None) if made.editable else made
    forecast = seen(proposal=made)
    assert "cut" not in words(forecast) and forecast.cut_points == ()


async def test_before_there_is_a_draft_the_plan_is_shown() -> None:
    projection = orders().projection()
    planned = plan(projection, BUDGET, "threshold")
    forecast = seen(plan=planned, projection=projection)
    proposal = seen(proposal=await proposal_for(orders()))
    assert (forecast.cut, forecast.compacted) == (proposal.cut, proposal.compacted)
    assert words(forecast) == words(proposal)
    weights = forecast.weights(after=True)
    assert weights.total == pytest.approx(forecast.after, abs=4)
    assert (
        weights.system == forecast.weights(after=False).system and weights.summaries > 0
    )


def test_nothing_planned_is_nothing_to_show() -> None:
    assert forecast_of(DraftState()) is None


async def test_the_held_prompt_is_the_last_row() -> None:
    row = rows_of(
        seen(proposal=await proposal_for(orders())), held="and\nthe same for cancel"
    )[-1]
    assert row.key == HELD_KEY and row.text().split()[:2] == ["held", "and"]


def head(made: Proposal) -> str:
    spans = draft_head(DraftState(proposal=made), seen(proposal=made), 0.0)
    return "".join(text for text, _ in spans)


async def test_a_stale_draft_says_which_cut_it_was_made_for() -> None:
    made = await proposal_for(orders())
    moved = made.moved(index_of(made, "Try"))
    assert "stale: made for cut 13" in head(moved)
    assert "stale: R drafts again" in head(made.out_of_date())


async def test_hostile_text_is_harmless_in_every_row() -> None:
    story = Story().system("s").user("\x1b[31mred\x07 [bold]no markup[/nope]")
    story.assistant("a", calls=[call("ba\x1bsh", command="rm \x1b]0;x\x07\n-rf")])
    story.answer(LONG, brief="ex\x1bit").assistant("ok").user("now").assistant(
        "done " * 900
    )
    for row in rows_of(
        seen(proposal=await proposal_for(story), projection=story.projection()),
        story,
        "held\x1b[2J",
    ):
        drawn = "".join(strip.text for strip in row.render(80, Styles()))
        assert not any(ord(sign) < 32 for sign in drawn)
