"""The importance of a unit and its similarity to the task. Each test is one reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.memory.importance import (
    LONGEST_UNIT_TEXT,
    Importance,
    answered_by,
    current_task,
    importance,
    similarity,
    terms,
    unit_text,
)
from foldline.view.tokens import estimate_tokens
from foldline.view.units import units_of
from support.history import History, call, history, modified

LONG_PLAN = "I would keep the orders in one table. First the schema, then the handler, then the tests."


def scores(built: History) -> list[Importance]:
    return importance(units_of(item.message for item in built.projection().view))


def reasons(built: History) -> list[set[str]]:
    return [set(score.reasons) for score in scores(built)]


@pytest.mark.parametrize(
    "text", ["Never touch schema.sql.", "不要修改数据库。", "必须用标准库。"]
)
def test_a_constraint_of_the_user_is_important(text: str) -> None:
    assert "constraint" in reasons(history().user(text))[0]


@pytest.mark.parametrize(
    "text", ["Why is there only one?", "I don't see it", "为什么只能选一个？"]
)
def test_a_question_with_a_constraint_word_is_not_a_constraint(text: str) -> None:
    assert "constraint" not in reasons(history().user(text))[0]


@pytest.mark.parametrize("consent", ["ok, do as you said", "好的，按你说的做"])
def test_a_consent_scores_nothing_and_raises_the_message_it_agrees_to(
    consent: str,
) -> None:
    plan, agreed = scores(history().assistant(LONG_PLAN).user(consent))
    assert agreed.points == 0
    assert "agreed" in plan.reasons


def test_a_consent_with_an_image_is_not_a_mere_consent() -> None:
    [asked] = scores(history().user("ok", images=1))
    assert "request" in asked.reasons


def test_a_decision_with_a_reason_scores_higher_than_one_without() -> None:
    bare = scores(history().assistant("I chose sqlite.").user("x"))[0]
    reasoned = scores(
        history().assistant("I chose sqlite because it needs no server.").user("x")
    )[0]
    assert reasoned.reasons["decision"] > bare.reasons["decision"] > 0


def test_the_first_request_is_the_goal_and_later_old_requests_are_done() -> None:
    built = history()
    for nth in range(6):
        built.turn(f"add page {nth}", "added")
    asked = [score.reasons["request"] for score in scores(built)[::2]]
    assert asked == [3, 1, 1, 3, 3, 3]


def test_an_interface_command_is_not_a_request() -> None:
    assert reasons(history().user("/model x"))[0] == set()


def test_a_request_beginning_with_a_path_is_not_a_command() -> None:
    assert (
        "request"
        in reasons(history().user("/etc/nginx/site.conf is wrong, mend it"))[0]
    )


def test_a_reply_is_matched_with_the_answer_it_follows() -> None:
    built = (
        history()
        .user("a")
        .assistant("plan A")
        .user("b")
        .assistant(calls=[call("x")])
        .result("r")
    )
    built.assistant("plan B").user("ok")
    units = units_of(item.message for item in built.projection().view)
    assert answered_by(units, len(units) - 1) == 4
    assert answered_by(units, 0) is None


def test_the_same_units_always_get_the_same_scores() -> None:
    built = (
        history()
        .user("Never touch a.py")
        .step("bash", "exit 1", command="make")
        .assistant(LONG_PLAN)
    )
    assert scores(built) == scores(built)


FAILURE = "E   AssertionError: expected 200, got 503\n1 failed"


def run(built: History, command: str, output: str) -> History:
    return built.step("bash", output, command=command)


def test_an_unresolved_failure_scores_higher_than_one_that_was_run_again() -> None:
    built = run(
        run(history(), "pytest tests/a.py", FAILURE), "pytest tests/b.py", FAILURE
    )
    run(built, "pytest -x tests/a.py", "2 passed")
    again, stands, passed = scores(built)
    assert stands.reasons["error"] > again.reasons["error"] > 0
    assert "error" not in passed.reasons


def test_the_last_change_before_a_successful_run_is_the_fix() -> None:
    built = run(history(), "pytest tests", FAILURE)
    built.step("edit", "ok", files=[modified("a.py")], path="a.py")
    built.step("edit", "ok", files=[modified("b.py")], path="b.py")
    run(built, "pytest tests", "2 passed")
    assert ["fix" in found for found in reasons(built)] == [False, False, True, False]


def test_a_search_without_matches_is_not_a_failure() -> None:
    assert reasons(run(history(), "grep -n nowhere a.py", "exit code 1")) == [set()]


def test_a_file_that_mentions_errors_is_not_a_failure() -> None:
    assert reasons(
        history().step("read", "raise ValueError: no\nERROR = 1", path="a.py")
    ) == [set()]


def test_only_the_newest_change_of_a_file_counts_as_its_code() -> None:
    built = history()
    for name in ("a.py", "b.py", "a.py"):
        built.step("write", "ok", files=[modified(name)], path=name)
    assert ["code" in found for found in reasons(built)] == [False, True, True]


def test_only_the_newest_code_under_a_name_counts_in_answers() -> None:
    built = history()
    for body in ("return 1", "return 2"):
        built.assistant(f"So:\n```python\ndef total(cart):\n    {body}\n```").user("hm")
    found = reasons(built)
    assert ("code" in found[0], "code" in found[2]) == (False, True)


def test_only_the_newest_todo_list_counts_while_an_item_is_open() -> None:
    def planned(status: str) -> History:
        built = history()
        for state in ("pending", status):
            built.step(
                "todo", "ok", todos=[{"content": "write the tests", "status": state}]
            )
        return built

    assert ["plan" in found for found in reasons(planned("in_progress"))] == [
        False,
        True,
    ]
    assert ["plan" in found for found in reasons(planned("completed"))] == [
        False,
        False,
    ]


def task(built: History) -> str:
    units = units_of(item.message for item in built.projection().view)
    return current_task(units).text


def test_a_gist_names_call_path_and_both_ends_of_the_result() -> None:
    built = history().step(
        "read", "first line\n" + "middle\n" * 900 + "last line", path="src/cart.py"
    )
    [unit] = units_of(item.message for item in built.projection().view)
    text = unit_text(unit)
    for piece in ("read", "src/cart.py", "first line", "last line"):
        assert piece in text


@given(st.text(alphabet="aé你好🚀 \n0", max_size=4_000))
def test_a_gist_fits_the_input_of_a_small_model(text: str) -> None:
    [unit] = units_of([history().user("x" + text).entries[0]])  # type: ignore[list-item]
    assert estimate_tokens(unit_text(unit)) <= LONGEST_UNIT_TEXT


def test_the_task_consists_of_the_newest_requests_and_steps() -> None:
    built = (
        history()
        .turn("the very old request", "done")
        .turn("an old request", "done")
        .user("fix the login")
    )
    built.step("bash", "401", command="curl /login")
    assert "fix the login" in task(built)
    assert "curl /login" in task(built)
    assert "very old" not in task(built)


def test_the_task_after_a_consent_is_the_message_it_agrees_to() -> None:
    built = (
        history()
        .user("what can we do?")
        .assistant("We could cache the invoices.")
        .user("好的，按你说的做")
    )
    assert "cache the invoices" in task(built)


def test_shared_rare_words_weigh_more_than_shared_common_words() -> None:
    texts = [
        "the login handler checks the token",
        "the invoice has the vat",
        "the chart of the year",
    ]
    near = similarity("why is the token of the login refused", texts)
    assert near[0] > max(near[1:])


def test_code_names_match_by_their_parts() -> None:
    assert {"parseorder", "parse", "order"} <= set(terms("parseOrder"))
    assert {"max_total", "max", "total"} <= set(terms("max_total"))
    assert (
        similarity("parse the order", ["def parseOrder():", "def drawChart():"])[1] == 0
    )


def test_chinese_is_compared_by_pairs_of_characters() -> None:
    near = similarity("数据库连接失败", ["修复数据库的连接", "更新发票模板"])
    assert near[0] > near[1] == 0


def test_identical_texts_have_the_highest_similarity() -> None:
    text = "retry the payment three times"
    assert similarity(text, [text, "other words here"])[0] > 0.99


@given(st.text(), st.lists(st.text(), max_size=5))
def test_any_similarity_is_between_zero_and_one(task: str, texts: list[str]) -> None:
    near = similarity(task, texts)
    assert len(near) == len(texts)
    assert all(0 <= value <= 1 for value in near)
