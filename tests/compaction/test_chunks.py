"""A conversation larger than the summariser's window: one summary, updated chunk by chunk."""

import math

import pytest

from foldline.compaction import (
    CompactionStrategy,
    SimpleCompaction,
    SummaryCompaction,
    propose,
)
from foldline.compaction.summary_writer import first_chunk
from foldline.llm.offline import OfflineLLM
from foldline.memory.conversation import serialise
from foldline.protocol import BaseMessage, Compaction
from foldline.view.budget import Budget
from foldline.view.rules import broken
from foldline.view.tokens import estimate_tokens
from support.history import History, call, history
from support.llm import EMPTY, ScriptedLLM, overflow

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(
    window=262_144,
    reserve_tokens=16_384,
    keep_recent_tokens=300,
    max_summary_tokens=1_600,
    soft_ratio=0.75,
)
WINDOW = 8_192
"""The summariser's window, in tokens."""


def session(turns: int, lines: int = 60, built: History | None = None) -> History:
    built = built or history().system("You are careful.")
    for turn in range(turns):
        built.turn(f"request {turn}", f"answer {turn}. " + LINE * lines)
    return built.user("and now?")


async def run_compaction(
    built: History,
    llm: ScriptedLLM,
    strategy: CompactionStrategy | None = None,
    *,
    rung: str = "strategy",
) -> Compaction:
    proposal = await propose(
        built.projection(),
        strategy=strategy or SummaryCompaction(),
        llm=llm,
        budget=BUDGET,
        reason="threshold",
    )
    assert proposal is not None
    assert proposal.entry.rung == rung, proposal.troubles
    assert broken(built.add(proposal.entry).projection()) == []
    return proposal.entry


def numbered(count: int = 40) -> ScriptedLLM:
    return ScriptedLLM(
        *(f"## Goal\nnotes {nth}" for nth in range(count)), window=WINDOW
    )


async def test_each_chunk_updates_the_summary_of_the_chunks_before_it() -> None:
    llm = numbered()
    entry = await run_compaction(session(40), llm)
    first, second, *_ = llm.prompts
    assert "answer 0." in first
    assert "<previous-summary>" not in first
    assert "<previous-summary>\n## Goal\nnotes 0\n</previous-summary>" in second
    assert "answer 0." not in second
    assert entry.summary.startswith(f"## Goal\nnotes {len(llm.prompts) - 1}")


async def test_a_conversation_that_fits_takes_one_request() -> None:
    llm = ScriptedLLM("## Goal\nnotes", window=65_536)
    await run_compaction(session(20), llm)
    [prompt] = llm.prompts
    assert "answer 0." in prompt


async def test_the_simple_strategy_also_reads_long_conversations_in_chunks() -> None:
    llm = ScriptedLLM(always="<current_focus>notes</current_focus>", window=WINDOW)
    await run_compaction(session(40), llm, SimpleCompaction())
    assert len(llm.prompts) > 1
    assert "<previous-summary>\n<current_focus>notes" in llm.prompts[-1]


async def test_every_message_is_read_exactly_once() -> None:
    llm = numbered()
    await run_compaction(session(40), llm)
    conversation = "".join(
        prompt.partition("</conversation>")[0] for prompt in llm.prompts
    )
    assert [conversation.count(f"answer {nth}.") for nth in range(39)] == [1] * 39


@pytest.mark.parametrize("window", [2_048, 4_096, 32_768])
async def test_no_request_is_larger_than_the_window(window: int) -> None:
    built = (
        session(60)
        .assistant(calls=[call("write", path="a.py", content="x = 1\n" * 20_000)])
        .result("ok")
    )
    llm = ScriptedLLM(always="## Goal\nnotes", window=window)
    await run_compaction(session(2, built=built.assistant("written")), llm)
    for request in llm.requests:
        sent = sum(estimate_tokens(message.text) for message in request.messages)
        assert sent + (request.max_output or 0) <= window


async def test_the_number_of_requests_grows_with_the_size_of_the_conversation() -> None:
    built = session(80)
    llm = ScriptedLLM(always="## Goal\nnotes", window=WINDOW)
    await run_compaction(built, llm)
    messages = [entry for entry in built.entries if isinstance(entry, BaseMessage)]
    room = WINDOW // 3
    assert (
        1 < len(llm.requests) <= math.ceil(estimate_tokens(serialise(messages)) / room)
    )


async def test_a_refused_request_leads_to_chunks_smaller_than_it() -> None:
    llm = ScriptedLLM(overflow(), always="## Goal\nnotes")
    await run_compaction(session(8), llm, rung="chunks")
    assert len(llm.prompts) > 2
    assert all(len(prompt) < len(llm.prompts[0]) for prompt in llm.prompts[1:])


async def test_one_bad_answer_per_run_is_repaired() -> None:
    llm = ScriptedLLM(EMPTY, always="## Goal\nnotes", window=WINDOW)
    await run_compaction(session(40), llm)
    assert llm.prompts[1].startswith(llm.prompts[0])


async def test_an_earlier_summary_too_large_for_the_window_loses_its_middle() -> None:
    built = session(10)
    long = "## Goal\n" + "".join(
        f"- goal number {nth} about src/part{nth}.py\n" for nth in range(180)
    )
    await run_compaction(built, ScriptedLLM(long, window=65_536))
    llm = ScriptedLLM(always="## Goal\nnotes", window=4_096)
    await run_compaction(session(4, built=built), llm)
    assert "goal number 0 " in llm.prompts[0]
    assert "goal number 179" in llm.prompts[0]
    assert "\n[…]\n" in llm.prompts[0]


@pytest.mark.parametrize("room", [64, 200, 5_000])
def test_chunks_fit_their_token_budget_and_together_hold_every_message(
    room: int,
) -> None:
    text = "\n\n".join(
        f"[User]: {script * 900}" for script in ("混合 ", "mixed ", "好", "ok")
    )
    chunks = []
    unread = text
    while unread:
        chunks.append(first_chunk(unread, room))
        unread = unread[len(chunks[-1]) :]
    assert "".join(chunks) == text
    assert all(estimate_tokens(chunk) <= room for chunk in chunks)


def test_a_chunk_ends_between_two_messages() -> None:
    text = "\n\n".join(f"[User]: request {nth} {LINE}" for nth in range(40))
    assert text[len(first_chunk(text, 200)) :].startswith("\n\n[User]: request ")


async def test_the_offline_model_reads_a_long_conversation_in_one_request() -> None:
    built = session(40)
    proposal = await propose(
        built.projection(),
        strategy=SummaryCompaction(),
        llm=OfflineLLM(WINDOW, pace=0),
        budget=BUDGET,
        reason="threshold",
    )
    assert proposal is not None
    assert (proposal.model_calls, proposal.entry.rung) == (1, "strategy")
    assert "request 38" in proposal.entry.summary
