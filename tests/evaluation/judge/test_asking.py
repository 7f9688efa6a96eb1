"""Who is asked what, in which order, and what is left when it ends early."""

import asyncio
from collections.abc import Callable

import pytest

from foldline.evaluation.judge.exam import Exam, Point, estimate, exam_of
from foldline.evaluation.judge.sitting import CONCURRENCY, Judgement, Row, Sitting
from foldline.llm import LLMError, Request
from foldline.protocol import Usage
from support.clients import chat_at
from support.judge_trial import trial_session
from support.llm import HANG, ScriptedLLM, answer, overflow, refusal
from support.probes import GRADES, AnsweringLLM, is_judging, key_to
from support.server import running_server

SESSION = trial_session()
NEWEST = SESSION[-3].index
STRATEGIES = ("zeta-strategy", "omega-strategy")


def paper(points: int = 1) -> Exam:
    """The view of one strategy is a short tail, that of the other a shorter one."""
    views = {name: SESSION[NEWEST - 5 + 2 * nth : NEWEST] for nth, name in enumerate(STRATEGIES)}
    return exam_of([Point(f"s{nth}", NEWEST, SESSION, views) for nth in range(points)], window=1_000_000)


def key(asked: Exam) -> Callable[[Request], str | LLMError]:
    return key_to([probe for sheet in asked.sheets for probe in sheet.probes])


def row(rows: tuple[Row, ...], arm: str, dimension: str) -> Row:
    return next(row for row in rows if (row.arm, row.dimension) == (arm, dimension))


async def test_who_knows_everything_gets_everything() -> None:
    asked = paper()
    sitting = Sitting(asked, answerer=AnsweringLLM(key(asked)))
    await sitting.run()
    result = Judgement(sitting.record)
    for name in ("recall", "superseded", "abstain"):
        assert row(result.rows, STRATEGIES[0], name).score == 1
    assert row(result.rows, STRATEGIES[0], "graded accuracy").score == 4
    assert row(result.rows, STRATEGIES[0], "false refusals").score == 0
    assert result.stopped == ""


async def test_who_says_nothing_gets_nothing_and_no_judge_is_asked_about_it() -> None:
    llm = AnsweringLLM(lambda _: "")
    sitting = Sitting(paper(), answerer=llm)
    await sitting.run()
    result = Judgement(sitting.record)
    scores = {row.score for row in result.rows if row.score is not None}
    assert scores == {0}
    assert not any(is_judging(request) for request in llm.requests)
    assert (
        f"{len(sitting.record.replies)} of {len(sitting.record.replies)} answers were empty." in result.notes
    )


async def test_what_is_asked_is_what_was_estimated() -> None:
    asked = paper(2)
    answerer, judge = AnsweringLLM(key(asked)), AnsweringLLM(key(asked))
    await Sitting(asked, answerer=answerer, judge=judge).run()
    bill = estimate(asked)
    assert len(answerer.requests) == bill.requests
    assert len(judge.requests) == bill.judge_requests


async def test_no_tools_are_offered_and_the_view_is_sent_as_it_is() -> None:
    asked = paper()
    llm = AnsweringLLM(key(asked))
    await Sitting(asked, answerer=llm, judge=AnsweringLLM(key(asked))).run()
    views = {sheet.view for sheet in asked.sheets}
    for request in llm.requests:
        assert not request.tools
        assert tuple(request.messages[:-1]) in views
        assert request.messages[-1].type == "user"


async def test_the_probes_of_one_view_are_asked_one_after_the_other() -> None:
    asked = paper()
    under_way: set[tuple[object, ...]] = set()

    class Watching(AnsweringLLM):
        async def stream(self, request):  # type: ignore[no-untyped-def, override]
            view = tuple(message.key for message in request.messages[:-1])
            assert view not in under_way
            under_way.add(view)
            try:
                async for chunk in super().stream(request):
                    yield chunk
            finally:
                under_way.discard(view)

    await Sitting(asked, answerer=Watching(key(asked)), judge=AnsweringLLM(key(asked))).run()


async def test_no_more_than_a_few_requests_are_under_way() -> None:
    asked = paper(5)
    llm = AnsweringLLM(key(asked))
    await Sitting(asked, answerer=llm).run()
    assert 1 < llm.most_under_way <= CONCURRENCY


async def test_the_judge_never_sees_a_strategys_name() -> None:
    asked = paper()
    judge = AnsweringLLM(key(asked))
    await Sitting(asked, answerer=AnsweringLLM(key(asked)), judge=judge).run()
    shown = "\n".join(message.text for request in judge.requests for message in request.messages)
    assert judge.requests
    assert not any(name in shown for name in (*STRATEGIES, "floor", "ceiling"))


# -- the judge's answers ---------------------------------------------------------------------------


async def test_grades_that_cannot_be_read_are_missing_and_no_score() -> None:
    asked = paper()
    sitting = Sitting(asked, answerer=AnsweringLLM(key(asked)), judge=AnsweringLLM(lambda _: "Four."))
    await sitting.run()
    result = Judgement(sitting.record)
    assert result.unreadable == len(sitting.record.graded) > 0
    assert not any(row.dimension.startswith("graded") for row in result.rows)
    assert f"{result.unreadable} of {result.unreadable} judgements could not be read." in result.notes


async def test_a_judge_of_its_own_is_told_from_a_model_that_judges_itself() -> None:
    asked = paper()
    for judge, itself in ((None, True), (AnsweringLLM(key(asked), name="other"), False)):
        sitting = Sitting(asked, answerer=AnsweringLLM(key(asked)), judge=judge)
        await sitting.run()
        assert Judgement(sitting.record).judges_itself is itself


# -- early ends ------------------------------------------------------------------------------------


async def test_a_failure_ends_it_and_what_was_answered_is_kept() -> None:
    asked = paper()
    answered = iter(range(20))

    def reply(request: Request) -> str | LLMError:
        return key(asked)(request) if next(answered) < 12 else refusal()

    sitting = Sitting(asked, answerer=AnsweringLLM(reply))
    await sitting.run()
    result = Judgement(sitting.record)
    assert result.stopped == str(refusal())
    assert sum(result.asked.values()) == 12
    assert result.rows


async def test_a_view_the_server_finds_too_long_is_left_out_alone() -> None:
    asked = paper()

    def reply(request: Request) -> str | LLMError:
        return overflow() if len(request.messages) > 10 else key(asked)(request)

    sitting = Sitting(asked, answerer=AnsweringLLM(reply))
    await sitting.run()
    result = Judgement(sitting.record)
    assert result.stopped == ""
    assert "Left out, as longer than the server's window: 1 of 4 views." in result.notes
    assert {row.arm for row in result.rows} == {"floor", *STRATEGIES}


async def test_cancelling_ends_it_at_once_and_keeps_what_was_answered() -> None:
    asked = paper()
    llm = ScriptedLLM(*["75"] * 9, always=HANG)
    sitting = Sitting(asked, answerer=llm)
    running = asyncio.create_task(sitting.run())
    await llm.silent.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert llm.cancelled >= 1
    assert Judgement(sitting.record).asked
    assert Judgement(sitting.record).answerer == "scripted"


async def test_progress_counts_up_to_all_there_is() -> None:
    asked = paper()
    seen: list[str] = []
    sitting = Sitting(asked, answerer=AnsweringLLM(key(asked)), progress=seen.append)
    await sitting.run()
    judged = len(sitting.record.judged())
    assert judged
    assert seen == ["asking"] * estimate(asked).requests + ["judging"] * judged


async def test_a_server_that_cuts_views_silently_is_reported() -> None:
    asked = paper()
    llm = ScriptedLLM(always=answer("75", usage=Usage(input=20, output=3)))
    sitting = Sitting(asked, answerer=llm)
    await sitting.run()
    assert any("it seems to cut them" in note for note in Judgement(sitting.record).notes)


# -- the real client -------------------------------------------------------------------------------


async def test_the_real_client_asks_valid_requests_whose_views_the_cache_serves() -> None:
    script = [
        {"when": {"content": "Grade the answer"}, "answer": {"text": GRADES}},
        {"answer": {"text": "not in this session"}},
    ]
    asked = paper()
    with running_server(script=script, window=100_000) as server:
        llm = chat_at(server.base_url, model=server.model, window=server.window)
        sitting = Sitting(asked, answerer=llm)
        await sitting.run()
        await llm.aclose()
        seen = server.requests()
    result = Judgement(sitting.record)
    assert result.stopped == ""
    assert [request.violations for request in seen if request.violations] == []
    assert not any("tools" in request.body for request in seen)
    assert len(seen) == result.requests
    assert result.cached_tokens == sum(request.cached_tokens for request in seen) > 0
    assert row(result.rows, "ceiling", "abstain").score == 1
    assert row(result.rows, "ceiling", "recall").score == 0
    assert row(result.rows, "ceiling", "graded accuracy").score == 4
