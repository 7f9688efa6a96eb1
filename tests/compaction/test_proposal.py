"""A proposal can be revised without a model call; what is previewed is what is applied."""

from collections.abc import Sequence

import pytest

from foldline.compaction import (
    CompactionContext,
    CompactionFailed,
    DigestCompaction,
    Proposal,
    RedraftOptions,
    SummaryCompaction,
    propose,
)
from foldline.compaction.simple import TruncateTurns
from foldline.compaction.summary_text import appendix_of, framed
from foldline.context.budget import Budget
from foldline.context.compactions import compacted_count
from foldline.context.cut import cut_points
from foldline.context.invariants import broken
from foldline.protocol import BaseMessage
from support.history import History, history, modified
from support.llm import ScriptedLLM

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(
    window=16_384, reserve_tokens=2_048, keep_recent_tokens=700, max_summary_tokens=1_600, soft_ratio=0.75
)


def session() -> History:
    built = history().system("s")
    for turn in range(3):
        built.user(f"request {turn}: never touch table_{turn}")
        built.step("edit", LINE * 60, path=f"src/part_{turn}.py", files=[modified(f"src/part_{turn}.py")])
        built.assistant(f"Changed part {turn}, 3{turn} tests pass.")
    return built.turn("almost there", LINE * 20).user("and now?")


async def drafted(
    built: History, text: str = "## Goal\n- notes", options: RedraftOptions | None = None
) -> Proposal:
    proposal = await propose(
        built.projection(),
        strategy=SummaryCompaction(),
        llm=ScriptedLLM(always=text),
        budget=BUDGET,
        reason="manual",
        options=options,
    )
    assert proposal is not None
    return proposal


def applied(built: History, proposal: Proposal) -> History:
    """As the agent commits it."""
    after = built.add(proposal.entry).projection()
    assert broken(after) == []
    shown = [message.text for message in proposal.after]
    assert [item.message.text for item in after.view] == shown
    return built


async def test_the_text_can_be_edited_and_the_lists_from_the_history_stay() -> None:
    built = session()
    proposal = await drafted(built)
    edited = proposal.revised(notes="## Goal\n- in my own words")
    assert (edited.state, edited.notes) == ("edited", "## Goal\n- in my own words")
    assert "<modified-files>\nsrc/part_0.py" in edited.entry.summary
    assert edited.entry.summary.endswith(appendix_of(proposal.entry.summary))
    assert edited.id != proposal.id
    assert "in my own words" in applied(built, edited).projection().view[1].message.text


async def test_an_edit_back_to_the_draft_is_the_draft() -> None:
    proposal = await drafted(session())
    assert proposal.revised(notes=proposal.notes).state == "current"


@pytest.mark.parametrize("text", ["", "  \n ", LINE * 400])
async def test_a_text_that_may_replace_nothing_is_refused(text: str) -> None:
    proposal = await drafted(session())
    with pytest.raises(CompactionFailed):
        proposal.revised(notes=text)


async def test_a_pin_keeps_the_whole_tool_group_verbatim_and_makes_no_draft_stale() -> None:
    built = session()
    proposal = await drafted(built)
    assert built.projection().group(3) == (2, 3)
    pinned = proposal.revised(pins=frozenset({3}))
    assert (pinned.state, pinned.pins) == ("current", frozenset({2, 3}))
    assert pinned.entry.tokens_after > proposal.entry.tokens_after
    assert pinned.kept == proposal.kept + 2
    projection = applied(built, pinned).projection()
    assert [item.index for item in projection.view if item.pinned] == [2, 3]
    assert [projection.fate(index).kind for index in (1, 2, 3)] == ["summarised", "live", "live"]


async def test_pins_are_kept_in_the_order_of_the_conversation() -> None:
    built = session()
    proposal = (await drafted(built)).revised(pins=frozenset({9, 1, 6}))
    projection = applied(built, proposal).projection()
    assert [item.index for item in projection.view if item.pinned] == [1, 6, 7, 9]


async def test_pinning_everything_that_was_folded_is_no_fold() -> None:
    proposal = await drafted(session())
    everything = frozenset(item.index for item in proposal.view[1:])
    with pytest.raises(CompactionFailed, match="not smaller"):
        proposal.revised(pins=everything)


async def test_a_pin_taken_back_gives_the_same_fold_again() -> None:
    proposal = await drafted(session())
    again = proposal.revised(pins=frozenset({3})).revised(pins=frozenset())
    assert (again.entry, again.after) == (proposal.entry, proposal.after)


@pytest.mark.parametrize("index", [0, 99, 16], ids=["system prompt", "unknown", "summary"])
async def test_what_is_no_message_of_the_conversation_cannot_be_pinned_with_it(index: int) -> None:
    built = session()
    built.add((await drafted(built)).entry)
    for _ in range(3):
        built.turn("next", LINE * 20)
    proposal = await drafted(built)
    assert [item.index for item in proposal.view if item.written] == [16]
    with pytest.raises(CompactionFailed, match=f"Entry {index} is no message"):
        proposal.revised(pins=frozenset({index}))


async def test_the_first_entry_that_is_kept_may_be_pinned_too() -> None:
    built = session()
    proposal = await drafted(built)
    assert proposal.cut is not None
    first = proposal.cut.first_kept_index
    pinned = proposal.revised(pins=frozenset({first}))
    assert (pinned.state, pinned.pins) == ("current", frozenset({first, first + 1}))  # call and result
    projection = applied(built, pinned).projection()
    assert [item.index for item in projection.view if item.pinned] == [first, first + 1]


async def test_a_pin_shows_what_was_hidden_whole_and_so_does_the_preview() -> None:
    def hidden() -> History:
        return session().turn("more", LINE * 60).turn("and more", LINE * 60).edit("hide", 3)

    proposal = (await drafted(hidden())).revised(pins=frozenset({3}))
    assert [message.text for message in proposal.after if message.index == 3] == [LINE * 60]
    applied(hidden(), proposal)
    applied(hidden(), await drafted(hidden(), options=RedraftOptions(pins=frozenset({2, 3}))))


async def test_undo_of_a_fold_that_pinned_a_hidden_result_gives_the_earlier_request_back() -> None:
    built = session().turn("more", LINE * 60).turn("and more", LINE * 60).edit("hide", 3)
    earlier = [item.message.text for item in built.projection().view]
    applied(built, (await drafted(built)).revised(pins=frozenset({3}))).undo()
    assert [item.message.text for item in built.projection().view] == earlier


async def test_turns_that_were_left_out_are_told_as_truncated_also_after_a_revision() -> None:
    class SummaryOfTheFirst:
        async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
            return [ctx.history[0], framed("the first turn"), *ctx.history[3:]]

    built = history().system("s").turn("first", LINE * 20)
    for turn in range(16):
        built.turn(f"request {turn}", LINE * 60)
    proposal = await propose(
        built.user("and now?").projection(),
        strategy=SummaryOfTheFirst(),
        llm=ScriptedLLM(),
        budget=BUDGET,
        reason="threshold",
    )
    assert proposal is not None
    assert proposal.entry.rung == "truncate"
    again = proposal.revised(pins=frozenset({9})).revised(pins=frozenset())
    assert again.entry == proposal.entry
    projection = applied(built, proposal.revised(notes="the very first turn")).projection()
    assert [projection.fate(index).kind for index in (1, 2, 3)] == ["summarised", "summarised", "truncated"]


async def test_the_entries_of_a_proposal_are_counted_as_those_of_the_fold_it_becomes() -> None:
    built = session()
    first = await drafted(built)
    folded = applied(built, first).projection()
    assert first.outline.compacted == first.compacted == compacted_count(folded, folded.all_compactions[-1])
    for number in range(4):
        built = built.user(f"again {number} " * 400).assistant("done " * 400)
    second = await drafted(built)
    assert any(item.written for item in second.view), "an earlier summary goes into it"
    folded = applied(built, second).projection()
    assert second.outline.compacted == second.compacted == compacted_count(folded, folded.all_compactions[-1])


async def test_a_moved_cut_makes_the_draft_stale_and_moves_the_numbers_at_once() -> None:
    proposal = await drafted(session())
    messages = [item.message for item in proposal.view]
    places = [messages[at].index for at in cut_points(messages)]
    assert proposal.cut is not None
    earlier = places[places.index(proposal.cut.first_kept_index) - 2]
    moved = proposal.moved(earlier)
    assert (moved.state, moved.cut and moved.cut.first_kept_index) == ("stale", earlier)
    assert moved.outline.compacted < proposal.outline.compacted
    assert moved.outline.tokens_after > proposal.outline.tokens_after
    assert moved.entry.summary == proposal.entry.summary


async def test_a_cut_moved_back_makes_the_draft_current_again() -> None:
    proposal = await drafted(session())
    assert proposal.cut is not None
    first = proposal.cut.first_kept_index
    messages = [item.message for item in proposal.view]
    earlier = [messages[at].index for at in cut_points(messages)][1]
    back = proposal.moved(earlier).moved(first)
    assert (back.state, back.outline, back.audit) == ("current", proposal.outline, proposal.audit)


async def test_a_pin_counts_at_once_also_beside_a_moved_cut() -> None:
    proposal = await drafted(session())
    messages = [item.message for item in proposal.view]
    later = [messages[at].index for at in cut_points(messages)][-3]
    moved = proposal.moved(later)
    pinned = moved.revised(pins=frozenset({3}))
    assert (pinned.state, pinned.cut and pinned.cut.first_kept_index) == ("stale", later)
    assert pinned.outline.tokens_after > moved.outline.tokens_after


async def test_a_cut_that_is_not_legal_is_refused() -> None:
    proposal = await drafted(session())
    for index in (0, 1, 3, 99):  # 3 is a tool result: its group stays whole
        with pytest.raises(CompactionFailed, match=f"at entry {index}"):
            proposal.moved(index)


async def test_a_new_draft_keeps_to_the_cut_and_the_pins_the_reader_chose() -> None:
    built = session()
    options = RedraftOptions(first_kept_index=9, pins=frozenset({2, 3}))
    proposal = await drafted(built, options=options)
    assert proposal.entry.first_kept_index == 9
    projection = applied(built, proposal).projection()
    assert [item.index for item in projection.view[1:4]] == [projection.last_index, 2, 3]


async def test_the_audit_follows_the_text_and_the_pins() -> None:
    built = session()
    bare = await drafted(built, "## Goal\n- go on")
    lost = {item.text for item in bare.audit.lost}
    assert any("part_1.py" in text or "31 tests" in text for text in lost)
    assert (bare.entry.facts, bare.entry.lost) == (bare.audit.facts, len(bare.audit.lost))
    told = bare.revised(notes="\n".join(["## Goal", *(f"- {text}" for text in lost)]))
    assert len(told.audit.lost) < len(bare.audit.lost)


async def test_outline_and_entry_tell_the_same_size() -> None:
    proposal = await drafted(session())
    assert proposal.outline.tokens_after == proposal.entry.tokens_after
    pinned = proposal.revised(pins=frozenset({3}))
    assert pinned.outline.tokens_after == pinned.entry.tokens_after


async def test_a_fold_without_a_cut_or_a_text_says_what_it_cannot() -> None:
    built = history().system("s").user("read").step("read", LINE * 400, path="x").assistant("seen")
    proposal = await propose(
        built.projection(), strategy=DigestCompaction(), llm=ScriptedLLM(), budget=BUDGET, reason="overflow"
    )
    assert proposal is not None
    if proposal.cut is None:
        with pytest.raises(CompactionFailed, match="no cut to move"):
            proposal.moved(1)
    if not proposal.editable:
        with pytest.raises(CompactionFailed, match="cannot be edited"):
            proposal.revised(notes="mine")


async def test_what_is_pinned_stands_behind_instructions_that_came_after_it_as_it_will() -> None:
    built = session().instructions("Always run the linter.").turn("once more", LINE * 40).user("and now?")
    proposal = await propose(
        built.projection(),
        strategy=TruncateTurns(1_500),
        llm=ScriptedLLM(),
        budget=BUDGET,
        reason="manual",
    )
    assert proposal is not None
    applied(built, proposal.with_pins(frozenset({1})))
