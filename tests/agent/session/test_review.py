"""The proposal that waits: nothing happens without the reader's word, and then exactly what they saw."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.session.proposals import NOT_WAITING, STALE
from foldline.compaction import Proposal
from foldline.compaction.proposal import CANNOT_CUT, EMPTY_SUMMARY
from foldline.history import Session
from foldline.protocol import (
    NEW,
    Compaction,
    Entry,
    FoldlineError,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import TaskFinished
from foldline.view.rules import broken
from support.agents import (
    PATIENCE,
    Gate,
    Hang,
    PlayedLLM,
    Watch,
    other_tasks_done,
    reload_session,
    tool_reply,
    write_lines,
)
from support.llm import overflow
from support.projections import compactions_of
from support.reading_sessions import (
    SUMMARY,
    agent_with_entries,
    bytes_of,
    reading_entries,
)

PREVIEW = operations.CompactSession(reason="manual", preview=True)
BEFORE_A_PROMPT = operations.CompactSession(reason="threshold", pending=3_000)
FULL = reading_entries(8)
"""With one file more, past the threshold of SMALL."""
SMALL = 16_384
ASK: dict[str, Any] = {"mode": "ask", "interactive": True}


async def done(agent: Agent, operation: operations.Operation) -> TaskFinished:
    async with asyncio.timeout(PATIENCE):
        return await agent.executor.wait_for(agent.executor.submit(operation))


async def previewed(agent: Agent) -> Proposal:
    assert (await done(agent, PREVIEW)).outcome == "done"
    return kept(agent)


def kept(agent: Agent) -> Proposal:
    proposal = agent.state.compaction.review.proposal
    assert proposal is not None
    return proposal


async def revised(agent: Agent, **options: Any) -> Proposal:
    agent.executor.submit(operations.ReviseProposal(proposal=kept(agent).id, **options))
    await other_tasks_done()
    return kept(agent)


def file_of(agent: Agent) -> bytes:
    assert agent.session.path is not None
    return agent.session.path.read_bytes()


def compactions(agent: Agent) -> list[Compaction]:
    return compactions_of(agent.session.projection)


def applying(proposal: Proposal) -> operations.ApplyProposal:
    return operations.ApplyProposal(proposal=proposal.id)


# --- kept for its reader ------------------------------------------------------------------------------


async def test_a_preview_commits_nothing_by_itself(tmp_path: Path) -> None:
    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM(summaries=(SUMMARY,))
    ) as (
        agent,
        watch,
    ):
        file, view = file_of(agent), bytes_of(agent.session.projection)
        proposal = await previewed(agent)
        await other_tasks_done()
        assert (file_of(agent), bytes_of(agent.session.projection)) == (file, view)
        [ready], [end] = watch.of(events.ProposalReady), watch.of(events.CompactionEnd)
        assert (ready.proposal, ready.waits) == (proposal.id, False)
        assert (end.proposed, end.aborted, end.index) == (True, False, None)
        assert compactions(agent) == []


async def test_a_kept_proposal_follows_the_view_as_work_goes_on(tmp_path: Path) -> None:
    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM("Later. " * 50, summaries=(SUMMARY,))
    ) as (
        agent,
        watch,
    ):
        proposal = await previewed(agent)
        assert (await agent.prompt("and now?")).text
        await agent.executor.settle()
        grown, ready = kept(agent), watch.of(events.ProposalReady)[-1]
        assert grown.id == proposal.id and grown.view == tuple(
            agent.session.projection.view
        )
        assert (
            ready.tokens_before
            == agent.state.budget.size()
            != proposal.entry.tokens_before
        )
        assert (await done(agent, applying(proposal))).outcome == "done"
        assert (
            agent.state.budget.size()
            == ready.tokens_after
            == compactions(agent)[0].tokens_after
        )


async def test_what_is_applied_is_what_was_shown_field_by_field(tmp_path: Path) -> None:
    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM(summaries=(SUMMARY,))
    ) as (
        agent,
        watch,
    ):
        proposal = await previewed(agent)
        assert (await done(agent, applying(proposal))).outcome == "done"
        [compaction] = compactions(agent)
        assert (
            compaction.model_copy(update={"index": NEW, "at": None}) == proposal.entry
        )
        shown = [item.message for item in agent.session.projection.view]
        assert [message.text for message in shown] == [
            message.text for message in proposal.after
        ]
        assert agent.state.budget.size() == proposal.entry.tokens_after
        assert agent.state.compaction.review.proposal is None
        assert watch.of(events.ProposalClosed) == [
            events.ProposalClosed(proposal=proposal.id, applied=True)
        ]
        assert bytes_of(reload_session(agent).projection) == bytes_of(
            agent.session.projection
        )


async def test_applied_after_more_was_said_it_keeps_that_verbatim(
    tmp_path: Path,
) -> None:
    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM("Later.", summaries=(SUMMARY,))
    ) as (agent, _):
        proposal = await previewed(agent)
        await agent.prompt("Said meanwhile")
        assert (await done(agent, applying(proposal))).outcome == "done"
        texts = [item.message.text for item in agent.session.projection.view]
        assert texts[-2:] == ["Said meanwhile", "Later."]
        assert broken(agent.session.projection) == []


@pytest.mark.parametrize(
    "change",
    [
        operations.EditView(target=3, action="hide"),
        operations.EditView(target=2, action="pin"),
        operations.ClearView(),
        operations.CompactSession(reason="manual"),
    ],
    ids=["hide", "pin", "clear", "compaction"],
)
async def test_a_proposal_for_another_view_is_thrown_away_and_refused_in_one_sentence(
    tmp_path: Path, change: operations.Operation
) -> None:
    llm = PlayedLLM(summaries=(SUMMARY, SUMMARY))
    async with agent_with_entries(tmp_path, reading_entries(4), llm) as (agent, watch):
        proposal = await previewed(agent)
        assert (await done(agent, change)).outcome == "done"
        assert watch.of(events.ProposalClosed) == [
            events.ProposalClosed(proposal=proposal.id, applied=False)
        ]
        assert agent.state.compaction.review.proposal is None
        file = file_of(agent)
        finished = await done(agent, applying(proposal))
        assert finished.outcome == "failed"
        assert finished.error == NOT_WAITING
        assert file_of(agent) == file


async def test_undo_throws_a_proposal_of_the_view_before_it_away(
    tmp_path: Path,
) -> None:
    async with agent_with_entries(
        tmp_path,
        reading_entries(6),
        PlayedLLM("Later. " * 200, summaries=(SUMMARY, SUMMARY)),
    ) as (
        agent,
        watch,
    ):
        await done(agent, operations.CompactSession(reason="manual"))
        await agent.prompt("and now? " * 200)
        await previewed(agent)
        assert (await done(agent, operations.UndoCompaction())).outcome == "done"
        assert (
            agent.state.compaction.review.proposal is None
            and len(watch.of(events.ProposalClosed)) == 1
        )


async def test_a_compaction_by_hand_closes_a_kept_proposal_without_calling_it_applied(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(summaries=(SUMMARY, SUMMARY))
    async with agent_with_entries(tmp_path, reading_entries(4), llm) as (agent, watch):
        proposal = await previewed(agent)
        await done(agent, operations.CompactSession(reason="manual"))
        assert len(compactions(agent)) == 1
        assert watch.of(events.ProposalClosed) == [
            events.ProposalClosed(proposal=proposal.id, applied=False)
        ]


async def test_thrown_away_it_is_gone_and_nothing_has_changed(tmp_path: Path) -> None:
    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM(summaries=(SUMMARY,))
    ) as (
        agent,
        watch,
    ):
        file = file_of(agent)
        proposal = await previewed(agent)
        agent.executor.submit(operations.DiscardProposal(proposal=proposal.id))
        await other_tasks_done()
        assert agent.state.compaction.review.proposal is None
        assert watch.of(events.ProposalClosed) == [
            events.ProposalClosed(proposal=proposal.id, applied=False)
        ]
        finished = await done(agent, applying(proposal))
        assert finished.error == NOT_WAITING
        assert file_of(agent) == file


async def test_a_proposal_nobody_had_asked_for_is_not_drafted_again_once_it_was_thrown_away(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(window=SMALL, summaries=(SUMMARY,))
    async with agent_with_entries(tmp_path, reading_entries(7), llm, **ASK) as (
        agent,
        watch,
    ):
        assert agent.at_good_moment()
        await done(agent, operations.CompactSession(reason="phase"))
        await watch.first(events.ProposalReady)  # once its draft is there
        agent.executor.submit(operations.DiscardProposal(proposal=kept(agent).id))
        await other_tasks_done()
        assert not agent.at_good_moment()


async def test_a_kept_proposal_is_never_committed_unasked(tmp_path: Path) -> None:
    """A full window compacts by itself, with a draft of its own: the reader has not decided about theirs."""
    async with agent_with_entries(tmp_path, FULL, PlayedLLM(window=SMALL)) as (
        agent,
        watch,
    ):
        proposal = await previewed(agent)
        await done(agent, BEFORE_A_PROMPT)
        assert [compaction.reason for compaction in compactions(agent)] == ["threshold"]
        assert watch.of(events.ProposalClosed) == [
            events.ProposalClosed(proposal=proposal.id, applied=False)
        ]


async def test_a_kept_proposal_that_no_longer_makes_the_room_needed_is_drafted_again(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(window=SMALL)
    async with agent_with_entries(tmp_path, reading_entries(7), llm, **ASK) as (
        agent,
        watch,
    ):
        await done(agent, operations.CompactSession(reason="phase"))
        await watch.first(events.ProposalReady)
        await agent.executor.settle()
        first = kept(agent)
        room = agent.state.budget.limits.threshold - first.sizes.tokens_after
        pending = (
            round(room / agent.state.projection.meter.calibration.scale(None)) + 10
        )
        task = agent.executor.submit(
            operations.CompactSession(reason="threshold", pending=pending)
        )
        ready = await watch.first(events.ProposalReady, 2)
        assert ready.proposal != first.id
        assert ready.reason == "threshold"
        await interrupted(agent, task)


# --- revised ------------------------------------------------------------------------------------------


async def test_the_readers_own_words_are_applied(tmp_path: Path) -> None:
    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM(summaries=(SUMMARY,))
    ) as (
        agent,
        _,
    ):
        await previewed(agent)
        proposal = await revised(agent, notes="## Goal\n- in my own words")
        assert proposal.state == "edited"
        await done(agent, applying(proposal))
        [compaction] = compactions(agent)
        assert compaction.summary.startswith("## Goal\n- in my own words")
        assert any(
            "in my own words" in item.message.text
            for item in agent.session.projection.view
        )


async def test_pins_chosen_with_it_are_pinned_in_the_same_append_tool_groups_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appends: list[list[Entry]] = []
    append = Session.append

    async def noted(
        self: Session, *entries: Entry, durable: bool = False
    ) -> list[Entry]:
        appends.append(await append(self, *entries, durable=durable))
        return appends[-1]

    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM(summaries=(SUMMARY,))
    ) as (
        agent,
        _,
    ):
        await previewed(agent)
        proposal = await revised(agent, pins=(3, 4))
        monkeypatch.setattr(Session, "append", noted)
        assert (await done(agent, applying(proposal))).outcome == "done"
        assert agent.session.projection.pins == {2, 3, 4}
        [[compaction]] = (
            appends  # one entry: the old view, or the new one with its pins
        )
        assert isinstance(compaction, Compaction)
        assert compaction.pins == (2, 4)
        assert (
            compaction.model_copy(update={"index": NEW, "at": None}) == proposal.entry
        )
        pinned = [item.index for item in agent.session.projection.view if item.pinned]
        assert pinned == [2, 3, 4]
        assert broken(agent.session.projection) == []
        # They stay in the next compaction, too.
        await agent.prompt("and now?")
        await done(agent, operations.CompactSession(reason="manual"))
        assert [
            item.index for item in agent.session.projection.view if item.pinned
        ] == [2, 3, 4]


async def test_with_the_cut_elsewhere_it_waits_for_another_draft_which_keeps_to_it(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(summaries=(SUMMARY, SUMMARY + " again"))
    async with agent_with_entries(tmp_path, reading_entries(4), llm) as (agent, _):
        first = await previewed(agent)
        moved = await revised(agent, first_kept_index=9)
        assert (moved.state, first.entry.first_kept_index) == ("stale", 13)
        finished = await done(agent, applying(moved))
        assert finished.error == STALE
        await done(agent, operations.RedraftProposal(proposal=moved.id))
        assert compactions(agent) == []
        await done(agent, applying(kept(agent)))
        assert [compaction.first_kept_index for compaction in compactions(agent)] == [9]


@pytest.mark.parametrize("reason", ["manual", "threshold"])
async def test_another_draft_is_told_the_guidance_the_earlier_draft_and_the_focus(
    tmp_path: Path, reason: str
) -> None:
    llm = PlayedLLM(window=SMALL)
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = agent.executor.submit(PREVIEW if reason == "manual" else BEFORE_A_PROMPT)
        await watch.first(events.ProposalReady)
        if reason == "threshold":
            await interrupted(agent, task)
        first = await revised(agent, focus="the offsets")
        assert first.state == "stale"
        await done(
            agent,
            operations.RedraftProposal(proposal=first.id, guidance="Name the files."),
        )
        told = llm.summary_requests[-1].messages[-1].text
        assert "Name the files." in told
        assert first.notes in told
        assert "the offsets" in told
        second = kept(agent)
        assert (second.id != first.id, second.state, second.entry.focus) == (
            True,
            "current",
            "the offsets",
        )
        assert second.notes != first.notes
        assert compactions(agent) == []


async def test_a_revision_that_is_none_is_refused_and_the_proposal_stays(
    tmp_path: Path,
) -> None:
    async with agent_with_entries(
        tmp_path, reading_entries(4), PlayedLLM(summaries=(SUMMARY,))
    ) as (
        agent,
        watch,
    ):
        proposal = await previewed(agent)
        assert await revised(agent, first_kept_index=3) is proposal
        assert await revised(agent, notes="  ") is proposal
        assert watch.notices == [
            CANNOT_CUT.format(3),
            EMPTY_SUMMARY,
        ]


async def test_a_focus_for_a_proposal_that_has_gone_meanwhile_is_not_taken_for_the_next(
    tmp_path: Path,
) -> None:
    async with agent_with_entries(tmp_path, reading_entries(4), PlayedLLM()) as (
        agent,
        _,
    ):
        proposal = await previewed(agent)
        review = agent.state.compaction.review
        asked = operations.ReviseProposal(
            proposal=proposal.id, notes="## Goal\n- mine", focus="offsets"
        )
        revision = asyncio.create_task(review.revise(asked))
        await asyncio.sleep(0)
        review.keep(proposal.out_of_date(), None)
        with pytest.raises(FoldlineError, match=NOT_WAITING):
            await revision
        assert review.focus is None


# --- something waits for the word ---------------------------------------------------------------------


async def interrupted(agent: Agent, task: str) -> None:
    agent.executor.submit(operations.Interrupt())
    async with asyncio.timeout(PATIENCE):
        assert (await agent.executor.wait_for(task)).outcome == "cancelled"


async def waiting(
    agent: Agent, watch: Watch, operation: operations.Operation, count: int = 1
) -> str:
    """The operation, once it waits for the reader; its task."""
    task = agent.executor.submit(operation)
    ready = await watch.first(events.ProposalReady, count)
    assert ready.waits
    assert agent.executor.busy
    assert compactions(agent) == []
    return task


async def test_a_commit_that_is_held_waits_for_the_word_and_then_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    write_lines(tmp_path / "big.txt", 180)
    llm = PlayedLLM(
        tool_reply(("read", {"path": "big.txt"})),
        "done",
        window=SMALL,
        summaries=(Gate(opened),),
    )
    async with agent_with_entries(tmp_path, FULL, llm, draft_ahead=False) as (
        agent,
        watch,
    ):
        task = agent.executor.submit(
            operations.RunAgent(parts=text_parts("Read big.txt"))
        )
        await llm.silent.wait()
        agent.executor.submit(operations.HoldCommit())
        opened.set()
        ready = await watch.first(events.ProposalReady)
        assert ready.waits
        assert compactions(agent) == []
        agent.executor.submit(operations.ApplyProposal(proposal=ready.proposal))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert len(compactions(agent)) == 1
        assert agent.session.entries[-2].model_dump()["parts"][0]["text"] == "done"


async def test_where_nothing_is_drafted_nothing_is_held(tmp_path: Path) -> None:
    opened = asyncio.Event()
    llm = PlayedLLM(Gate(opened), window=SMALL, summaries=(SUMMARY,))
    async with agent_with_entries(tmp_path, reading_entries(6), llm) as (agent, _):
        task = agent.executor.submit(operations.RunAgent(parts=text_parts("hello")))
        await llm.silent.wait()
        agent.executor.submit(operations.HoldCommit())
        opened.set()
        await agent.executor.wait_for(task)
        assert (await done(agent, BEFORE_A_PROMPT)).outcome == "done"
        assert len(compactions(agent)) == 1


async def test_asked_before_a_prompt_the_word_decides(tmp_path: Path) -> None:
    llm = PlayedLLM(window=SMALL, summaries=(SUMMARY, SUMMARY + " again"))
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = await waiting(agent, watch, BEFORE_A_PROMPT)
        first = kept(agent)
        agent.executor.submit(
            operations.RedraftProposal(proposal=first.id, guidance="Name the files.")
        )
        ready = await watch.first(events.ProposalReady, 2)
        assert ready.waits
        assert ready.proposal != first.id
        agent.executor.submit(
            operations.ApplyProposal(proposal=first.id)
        )  # no longer the one that waits
        await others_done_but(agent)
        assert compactions(agent) == []
        agent.executor.submit(operations.ApplyProposal(proposal=ready.proposal))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        [compaction] = compactions(agent)
        assert "again" in compaction.summary


async def others_done_but(agent: Agent) -> None:
    """Until only the task that waits is left."""
    while agent.executor._immediate:
        await asyncio.wait(agent.executor._immediate)


async def test_what_was_seen_is_applied_also_where_a_revision_ends_between_the_word_and_the_commit(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(window=SMALL, summaries=(SUMMARY,))
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = await waiting(agent, watch, BEFORE_A_PROMPT)
        seen = kept(agent)
        agent.executor.submit(applying(seen))
        await asyncio.sleep(0)  # the word has been given, the task has not gone on
        assert not agent.state.compaction.review.waits and kept(agent) == seen
        agent.state.compaction.review.keep(
            seen.revised(notes="## Goal\n- not this one"), None
        )
        assert (await agent.executor.wait_for(task)).outcome == "done"
        [compaction] = compactions(agent)
        assert compaction.model_copy(update={"index": NEW, "at": None}) == seen.entry


async def test_a_revision_that_ends_after_the_compaction_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revises, compacted = Proposal.revised, threading.Event()

    def slowly(made: Proposal, **options: Any) -> Proposal:
        assert compacted.wait(PATIENCE)
        return revises(made, **options)

    llm = PlayedLLM(window=SMALL, summaries=(SUMMARY,))
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = await waiting(agent, watch, BEFORE_A_PROMPT)
        seen = kept(agent)
        monkeypatch.setattr(Proposal, "revised", slowly)
        asked = operations.ReviseProposal(
            proposal=seen.id, notes="## Goal\n- not this one"
        )
        revision = asyncio.create_task(agent.state.compaction.review.revise(asked))
        await asyncio.sleep(0)  # it is in its thread
        agent.executor.submit(applying(seen))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        compacted.set()
        with pytest.raises(FoldlineError, match=NOT_WAITING):
            await revision
        assert agent.state.compaction.review.proposal is None
        [compaction] = compactions(agent)
        assert compaction.model_copy(update={"index": NEW, "at": None}) == seen.entry


READS = tuple(
    tool_reply(("read", {"path": f"r{n}.txt"}), stem=f"r{n}_") for n in range(3)
)
TURN = operations.RunAgent(parts=text_parts("Read big.txt and the rest"))
BIG = tool_reply(("read", {"path": "big.txt"}))


def in_a_turn(folder: Path, *summaries: str) -> PlayedLLM:
    """A turn that is full after its first step and takes three more."""
    write_lines(folder / "big.txt", 150)
    for n in range(3):
        write_lines(folder / f"r{n}.txt", 3)
    return PlayedLLM(BIG, *READS, "done", window=SMALL, summaries=summaries)


async def test_asked_within_a_turn_it_goes_on_with_the_compaction(
    tmp_path: Path,
) -> None:
    async with agent_with_entries(
        tmp_path, FULL, in_a_turn(tmp_path, SUMMARY), **ASK
    ) as (agent, watch):
        task = await waiting(agent, watch, TURN)
        agent.executor.submit(applying(kept(agent)))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert [compaction.reason for compaction in compactions(agent)] == ["threshold"]
        assert broken(agent.session.projection) == []


async def test_thrown_away_within_a_turn_it_goes_on_without_and_is_not_drafted_at_each_step(
    tmp_path: Path,
) -> None:
    llm = in_a_turn(tmp_path, SUMMARY, SUMMARY)
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = await waiting(agent, watch, TURN)
        calls = len(llm.summary_requests)
        agent.executor.submit(operations.DiscardProposal(proposal=kept(agent).id))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert compactions(agent) == []
        assert len(llm.summary_requests) == calls
        assert len(llm.requests) == 5
        [end] = watch.of(events.CompactionEnd)
        assert (end.aborted, end.error) == (True, None)
        assert not agent.at_good_moment()
        # The next prompt asks again.
        assert agent.must_make_room(text_parts("and now?"))


async def test_thrown_away_what_the_provider_refuses_is_asked_about_all_the_same(
    tmp_path: Path,
) -> None:
    """A draft that was declined does not stop the one compaction without which nothing goes."""
    llm = in_a_turn(tmp_path, SUMMARY, SUMMARY)
    llm.script.insert(1, overflow())
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = await waiting(agent, watch, TURN)
        agent.executor.submit(operations.DiscardProposal(proposal=kept(agent).id))
        await watch.first(events.ProposalReady, 2)
        agent.executor.submit(applying(kept(agent)))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert [compaction.reason for compaction in compactions(agent)] == ["overflow"]


async def test_interrupted_while_it_waits_the_proposal_stays_and_costs_no_second_call(
    tmp_path: Path,
) -> None:
    llm = in_a_turn(tmp_path, SUMMARY, SUMMARY)
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = await waiting(agent, watch, TURN)
        proposal, calls = kept(agent), len(llm.summary_requests)
        await interrupted(agent, task)
        assert kept(agent) is proposal
        assert compactions(agent) == []
        assert broken(agent.session.projection) == []
        # The next prompt that needs room asks about the same one.
        task = await waiting(agent, watch, BEFORE_A_PROMPT, 2)
        assert kept(agent) is proposal
        assert len(llm.summary_requests) == calls
        await interrupted(agent, task)
        assert (await done(agent, applying(proposal))).outcome == "done"
        [compaction] = compactions(agent)
        assert (
            compaction.model_copy(update={"index": NEW, "at": None}) == proposal.entry
        )
        assert agent.state.unsent.startswith(
            "you cancelled the compaction"
        )  # before the prompt was appended


async def test_interrupted_while_another_draft_is_written_the_first_one_stays(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(window=SMALL)
    async with agent_with_entries(tmp_path, FULL, llm, **ASK) as (agent, watch):
        task = await waiting(agent, watch, BEFORE_A_PROMPT)
        first = kept(agent)
        llm._summaries.append(Hang("half"))
        agent.executor.submit(
            operations.RedraftProposal(proposal=first.id, guidance="Better.")
        )
        await llm.silent.wait()
        await interrupted(agent, task)
        assert kept(agent) is first
        assert (await done(agent, applying(first))).outcome == "done"
        assert len(compactions(agent)) == 1
