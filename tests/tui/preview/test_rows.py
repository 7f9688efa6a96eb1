"""Rows of Audit and Draft, and wishes that wait their turn."""

from dataclasses import replace

from foldline.context.audit import Audit, Lost
from foldline.protocol import Usage
from foldline.tui.preview import PreviewState
from foldline.tui.preview.draft import appended, earlier_notes, history_blocks, note_lines
from foldline.tui.preview.outlook import outlook_of
from foldline.tui.preview.rows import FactKeys, effect_words, entries_words, facts_of
from foldline.tui.preview.state import PendingRevision
from foldline.tui.preview.words import bar_rows, header_row
from support import scenes
from support.llm import answer
from support.previews import NOTES, orders, proposed


async def facts(focus: str | None = None, lost: tuple[Lost, ...] | None = None) -> dict[str, object]:
    made = await proposed(orders())
    outlook = outlook_of(PreviewState(proposal=made, projection=orders().projection()))
    assert outlook is not None
    audit = made.audit if lost is None else Audit(lost, len(lost))
    return {fact.lost.text: fact for fact in facts_of(audit, outlook, focus, FactKeys())}


async def test_a_fact_is_kept_by_the_tool_group_that_costs_least() -> None:
    fact = (await facts(lost=(Lost("path", "load.js", (6, 8)),)))["load.js"]
    assert fact.group == (8,) and effect_words(fact, stale=False) == f"pin +{fact.cost}"


async def test_what_only_an_earlier_summary_holds_cannot_be_pinned() -> None:
    fact = (await facts(lost=(Lost("path", "load.js", (999,)),)))["load.js"]
    assert fact.group == () and effect_words(fact, stale=False) == "only in an earlier summary"


async def test_a_fact_in_the_focus_says_that_the_next_draft_gets_it() -> None:
    fact = (await facts(focus="dwell on OrderReplayed"))["OrderReplayed"]
    assert effect_words(fact, stale=True) == "in the focus, R drafts it"
    assert effect_words(fact, stale=False) == "in the focus, still lost"


async def test_a_fact_keeps_its_key_when_others_go() -> None:
    made = await proposed(orders())
    outlook = outlook_of(PreviewState(proposal=made, projection=orders().projection()))
    assert outlook is not None
    names = FactKeys()
    before = {fact.lost.text: fact.key for fact in facts_of(made.audit, outlook, None, names)}
    fewer = Audit(made.audit.lost[2:], made.audit.facts)
    assert all(before[fact.lost.text] == fact.key for fact in facts_of(fewer, outlook, None, names))


def test_entries_are_counted_where_they_do_not_fit() -> None:
    assert entries_words((262, 289)) == "262, 289"
    assert entries_words((12, 40, 51, 60, 7001)) == "12, 40, +3"


async def test_the_lists_from_the_history_are_counted_below_the_notes() -> None:
    made = await proposed(orders())
    assert dict(appended(made.entry.summary))["modified-files"] == [
        "src/shop/orders/service.py",
        "migrations/0042.py",
    ]
    assert history_blocks(made)[1].text() == "modified-files 2 · quoted constraints 1 · messages 2"
    assert note_lines(made.notes) == NOTES.split("\n")


async def test_a_draft_that_wrote_no_summary_says_so_where_one_would_stand() -> None:
    made = await proposed(orders())
    entry = made.entry.model_copy(update={"summary": ""})
    (line,) = history_blocks(replace(made, entry=entry))
    assert line.text().startswith("No summary is written")


async def test_the_earlier_summary_is_there_to_compare_with() -> None:
    made = await proposed(scenes.shop_api())
    earlier = earlier_notes(made)
    assert earlier is not None and earlier[0] == 26 and earlier[1].startswith("## Goal")
    assert earlier_notes(await proposed(orders())) is None


async def test_the_bars_say_what_the_draft_took_and_how_much_came_from_the_cache() -> None:
    made = await proposed(orders(), answer(NOTES, usage=Usage(input=1_000, cached=970, output=30)))
    state = PreviewState(proposal=made, projection=orders().projection(), window=16_384)
    now, after = ("".join(text for text, _ in line) for line in bar_rows(state, outlook_of(state), 120))
    assert len(now) == len(after) == 120
    assert "draft took 1.0k, 97 % from cache" in now and "in every request" in after


async def test_the_header_gives_up_the_model_first_and_never_says_less_than_where_we_are() -> None:
    state = PreviewState(proposal=await proposed(orders()), waits=True)
    for width in (40, 60, 80, 120):
        line = "".join(text for text, _ in header_row("shop-api ▸ [/nope]", state, width))
        assert len(line) == width and "preview" in line
        assert ("waits for you" in line) == (width >= 60)


# --- wishes -------------------------------------------------------------------------------------------


async def test_what_was_changed_is_asked_for_at_once_and_the_next_after_the_answer() -> None:
    made, pending = await proposed(orders()), PendingRevision()
    pending.want_cut(9)
    pending.want_pins(pin=frozenset({6, 7}))
    pending.focus.append("OrderReplayed")
    pending.notes = "mine"
    asked = pending.next(made, "p95")
    assert asked is not None and (asked.proposal, asked.notes, asked.first_kept_index) == (made.id, "mine", 9)
    assert set(asked.pins or ()) >= {6, 7} and asked.focus == "p95; OrderReplayed"
    pending.want_cut(8)
    assert pending.next(made, None) is None and pending.open
    made = made.out_of_date()
    pending.answered(made)
    again = pending.next(made, None)
    assert again is not None and (again.notes, again.pins, again.first_kept_index) == (None, None, 8)


async def test_the_later_of_two_cuts_holds() -> None:
    made, pending = await proposed(orders()), PendingRevision()
    pending.want_cut(12)
    first = pending.next(made, None)
    pending.want_cut(9)
    pending.want_cut(8)
    moved = made.moved(12)
    pending.answered(moved)
    second = pending.next(moved, None)
    assert first is not None and second is not None
    assert (first.first_kept_index, second.first_kept_index, pending.heading) == (12, 8, 8)
    pending.answered(moved.moved(8))
    assert pending.heading is None and not pending.open and pending.heading is None


async def test_after_a_failure_nothing_more_is_asked() -> None:
    made, pending = await proposed(orders()), PendingRevision()
    pending.notes = ""
    pending.next(made, None)
    pending.want_cut(9)
    pending.forget()
    assert not pending.open and pending.next(made, None) is None


async def test_what_changes_nothing_is_not_asked_for() -> None:
    made, pending = await proposed(orders()), PendingRevision()
    pending.notes = f"  {made.notes}\n"
    assert made.cut is not None
    pending.want_cut(made.cut.first_kept_index)
    pending.focus.append("lock")
    assert pending.next(made, "the lock timeout") is None and not pending.open and pending.heading is None
