"""Importance: what matters, and why. Each test is a reason."""

import pytest

from foldline.context.budget import units_of
from foldline.context.importance import Importance, answered_by, importance
from support.history import History, call, history

LONG_PLAN = "I would keep the orders in one table. First the schema, then the handler, then the tests."


def scores(built: History) -> list[Importance]:
    return importance(units_of(item.message for item in built.projection().view))


def reasons(built: History) -> list[set[str]]:
    return [set(score.reasons) for score in scores(built)]


@pytest.mark.parametrize("text", ["Never touch schema.sql.", "不要修改数据库。", "必须用标准库。"])
def test_a_constraint_of_the_user_matters(text: str) -> None:
    assert "constraint" in reasons(history().user(text))[0]


@pytest.mark.parametrize("text", ["Why is there only one?", "I don't see it", "为什么只能选一个？"])
def test_a_question_with_such_a_word_is_no_constraint(text: str) -> None:
    assert "constraint" not in reasons(history().user(text))[0]


@pytest.mark.parametrize("consent", ["ok, do as you said", "好的，按你说的做"])
def test_a_consent_has_no_points_and_gives_them_to_what_it_agrees_to(consent: str) -> None:
    plan, agreed = scores(history().assistant(LONG_PLAN).user(consent))
    assert (agreed.points, agreed.empty) == (0, True)
    assert "agreed" in plan.reasons


def test_an_image_with_a_consent_is_no_consent() -> None:
    assert not scores(history().user("ok", images=1))[0].empty


def test_a_decision_with_its_reason_counts_more_than_one_without() -> None:
    bare = scores(history().assistant("I chose sqlite.").user("x"))[0]
    reasoned = scores(history().assistant("I chose sqlite because it needs no server.").user("x"))[0]
    assert reasoned.reasons["decision"] > bare.reasons["decision"] > 0


def test_old_requests_are_done_the_first_one_names_the_goal() -> None:
    built = history()
    for nth in range(6):
        built.turn(f"add page {nth}", "added")
    asked = [score.reasons["request"] for score in scores(built)[::2]]
    assert asked == [3, 1, 1, 3, 3, 3]


def test_a_command_of_the_interface_asks_for_nothing() -> None:
    assert reasons(history().user("/model x"))[0] == set()


def test_a_request_that_begins_with_a_path_is_no_command() -> None:
    assert "request" in reasons(history().user("/etc/nginx/site.conf is wrong, mend it"))[0]


def test_what_the_user_wants_otherwise_matters() -> None:
    assert "wish" in reasons(history().user("no, the block should stay as it is"))[0]


def test_the_answers_of_two_questions_back_are_told_apart() -> None:
    built = history().user("a").assistant("plan A").user("b").assistant(calls=[call("x")]).result("r")
    built.assistant("plan B").user("ok")
    units = units_of(item.message for item in built.projection().view)
    assert answered_by(units, len(units) - 1) == 4
    assert answered_by(units, 0) is None


def test_what_the_user_typed_again_says_nothing_by_itself() -> None:
    built = history().turn("run the tests", "2 failed").turn("run the tests", "all passed")
    assert [score.empty for score in scores(built)[::2]] == [True, False]


def test_the_same_units_always_get_the_same_points() -> None:
    built = history().user("Never touch a.py").step("bash", "exit 1", command="make").assistant(LONG_PLAN)
    assert scores(built) == scores(built)
