"""A proposal can be revised without a model call; the preview matches the applied compaction."""

import re
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
from foldline.compaction.proposal import CANNOT_PIN
from foldline.compaction.summary_text import appendix_of, framed
from foldline.compaction.truncation import TruncateTurns
from foldline.past.compactions import compacted_count
from foldline.protocol import BaseMessage
from foldline.view.budget import Budget
from foldline.view.cut import cut_points
from foldline.view.rules import broken
from support.history import History, history, modified
from support.llm import ScriptedLLM

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(
    window=16_384,
    reserve_tokens=2_048,
    keep_recent_tokens=700,
    max_summary_tokens=1_600,
    soft_ratio=0.75,
)


def session() -> History:
    built = history().system("s")
    for turn in range(3):
        built.user(f"request {turn}: never touch table_{turn}")
        built.step(
            "edit",
            LINE * 60,
            path=f"src/part_{turn}.py",
            files=[modified(f"src/part_{turn}.py")],
        )
        built.assistant(f"Changed part {turn}, 3{turn} tests pass.")
    return built.turn("almost there", LINE * 20).user("and now?")


async def make_proposal(
    built: History,
    text: str = "## Goal\n- notes",
    options: RedraftOptions | None = None,
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


def apply(built: History, proposal: Proposal) -> History:
    """Commit the proposal the way the agent does."""
    after = built.add(proposal.entry).projection()
    assert broken(after) == []
    shown = [message.text for message in proposal.after]
    assert [item.message.text for item in after.view] == shown
    return built


async def test_editing_the_text_keeps_the_lists_from_the_history() -> None:
    built = session()
    proposal = await make_proposal(built)
    edited = proposal.revised(notes="## Goal\n- in my own words")
    assert (edited.state, edited.notes) == ("edited", "## Goal\n- in my own words")
    assert "<modified-files>\nsrc/part_0.py" in edited.entry.summary
    assert edited.entry.summary.endswith(appendix_of(proposal.entry.summary))
    assert edited.id != proposal.id
    assert "in my own words" in apply(built, edited).projection().view[1].message.text


async def test_editing_the_text_back_restores_the_draft() -> None:
    proposal = await make_proposal(session())
    assert proposal.revised(notes=proposal.notes).state == "current"


@pytest.mark.parametrize("text", ["", "  \n ", LINE * 400])
async def test_an_invalid_summary_text_is_refused(text: str) -> None:
    proposal = await make_proposal(session())
    with pytest.raises(CompactionFailed):
        proposal.revised(notes=text)


async def test_a_pin_keeps_its_tool_group_verbatim_without_making_the_draft_stale() -> (
    None
):
    built = session()
    proposal = await make_proposal(built)
    assert built.projection().group(3) == (2, 3)
    pinned = proposal.revised(pins=frozenset({3}))
    assert (pinned.state, pinned.pins) == ("current", frozenset({2, 3}))
    assert pinned.entry.tokens_after > proposal.entry.tokens_after
    assert pinned.kept == proposal.kept + 2
    projection = apply(built, pinned).projection()
    assert [item.index for item in projection.view if item.pinned] == [2, 3]
    assert [projection.fate(index).kind for index in (1, 2, 3)] == [
        "summarised",
        "live",
        "live",
    ]


async def test_pins_keep_the_order_of_the_conversation() -> None:
    built = session()
    proposal = (await make_proposal(built)).revised(pins=frozenset({9, 1, 6}))
    projection = apply(built, proposal).projection()
    assert [item.index for item in projection.view if item.pinned] == [1, 6, 7, 9]


async def test_pinning_every_compacted_message_leaves_no_compaction() -> None:
    proposal = await make_proposal(session())
    everything = frozenset(item.index for item in proposal.view[1:])
    with pytest.raises(CompactionFailed, match="not smaller"):
        proposal.revised(pins=everything)


async def test_removing_a_pin_restores_the_same_compaction() -> None:
    proposal = await make_proposal(session())
    again = proposal.revised(pins=frozenset({3})).revised(pins=frozenset())
    assert (again.entry, again.after) == (proposal.entry, proposal.after)


@pytest.mark.parametrize(
    "index", [0, 99, 16], ids=["system prompt", "unknown", "summary"]
)
async def test_only_messages_of_the_conversation_can_be_pinned(index: int) -> None:
    built = session()
    built.add((await make_proposal(built)).entry)
    for _ in range(3):
        built.turn("next", LINE * 20)
    proposal = await make_proposal(built)
    assert [item.index for item in proposal.view if item.written] == [16]
    with pytest.raises(CompactionFailed, match=re.escape(CANNOT_PIN.format(index))):
        proposal.revised(pins=frozenset({index}))


async def test_the_first_kept_entry_can_be_pinned() -> None:
    built = session()
    proposal = await make_proposal(built)
    assert proposal.cut is not None
    first = proposal.cut.first_kept_index
    pinned = proposal.revised(pins=frozenset({first}))
    assert (pinned.state, pinned.pins) == (
        "current",
        frozenset({first, first + 1}),
    )  # call and result
    projection = apply(built, pinned).projection()
    assert [item.index for item in projection.view if item.pinned] == [first, first + 1]


async def test_a_pin_restores_a_hidden_result_in_full_in_the_preview_too() -> None:
    def hidden() -> History:
        return (
            session()
            .turn("more", LINE * 60)
            .turn("and more", LINE * 60)
            .edit("hide", 3)
        )

    proposal = (await make_proposal(hidden())).revised(pins=frozenset({3}))
    assert [message.text for message in proposal.after if message.index == 3] == [
        LINE * 60
    ]
    apply(hidden(), proposal)
    apply(
        hidden(),
        await make_proposal(hidden(), options=RedraftOptions(pins=frozenset({2, 3}))),
    )


async def test_undoing_a_compaction_with_a_pinned_hidden_result_restores_the_request() -> (
    None
):
    built = (
        session().turn("more", LINE * 60).turn("and more", LINE * 60).edit("hide", 3)
    )
    earlier = [item.message.text for item in built.projection().view]
    apply(built, (await make_proposal(built)).revised(pins=frozenset({3}))).undo()
    assert [item.message.text for item in built.projection().view] == earlier


async def test_dropped_turns_count_as_truncated_even_after_a_revision() -> None:
    class SummarisesFirstMessage:
        async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
            return [ctx.history[0], framed("the first turn"), *ctx.history[3:]]

    built = history().system("s").turn("first", LINE * 20)
    for turn in range(16):
        built.turn(f"request {turn}", LINE * 60)
    proposal = await propose(
        built.user("and now?").projection(),
        strategy=SummarisesFirstMessage(),
        llm=ScriptedLLM(),
        budget=BUDGET,
        reason="threshold",
    )
    assert proposal is not None
    assert proposal.entry.rung == "truncate"
    again = proposal.revised(pins=frozenset({9})).revised(pins=frozenset())
    assert again.entry == proposal.entry
    projection = apply(
        built, proposal.revised(notes="the very first turn")
    ).projection()
    assert [projection.fate(index).kind for index in (1, 2, 3)] == [
        "summarised",
        "summarised",
        "truncated",
    ]


async def test_a_proposal_and_its_compaction_count_the_same_entries() -> None:
    built = session()
    first = await make_proposal(built)
    compacted = apply(built, first).projection()
    assert (
        first.sizes.compacted
        == first.compacted
        == compacted_count(compacted, compacted.all_compactions[-1])
    )
    for number in range(4):
        built = built.user(f"again {number} " * 400).assistant("done " * 400)
    second = await make_proposal(built)
    assert any(item.written for item in second.view), "an earlier summary goes into it"
    compacted = apply(built, second).projection()
    assert (
        second.sizes.compacted
        == second.compacted
        == compacted_count(compacted, compacted.all_compactions[-1])
    )


async def test_moving_the_cut_makes_the_draft_stale_and_updates_the_numbers_at_once() -> (
    None
):
    proposal = await make_proposal(session())
    messages = [item.message for item in proposal.view]
    places = [messages[at].index for at in cut_points(messages)]
    assert proposal.cut is not None
    earlier = places[places.index(proposal.cut.first_kept_index) - 2]
    moved = proposal.moved(earlier)
    assert (moved.state, moved.cut and moved.cut.first_kept_index) == ("stale", earlier)
    assert moved.sizes.compacted < proposal.sizes.compacted
    assert moved.sizes.tokens_after > proposal.sizes.tokens_after
    assert moved.entry.summary == proposal.entry.summary


async def test_moving_the_cut_back_makes_the_draft_current_again() -> None:
    proposal = await make_proposal(session())
    assert proposal.cut is not None
    first = proposal.cut.first_kept_index
    messages = [item.message for item in proposal.view]
    earlier = [messages[at].index for at in cut_points(messages)][1]
    back = proposal.moved(earlier).moved(first)
    assert (back.state, back.sizes, back.audit) == (
        "current",
        proposal.sizes,
        proposal.audit,
    )


async def test_a_pin_counts_at_once_even_with_a_moved_cut() -> None:
    proposal = await make_proposal(session())
    messages = [item.message for item in proposal.view]
    later = [messages[at].index for at in cut_points(messages)][-3]
    moved = proposal.moved(later)
    pinned = moved.revised(pins=frozenset({3}))
    assert (pinned.state, pinned.cut and pinned.cut.first_kept_index) == (
        "stale",
        later,
    )
    assert pinned.sizes.tokens_after > moved.sizes.tokens_after


async def test_a_cut_that_is_not_legal_is_refused() -> None:
    proposal = await make_proposal(session())
    for index in (0, 1, 3, 99):  # 3 is a tool result: its group stays whole
        with pytest.raises(CompactionFailed, match=f"at entry {index}"):
            proposal.moved(index)


async def test_a_new_draft_respects_the_readers_cut_and_pins() -> None:
    built = session()
    options = RedraftOptions(first_kept_index=9, pins=frozenset({2, 3}))
    proposal = await make_proposal(built, options=options)
    assert proposal.entry.first_kept_index == 9
    projection = apply(built, proposal).projection()
    assert [item.index for item in projection.view[1:4]] == [
        projection.last_index,
        2,
        3,
    ]


async def test_the_audit_reflects_the_edited_text_and_pins() -> None:
    built = session()
    bare = await make_proposal(built, "## Goal\n- go on")
    lost = {item.text for item in bare.audit.lost}
    assert any("part_1.py" in text or "31 tests" in text for text in lost)
    assert (bare.entry.facts, bare.entry.lost) == (
        bare.audit.facts,
        len(bare.audit.lost),
    )
    told = bare.revised(notes="\n".join(["## Goal", *(f"- {text}" for text in lost)]))
    assert len(told.audit.lost) < len(bare.audit.lost)


async def test_outline_and_entry_report_the_same_size() -> None:
    proposal = await make_proposal(session())
    assert proposal.sizes.tokens_after == proposal.entry.tokens_after
    pinned = proposal.revised(pins=frozenset({3}))
    assert pinned.sizes.tokens_after == pinned.entry.tokens_after


async def test_a_compaction_without_cut_or_text_explains_unsupported_revisions() -> (
    None
):
    built = (
        history()
        .system("s")
        .user("read")
        .step("read", LINE * 400, path="x")
        .assistant("seen")
    )
    proposal = await propose(
        built.projection(),
        strategy=DigestCompaction(),
        llm=ScriptedLLM(),
        budget=BUDGET,
        reason="overflow",
    )
    assert proposal is not None
    if proposal.cut is None:
        with pytest.raises(CompactionFailed, match="no cut to move"):
            proposal.moved(1)
    if not proposal.editable:
        with pytest.raises(CompactionFailed, match="cannot be edited"):
            proposal.revised(notes="mine")


async def test_a_pinned_message_follows_later_instructions_in_preview_and_view() -> (
    None
):
    built = (
        session()
        .instructions("Always run the linter.")
        .turn("once more", LINE * 40)
        .user("and now?")
    )
    proposal = await propose(
        built.projection(),
        strategy=TruncateTurns(1_500),
        llm=ScriptedLLM(),
        budget=BUDGET,
        reason="manual",
    )
    assert proposal is not None
    apply(built, proposal.with_pins(frozenset({1})))
