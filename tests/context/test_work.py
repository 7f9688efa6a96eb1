"""What matters of the work done, by what it gets points for."""

from foldline.context.budget import units_of
from foldline.context.importance import Importance, importance
from support.history import History, history, modified

FAILURE = "E   AssertionError: expected 200, got 503\n1 failed"


def scores(built: History) -> list[Importance]:
    return importance(units_of(item.message for item in built.projection().view))


def reasons(built: History) -> list[set[str]]:
    return [set(score.reasons) for score in scores(built)]


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
