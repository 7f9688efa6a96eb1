"""What makes a unit important, and how near it is to the task. Each test is a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.budget import units_of
from foldline.context.importance import (
    LONGEST_UNIT_TEXT,
    Importance,
    answered_by,
    current_task,
    importance,
    similarity,
    terms,
    unit_text,
)
from foldline.context.tokens import estimate_tokens
from support.history import History, call, history, modified

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


FAILURE = "E   AssertionError: expected 200, got 503\n1 failed"


def run(built: History, command: str, output: str) -> History:
    return built.step("bash", output, command=command)


def test_a_failure_that_stands_counts_more_than_one_that_was_run_again() -> None:
    built = run(run(history(), "pytest tests/a.py", FAILURE), "pytest tests/b.py", FAILURE)
    run(built, "pytest -x tests/a.py", "2 passed")
    again, stands, passed = scores(built)
    assert stands.reasons["error"] > again.reasons["error"] > 0
    assert "error" not in passed.reasons


def test_the_last_change_before_it_ran_well_is_the_fix() -> None:
    built = run(history(), "pytest tests", FAILURE)
    built.step("edit", "ok", files=[modified("a.py")], path="a.py")
    built.step("edit", "ok", files=[modified("b.py")], path="b.py")
    run(built, "pytest tests", "2 passed")
    assert ["fix" in found for found in reasons(built)] == [False, False, True, False]


def test_a_search_that_finds_nothing_is_no_failure() -> None:
    assert reasons(run(history(), "grep -n nowhere a.py", "exit code 1")) == [set()]


def test_a_file_that_speaks_of_errors_is_no_failure() -> None:
    assert reasons(history().step("read", "raise ValueError: no\nERROR = 1", path="a.py")) == [set()]


def test_only_the_newest_change_of_a_file_counts_as_its_code() -> None:
    built = history()
    for name in ("a.py", "b.py", "a.py"):
        built.step("write", "ok", files=[modified(name)], path=name)
    assert ["code" in found for found in reasons(built)] == [False, True, True]


def test_only_the_newest_code_of_a_name_counts_in_answers() -> None:
    built = history()
    for body in ("return 1", "return 2"):
        built.assistant(f"So:\n```python\ndef total(cart):\n    {body}\n```").user("hm")
    found = reasons(built)
    assert ("code" in found[0], "code" in found[2]) == (False, True)


def test_only_the_newest_todo_list_counts_and_only_while_something_is_open() -> None:
    def planned(status: str) -> History:
        built = history()
        for state in ("pending", status):
            built.step("todo", "ok", todos=[{"content": "write the tests", "status": state}])
        return built

    assert ["plan" in found for found in reasons(planned("in_progress"))] == [False, True]
    assert ["plan" in found for found in reasons(planned("completed"))] == [False, False]


def test_what_was_called_again_later_says_nothing_by_itself() -> None:
    built = history().step("read", "old", path="a.py").step("read", "other", path="b.py")
    built.step("read", "new", path="a.py")
    assert [score.empty for score in scores(built)] == [True, False, False]


def task(built: History) -> str:
    at_hand = current_task(units_of(item.message for item in built.projection().view))
    return f"{at_hand.requests}\n{at_hand.steps}"


def test_a_gist_names_call_path_and_both_ends_of_the_result() -> None:
    built = history().step("read", "first line\n" + "middle\n" * 900 + "last line", path="src/cart.py")
    [unit] = units_of(item.message for item in built.projection().view)
    text = unit_text(unit)
    for piece in ("read", "src/cart.py", "first line", "last line"):
        assert piece in text


@given(st.text(alphabet="aé你好🚀 \n0", max_size=4_000))
def test_a_gist_is_never_longer_than_a_small_model_reads(text: str) -> None:
    [unit] = units_of([history().user("x" + text).entries[0]])  # type: ignore[list-item]
    assert estimate_tokens(unit_text(unit)) <= LONGEST_UNIT_TEXT


def test_the_task_is_the_newest_requests_and_steps() -> None:
    built = (
        history().turn("the very old request", "done").turn("an old request", "done").user("fix the login")
    )
    built.step("bash", "401", command="curl /login")
    assert "fix the login" in task(built)
    assert "curl /login" in task(built)
    assert "very old" not in task(built)


def test_behind_a_consent_the_task_is_what_it_agrees_to() -> None:
    built = (
        history().user("what can we do?").assistant("We could cache the invoices.").user("好的，按你说的做")
    )
    assert "cache the invoices" in task(built)


def test_what_shares_rare_words_is_nearer_than_what_shares_common_ones() -> None:
    texts = ["the login handler checks the token", "the invoice has the vat", "the chart of the year"]
    near = similarity("why is the token of the login refused", texts)
    assert near[0] > max(near[1:])


def test_names_of_code_are_found_by_their_parts() -> None:
    assert {"parseorder", "parse", "order"} <= set(terms("parseOrder"))
    assert {"max_total", "max", "total"} <= set(terms("max_total"))
    assert similarity("parse the order", ["def parseOrder():", "def drawChart():"])[1] == 0


def test_chinese_is_compared_by_pairs_of_characters() -> None:
    near = similarity("数据库连接失败", ["修复数据库的连接", "更新发票模板"])
    assert near[0] > near[1] == 0


def test_the_same_text_is_as_near_as_can_be() -> None:
    text = "retry the payment three times"
    assert similarity(text, [text, "other words here"])[0] > 0.99


@given(st.text(), st.lists(st.text(), max_size=5))
def test_any_texts_are_somewhere_between_nothing_and_the_same(task: str, texts: list[str]) -> None:
    near = similarity(task, texts)
    assert len(near) == len(texts)
    assert all(0 <= value <= 1 for value in near)
