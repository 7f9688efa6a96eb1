"""Which views are asked, and what that will cost."""

import pytest

from foldline.evaluation.judge.exam import (
    CEILING,
    FLOOR,
    WEIGHTS,
    Bill,
    Exam,
    Point,
    estimate,
    exam_of,
    points_of,
    question,
)
from foldline.evaluation.record import Compacted, Run
from foldline.llm.models import Price
from foldline.protocol import AssistantMessage, BaseMessage, Compaction, SystemMessage, text_parts
from support.judge_trial import trial_session

SESSION = trial_session()
NEWEST = SESSION[-3].index
PAST = SESSION[:NEWEST]
TAIL = SESSION[NEWEST - 5 : NEWEST]
"""From a call on."""


def point(**views: tuple[BaseMessage, ...]) -> Point:
    return Point("a", NEWEST, SESSION, views)


def paper(**views: tuple[BaseMessage, ...]) -> Exam:
    return exam_of([point(**views)], window=1_000_000)


def test_floor_is_the_system_prompt_and_the_newest_request() -> None:
    floor = paper(tail=TAIL).sheets[0]
    assert floor.arms == (FLOOR,)
    assert [message.type for message in floor.view] == ["system", "user"]
    assert floor.view[1].text == "Thank you. Go on with the notes."


def test_ceiling_is_everything_up_to_the_point() -> None:
    ceiling = paper(tail=TAIL).sheets[-1]
    assert ceiling.arms == (CEILING,)
    assert ceiling.view == PAST


def test_views_that_read_the_same_are_asked_once() -> None:
    noted = tuple(
        message.model_copy(update={"model": "m"}) if isinstance(message, AssistantMessage) else message
        for message in PAST
    )
    assert [sheet.arms for sheet in paper(a=TAIL, b=noted, c=TAIL).sheets] == [
        (FLOOR,),
        ("a", "c"),
        ("b", CEILING),
    ]


def test_what_does_not_fit_the_window_is_left_out_and_said() -> None:
    tight = exam_of([point(tail=TAIL)], window=800)
    assert [sheet.arms for sheet in tight.sheets] == [(FLOOR,), ("tail",)]
    assert tight.notes == ("ceiling does not fit the model's window of 800 tokens at 1 of 1 points.",)


def test_calls_without_a_result_are_sent_with_one() -> None:
    open_call = next(message for message in PAST if isinstance(message, AssistantMessage) and message.calls)
    sheet = paper(torn=(open_call,)).sheets[1]
    assert [message.type for message in sheet.view] == ["assistant", "tool_result"]


def test_every_view_of_a_point_gets_the_same_probes() -> None:
    sheets = paper(tail=TAIL, other=TAIL[2:]).sheets
    assert len({sheet.probes for sheet in sheets}) == 1


def test_points_are_where_any_run_folded() -> None:
    def run(strategy: str, *places: int) -> Run:
        summary = SystemMessage(origin="summary", index=10_000, parts=text_parts("notes"))
        folds = tuple(
            Compacted(
                Compaction(first_kept_index=place, strategy=strategy), (summary, *SESSION[:place]), (), 0
            )
            for place in places
        )
        return Run("a", strategy, 64_000, "digest", SESSION, (), folds, ())

    found = points_of([run("hide", 4, 9), run("simple", 6, 9), run("raw")])
    assert [(point.session, point.position) for point in found] == [("a", 4), ("a", 6), ("a", 9)]


# -- the bill --------------------------------------------------------------------------------------


def test_a_view_is_fresh_once_and_cached_for_the_probes_after_the_first() -> None:
    asked = paper(tail=TAIL)
    bill = estimate(asked)
    probes = asked.sheets[0].probes
    questions = sum(WEIGHTS.tokens(question(probe)) for probe in probes)
    views = [sheet.tokens for sheet in asked.sheets]
    assert bill.requests == 3 * len(probes)
    assert bill.fresh == sum(views) + 3 * questions
    assert bill.cached == (len(probes) - 1) * sum(views)


def test_each_judged_answer_is_judged_at_about_a_thousand_tokens() -> None:
    bill = estimate(paper(tail=TAIL))
    assert bill.judge_requests == 3 * 2  # arms, judged probes
    assert 800 < bill.judge_input / bill.judge_requests < 2_000


def test_dollars_are_those_of_both_models_and_more_without_a_cache() -> None:
    bill = Bill(10, 1_000_000, 9_000_000, 100_000, 6, 10_000_000, 1_000_000)
    price = Price(input=1, cached=0.1, write=1.25, output=10)
    other = Price(input=2, cached=0.2, write=1, output=20)
    assert bill.dollars(price, other) == pytest.approx(1.25 + 0.9 + 1 + 20 + 20)
    assert bill.dollars(price, other, cache=False) == pytest.approx(10 + 1 + 20 + 20)
    assert bill.dollars(price) == pytest.approx(1.25 + 0.9 + 1 + 10 + 10)
