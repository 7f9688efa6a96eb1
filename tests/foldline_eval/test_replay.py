"""A replay sends the agent's requests, compacts when the agent would, and records both."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from foldline.compaction import BUILT_IN
from foldline.llm import LLM, LLMError
from foldline.protocol import AssistantMessage, BaseMessage
from foldline.view.calls import pairing_faults
from foldline.view.tokens import message_tokens
from foldline_eval.record import ReplayRun
from foldline_eval.replay import STRIDE, UNLIMITED, recorded_messages, recorded_pins
from support.history import History, history
from support.llm import ScriptedLLM, refusal
from support.messages import tool_results
from support.replays import opaque, replay_session
from support.safety import violations

WINDOW = 8_192


def long_session(turns: int = 6, steps: int = 4, lines: int = 30) -> History:
    """Build turns of reads, each of its own file, about 3k tokens per turn."""
    chance = random.Random(7)
    built = history().system("You are careful.")
    for turn in range(turns):
        built.user(f"Read part {turn}, and never write to it.")
        for step in range(steps):
            text = "\n".join(
                f"line {n} of {turn}.{step}: {chance.random()}" for n in range(lines)
            )
            built.step("read", text, path=f"src/part_{turn}/file_{step}.py")
        built.assistant(f"Part {turn} is read.")
    return built


async def run_replay(
    messages: Sequence[BaseMessage],
    arm: str,
    *,
    window: int = WINDOW,
    llm: LLM | None = None,
) -> ReplayRun:
    return await replay_session(messages, arm, window=window, llm=llm)


RECORDED = recorded_messages(long_session().entries)


def test_recorded_messages_are_numbered_with_gaps_for_the_strategies_markers() -> None:
    assert [message.index for message in RECORDED] == [
        STRIDE * (at + 1) for at in range(len(RECORDED))
    ]


def test_rewound_and_compacted_messages_are_replayed_as_recorded() -> None:
    built = history().system("s").user("one").assistant("first").checkpoint(0)
    built.user("two").assistant("wrong way").revert(0).user("three").assistant("done")
    said = [message.text for message in recorded_messages(built.entries)]
    assert said == ["s", "one", "first", "three", "done"]


async def test_the_raw_run_sends_every_message_before_each_answer() -> None:
    run = await run_replay(RECORDED, "raw", window=UNLIMITED)
    answers = [
        at
        for at, message in enumerate(RECORDED)
        if isinstance(message, AssistantMessage)
    ]
    assert [len(sent.messages) for sent in run.requests] == answers
    texts = [message.text for message in run.requests[-1].messages]
    assert texts == [message.text for message in RECORDED[: answers[-1]]]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("arm", [*BUILT_IN, "truncate"])
async def test_every_arm_stays_within_the_window_and_sends_valid_requests(
    arm: str,
) -> None:
    run = await run_replay(RECORDED, arm)
    assert run.compactions
    assert run.failures == []
    assert [sent.answer for sent in run.requests if sent.kind == "step"] == [
        message.index for message in RECORDED if isinstance(message, AssistantMessage)
    ]
    assert all(sent.tokens <= WINDOW for sent in run.requests)
    assert [
        fault for sent in run.requests for fault in pairing_faults(sent.messages)
    ] == []


async def test_the_same_session_gives_the_same_run() -> None:
    once, twice = (
        await run_replay(RECORDED, "summary"),
        await run_replay(RECORDED, "summary"),
    )
    assert [sent.tokens for sent in once.requests] == [
        sent.tokens for sent in twice.requests
    ]
    assert [compaction.entry.summary for compaction in once.compactions] == [
        compaction.entry.summary for compaction in twice.compactions
    ]


async def test_a_summary_request_is_recorded_right_before_its_compaction() -> None:
    run = await run_replay(RECORDED, "summary")
    assert run.compactions
    for compaction in run.compactions:
        before, after = (
            run.requests[compaction.requests - 1],
            run.requests[compaction.requests],
        )
        assert (before.kind, after.kind) == ("summary", "step")


async def test_a_compaction_records_the_view_before_and_after() -> None:
    run = await run_replay(RECORDED, "digest")
    compaction = run.compactions[0]
    assert sum(map(message_tokens, compaction.after)) < sum(
        map(message_tokens, compaction.before)
    )
    assert (
        run.requests[compaction.requests].messages[: len(compaction.after)]
        == compaction.after
    )


async def test_a_result_too_large_for_the_room_is_clipped_as_in_the_agent() -> None:
    built = (
        history()
        .system("s")
        .user("read")
        .step("read", "a line of it\n" * 20_000, path="big.txt")
    )
    run = await run_replay(
        recorded_messages(built.assistant("read").entries), "summary"
    )
    [result] = tool_results(run.last_view)
    assert "history_read(" in result.text
    assert all(sent.tokens <= WINDOW for sent in run.requests)


async def test_an_empty_summary_leaves_the_messages_the_strategy_keeps() -> None:
    run = await run_replay(RECORDED, "summary", llm=opaque(WINDOW, 300))
    assert "as it had been agreed" in run.compactions[0].entry.summary
    assert "<standing-constraints>" in run.compactions[0].entry.summary


async def test_an_unavailable_summariser_leads_to_a_later_rung() -> None:
    run = await run_replay(
        RECORDED, "summary", llm=ScriptedLLM(always=refusal(), window=WINDOW)
    )
    assert {compaction.entry.rung for compaction in run.compactions} <= {
        "hide",
        "clip",
        "digest",
        "truncate",
    }
    assert isinstance(refusal(), LLMError)


async def test_a_window_that_is_never_full_causes_no_compaction() -> None:
    run = await run_replay(RECORDED, "summary", window=1_000_000)
    assert run.compactions == []


async def test_the_sessions_pins_are_pinned_in_the_replay_and_stay_verbatim() -> None:
    built = long_session()
    rule = next(entry.index for entry in built.entries if entry.type == "user")
    built.edit("pin", rule)
    pins = recorded_pins(built.entries)
    assert len(pins) == 1
    run = await replay_session(RECORDED, "summary", window=WINDOW, pins=pins)
    assert run.compactions
    assert run.session.pins == pins
    steps = [sent for sent in run.requests if sent.kind == "step"]
    assert all(
        any(message.index in pins for message in sent.messages) for sent in steps
    )
    assert violations(run) == []


async def test_coverage_is_checked_at_every_compaction() -> None:
    run = await run_replay(RECORDED, "adaptive")
    assert run.broken == []
    assert violations(replace(run, broken=["compaction 1: entry 8 is gone"])) == [
        "C1, compaction 1: entry 8 is gone"
    ]
