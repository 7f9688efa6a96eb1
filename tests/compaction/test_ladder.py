"""`LadderCompaction`: compress, aggressive, truncate, each tried once, with one log record per run."""

import asyncio
import logging
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.compaction import (
    CompactionFailed,
    DraftRejected,
    LadderCompaction,
    Proposal,
    RedraftOptions,
    propose,
)
from foldline.llm import LLMError
from foldline.protocol import AssistantMessage, Reason, UserMessage
from foldline.view.budget import Budget, budget_for
from foldline.view.rules import broken
from support.history import History, call, history
from support.limits import examples
from support.llm import EMPTY, HANG, ScriptedLLM, Step, refusal

LINE = "what the command said, line after line: all is well\n"
BUDGET = budget_for(8_192)
FIELDS = ("tokens_before", "tokens_after", "ratio", "message_count", "rung")


@pytest.fixture(autouse=True)
def capture_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="foldline.compaction")


def record(caplog: pytest.LogCaptureFixture) -> dict[str, object]:
    """Return the fields of the single log record."""
    [found] = [each for each in caplog.records if each.name == "foldline.compaction"]
    assert found.levelno == logging.INFO
    return {name: getattr(found, name) for name in FIELDS}


async def run_compaction(
    built: History,
    *script: Step,
    llm: ScriptedLLM | None = None,
    reason: Reason = "threshold",
    budget: Budget = BUDGET,
) -> Proposal | None:
    """Run the engine, commit the result and check every invariant."""
    llm = llm or ScriptedLLM(*script)
    proposal = await propose(
        built.projection(),
        strategy=LadderCompaction(),
        llm=llm,
        budget=budget,
        reason=reason,
    )
    if proposal is not None:
        after = built.add(proposal.entry).projection()
        assert broken(after) == []
        assert [item.message.text for item in after.view] == [
            message.text for message in proposal.after
        ]
    return proposal


def texts(built: History) -> list[str]:
    return [item.message.text for item in built.projection().view]


def steps(count: int, *, request: str = "read it all") -> History:
    """Append a turn of steps, about 460 tokens each; fourteen fill the window."""
    built = history().system("s").user(request)
    for nth in range(count):
        built.step("read", f"file {nth}\n" + LINE * 34, path=f"{nth}.py")
    return built


def a_long_answer_among_the_recent() -> History:
    """Build a tail too large for the first rung: the verbatim part nearly fills the window."""
    return (
        steps(5)
        .assistant("The long answer. " + "It goes on and on, word for word. " * 600)
        .user("and now?")
    )


# --- the rungs -----------------------------------------------------------------------------------------


async def test_a_view_within_the_target_size_stays_unchanged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = steps(5).assistant("all read")
    assert (
        await run_compaction(built, reason="manual", budget=budget_for(200_000)) is None
    )
    assert record(caplog)["rung"] == "none"


async def test_compress_summarises_messages_before_the_cut_and_keeps_the_recent_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = steps(14)
    recent = texts(built)[-6:]
    proposal = await run_compaction(built, "notes")
    assert proposal is not None
    assert (proposal.entry.rung, proposal.entry.strategy) == (
        "strategy",
        "LadderCompaction",
    )
    assert proposal.entry.summary.startswith("notes")
    assert texts(built)[-6:] == recent
    assert record(caplog)["rung"] == "compress"


async def test_a_view_still_too_large_becomes_a_summary_and_the_last_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = a_long_answer_among_the_recent()
    proposal = await run_compaction(built, "first notes", "harder notes")
    assert proposal is not None
    assert proposal.entry.summary.startswith("harder notes")
    assert [item.kind for item in built.projection().view] == [
        "system",
        "summary",
        "user",
    ]
    assert record(caplog)["rung"] == "aggressive"


async def test_a_run_never_summarises_its_own_summary() -> None:
    llm = ScriptedLLM("first notes", "harder notes")
    await run_compaction(a_long_answer_among_the_recent(), llm=llm)
    first, second = llm.prompts
    assert "first notes" not in second
    for nth in range(5):
        assert f"file {nth}\n" in first
        assert f"file {nth}\n" in second
    assert "It goes on and on" in second


async def test_a_rejected_draft_leads_to_the_next_rung(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = steps(14)
    proposal = await run_compaction(built, EMPTY, EMPTY, "harder notes")
    assert proposal is not None
    assert (proposal.model_calls, proposal.troubles) == (3, ())
    kinds = [item.kind for item in built.projection().view]
    assert kinds == ["system", "summary", "user", "assistant", "tool_result"]
    assert record(caplog)["rung"] == "aggressive"


async def test_a_draft_longer_than_what_it_replaces_counts_as_rejected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await run_compaction(
        steps(14), "## Early Progress\n" + "far too many words " * 4_000, "harder notes"
    )
    assert record(caplog)["rung"] == "aggressive"


async def test_the_oldest_turns_are_marked_truncated_if_there_is_no_summary(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = history().system("s")
    for nth in range(10):
        built.turn(f"question {nth}", f"answer {nth}. " + LINE * 50)
    built.user("and now?")
    proposal = await run_compaction(built, llm=ScriptedLLM(always=EMPTY))
    assert proposal is not None
    after = built.projection()
    assert (proposal.entry.summary, after.fate(1).kind, after.fate(2).kind) == (
        "",
        "truncated",
        "truncated",
    )
    asked = [text for text in texts(built) if text.startswith("question")]
    assert asked == [f"question {nth}" for nth in range(10 - len(asked), 10)]
    assert 0 < len(asked) < 10
    assert texts(built)[-1] == "and now?"
    assert record(caplog)["rung"] == "truncate"


async def test_a_rung_with_the_same_cut_makes_no_second_model_call() -> None:
    built = steps(4).assistant(
        calls=[call("read", path="big"), call("read", path="too")]
    )
    built.result("unseen\n" + LINE * 190).result("unseen\n" + LINE * 190)
    llm = ScriptedLLM("notes")
    await run_compaction(built, llm=llm)
    assert len(llm.requests) == 1


async def test_a_rejected_draft_drops_nothing_in_a_manual_compaction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DraftRejected):
        await run_compaction(
            steps(8).assistant("all read"),
            llm=ScriptedLLM(always=EMPTY),
            reason="manual",
        )
    assert record(caplog)["rung"] == "failed"


async def test_an_unavailable_model_is_left_to_the_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proposal = await run_compaction(steps(14), llm=ScriptedLLM(always=refusal()))
    assert proposal is not None
    assert proposal.entry.rung != "strategy"
    assert (proposal.model_calls, record(caplog)["rung"]) == (1, proposal.entry.rung)


async def test_a_later_failed_request_keeps_the_view_of_the_previous_rung(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = a_long_answer_among_the_recent()
    failure = LLMError("The server is busy.", status=503)
    proposal = await run_compaction(built, "first notes", failure)
    assert proposal is not None
    assert proposal.entry.summary.startswith("first notes")
    # The summary does not cover messages after its cut, so no turn after it is dropped.
    assert built.projection().fate(12).kind == "clipped"
    assert record(caplog)["rung"] == "truncate"


# --- kept messages -------------------------------------------------------------------------------------


async def test_an_earlier_summary_is_input_for_every_rung() -> None:
    built = steps(14)
    await run_compaction(built, "notes of the first compaction")
    built.assistant("read").user("more")
    for nth in range(12):
        built.step("read", f"more {nth}\n" + LINE * 34, path=f"more {nth}.py")
    llm = ScriptedLLM(EMPTY, EMPTY, always="notes of the second compaction")
    await run_compaction(built, llm=llm)
    compress, _, aggressive, *_ = llm.prompts
    assert "notes of the first compaction" in compress
    assert "notes of the first compaction" in aggressive


@pytest.mark.parametrize(
    ("rung", "llm"),
    [
        ("compress", ScriptedLLM(always="notes")),
        ("aggressive", ScriptedLLM(EMPTY, EMPTY, always="notes")),
        ("truncate", ScriptedLLM(always=EMPTY)),
    ],
)
async def test_the_request_pins_and_unseen_results_of_a_split_turn_survive_every_rung(
    rung: str, llm: ScriptedLLM, caplog: pytest.LogCaptureFixture
) -> None:
    built = history().system("s").turn("the first request", "yes")
    pinned = built.last
    built.edit("pin", pinned).user("read it all")
    for nth in range(12):
        built.step("read", f"file {nth}\n" + LINE * 34, path=f"{nth}.py")
    built.assistant(calls=[call("read", path="a"), call("read", path="b")]).result(
        "one"
    ).result("two")
    assert await run_compaction(built, llm=llm) is not None
    assert record(caplog)["rung"] == rung
    left = texts(built)
    assert "yes" in left
    assert "read it all" in left
    assert left[-2:] == ["one", "two"]


async def test_a_request_typed_after_unseen_results_does_not_compact_them() -> None:
    built = steps(13).user("and hurry up")
    await run_compaction(built, EMPTY, EMPTY, "notes")
    assert texts(built)[-2:] == ["file 12\n" + LINE * 34, "and hurry up"]


async def test_a_harder_rung_does_not_move_the_readers_cut() -> None:
    built, llm = steps(14), ScriptedLLM(EMPTY, EMPTY)
    with pytest.raises(DraftRejected):
        await propose(
            built.projection(),
            strategy=LadderCompaction(),
            llm=llm,
            budget=budget_for(32_768),
            reason="manual",
            options=RedraftOptions(first_kept_index=6),
        )
    assert len(llm.requests) == 2


# --- any conversation, in any script -------------------------------------------------------------------

SCRIPTS = {
    "latin": "the quick brown fox jumps over the lazy dog. ",
    "han": "把配置文件改成编码，不要动数据库。",
    "kana": "すべてのテストをじっこうしてください。",
    "hangul": "모든 테스트를 실행하고 결과를 알려 주세요. ",
    "emoji": "🚀🧪👩‍💻🇨🇭👍🏽",
}


PIECES = [*SCRIPTS.values(), "E   AssertionError: expected 200, got 503\n", "ok"]
pieces = st.builds(
    lambda text, times: text * times,
    st.sampled_from(PIECES),
    st.sampled_from([1, 30, 300]),
)


@given(
    turns=st.lists(
        st.tuples(pieces, st.lists(pieces, max_size=3)), min_size=1, max_size=5
    ),
    answered=st.booleans(),
    drafts=st.sampled_from([EMPTY, "short notes"]),
    window=st.sampled_from([2_048, 8_192]),
)
@settings(max_examples=examples(60))
def test_every_run_ends_in_a_smaller_legal_view_or_no_view(
    turns: list[tuple[str, list[str]]], answered: bool, drafts: Step, window: int
) -> None:
    built = history().system("s")
    for nth, (request, results) in enumerate(turns):
        built.user(f"{request} ({nth})")
        for result in results:
            built.step("read", result, path="a.py")
        if answered or nth < len(turns) - 1:
            built.assistant("Done.")
    before = built.projection()
    try:
        proposal = asyncio.run(
            run_compaction(
                built, llm=ScriptedLLM(always=drafts), budget=budget_for(window)
            )
        )
    except CompactionFailed as failure:
        assert "Error" not in str(failure)
        return
    if proposal is not None:
        assert not any("Error" in trouble for trouble in proposal.troubles)
        after = built.projection()
        assert after.tokens < before.tokens
        newest = [
            e for e in before.entries if isinstance(e, UserMessage | AssistantMessage)
        ][-1]
        assert after.fate(newest.index).kind == "live"


# --- the log -------------------------------------------------------------------------------------------


async def test_the_log_record_has_sizes_ratio_messages_and_rung(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = steps(14)
    count = len(built.projection().view)
    proposal = await run_compaction(built, "notes")
    assert proposal is not None
    said = record(caplog)
    assert said["tokens_before"] == proposal.entry.tokens_before
    assert said["tokens_after"] <= proposal.entry.tokens_after, (
        "the ledger comes after the strategy"
    )  # type: ignore[operator]
    assert said["ratio"] == pytest.approx(
        said["tokens_after"] / said["tokens_before"], abs=0.001
    )  # type: ignore[operator]
    assert said["message_count"] == count


async def test_cancelling_passes_through_and_is_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    llm = ScriptedLLM(HANG)
    task = asyncio.create_task(run_compaction(steps(14), llm=llm))
    await llm.silent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llm.cancelled == 1
    said = record(caplog)
    assert (said["rung"], said["ratio"]) == ("failed", 1.0)


@pytest.mark.slow
def test_no_log_record_reaches_the_terminal_by_default() -> None:
    """Not even warnings of `foldline.compaction`: the screen is drawn on that terminal."""
    code = (
        "import logging; from foldline.compaction import CompactionContext\n"
        "log = logging.getLogger('foldline.compaction')\n"
        "log.info('a record'); log.warning('another')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
