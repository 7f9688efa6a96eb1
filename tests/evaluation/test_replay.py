"""A replay sends what the agent would send, folds when it would fold, and writes both down."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from foldline.compaction import BUILT_IN
from foldline.context.calls import pairing_faults
from foldline.context.tokens import message_tokens
from foldline.evaluation.record import Run
from foldline.evaluation.replay import STRIDE, UNLIMITED, recorded_messages, recorded_pins
from foldline.evaluation.safety import violations
from foldline.llm import LLM, LLMError
from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage
from support.compared import METER, opaque, replayed
from support.history import History, history
from support.llm import ScriptedLLM, refusal

WINDOW = 8_192


def worked(turns: int = 6, steps: int = 4, lines: int = 30) -> History:
    """Turns of reads, each about a file of its own: about 3k tokens a turn."""
    chance = random.Random(7)
    built = history().system("You are careful.")
    for turn in range(turns):
        built.user(f"Read part {turn}, and never write to it.")
        for step in range(steps):
            text = "\n".join(f"line {n} of {turn}.{step}: {chance.random()}" for n in range(lines))
            built.step("read", text, path=f"src/part_{turn}/file_{step}.py")
        built.assistant(f"Part {turn} is read.")
    return built


async def played(
    messages: Sequence[BaseMessage], arm: str, *, window: int = WINDOW, llm: LLM | None = None
) -> Run:
    return await replayed(messages, arm, window=window, llm=llm)


RECORDED = recorded_messages(worked().entries)


def test_recorded_messages_are_numbered_apart_so_that_every_strategy_has_room_for_its_markers() -> None:
    assert [message.index for message in RECORDED] == [STRIDE * (at + 1) for at in range(len(RECORDED))]


def test_what_was_rewound_and_what_was_folded_once_plays_as_it_was_said() -> None:
    built = history().system("s").user("one").assistant("first").checkpoint(0)
    built.user("two").assistant("wrong way").revert(0).user("three").assistant("done")
    said = [message.text for message in recorded_messages(built.entries)]
    assert said == ["s", "one", "first", "three", "done"]


async def test_the_raw_run_sends_all_that_was_said_before_each_answer() -> None:
    run = await played(RECORDED, "raw", window=UNLIMITED)
    answers = [at for at, message in enumerate(RECORDED) if isinstance(message, AssistantMessage)]
    assert [len(sent.messages) for sent in run.requests] == answers
    texts = [message.text for message in run.requests[-1].messages]
    assert texts == [message.text for message in RECORDED[: answers[-1]]]


@pytest.mark.parametrize("arm", [*BUILT_IN, "truncate"])
async def test_every_arm_stays_within_the_window_and_sends_valid_requests(arm: str) -> None:
    run = await played(RECORDED, arm)
    assert run.compactions
    assert run.failures == ()
    assert [sent.answer for sent in run.requests if sent.kind == "step"] == [
        message.index for message in RECORDED if isinstance(message, AssistantMessage)
    ]
    assert all(sent.tokens <= WINDOW for sent in run.requests)
    assert [fault for sent in run.requests for fault in pairing_faults(sent.messages)] == []


async def test_the_same_session_gives_the_same_run_again() -> None:
    once, twice = await played(RECORDED, "summary"), await played(RECORDED, "summary")
    assert [sent.tokens for sent in once.requests] == [sent.tokens for sent in twice.requests]
    assert [fold.entry.summary for fold in once.compactions] == [
        fold.entry.summary for fold in twice.compactions
    ]


async def test_summary_requests_are_written_down_where_they_left() -> None:
    run = await played(RECORDED, "summary")
    assert run.compactions
    for fold in run.compactions:
        before, after = run.requests[fold.requests - 1], run.requests[fold.requests]
        assert (before.kind, after.kind) == ("summary", "step")


async def test_a_fold_says_the_view_before_and_after_it() -> None:
    run = await played(RECORDED, "digest")
    fold = run.compactions[0]
    assert sum(map(message_tokens, fold.after)) < sum(map(message_tokens, fold.before))
    assert run.requests[fold.requests].messages[: len(fold.after)] == fold.after


async def test_a_result_larger_than_there_is_room_for_is_let_in_clipped_as_the_agent_does_it() -> None:
    built = history().system("s").user("read").step("read", "a line of it\n" * 20_000, path="big.txt")
    run = await played(recorded_messages(built.assistant("read").entries), "summary")
    [result] = [message for message in run.last_view if isinstance(message, ToolResultMessage)]
    assert "history_read(" in result.text
    assert all(sent.tokens <= WINDOW for sent in run.requests)


async def test_a_summariser_that_says_nothing_leaves_what_the_strategy_itself_keeps() -> None:
    run = await played(RECORDED, "summary", llm=opaque(WINDOW, 300))
    assert "as it had been agreed" in run.compactions[0].entry.summary
    assert "<standing-constraints>" in run.compactions[0].entry.summary


async def test_a_summariser_that_cannot_be_asked_is_a_later_rung_and_no_end() -> None:
    run = await played(RECORDED, "summary", llm=ScriptedLLM(always=refusal(), window=WINDOW))
    assert {fold.entry.rung for fold in run.compactions} <= {"hide", "clip", "digest", "truncate"}
    assert isinstance(refusal(), LLMError)


async def test_nothing_is_folded_in_a_window_that_is_never_full() -> None:
    run = await played(RECORDED, "summary", window=1_000_000)
    assert run.compactions == ()


async def test_what_was_pinned_in_the_session_is_pinned_in_the_replay_and_stays_word_for_word() -> None:
    built = worked()
    rule = next(entry.index for entry in built.entries if entry.type == "user")
    built.edit("pin", rule)
    pins = recorded_pins(built.entries)
    assert len(pins) == 1
    run = await replayed(RECORDED, "summary", window=WINDOW, pins=pins)
    assert run.compactions
    assert run.pins == pins
    steps = [sent for sent in run.requests if sent.kind == "step"]
    assert all(any(message.index in pins for message in sent.messages) for sent in steps)
    assert violations(run, METER) == []


async def test_coverage_is_checked_at_every_fold() -> None:
    run = await played(RECORDED, "adaptive")
    assert run.broken == ()
    assert violations(replace(run, broken=("compaction 1: entry 8 is gone",)), METER) == [
        "C1, compaction 1: entry 8 is gone"
    ]
