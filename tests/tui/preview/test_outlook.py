"""What would be: sizes agree with the proposal's, rows say what stays and what goes."""

from dataclasses import replace

import pytest

from foldline.compaction import CompactionStrategy, DigestCompaction, ToolResultHidingCompaction, plan
from foldline.tui.blocks.styles import Styles
from foldline.tui.panels.entry_rows import Source
from foldline.tui.preview.outlook import Outlook, outlook_of
from foldline.tui.preview.rows import CUT_KEY, HELD_KEY, NOTE_KEY, PREAMBLE_KEY, Row, cut_rows
from foldline.tui.preview.state import PreviewState
from foldline.tui.preview.words import draft_state
from support import scenes
from support.history import call
from support.previews import BUDGET, LONG, index_of, orders, proposed
from support.stories import Story


def seen(**fields: object) -> Outlook:
    outlook = outlook_of(PreviewState(**{"projection": orders().projection(), **fields}))
    assert outlook is not None
    return outlook


def rows_of(
    outlook: Outlook, story: Story | None = None, held: str | None = None, strategy: str = ""
) -> list[Row]:
    return cut_rows(outlook, Source((story or orders()).projection()), held, strategy)


def words(outlook: Outlook, held: str | None = None) -> list[str]:
    names = {PREAMBLE_KEY: "preamble", CUT_KEY: "cut", HELD_KEY: "held"}
    return [
        names.get(row.key) or f"{'pin ' * row.pinned}{'turn ' * (len(row.parts) > 1)}{row.index}"
        for row in rows_of(outlook, held=held)
    ]


async def test_the_sizes_are_those_of_the_proposal() -> None:
    made = await proposed(orders(), overhead=900)
    for proposal in (made, made.moved(index_of(made, "Try"))):
        outlook, outline = seen(proposal=proposal), proposal.outline
        stays = proposal._stays()
        folded = sum(item.tokens for item in proposal.view if item.key not in stays)
        assert outlook.compacted == round(folded * proposal.scale)
        assert outlook.after == outline.tokens_after


async def test_the_rows_add_up_to_the_numbers_of_the_cut() -> None:
    outlook = seen(proposal=await proposed(orders(), overhead=900))
    rows = rows_of(outlook)

    def size(row: Row) -> int:
        return outlook.size(row.parts)

    assert sum(size(row) for row in rows if row.gone) == pytest.approx(outlook.compacted, abs=len(rows))
    cut = next(at for at, row in enumerate(rows) if row.key == CUT_KEY)
    below = sum(size(row) for row in rows[cut:])
    assert below == pytest.approx(outlook.kept_below, abs=len(rows))


async def test_turns_above_the_cut_are_closed_and_those_below_are_open() -> None:
    outlook = seen(proposal=await proposed(orders()))
    assert words(outlook, "and cancel") == [
        "preamble",
        "pin 2",
        "3",
        "turn 5",
        "turn 9",
        "cut",
        *map(str, range(13, 20)),
        "held",
    ]


async def test_a_turn_that_the_cut_divides_is_open_on_both_sides_and_keeps_its_request() -> None:
    made = await proposed(orders())
    rows = {row.index: row for row in rows_of(seen(proposal=made.moved(16)))}
    assert (rows[13].fate, rows[14].fate, rows[16].fate) == ("live", "summarised", "live")
    assert [row.index for row in rows_of(seen(proposal=made.moved(16)))].index(16) > list(rows).index(14)


async def test_cut_points_are_those_where_the_engine_can_cut_and_each_compacts_something_else() -> None:
    made = await proposed(orders())
    outlook = seen(proposal=made)
    folded = [outlook.size_compacted_at(place) for place in outlook.cut_points]
    after = [made.moved(outlook.index_at(place)).outline.tokens_after for place in outlook.cut_points]
    assert after == sorted(after, reverse=True)
    assert len(set(folded)) == len(folded) and folded == sorted(folded)


async def test_behind_a_request_there_is_no_place_of_its_own() -> None:
    made = await proposed(orders())
    outlook = seen(proposal=made)
    assert [outlook.index_at(place) for place in outlook.cut_points] == [5, 8, 9, 12, 13, 16, 19]


async def test_pinning_costs_what_the_proposal_grows_by() -> None:
    made = await proposed(orders())
    outlook = seen(proposal=made)
    for index in (6, 10, 12):
        grown = made.revised(pins=frozenset({index})).outline.tokens_after
        assert grown - made.outline.tokens_after == pytest.approx(outlook.cost_of_pinning([index]), abs=1)


async def test_a_pinned_tool_group_is_a_row_of_its_own() -> None:
    made = (await proposed(orders())).revised(pins=frozenset({6}))
    rows = {row.index: row for row in rows_of(seen(proposal=made))}
    assert rows[6].pinned and rows[7].pinned
    assert 6 not in rows[5].indices


async def test_the_weights_of_both_bars_are_the_sizes_beside_them() -> None:
    made = await proposed(scenes.shop_api(), budget=BUDGET)
    outlook = seen(proposal=made, projection=scenes.shop_api().projection())
    assert outlook.weights_after().total == pytest.approx(outlook.after, abs=4)
    now = outlook.weights_now()
    assert now.compacting > 0 and now.summaries > 0 and now.system > 0


async def test_an_earlier_summary_goes_into_the_draft() -> None:
    made = await proposed(scenes.shop_api())
    row = next(
        row
        for row in rows_of(seen(proposal=made, projection=scenes.shop_api().projection()), scenes.shop_api())
        if row.written
    )
    assert "goes into the draft" in row.block.text() and row.fate == "summarised"


async def test_results_that_would_be_hidden_have_their_letter() -> None:
    made = await proposed(orders(), strategy=ToolResultHidingCompaction(keep=1), reason="manual")
    assert any(row.fate == "hidden" for row in rows_of(seen(proposal=made)))


@pytest.mark.parametrize("strategy", [DigestCompaction(), ToolResultHidingCompaction(keep=1)])
async def test_a_strategy_without_a_cut_says_so(strategy: CompactionStrategy) -> None:
    made = await proposed(orders(), strategy=strategy, reason="manual")
    made = replace(made, cut=None) if made.editable else made
    rows = {row.key: row for row in rows_of(seen(proposal=made), strategy="DigestCompaction")}
    assert "DigestCompaction decides itself what stays" in rows[NOTE_KEY].block.text()
    assert CUT_KEY not in rows


async def test_before_there_is_a_draft_the_plan_is_shown() -> None:
    projection = orders().projection()
    planned = plan(projection, BUDGET, "threshold")
    outlook = seen(plan=planned, projection=projection)
    proposal = seen(proposal=await proposed(orders()))
    assert (outlook.cut, outlook.compacted) == (proposal.cut, proposal.compacted)
    assert words(outlook) == words(proposal)
    weights = outlook.weights_after()
    assert weights.total == pytest.approx(outlook.after, abs=4)
    assert weights.system == outlook.weights_now().system and weights.summaries > 0


def test_nothing_planned_is_nothing_to_show() -> None:
    assert outlook_of(PreviewState()) is None


async def test_the_held_prompt_is_the_last_row() -> None:
    row = rows_of(seen(proposal=await proposed(orders())), held="and\nthe same for cancel")[-1]
    assert row.key == HELD_KEY and row.block.text().split()[:2] == ["held", "and"]


async def test_a_stale_draft_says_which_cut_it_was_made_for() -> None:
    made = await proposed(orders())
    moved = made.moved(index_of(made, "Try"))
    state = PreviewState(proposal=moved)
    assert draft_state(state, seen(proposal=moved), 0.0)[0] == "stale: made for cut 13"
    refocused = made.out_of_date()
    assert (
        "R drafts it again" in draft_state(PreviewState(proposal=refocused), seen(proposal=refocused), 0.0)[0]
    )


async def test_hostile_text_is_harmless_in_every_row() -> None:
    story = Story().system("s").user("\x1b[31mred\x07 [bold]no markup[/nope]")
    story.assistant("a", calls=[call("ba\x1bsh", command="rm \x1b]0;x\x07\n-rf")])
    story.answer(LONG, brief="ex\x1bit").assistant("ok").user("now").assistant("done " * 900)
    for row in rows_of(
        seen(proposal=await proposed(story), projection=story.projection()), story, "held\x1b[2J"
    ):
        drawn = "".join(strip.text for strip in row.block.render(80, Styles()))
        assert not any(ord(sign) < 32 for sign in drawn)
