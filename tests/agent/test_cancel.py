"""Esc, at every place where an agent waits: quick, clean, and nothing begins again by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.permissions.approvals import Policy
from foldline.agent.tools import (
    Arguments,
    BaseTool,
    ToolContext,
    ToolOutcome,
    default_tools,
)
from foldline.agent.turn.calls import CANCELLED, NOT_RUN
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    RequestRecord,
    ToolResultMessage,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event
from foldline.view.rules import broken
from support.agents import (
    PATIENCE,
    Hang,
    PlayedLLM,
    Watch,
    agent_in,
    other_tasks_done,
    reload_session,
    tool_reply,
    write_lines,
)
from support.clients import chat_at
from support.messages import tool_results
from support.server import running_server


async def interrupted(agent: Agent, task: str, times: int = 1) -> None:
    """Interrupt, and wait until the task is over; that takes no timer of ours to run out."""
    for _ in range(times):
        agent.executor.submit(operations.Interrupt())
    async with asyncio.timeout(PATIENCE):
        finished = await agent.executor.wait_for(task)
    assert finished.outcome == "cancelled"


def prompt(agent: Agent, text: str = "go on") -> str:
    return agent.executor.submit(operations.RunAgent(parts=text_parts(text)))


def results(agent: Agent) -> list[ToolResultMessage]:
    return tool_results(agent.session.entries)


async def goes_on(agent: Agent) -> None:
    """The next prompt works, and the history is the same for everybody."""
    assert broken(agent.session.projection) == []
    assert (await agent.prompt("and now?")).text == "done"
    assert reload_session(agent).projection.view == agent.session.projection.view
    assert broken(agent.session.projection) == []


@pytest.mark.parametrize("times", [1, 2])
async def test_cancelled_while_the_answer_streams_its_text_is_kept(
    tmp_path: Path, times: int
) -> None:
    llm = PlayedLLM(Hang("The first half"))
    agent, watch = agent_in(tmp_path, llm)
    task = prompt(agent)
    await watch.first(events.TextDelta)
    await interrupted(agent, task, times)
    answer, record = agent.session.entries[-2:]
    assert isinstance(answer, AssistantMessage)
    assert (answer.text, answer.stop_reason) == ("The first half", "cancelled")
    assert isinstance(record, RequestRecord)
    assert record.stop_reason == "cancelled"
    assert llm.closed_streams == 1
    await other_tasks_done()
    await goes_on(agent)
    await agent.aclose()


async def test_cancelled_before_the_first_word_there_is_no_answer(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(Hang())
    agent, _ = agent_in(tmp_path, llm)
    task = prompt(agent)
    await llm.silent.wait()
    await interrupted(agent, task)
    assert not any(
        isinstance(entry, AssistantMessage) for entry in agent.session.entries
    )
    await goes_on(agent)
    await agent.aclose()


async def test_the_server_sees_the_connection_close(tmp_path: Path) -> None:
    stalls = {
        "when": {"nth": 1},
        "answer": {
            "text": "One two three four",
            "chunk": 5,
            "fault": {"stall_after": 3},
        },
    }
    with running_server(script=[stalls], then_default=True, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=32_768)
        agent, watch = agent_in(tmp_path, llm)
        task = prompt(agent)
        await watch.first(events.TextDelta, 2)
        await interrupted(agent, task, times=2)
        server.wait_for(lambda seen: seen[0].outcome == "closed by client")
        assert (await agent.prompt("Say hello")).text
        assert [(seen.rejected, seen.violations) for seen in server.requests()] == [
            ("", ()),
            ("", ()),
        ]
        await agent.aclose()


@pytest.mark.parametrize("times", [1, 2])
async def test_cancelled_during_a_tool_every_call_has_a_result_that_says_so(
    tmp_path: Path, times: int
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    group = tool_reply(
        ("read", {"path": "a.txt"}),
        ("bash", {"command": "echo here; sleep 600"}),
        ("read", {"path": "a.txt"}),
    )
    agent, watch = agent_in(tmp_path, PlayedLLM(group))
    task = prompt(agent)
    await watch.first(events.ToolOutput)
    await interrupted(agent, task, times)
    first, second, third = results(agent)
    assert first.text == "a\n"
    assert second.text.startswith("Interrupted by the user")
    assert third.text.startswith("Not run")
    assert [result.is_error for result in results(agent)] == [False, True, True]
    assert len(watch.of(events.ToolFinished)) == 3
    await other_tasks_done()
    await goes_on(agent)
    await agent.aclose()


async def test_a_compaction_by_hand_within_a_tool_group_leaves_a_history_that_is_true_and_valid(
    tmp_path: Path,
) -> None:
    """Of three calls one had ended, one ran, one had not begun: so the history says, the draft is told it,
    and a server that checks every request takes what comes after."""
    (tmp_path / "a.txt").write_text("alpha\n")
    group = [
        {"name": "read", "arguments": {"path": "a.txt"}},
        {"name": "bash", "arguments": {"command": "echo runs; sleep 600"}},
        {"name": "write", "arguments": {"path": "b.txt", "content": "b"}},
    ]
    script = [
        {
            "when": {"content": "<conversation>|<summary-request>"},
            "answer": {"text": "## Goal\n- all three"},
        },
        {"when": {"content": "do all three"}, "answer": {"tool_calls": group}},
        {"answer": {"text": "done"}},
    ]
    with running_server(script=script, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=server.window)
        agent, watch = agent_in(tmp_path, llm)
        for number in range(4):
            await agent.prompt(f"Background {number}. " * 200)
        turn = prompt(agent, "do all three")
        await watch.first(events.ToolOutput)
        finished = await agent.executor.wait_for(
            agent.executor.submit(operations.CompactSession(reason="manual"))
        )
        assert (await agent.executor.wait_for(turn)).outcome == "cancelled"
        assert finished.outcome == "done"
        ended, ran, not_begun = results(agent)
        assert (ended.text, ended.is_error) == ("alpha\n", False)
        assert (ran.text, ran.is_error) == (
            CANCELLED.text,
            True,
        )
        assert (not_begun.text, not_begun.is_error) == (
            NOT_RUN.text,
            True,
        )
        assert not (tmp_path / "b.txt").exists()
        [compaction] = agent.session.projection.all_compactions
        assert compaction.index > not_begun.index
        drafting = server.requests()[
            -1
        ]  # all it was sent, in whichever form, and what stayed verbatim
        told = "".join(str(message["content"]) for message in drafting.messages)
        told += "".join(item.message.text for item in agent.session.projection.view)
        assert all(result.text in told for result in results(agent))
        assert broken(agent.session.projection) == []
        assert (await agent.prompt("and now?")).text == "done"
        assert {(seen.rejected, seen.violations) for seen in server.requests()} == {
            ("", ())
        }
        assert reload_session(agent).projection.view == agent.session.projection.view
        await agent.aclose()
        await other_tasks_done()


async def test_cancelled_while_it_asks_the_call_was_not_run_and_the_question_goes(
    tmp_path: Path,
) -> None:
    group = tool_reply(
        ("write", {"path": "x.txt", "content": "x"}), ("bash", {"command": "true"})
    )
    agent, watch = agent_in(tmp_path, PlayedLLM(group), approvals="ask")
    task = prompt(agent)
    await watch.first(events.ApprovalRequested)
    await interrupted(agent, task)
    assert [result.text for result in results(agent)] == [NOT_RUN.text] * 2
    assert not (tmp_path / "x.txt").exists()
    assert [event.allowed for event in watch.of(events.ApprovalResolved)] == [False]
    agent.executor.submit(
        operations.Approve(call_id="c0", answer="once")
    )  # too late: nobody asks any more
    await goes_on(agent)
    assert not (tmp_path / "x.txt").exists()
    await agent.aclose()


async def test_cancelled_while_a_result_is_written_it_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    group = tool_reply(("read", {"path": "a.txt"}), ("read", {"path": "a.txt"}))
    agent, _ = agent_in(tmp_path, PlayedLLM(group))
    append = agent.session.append

    async def cancelling(*entries: Entry, durable: bool = False) -> list[Entry]:
        if isinstance(entries[0], ToolResultMessage) and entries[0].call_id == "c0":
            agent.executor.submit(operations.Interrupt())
        return await append(*entries, durable=durable)

    monkeypatch.setattr(agent.session, "append", cancelling)
    finished = await agent.executor.wait_for(prompt(agent))
    assert finished.outcome == "cancelled"
    assert [(result.call_id, result.is_error) for result in results(agent)] == [
        ("c0", False),
        ("c1", True),
    ]
    await goes_on(agent)
    await agent.aclose()


async def filled(tmp_path: Path, llm: PlayedLLM) -> tuple[Agent, Watch]:
    """An agent whose window is worth compacting."""
    for n in range(4):
        write_lines(tmp_path / f"f{n}.txt", 120)
    llm.script.extendleft(
        reversed(
            [
                step
                for n in range(4)
                for step in (
                    tool_reply(("read", {"path": f"f{n}.txt"}), stem=f"s{n}_"),
                    "ok",
                )
            ]
        )
    )
    agent, watch = agent_in(tmp_path, llm)
    for n in range(4):
        await agent.prompt(f"read f{n}.txt")
    return agent, watch


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("said", ["", "## Goal\n- half a summ"])
async def test_a_cancelled_compaction_leaves_no_trace_and_does_not_begin_again(
    tmp_path: Path, said: str, times: int
) -> None:
    llm = PlayedLLM(summaries=(Hang(said),))
    agent, watch = await filled(tmp_path, llm)
    before, view = list(agent.session.entries), list(agent.session.projection.view)
    task = agent.executor.submit(operations.CompactSession(reason="manual"))
    await llm.silent.wait()
    await interrupted(agent, task, times)
    assert agent.session.entries == before
    assert agent.session.projection.view == view
    assert reload_session(agent).projection.view == view
    [end] = watch.of(events.CompactionEnd)
    assert end.aborted
    assert end.index is None
    await other_tasks_done()
    assert len(llm.summary_requests) == 1
    await goes_on(agent)
    assert len(llm.summary_requests) == 1
    await agent.aclose()


async def test_a_compaction_inside_a_turn_cancelled_ends_the_turn_with_the_old_view(
    tmp_path: Path,
) -> None:
    for n in range(8):
        write_lines(tmp_path / f"f{n}.txt", 150)
    reads = [
        tool_reply(("read", {"path": f"f{n}.txt"}), stem=f"s{n}_") for n in range(8)
    ]
    llm = PlayedLLM(*reads, window=16_384, summaries=(Hang("half"),))
    agent, watch = agent_in(tmp_path, llm, compaction="summary", draft_ahead=False)
    task = prompt(agent, "read them")
    await llm.silent.wait()
    asked = len(llm.requests)
    await interrupted(agent, task)
    assert agent.session.projection.all_compactions == []
    assert len(llm.requests) == asked
    assert watch.of(events.CompactionEnd)[0].aborted
    assert broken(agent.session.projection) == []
    await other_tasks_done()
    await agent.aclose()


async def test_a_cancel_that_comes_during_the_commit_is_too_late_and_the_end_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, watch = await filled(tmp_path, PlayedLLM())
    append = agent.session.append

    async def cancelling(*entries: Entry, durable: bool = False) -> list[Entry]:
        if isinstance(entries[0], Compaction):
            agent.executor.submit(operations.Interrupt())
        return await append(*entries, durable=durable)

    monkeypatch.setattr(agent.session, "append", cancelling)
    await agent.executor.wait_for(
        agent.executor.submit(operations.CompactSession(reason="manual"))
    )
    [compaction] = agent.session.projection.all_compactions
    [end] = watch.of(events.CompactionEnd)
    assert (end.aborted, end.index, end.tokens_after) == (
        False,
        compaction.index,
        compaction.tokens_after,
    )
    assert broken(agent.session.projection) == []
    await agent.aclose()


class _Nothing(Arguments):
    pass


class Stubborn(BaseTool[_Nothing]):
    """Waits for a thing that never comes, and needs a moment to tidy up."""

    name = "stubborn"
    description = "Waits."
    arguments = _Nothing

    def __init__(self) -> None:
        super().__init__()
        self.tidied = False

    def headline(self, arguments: _Nothing) -> str:
        return ""

    async def act(self, arguments: _Nothing, context: ToolContext) -> ToolOutcome:
        context.output("waiting")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.tidied = True
        return ToolOutcome("")


async def test_a_second_cancel_does_not_break_into_the_tidying_of_the_first(
    tmp_path: Path,
) -> None:
    tool = Stubborn()
    llm = PlayedLLM(tool_reply(("stubborn", {}), ("stubborn", {})))
    agent, watch = agent_in(tmp_path, llm, tools=(*default_tools(), tool))
    task = prompt(agent)
    await watch.first(events.ToolOutput)
    agent.executor.submit(operations.Interrupt())
    await asyncio.sleep(0)
    agent.executor.submit(operations.Interrupt())
    assert (await agent.executor.wait_for(task)).outcome == "cancelled"
    assert tool.tidied
    assert len(results(agent)) == 2
    await goes_on(agent)
    await agent.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("approvals", ["all", "ask"])
async def test_a_cancel_at_any_event_leaves_a_sound_history(
    tmp_path: Path, approvals: str
) -> None:
    """The same turn, with tools, a question and a compaction in it, cancelled at each event there is."""
    for n in range(5):
        write_lines(tmp_path / f"f{n}.txt", 150)
    group = (
        ("read", {"path": "f4.txt"}),
        ("write", {"path": "x.txt", "content": "x"}),
        ("ls", {}),
    )
    reads = [
        tool_reply(("read", {"path": f"f{n}.txt"}), stem=f"s{n}_", text="On.")
        for n in range(4)
    ]
    for number in range(1, 200):
        llm = PlayedLLM(*reads, tool_reply(*group), always="done", window=12_288)
        agent, watch = agent_in(tmp_path, llm, approvals=approvals)
        struck: list[
            str | None
        ] = []  # the task that ran then: the draft ahead may speak after the turn

        def disturb(
            event: Event,
            agent: Agent = agent,
            seen: Watch = watch,
            at: int = number,
            hit: Any = struck.append,
        ) -> None:
            if len(seen.events) == at:
                job = agent.executor._running
                hit(job.id if job and job.task and not job.task.done() else None)
                agent.executor.submit(operations.Interrupt())
            elif isinstance(event, events.ApprovalRequested):
                agent.executor.submit(
                    operations.Approve(call_id=event.call_id, answer="once")
                )

        stop = agent.executor.subscribe(disturb)
        async with asyncio.timeout(PATIENCE):
            finished = await agent.executor.wait_for(prompt(agent, "read them"))
        assert broken(agent.session.projection) == []
        stop()
        agent.state.permissions.policy = Policy(mode="all")
        assert (await agent.prompt("and now?")).text
        await agent.executor.settle()
        assert reload_session(agent).projection.view == agent.session.projection.view
        await agent.aclose()
        if not struck:
            break
        assert finished.outcome == (
            "cancelled" if struck == [finished.task] else "done"
        )
    assert agent.session.projection.all_compactions
    assert number > 30
