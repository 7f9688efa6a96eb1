"""The executor: one task at a time, in order, every one reported from start to finish."""

import asyncio
from pathlib import Path

import pytest

from foldline.agent.executor import STRATEGY_CHANGED
from foldline.agent.session.models import NO_CONNECT
from foldline.agent.tools import (
    Arguments,
    BaseTool,
    ToolContext,
    ToolOutcome,
    default_tools,
)
from foldline.compaction.fallbacks import STRATEGY_FAILED
from foldline.llm import LLMError, ModelInfo
from foldline.protocol import (
    Clear,
    FoldlineError,
    ModelChange,
    Undo,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event
from foldline.view.rules import broken
from support.agents import Gate, Hang, PlayedLLM, agent_in, other_tasks_done, tool_reply

COMPACTION = operations.CompactSession(reason="manual")


def run(text: str) -> operations.RunAgent:
    return operations.RunAgent(parts=text_parts(text))


def long(n: int = 0) -> str:
    return f"Tell me all about number {n}. " * 60


async def test_operations_run_one_after_the_other_in_the_order_they_were_asked_for(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    llm = PlayedLLM(Gate(opened, "first"), "second")
    agent, watch = agent_in(tmp_path, llm)
    ids = [
        agent.executor.submit(operation)
        for operation in (run("one"), operations.ClearView(), run("two"))
    ]
    await llm.silent.wait()
    assert agent.executor.busy
    assert not any(isinstance(entry, Clear) for entry in agent.session.entries)
    opened.set()
    ends = [await agent.executor.wait_for(task) for task in ids]
    assert [end.outcome for end in ends] == ["done", "done", "done"]
    assert [
        (event.type, event.task)
        for event in watch.events
        if event.type.startswith("task_")
    ] == [(kind, task) for task in ids for kind in ("task_started", "task_finished")]
    assert not agent.executor.busy
    await agent.aclose()


async def test_a_task_is_reported_before_and_after_all_it_does(tmp_path: Path) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM("hi"))
    await agent.prompt("hello")
    assert isinstance(watch.events[0], events.TaskStarted)
    assert isinstance(watch.events[-1], events.TaskFinished)
    order = [event.type for event in watch.events if event.type != "entry_appended"]
    assert order == [
        "task_started",
        "step_started",
        "text_delta",
        "usage",
        "task_finished",
    ]
    await agent.aclose()


async def test_every_entry_is_announced_once_in_order(tmp_path: Path) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM(tool_reply(("ls", {})), "done"))
    await agent.prompt("list")
    assert [
        event.entry for event in watch.of(events.EntryAppended)
    ] == agent.session.entries
    await agent.aclose()


async def test_a_compaction_by_hand_aborts_the_running_turn_first(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(*["so be it"] * 4, Hang("half an answ"))
    agent, watch = agent_in(tmp_path, llm)
    for n in range(4):
        await agent.prompt(long(n))
    turn = agent.executor.submit(run("one more"))
    await llm.silent.wait()
    compaction = agent.executor.submit(COMPACTION)
    assert (await agent.executor.wait_for(turn)).outcome == "cancelled"
    assert (await agent.executor.wait_for(compaction)).outcome == "done"
    assert len(agent.session.projection.all_compactions) == 1
    assert "half an answ" in " ".join(
        item.message.text for item in agent.session.projection.view
    )
    finished = [event.task for event in watch.of(events.TaskFinished)]
    started = watch.events.index(
        next(e for e in watch.of(events.TaskStarted) if e.task == compaction)
    )
    ended = watch.events.index(
        next(e for e in watch.of(events.TaskFinished) if e.task == turn)
    )
    assert ended < started
    assert finished[-2:] == [turn, compaction]
    assert broken(agent.session.projection) == []
    await agent.aclose()


async def test_a_compaction_by_hand_in_the_same_moment_as_a_turn_leaves_nobody_waiting(
    tmp_path: Path,
) -> None:
    agent, _ = agent_in(tmp_path, PlayedLLM())
    turn, compaction = (
        agent.executor.submit(run("hello")),
        agent.executor.submit(COMPACTION),
    )
    assert (await agent.executor.wait_for(turn)).outcome == "cancelled"
    assert (await agent.executor.wait_for(compaction)).outcome == "done"
    await agent.aclose()


async def test_a_compaction_by_hand_keeps_the_quick_operations_that_wait_before_it(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(Hang())
    agent, _ = agent_in(tmp_path, llm)
    agent.executor.submit(run("hello"))
    await llm.silent.wait()
    clear = agent.executor.submit(operations.ClearView())
    await agent.executor.wait_for(agent.executor.submit(COMPACTION))
    assert (await agent.executor.wait_for(clear)).outcome == "done"
    await agent.aclose()


async def test_with_nothing_to_compact_a_compaction_by_hand_says_so_and_asks_no_model(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM("hi")
    agent, watch = agent_in(tmp_path, llm)
    await agent.prompt("hello")
    await agent.compact()
    [end] = watch.of(events.CompactionEnd)
    assert end.nothing
    assert llm.summary_requests == []
    assert agent.session.projection.all_compactions == []
    await agent.aclose()


async def test_interrupt_ends_what_runs_and_what_waits(tmp_path: Path) -> None:
    llm = PlayedLLM(Hang())
    agent, watch = agent_in(tmp_path, llm)
    ids = [agent.executor.submit(run(text)) for text in ("one", "two")]
    await llm.silent.wait()
    agent.executor.submit(operations.Interrupt())
    assert [(await agent.executor.wait_for(task)).outcome for task in ids] == [
        "cancelled",
        "cancelled",
    ]
    assert len(llm.requests) == 1
    assert len(watch.of(events.TaskFinished)) == 2
    await other_tasks_done()
    await agent.aclose()


async def test_interrupt_with_nothing_to_interrupt_is_no_harm(tmp_path: Path) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM())
    task = agent.executor.submit(operations.Interrupt())
    assert (await agent.executor.wait_for(task)).outcome == "done"
    assert (await agent.prompt("hello")).text == "done"
    assert watch.ends == [("run_agent", "done")]
    await agent.aclose()


async def test_a_listener_may_interrupt_and_submit_from_within_an_event(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM("one", "two"))
    more: list[str] = []

    def react(event: Event) -> None:
        if isinstance(event, events.TaskFinished):
            agent.executor.submit(operations.Interrupt())
            if not more:
                more.append(agent.executor.submit(run("two")))

    agent.executor.subscribe(react)
    assert (
        await agent.executor.wait_for(agent.executor.submit(run("one")))
    ).outcome == "done"
    assert (await agent.executor.wait_for(more[0])).outcome == "done"
    assert watch.ends == [("run_agent", "done")] * 2
    await agent.aclose()


async def test_who_stops_listening_hears_no_more(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM("hi", "there"))
    heard: list[Event] = []
    stop = agent.executor.subscribe(heard.append)
    await agent.prompt("hello")
    stop()
    stop()
    first = len(watch.events)
    await agent.prompt("again")
    assert len(heard) == first
    await agent.aclose()


async def test_closing_with_a_running_task_leaves_no_task_and_frees_the_session(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(Hang("half"))
    agent, watch = agent_in(tmp_path, llm)
    ids = [agent.executor.submit(run(text)) for text in ("one", "two")]
    await llm.silent.wait()
    await agent.aclose()
    assert [(await agent.executor.wait_for(task)).outcome for task in ids] == [
        "cancelled",
        "cancelled",
    ]
    assert llm.closed == 1
    assert len(watch.of(events.TaskFinished)) == 2
    await other_tasks_done()
    again, _ = agent_in(tmp_path, PlayedLLM())
    again.session.claim()
    await again.aclose()


class _Nothing(Arguments):
    pass


class Buggy(BaseTool[_Nothing]):
    name = "buggy"
    description = "Breaks."
    arguments = _Nothing

    def headline(self, arguments: _Nothing) -> str:
        return ""

    async def act(self, arguments: _Nothing, context: ToolContext) -> ToolOutcome:
        raise KeyError("a mistake")


class BuggyStrategy:
    async def compact(self, ctx: object) -> None:
        raise ZeroDivisionError("a mistake")


async def test_a_mistake_in_a_tool_is_raised_and_reported_and_hangs_nothing(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(tool_reply(("buggy", {}), ("ls", {})), "still here")
    agent, watch = agent_in(tmp_path, llm, tools=(*default_tools(), Buggy()))
    task = agent.executor.submit(run("try"))
    with pytest.raises(KeyError, match="a mistake"):
        await agent.executor.wait_for(task)
    [finished] = watch.of(events.TaskFinished)
    assert finished.outcome == "failed"
    assert "KeyError" in finished.error
    assert broken(agent.session.projection) == []
    assert (await agent.prompt("and now?")).text == "still here"
    await agent.aclose()


@pytest.mark.parametrize("preview", [False, True], ids=["at once", "preview"])
async def test_a_mistake_in_a_strategy_is_one_sentence_and_changes_nothing(
    tmp_path: Path, preview: bool
) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM(), compaction=BuggyStrategy())
    for n in range(4):
        await agent.prompt(long(n))
    task = agent.executor.submit(
        operations.CompactSession(reason="manual", preview=preview)
    )
    finished = await agent.executor.wait_for(task)
    said = STRATEGY_FAILED.format("BuggyStrategy", "ZeroDivisionError", "a mistake")
    assert (finished.outcome, finished.error) == ("failed", said)
    assert [end.error for end in watch.of(events.CompactionEnd)] == [said]
    assert not agent.session.projection.all_compactions
    assert (await agent.prompt("and now?")).text == "done"
    await agent.aclose()


@pytest.mark.parametrize("preview", [False, True], ids=["at once", "preview"])
async def test_a_compaction_by_hand_that_would_only_lose_is_neither_made_nor_offered(
    tmp_path: Path, preview: bool
) -> None:
    as_long = "## Goal\n" + "- as many words as what it stands for\n" * 24
    llm = PlayedLLM(summaries=(as_long,))
    agent, watch = agent_in(tmp_path, llm)
    for n in range(6):
        await agent.prompt(f"Tell me all about number {n}. " * 12)
    before = list(agent.session.projection.view)
    await agent.executor.wait_for(
        agent.executor.submit(
            operations.CompactSession(reason="manual", preview=preview)
        )
    )
    [end] = watch.of(events.CompactionEnd)
    assert (end.nothing, end.proposed, end.error) == (True, False, None)
    assert agent.session.projection.view == before
    assert agent.state.compaction.review.proposal is None and not watch.of(
        events.ProposalReady
    )
    assert len(llm.summary_requests) == 1, "that is known once it is written"
    await agent.aclose()


async def test_undo_takes_back_the_newest_compaction_and_says_when_there_is_none(
    tmp_path: Path,
) -> None:
    agent, _ = agent_in(tmp_path, PlayedLLM())
    for n in range(4):
        await agent.prompt(long(n))
    view = list(agent.session.projection.view)
    await agent.compact()
    undo = operations.UndoCompaction()
    assert (
        await agent.executor.wait_for(agent.executor.submit(undo))
    ).outcome == "done"
    assert agent.session.projection.view == view
    again = await agent.executor.wait_for(agent.executor.submit(undo))
    assert (again.outcome, again.error) == (
        "failed",
        "There is no compaction, clear or rewind to undo.",
    )
    assert sum(isinstance(entry, Undo) for entry in agent.session.entries) == 1
    await agent.aclose()


async def test_edit_and_clear_change_the_view(tmp_path: Path) -> None:
    agent, _ = agent_in(tmp_path, PlayedLLM())
    await agent.prompt("keep this")
    index = next(
        entry.index for entry in agent.session.entries if isinstance(entry, UserMessage)
    )
    for operation in (
        operations.EditView(target=index, action="pin"),
        operations.ClearView(),
    ):
        await agent.executor.wait_for(agent.executor.submit(operation))
    assert [item.message.text for item in agent.session.projection.view][1:] == [
        "keep this"
    ]
    await agent.aclose()


class Away(PlayedLLM):
    async def prepare(self) -> ModelInfo:
        raise LLMError("The server is away.")


async def test_switching_models_goes_on_with_the_new_one_and_closes_the_old(
    tmp_path: Path,
) -> None:
    old, new, away = PlayedLLM("old"), PlayedLLM("new", window=200_000), Away()
    new.info = ModelInfo(id="other", window=200_000)
    agent, _ = agent_in(
        tmp_path, old, connect=lambda name: {"other": new, "away": away}[name]
    )
    await agent.prompt("hello")
    failed = await agent.executor.wait_for(
        agent.executor.submit(operations.SwitchModel(model="away"))
    )
    assert (failed.outcome, failed.error) == ("failed", "The server is away.")
    assert (agent.state.models.llm, old.closed, away.closed) == (old, 0, 1)
    await agent.executor.wait_for(
        agent.executor.submit(operations.SwitchModel(model="other"))
    )
    assert (await agent.prompt("hello")).text == "new"
    assert (old.closed, new.closed) == (1, 0)
    assert [
        entry.model for entry in agent.session.entries if isinstance(entry, ModelChange)
    ] == ["other"]
    assert agent.state.budget.limits.window == 200_000
    await agent.aclose()


async def test_an_agent_without_a_way_to_other_models_says_so(tmp_path: Path) -> None:
    agent, _ = agent_in(tmp_path, PlayedLLM())
    failed = await agent.executor.wait_for(
        agent.executor.submit(operations.SwitchModel(model="x"))
    )
    assert failed.outcome == "failed"
    assert failed.error == NO_CONNECT.format(model="x")
    await agent.aclose()


async def test_a_prompt_whose_compaction_was_cancelled_is_not_sent(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(summaries=(Hang(),))
    agent, _ = agent_in(tmp_path, llm, compaction="summary")
    for n in range(3):
        await agent.prompt(long(n) * 8)
    llm.info = ModelInfo(id="played", window=12_288)
    asking = asyncio.create_task(agent.prompt("and now?"))
    await llm.silent.wait()
    agent.executor.submit(operations.Interrupt())
    with pytest.raises(FoldlineError, match="Cancelled"):
        await asking
    prompts = [
        entry.text for entry in agent.session.entries if isinstance(entry, UserMessage)
    ]
    assert "and now?" not in prompts
    await agent.aclose()


async def test_a_prompt_whose_caller_is_cancelled_ends_its_turn(tmp_path: Path) -> None:
    llm = PlayedLLM(Hang("I begin"))
    agent, watch = agent_in(tmp_path, llm)
    asking = asyncio.create_task(agent.prompt("go"))
    await llm.silent.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert watch.ends == [("run_agent", "cancelled")]
    assert not agent.executor.busy
    await agent.aclose()


async def test_the_strategy_can_be_switched_and_a_name_that_leads_nowhere_changes_nothing(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM(), compaction="simple")
    assert type(agent.state.compaction.strategy).__name__ == "SimpleCompaction"
    switch = operations.SwitchStrategy
    done = await agent.executor.wait_for(
        agent.executor.submit(switch(strategy="digest"))
    )
    assert (done.outcome, watch.notices[-1]) == (
        "done",
        STRATEGY_CHANGED.format(name="digest"),
    )
    failed = await agent.executor.wait_for(
        agent.executor.submit(switch(strategy="no:Such"))
    )
    assert (failed.outcome, type(agent.state.compaction.strategy).__name__) == (
        "failed",
        "DigestCompaction",
    )
    assert "there is no module no" in (failed.error or "")
    await agent.aclose()
