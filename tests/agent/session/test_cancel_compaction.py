"""Esc at every single await of a compaction: the view is the old or the new one, and everything goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.llm import LLM, LLMError
from foldline.protocol import (
    Compaction,
    Edit,
    Entry,
    Undo,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event
from foldline.view.projection import project
from foldline.view.rules import broken
from support.agents import (
    PATIENCE,
    Play,
    other_tasks_done,
    reload_session,
    tool_reply,
    write_lines,
)
from support.cancellation import Moment, Stopper, TricklingLLM
from support.clients import chat_at
from support.limits import moments
from support.llm import overflow
from support.reading_sessions import (
    NEARLY_FULL,
    SMALL_WINDOW,
    SUMMARY,
    agent_with_entries,
    bytes_of,
    reading_entries,
)
from support.server import running_server

MOMENTS: list[Moment] = ["as it waits", "once it is ready"]
ENOUGH = 500
"""More awaits than any of these operations has."""


COMPACTION = operations.CompactSession(reason="manual")
PROMPT = operations.RunAgent(parts=text_parts("Read big.txt and go on."))


@dataclass(frozen=True)
class Scenario:
    """An operation that compacts, and what it meets on its way."""

    name: str
    operation: operations.Operation
    entries: tuple[Entry, ...] = field(default_factory=lambda: reading_entries(4))
    script: tuple[Play, ...] = ()
    summaries: tuple[Play, ...] = (SUMMARY,)
    window: int = 32_768
    prepare: Callable[[Agent], Awaitable[operations.Operation]] | None = None
    """Goes before, undisturbed, and gives the operation."""
    options: dict[str, Any] = field(default_factory=dict)
    reader: Callable[[Agent], Callable[[Event], None]] | None = None

    def __str__(self) -> str:
        return self.name


async def a_kept_proposal(agent: Agent) -> operations.Operation:
    await done(agent, operations.CompactSession(reason="manual", preview=True))
    assert agent.state.compaction.review.proposal is not None
    await revised(agent, pins=(3,))
    return operations.ApplyProposal(proposal=agent.state.compaction.review.proposal.id)


async def a_compaction(agent: Agent) -> operations.Operation:
    await done(agent, COMPACTION)
    return operations.UndoCompaction()


async def done(agent: Agent, operation: operations.Operation) -> None:
    async with asyncio.timeout(PATIENCE):
        finished = await agent.executor.wait_for(agent.executor.submit(operation))
    assert finished.outcome == "done", finished


async def revised(agent: Agent, **options: Any) -> None:
    proposal = agent.state.compaction.review.proposal
    assert proposal is not None
    agent.executor.submit(operations.ReviseProposal(proposal=proposal.id, **options))
    await other_tasks_done()
    assert agent.state.compaction.review.proposal is not proposal


def who_applies(agent: Agent) -> Callable[[Event], None]:
    def hear(event: Event) -> None:
        if isinstance(event, events.ProposalReady) and event.waits:
            agent.executor.submit(operations.ApplyProposal(proposal=event.proposal))

    return hear


def who_asks_for_another(agent: Agent) -> Callable[[Event], None]:
    """Wants each first draft again, and takes the second."""
    drafts = count(1)

    def hear(event: Event) -> None:
        if isinstance(event, events.ProposalReady) and event.waits:
            proposal = event.proposal
            operation = (
                operations.RedraftProposal(
                    proposal=proposal, guidance="Name the files."
                )
                if next(drafts) % 2
                else operations.ApplyProposal(proposal=proposal)
            )
            agent.executor.submit(operation)

    return hear


ASKED = {"mode": "ask", "interactive": True}
SCENARIOS = [
    Scenario("by hand", COMPACTION),
    Scenario(
        "by hand, cached form refused, first draft empty",
        COMPACTION,
        entries=reading_entries(4, cached_usage=6_000),
        script=(tool_reply(("read", {"path": "f0.txt"})),),
        summaries=("", SUMMARY),
    ),
    Scenario(
        "before a prompt, the ladder after a failure",
        operations.CompactSession(reason="threshold", pending=3_000),
        entries=reading_entries(6),
        summaries=(LLMError("The server is down."),),
        window=16_384,
    ),
    Scenario(
        "overflow within a turn",
        PROMPT,
        script=(tool_reply(("read", {"path": "big.txt"})), overflow(), "done"),
    ),
    Scenario(
        "full between two steps",
        PROMPT,
        entries=reading_entries(8),
        script=(tool_reply(("read", {"path": "big.txt"})), "done"),
        window=16_384,
        options={"draft_ahead": False},
    ),
    Scenario(
        "asked between two steps",
        PROMPT,
        entries=reading_entries(8),
        script=(tool_reply(("read", {"path": "big.txt"})), "done"),
        summaries=(SUMMARY, SUMMARY + " with f0.txt"),
        window=16_384,
        options=ASKED,
        reader=who_asks_for_another,
    ),
    Scenario(
        "asked before a prompt",
        operations.CompactSession(reason="threshold", pending=3_000),
        entries=reading_entries(6),
        window=16_384,
        options=ASKED,
        reader=who_applies,
    ),
    Scenario("a kept proposal applied", COMPACTION, prepare=a_kept_proposal),
    Scenario("an undo", COMPACTION, prepare=a_compaction),
    Scenario(
        "a switch to a model with less room",
        operations.SwitchModel(model="small"),
        entries=reading_entries(6),
        options={"connect": lambda _: TricklingLLM(window=12_288)},
    ),
]


def changes(entries: list[Entry]) -> list[str]:
    """What changed the view, in order, byte for byte."""
    markers = [
        entry for entry in entries if isinstance(entry, Compaction | Undo | Edit)
    ]
    return [marker.model_dump_json() for marker in markers]


@dataclass(frozen=True)
class Run:
    """How one run of a scenario ended."""

    outcome: str
    struck: bool
    before: list[str]
    """Changes of the view before it began."""
    after: list[str]
    view: list[str]
    old_view: list[str]
    """The view without what changed it in this run."""


async def run(
    scenario: Scenario, folder: Path, at: int, moment: Moment, llm: LLM | None = None
) -> Run:
    """One run, interrupted at this await; all that must hold of any run is checked."""
    folder.mkdir()
    write_lines(folder / "big.txt", 180)
    if llm is None:
        llm = TricklingLLM(
            *scenario.script, window=scenario.window, summaries=scenario.summaries
        )
    async with agent_with_entries(
        folder, scenario.entries, llm, **scenario.options
    ) as (agent, watch):
        if scenario.reader is not None:
            agent.executor.subscribe(scenario.reader(agent))
        operation = (
            await scenario.prepare(agent) if scenario.prepare else scenario.operation
        )
        known = len(agent.session.entries)
        begun = len(watch.events)
        stopper = Stopper(agent, at, moment)
        task = agent.executor.submit(operation)
        async with asyncio.timeout(PATIENCE):
            finished = await agent.executor.wait_for(task)
        await other_tasks_done()
        stopper.stop()
        no_stream_is_open(agent)
        entries = list(agent.session.entries)
        projection = agent.session.projection
        assert broken(projection) == []
        assert bytes_of(reload_session(agent).projection) == bytes_of(projection)
        told_truthfully(watch.events[begun:], entries[known:])
        proposal = agent.state.compaction.review.proposal
        assert proposal is None or proposal.fits(projection), (
            "a proposal waits that was applied"
        )
        ended = Run(
            outcome=finished.outcome,
            struck=stopper.struck,
            before=changes(entries[:known]),
            after=changes(entries),
            view=bytes_of(projection),
            old_view=bytes_of(
                project([*entries[:known], *unchanging(entries[known:])])
            ),
        )
        await goes_on(agent)
        no_stream_is_open(agent)
    return ended


def no_stream_is_open(agent: Agent) -> None:
    if isinstance(agent.state.models.llm, TricklingLLM):
        assert agent.state.models.llm.open_streams == 0


def unchanging(entries: list[Entry]) -> list[Entry]:
    return [
        entry for entry in entries if not isinstance(entry, Compaction | Undo | Edit)
    ]


def told_truthfully(told: list[Event], new: list[Entry]) -> None:
    """Every compaction that was announced has ended, and those that say so, and only those, are in the
    history."""
    stages = [
        event
        for event in told
        if isinstance(event, events.CompactionStart | events.CompactionEnd)
    ]
    assert [event.type for event in stages] == [
        "compaction_start",
        "compaction_end",
    ] * (len(stages) // 2)
    ends = [event for event in stages if isinstance(event, events.CompactionEnd)]
    compactions = [entry.index for entry in new if isinstance(entry, Compaction)]
    assert [end.index for end in ends if end.index is not None] == compactions
    assert all(
        end.aborted or end.error or end.nothing for end in ends if end.index is None
    )
    closed = [
        event
        for event in told
        if isinstance(event, events.ProposalClosed) and event.applied
    ]
    assert len(closed) <= len(compactions)


async def goes_on(agent: Agent) -> None:
    async with asyncio.timeout(PATIENCE):
        assert (await agent.prompt("and now?")).text
    assert bytes_of(reload_session(agent).projection) == bytes_of(
        agent.session.projection
    )
    assert broken(agent.session.projection) == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_cancelled_at_any_await_the_view_is_the_old_or_the_new_one(
    tmp_path: Path, scenario: Scenario, moment: Moment
) -> None:
    whole = await run(scenario, tmp_path / "whole", 0, moment)
    assert whole.outcome == "done"
    assert len(whole.after) > len(whole.before), (
        "nothing was compacted: this holds nothing"
    )
    outcomes = []
    for at in moments(ENOUGH):
        ended = await run(scenario, tmp_path / str(at), at, moment)
        if not ended.struck:
            break
        assert ended.after in (whole.before, whole.after)
        if ended.after == ended.before:
            assert ended.view == ended.old_view
        if not isinstance(scenario.operation, operations.RunAgent):
            assert ended.view in (whole.view, whole.old_view)
        outcomes.append((ended.outcome, ended.after == whole.after))
    assert ended.outcome == "done"
    assert outcomes[0][0] == "cancelled"


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
async def test_cancelled_at_any_await_beside_a_draft_ahead_the_view_is_the_old_one_or_compacted_once(
    tmp_path: Path, moment: Moment
) -> None:
    """How far the draft is when the window is full depends on what a thread does: its compaction has two
    sizes."""
    scenario = Scenario(
        "drafted ahead",
        PROMPT,
        entries=NEARLY_FULL,
        script=(tool_reply(("read", {"path": "big.txt"})), "done"),
        window=SMALL_WINDOW,
    )
    whole = await run(scenario, tmp_path / "whole", 0, moment)
    assert (whole.outcome, len(whole.after)) == ("done", 1)
    for at in moments(ENOUGH):
        ended = await run(scenario, tmp_path / str(at), at, moment)
        if not ended.struck:
            break
        assert len(ended.after) <= 1
        if not ended.after:
            assert ended.view == ended.old_view
    assert ended.outcome == "done"


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
async def test_cancelled_at_any_await_of_a_real_request_the_view_is_the_old_or_the_new_one(
    tmp_path: Path, moment: Moment
) -> None:
    """The same with the real client and a real server."""
    script = [
        {
            "when": {"content": "<conversation>"},
            "answer": {"text": SUMMARY, "chunk": 12},
        },
        {"answer": {"text": "done"}},
    ]
    scenario = Scenario("by hand", COMPACTION)
    with running_server(script=script, strict=True) as server:

        async def once(name: str, at: int) -> Run:
            llm = chat_at(server.base_url, model=server.model, window=server.window)
            return await run(scenario, tmp_path / name, at, moment, llm)

        whole = await once("whole", 0)
        assert len(whole.after) > len(whole.before)
        for at in moments(ENOUGH):
            ended = await once(str(at), at)
            if not ended.struck:
                break
            assert ended.view in (whole.view, whole.old_view)
            assert ended.view == (whole.view if ended.after else whole.old_view)
        assert ended.outcome == "done"
        seen = server.wait_for(
            lambda seen: all(each.outcome or each.rejected for each in seen)
        )
        assert {each.outcome for each in seen if each.outcome} <= {
            "answered",
            "closed by client",
        }
        whole_ones = [
            each for each in seen if each.outcome
        ]  # a request may have been cut off on its way
        assert [each.violations for each in whole_ones if each.violations] == []
