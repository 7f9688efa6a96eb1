"""Time from Esc to idle, with the real client and a real server."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.tables import table
from bench.timing import Times, ms, times_of
from foldline.agent import Agent
from foldline.protocol import events, operations, text_parts
from foldline.protocol.events import Event
from foldline.protocol.operations import Operation
from foldline.view.rules import broken
from support.agents import Watch, agent_in
from support.clients import chat_at
from support.server_process import running_server

TARGET_SECONDS = 0.2
OF_FLOOR = 10
"""Allowed multiple of the floor, if the machine is too slow for the target."""
ROUNDS = 10


@dataclass(frozen=True)
class Moment:
    """A state to interrupt, and the event that shows it."""

    name: str
    operation: Operation
    runs: Callable[[Event], bool]
    count: int = 1
    """Number of such events to wait for."""


def prompt(text: str) -> Operation:
    return operations.RunAgent(parts=text_parts(text))


def _drafting(event: Event) -> bool:
    return isinstance(event, events.CompactionProgress) and event.drafted_tokens > 0


def _asked(event: Event) -> bool:
    return isinstance(event, events.StepStarted)


MOMENTS = [
    Moment("a request without a byte of an answer", prompt("go hang"), _asked),
    Moment(
        "an answer that streams",
        prompt("go stream"),
        lambda e: isinstance(e, events.TextDelta),
        50,
    ),
    Moment(
        "an answer that stalls",
        prompt("go stall"),
        lambda e: isinstance(e, events.TextDelta),
    ),
    Moment(
        "an answer without end",
        prompt("go flood"),
        lambda e: isinstance(e, events.TextDelta),
        50,
    ),
    Moment(
        "a line without end",
        prompt("go mute"),
        lambda e: isinstance(e, events.StepStarted),
    ),
    Moment(
        "a draft of a summary", operations.CompactSession(reason="manual"), _drafting
    ),
    Moment("a tool", prompt("go tool"), lambda e: isinstance(e, events.ToolOutput)),
    Moment(
        "a tool that ignores signals",
        prompt("go stubborn"),
        lambda e: isinstance(e, events.ToolOutput),
    ),
    Moment(
        "a wait before a retry",
        prompt("go retry"),
        lambda e: isinstance(e, events.Retrying),
    ),
]

_PIECE = 'data: {"choices": [{"index": 0, "delta": {"content": "on and on"}}]}\n\n'

SCRIPT: list[dict[str, Any]] = [
    {
        "when": {"content": "<conversation>|<summary-request>"},
        "answer": {
            "text": "## Goal\n- to be stopped " * 20,
            "fault": {"stall_after": 8},
        },
    },
    {"when": {"content": "go hang"}, "answer": {"fault": {"hang": True}}},
    {
        "when": {"content": "go stream"},
        "answer": {"text": "word after word " * 12_000, "chunk": 8},
    },
    {
        "when": {"content": "go stall"},
        "answer": {"text": "half of it " * 30, "fault": {"stall_after": 5}},
    },
    {
        "when": {"content": "go flood"},
        "answer": {"fault": {"flood": {"piece": _PIECE}}},
    },
    {
        "when": {"content": "go mute"},
        "answer": {"fault": {"flood": {"piece": ": ping\n\n"}}},
    },
    {
        "when": {"content": "go tool"},
        "answer": {
            "tool_calls": [
                {"name": "bash", "arguments": {"command": "echo runs; sleep 60"}}
            ]
        },
    },
    {
        "when": {"content": "go stubborn"},
        "answer": {
            "tool_calls": [
                {
                    "name": "bash",
                    "arguments": {
                        "command": "trap '' INT TERM HUP; echo runs; sleep 60"
                    },
                }
            ]
        },
    },
    {
        "when": {"content": "go retry"},
        "answer": {"fault": {"status": 429, "headers": {"retry-after": "30"}}},
    },
    {"answer": {"text": "Noted."}},
]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_an_interrupt_is_over_before_anybody_waits_for_it(
    benchmark: Callable[..., object], tmp_path: Path, moment: Moment
) -> None:
    async def run() -> tuple[Times, Times, list[str]]:
        async with _agent(tmp_path) as (agent, watch):
            ends = [await _interrupted(agent, watch, moment) for _ in range(ROUNDS)]
            assert broken(agent.session.projection) == []
            return (
                Times.of([seconds for seconds, _ in ends]),
                _floor(),
                [how for _, how in ends],
            )

    times, floor, outcomes = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: asyncio.run(run()), rounds=1
    )
    _note(moment, times, floor)
    assert outcomes == ["cancelled"] * ROUNDS
    assert times.worst <= max(TARGET_SECONDS, OF_FLOOR * floor.median), (
        f"worst of {ROUNDS}: {ms(times.worst)}"
    )


@asynccontextmanager
async def _agent(folder: Path) -> AsyncIterator[tuple[Agent, Watch]]:
    """Start an agent with enough history to compact."""
    (folder / "project").mkdir()
    with running_server(script=SCRIPT, window=131_072, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=131_072)
        agent, watch = agent_in(folder / "project", llm)
        try:
            for number in range(6):
                await agent.prompt(
                    f"Background {number}: "
                    + f"part {number} of what is known so far. " * 300
                )
            yield agent, watch
        finally:
            await agent.aclose()


async def _interrupted(agent: Agent, watch: Watch, moment: Moment) -> tuple[float, str]:
    """Return the seconds from the interrupt to the end of the task, and its outcome."""
    watch.events.clear()
    task = agent.executor.submit(moment.operation)
    await watch.until(
        lambda: watch.ends or sum(map(moment.runs, watch.events)) >= moment.count
    )
    assert not watch.ends, (
        f"it ended before it could be interrupted: {watch.events[-1]}"
    )
    began = time.perf_counter()
    agent.executor.submit(operations.Interrupt())
    finished = await agent.executor.wait_for(task)
    seconds = time.perf_counter() - began
    assert not agent.executor.busy
    return seconds, finished.outcome


def _floor() -> Times:
    """Time the start and end of a bare interpreter: the current speed of this machine."""
    return times_of(
        lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 5
    )


def _note(moment: Moment, times: Times, floor: Times) -> None:
    output = table(
        f"From Esc to idle (target: {TARGET_SECONDS * 1000:.0f} ms)",
        *("interrupted", "rounds", "median", "worst", "floor", "worst / floor"),
    )
    ratio = times.worst / floor.median
    output.row(
        moment.name,
        ROUNDS,
        ms(times.median),
        ms(times.worst),
        ms(floor.median),
        f"{ratio:.1f}",
    )
    output.note("floor: a bare interpreter starts and ends")
