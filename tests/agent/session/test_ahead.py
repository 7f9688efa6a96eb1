"""The draft of the next compaction, made beside the turn: ready when the window is full, never in the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.agent import retune
from foldline.agent.session.proposals import NOT_DRAFTED
from foldline.agent.settings.settings import load_settings
from foldline.llm import LLMError
from foldline.protocol import (
    AssistantMessage,
    RequestRecord,
    events,
    operations,
    text_parts,
)
from foldline.protocol.operations import Operation
from foldline.view.rules import broken
from support.agents import (
    Gate,
    Hang,
    Play,
    PlayedLLM,
    Watch,
    other_tasks_done,
    reload_session,
    tool_reply,
    write_lines,
)
from support.projections import compactions_of
from support.reading_sessions import (
    NEARLY_FULL,
    SMALL_WINDOW,
    SUMMARY,
    agent_with_entries,
    bytes_of,
)

GO_ON = operations.RunAgent(parts=text_parts("Read the rest."))


def reading(name: str) -> AssistantMessage:
    """`big.txt` fills the window, `small.txt` does not."""
    return tool_reply(("read", {"path": name}), stem=name)


@asynccontextmanager
async def nearly_full(
    folder: Path,
    *script: Play,
    summaries: tuple[Play, ...] = (SUMMARY,),
    **options: Any,
) -> AsyncIterator[tuple[Agent, Watch, PlayedLLM]]:
    """A session whose next compaction is near, and an agent that plays this script."""
    write_lines(folder / "big.txt", 180)
    write_lines(folder / "small.txt", 5)
    llm = PlayedLLM(*script, window=SMALL_WINDOW, summaries=summaries)
    async with agent_with_entries(
        folder, NEARLY_FULL, llm, **{"interactive": True, **options}
    ) as (
        agent,
        watch,
    ):
        assert (
            agent.state.budget.limits.draft_mark
            < agent.state.budget.size()
            < agent.state.budget.limits.threshold
        )
        yield agent, watch, llm


def states(watch: Watch) -> list[str]:
    """What was told of drafts, each state once."""
    told = [event.state for event in watch.of(events.DraftAhead)]
    return [state for at, state in enumerate(told) if at == 0 or told[at - 1] != state]


async def until(watch: Watch, state: str) -> None:
    await watch.until(lambda: states(watch)[-1:] == [state])


async def done(agent: Agent, operation: Operation = GO_ON) -> None:
    assert (
        await agent.executor.wait_for(agent.executor.submit(operation))
    ).outcome == "done"


def edit(agent: Agent, target: int, action: str) -> Operation:
    return operations.EditView.model_validate({"target": target, "action": action})


async def test_at_the_threshold_only_the_commit_of_it_is_left(tmp_path: Path) -> None:
    step = Gate(asyncio.Event(), reading("big.txt"))
    async with nearly_full(tmp_path, step, "all read") as (agent, watch, llm):
        task = agent.executor.submit(GO_ON)
        await until(watch, "ready")  # while the step is still with the model
        assert agent.session.projection.all_compactions == []
        step.open.set()
        assert (await agent.executor.wait_for(task)).outcome == "done"
        [compaction] = agent.session.projection.all_compactions
        assert (compaction.reason, compaction.rung, len(llm.summary_requests)) == (
            "threshold",
            "strategy",
            1,
        )
        assert agent.state.budget.limits.threshold <= compaction.tokens_before
        assert compaction.tokens_after < 0.75 * compaction.tokens_before
        assert states(watch) == ["drafting", "ready", "gone"]
        assert broken(agent.session.projection) == []
        assert bytes_of(reload_session(agent).projection) == bytes_of(
            agent.session.projection
        )


async def test_where_nobody_waits_for_it_none_is_begun(tmp_path: Path) -> None:
    async with nearly_full(
        tmp_path, reading("small.txt"), "read", interactive=False
    ) as (agent, watch, llm):
        await done(agent)
        await other_tasks_done()
        assert (len(llm.requests), len(llm.summary_requests), states(watch)) == (
            2,
            0,
            [],
        )


async def test_where_nobody_goes_on_a_compaction_between_two_turns_is_made_and_not_drafted(
    tmp_path: Path,
) -> None:
    async with nearly_full(tmp_path, "read", interactive=False) as (agent, watch, llm):
        await agent.prompt("What did you read?")
        assert (len(llm.summary_requests), states(watch)) == (1, [])
        assert [
            compaction.reason for compaction in agent.session.projection.all_compactions
        ] == ["phase"]


async def test_the_turn_does_not_wait_for_it_and_nothing_is_compacted_before_the_window_is_full(
    tmp_path: Path,
) -> None:
    draft = Gate(asyncio.Event(), SUMMARY)
    async with nearly_full(
        tmp_path, reading("small.txt"), "read", summaries=(draft,)
    ) as (agent, watch, llm):
        await done(agent)
        assert (len(llm.requests), len(llm.summary_requests)) == (2, 1)
        draft.open.set()
        await until(watch, "ready")
        assert agent.session.projection.all_compactions == []
        await done(agent)  # small enough: the draft stays
        assert agent.session.projection.all_compactions == []
        assert len(llm.summary_requests) == 1


async def test_one_that_is_still_being_written_at_the_threshold_is_waited_for_and_heard(
    tmp_path: Path,
) -> None:
    draft = Gate(asyncio.Event(), SUMMARY)
    script = (reading("big.txt"), "all read")
    async with nearly_full(tmp_path, *script, summaries=(draft,)) as (
        agent,
        watch,
        llm,
    ):
        task = agent.executor.submit(GO_ON)
        await watch.first(events.CompactionStart)
        assert agent.state.compaction.draft.drafting
        draft.open.set()
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert (
            len(agent.session.projection.all_compactions)
            == len(llm.summary_requests)
            == 1
        )
        heard = watch.events[watch.events.index(watch.of(events.CompactionStart)[0]) :]
        stages = [
            event.stage
            for event in heard
            if isinstance(event, events.CompactionProgress)
        ]
        assert (stages[0], stages[-1]) == ("draft", "commit")


async def test_esc_while_a_compaction_waits_for_it_leaves_the_old_view(
    tmp_path: Path,
) -> None:
    half = (Hang("half of it"),)
    async with nearly_full(tmp_path, reading("big.txt"), summaries=half) as (
        agent,
        watch,
        llm,
    ):
        task = agent.executor.submit(GO_ON)
        await watch.first(events.CompactionStart)
        told = watch.of(events.CompactionProgress)
        assert [event.delta for event in told] == [
            "half of it"
        ]  # all there is, at once
        agent.executor.submit(operations.Interrupt())
        assert (await agent.executor.wait_for(task)).outcome == "cancelled"
        assert watch.of(events.CompactionEnd)[-1].aborted
        assert agent.session.projection.all_compactions == []
        assert not agent.state.compaction.draft.drafting
        assert llm.closed_streams == 2


async def test_a_task_completed_while_it_is_written_compacts_as_soon_as_it_is_there(
    tmp_path: Path,
) -> None:
    todos = [
        [{"content": "read", "status": status}] for status in ("pending", "completed")
    ]
    draft, step = (
        Gate(asyncio.Event(), SUMMARY),
        Gate(asyncio.Event(), reading("small.txt")),
    )
    listed, ticked = (
        tool_reply(("todo", {"todos": each}), stem=f"t{n}")
        for n, each in enumerate(todos)
    )
    script = (listed, ticked, step, "all read")
    async with nearly_full(tmp_path, *script, summaries=(draft,)) as (
        agent,
        watch,
        llm,
    ):
        task = agent.executor.submit(GO_ON)
        await watch.first(events.StepStarted, 3)  # the item is done, and nothing waited
        assert agent.session.projection.all_compactions == []
        draft.open.set()
        await until(watch, "ready")
        step.open.set()
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert [
            compaction.reason for compaction in agent.session.projection.all_compactions
        ] == ["phase"]
        assert len(llm.summary_requests) == 1


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "being written"])
async def test_a_change_of_the_view_ends_it_and_another_one_is_begun_when_it_is_due(
    tmp_path: Path, ready: bool
) -> None:
    first: Play = SUMMARY if ready else Hang("half of it")
    async with nearly_full(tmp_path, "one", "two", summaries=(first, SUMMARY)) as (
        agent,
        watch,
        llm,
    ):
        await done(agent)
        await (until(watch, "ready") if ready else llm.silent.wait())
        await done(agent, edit(agent, 3, "pin"))
        assert states(watch)[-1] == "gone"
        assert not agent.state.compaction.draft.drafting
        assert llm.closed_streams == len(llm.requests) + len(llm.summary_requests), (
            "two at once"
        )
        await done(agent)
        await until(watch, "ready")
        assert len(llm.summary_requests) == 2


async def test_esc_stops_it_and_it_does_not_begin_again_by_itself(
    tmp_path: Path,
) -> None:
    async with nearly_full(tmp_path, "one", "two", summaries=(Hang("half"),)) as (
        agent,
        watch,
        llm,
    ):
        await done(agent)
        await llm.silent.wait()
        agent.executor.submit(operations.Interrupt())
        assert not agent.state.compaction.draft.drafting
        await other_tasks_done()
        await done(agent)
        assert len(llm.summary_requests) == 1
        assert states(watch) == ["drafting", "gone"]


async def test_who_wants_no_extra_calls_gets_none(tmp_path: Path) -> None:
    async with nearly_full(
        tmp_path, reading("small.txt"), "read", draft_ahead=False
    ) as (agent, watch, llm):
        await done(agent)
        assert llm.summary_requests == []
        assert watch.of(events.DraftAhead) == []


@pytest.mark.parametrize(
    "options", [{"mode": "off"}, {"compaction": "digest"}], ids=["off", "digest"]
)
async def test_where_compactions_are_off_or_ask_no_model_no_call_is_made(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async with nearly_full(tmp_path, reading("small.txt"), "read", **options) as (
        agent,
        watch,
        llm,
    ):
        await done(agent)
        await other_tasks_done()
        assert llm.summary_requests == []
        turn = watch.events[
            : [event.type for event in watch.events].index("task_finished")
        ]
        assert not [event for event in turn if isinstance(event, events.DraftAhead)]
        assert agent.session.projection.all_compactions == []


async def test_one_that_fails_is_told_and_the_compaction_itself_tries_again(
    tmp_path: Path,
) -> None:
    script = (
        reading("small.txt"),
        reading("small.txt"),
        reading("big.txt"),
        "all read",
    )
    failure = LLMError("The summariser is away.")
    async with nearly_full(tmp_path, *script, summaries=(failure, SUMMARY)) as (
        agent,
        watch,
        llm,
    ):
        await done(agent)
        start = NOT_DRAFTED.partition("{")[0]
        [told] = [text for text in watch.notices if text.startswith(start)]
        assert "The summariser is away." in told
        [compaction] = agent.session.projection.all_compactions
        assert (compaction.rung, len(llm.summary_requests)) == ("strategy", 2)


@pytest.mark.parametrize(("focus", "calls"), [(None, 1), ("the files", 2)])
async def test_a_compaction_by_hand_takes_it_over_unless_it_has_another_focus(
    tmp_path: Path, focus: str | None, calls: int
) -> None:
    async with nearly_full(tmp_path, "one", summaries=(SUMMARY, "other notes")) as (
        agent,
        watch,
        llm,
    ):
        await done(agent)
        await until(watch, "ready")
        await agent.compact(focus=focus)
        assert len(llm.summary_requests) == calls
        [compaction] = compactions_of(agent.session.projection)
        assert (compaction.reason, compaction.focus) == ("manual", focus)


async def test_where_compactions_are_asked_about_it_is_the_proposal_and_is_not_committed_unasked(
    tmp_path: Path,
) -> None:
    script = (reading("big.txt"), "all read")
    async with nearly_full(tmp_path, *script, mode="ask", interactive=True) as (
        agent,
        watch,
        llm,
    ):
        task = agent.executor.submit(GO_ON)
        proposal = await watch.first(events.ProposalReady)
        assert proposal.waits
        assert agent.session.projection.all_compactions == []
        agent.executor.submit(operations.ApplyProposal(proposal=proposal.proposal))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert (
            len(agent.session.projection.all_compactions)
            == len(llm.summary_requests)
            == 1
        )


async def test_the_requests_beside_it_extend_each_other(tmp_path: Path) -> None:
    script = (reading("small.txt"), reading("small.txt"), "read")
    async with nearly_full(tmp_path, *script) as (agent, watch, llm):
        await done(agent)
        await until(watch, "ready")
        for earlier, later in zip(llm.requests, llm.requests[1:], strict=False):
            assert later.messages[: len(earlier.messages)] == earlier.messages
        new = [
            entry
            for entry in agent.session.entries
            if entry.index > NEARLY_FULL[-1].index
        ]
        records = [entry for entry in new if isinstance(entry, RequestRecord)]
        assert len(records) == len(llm.requests)


async def test_closing_ends_it(tmp_path: Path) -> None:
    async with nearly_full(tmp_path, "one", summaries=(Hang("half"),)) as (
        agent,
        _,
        llm,
    ):
        await done(agent)
        await llm.silent.wait()
    assert llm.closed_streams == 2


async def test_one_that_is_given_up_while_a_compaction_waits_for_it_does_not_cancel_the_turn(
    tmp_path: Path,
) -> None:
    script, summaries = (reading("big.txt"), "all read"), (Hang("half of it"), SUMMARY)
    async with nearly_full(tmp_path, *script, summaries=summaries) as (
        agent,
        watch,
        llm,
    ):
        task = agent.executor.submit(GO_ON)
        await watch.first(events.CompactionStart)
        agent.state.compaction.draft.drop()
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert (
            len(agent.session.projection.all_compactions),
            len(llm.summary_requests),
        ) == (1, 2)


async def test_where_the_model_is_told_of_checkpoints_their_marks_leave_it_good(
    tmp_path: Path,
) -> None:
    step = Gate(asyncio.Event(), reading("big.txt"))
    script = (reading("small.txt"), step, "all read")
    async with nearly_full(tmp_path, *script, dmail=True) as (agent, watch, llm):
        task = agent.executor.submit(GO_ON)
        await until(watch, "ready")
        step.open.set()
        assert (await agent.executor.wait_for(task)).outcome == "done"
        assert (
            len(agent.session.projection.all_compactions)
            == len(llm.summary_requests)
            == 1
        )


async def test_settings_that_change_end_one_that_is_being_written(
    tmp_path: Path,
) -> None:
    """What would write on may be closed by then: that is no failure to tell of."""
    async with nearly_full(tmp_path, "one", summaries=(Hang("half"),)) as (
        agent,
        watch,
        llm,
    ):
        await done(agent)
        await llm.silent.wait()
        retune(agent.state, load_settings(tmp_path, {}), {})()
        await other_tasks_done()
        assert (states(watch), llm.closed_streams) == (["drafting", "gone"], 2)
        assert watch.notices == []
