"""Rows of Audit and Draft, and the head of the screen."""

from foldline.memory.audit import Audit, Lost
from foldline.protocol import Usage
from foldline.tui.browser.draft.forecast import forecast_of
from foldline.tui.browser.draft.panel import (
    NO_SUMMARY,
    earlier_notes,
    history_blocks,
    note_blocks,
)
from foldline.tui.browser.draft.rows import (
    IN_FOCUS_LOST,
    IN_FOCUS_STALE,
    fact_blocks,
    facts_of,
)
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.draft.words import WAITING, bar_rows, header_row
from support import scenes
from support.llm import answer
from support.previews import NOTES, orders, proposal_for

PROJECTION = orders().projection()


async def facts(
    focus: str | None = None, lost: tuple[Lost, ...] | None = None
) -> dict[str, object]:
    made = await proposal_for(orders())
    forecast = forecast_of(DraftState(proposal=made, projection=orders().projection()))
    assert forecast is not None
    audit = made.audit if lost is None else Audit(lost, len(lost))
    return {
        fact.lost.text: fact for fact in facts_of(audit, forecast, PROJECTION, focus)
    }


async def test_a_fact_is_kept_by_the_tool_group_that_costs_least() -> None:
    fact = (await facts(lost=(Lost("path", "load.js", (6, 8)),)))["load.js"]
    assert fact.group == (8,) and fact.effect(is_stale=False) == f"pin +{fact.cost}"


async def test_what_only_an_earlier_summary_holds_cannot_be_pinned() -> None:
    fact = (await facts(lost=(Lost("path", "load.js", (999,)),)))["load.js"]
    assert (
        fact.group == () and fact.effect(is_stale=False) == "only in an earlier summary"
    )


async def test_a_fact_in_the_focus_says_that_the_next_draft_gets_it() -> None:
    fact = (await facts(focus="dwell on OrderReplayed"))["OrderReplayed"]
    assert fact.effect(is_stale=True) == IN_FOCUS_STALE.format(key="R")
    assert fact.effect(is_stale=False) == IN_FOCUS_LOST


async def test_entries_are_shortened_where_they_do_not_fit() -> None:
    many = await facts(lost=(Lost("path", "load.js", (12, 40, 51, 60, 7001)),))
    (row,) = fact_blocks(list(many.values()), is_stale=False)
    assert "12, 40, 51," in row.text() and "7001" not in row.text()


async def test_the_lists_from_the_history_are_counted_below_the_notes() -> None:
    made = await proposal_for(orders())
    texts = [block.text() for block in history_blocks(made.entry.summary)]
    assert texts[1:4] == [
        "modified-files 2",
        "src/shop/orders/service.py",
        "migrations/0042.py",
    ]
    assert "quoted constraints 1" in texts and "messages 2" in texts
    lines = [f"{block.text()}" for block in note_blocks(made.notes)]
    assert len(lines) == len(NOTES.split("\n"))


def test_a_draft_that_wrote_no_summary_says_so_where_one_would_stand() -> None:
    (line,) = history_blocks("")
    assert line.text() == NO_SUMMARY


async def test_the_earlier_summary_is_there_to_compare_with() -> None:
    made = await proposal_for(scenes.shop_api())
    earlier = earlier_notes(made)
    assert earlier is not None and earlier[0] == 26 and earlier[1].startswith("## Goal")
    assert earlier_notes(await proposal_for(orders())) is None


async def test_the_bars_say_what_the_draft_took_and_how_much_came_from_the_cache() -> (
    None
):
    made = await proposal_for(
        orders(), answer(NOTES, usage=Usage(input=1_000, cached=970, output=30))
    )
    state = DraftState(proposal=made, projection=orders().projection(), window=16_384)
    now, after = (
        "".join(text for text, _ in line)
        for line in bar_rows(state, forecast_of(state), 120)
    )
    assert len(now) == len(after) == 120
    assert "draft took 1.0k, 97 % from cache" in now and "in every request" in after


async def test_the_header_gives_up_the_model_first_and_never_says_less_than_where_we_are() -> (
    None
):
    state = DraftState(proposal=await proposal_for(orders()), waits=True)
    for width in (40, 60, 80, 120):
        line = "".join(
            text for text, _ in header_row("shop-api ▸ [/nope]", state, width)
        )
        assert len(line) == width and "preview" in line
        assert (WAITING in line) == (width >= 60)
