"""Todo lists kept by tools: what is open, what is done, and when something has just been done."""

import pytest

from foldline.context.audit import mentions
from foldline.context.calls import subject_of
from foldline.context.todos import newly_completed, open_todos, todo_list
from foldline.protocol import BaseMessage
from support.history import History, call, history


def todos(**status: str) -> list[dict[str, str]]:
    return [{"content": name, "status": stands} for name, stands in status.items()]


def planned(built: History, name: str = "todo", **status: str) -> History:
    """One step: a todo call and its result."""
    return built.step(name, "noted", todos=todos(**status))


def test_the_newest_call_says_what_is_open() -> None:
    built = planned(history().user("go"), a="completed", b="pending", c="in_progress")
    assert open_todos(built.entries) == ("b", "c")
    planned(built, b="completed", c="cancelled")
    assert open_todos(built.entries) == ()


def test_without_a_todo_call_nothing_is_open_done_or_new() -> None:
    built = history().turn("go", "- [x] not a tool call")
    assert open_todos(built.entries) == ()
    assert not newly_completed(built.projection())
    assert not newly_completed(history().projection())


def test_an_item_that_was_open_and_is_done_now_is_newly_completed() -> None:
    built = planned(history().user("go"), a="in_progress", b="pending")
    assert not newly_completed(built.projection())
    planned(built, a="completed", b="in_progress")
    assert newly_completed(built.projection())


@pytest.mark.parametrize(
    "after",
    [{"a": "in_progress"}, {"a": "cancelled"}, {"b": "completed"}, {}],
    ids=["goes on", "given up", "done and never open", "taken off the list"],
)
def test_other_changes_of_the_list_complete_nothing(after: dict[str, str]) -> None:
    built = planned(history().user("go"), a="pending")
    assert not newly_completed(planned(built, **after).projection())


def test_what_was_done_before_is_not_newly_completed() -> None:
    built = planned(planned(history().user("go"), a="pending"), a="completed")
    assert not newly_completed(planned(built, a="completed", b="pending").projection())


def test_a_completion_is_new_only_in_the_step_that_reports_it() -> None:
    built = planned(planned(history().user("go"), a="pending"), a="completed")
    assert not newly_completed(built.step("read", "text", path="x").projection())
    assert not newly_completed(built.assistant("Done.").projection())


def test_two_calls_in_one_step_are_two_lists() -> None:
    calls = [call("todo", todos=todos(a="pending")), call("todo", todos=todos(a="completed"))]
    assert newly_completed(history().user("go").assistant(calls=calls).result("1").result("2").projection())


def test_a_call_that_was_refused_changes_no_list() -> None:
    built = planned(history().user("go"), a="pending", b="pending")
    planned(built, a="completed", b="pending")
    built.assistant(calls=[call("todo", todos=todos(a="done", b="done"))]).result("wrong", error=True)
    assert open_todos(built.entries) == ("b",)
    assert not newly_completed(built.projection())


def test_other_entries_between_the_calls_are_passed_over() -> None:
    built = planned(history().user("go"), a="pending").step("read", "text", path="x")
    built.turn("more", "yes").clear().user("on")
    assert newly_completed(planned(built, a="completed").projection())


def test_lists_of_other_tools_are_understood() -> None:
    built = planned(history().user("go"), "TodoWrite", a="in_progress")
    assert newly_completed(planned(built, "todowrite", a="completed").projection())
    built.step("SetTodoList", "ok", todos=[{"title": "b", "status": "In Progress"}])
    assert newly_completed(
        built.step("SetTodoList", "ok", todos=[{"title": "b", "status": "Done"}]).projection()
    )


@pytest.mark.parametrize("value", [None, "a", 5, {"content": "a"}])
def test_an_argument_that_is_no_list_keeps_no_list(value: object) -> None:
    assert todo_list({"todos": value}) is None


def test_items_without_text_are_passed_over() -> None:
    listed = todo_list({"todos": [5, {}, {"content": " "}, {"content": 3}, {"text": "a"}]})
    assert listed is not None
    assert [(todo.text, todo.is_open) for todo in listed] == [("a", True)]


def test_a_row_about_a_call_names_the_item_at_hand() -> None:
    assert subject_of(call("TodoWrite", todos=todos(a="pending", b="in_progress"))).text == "b"
    assert subject_of(call("todo", todos=todos(a="completed", b="pending"))).text == "b"
    assert subject_of(call("todo", todos=todos(a="completed"))).text == ""


def test_the_facts_name_the_same_open_items() -> None:
    built = planned(history().user("go"), a="completed", b="pending")
    messages = [entry for entry in built.entries if isinstance(entry, BaseMessage)]
    assert [each.text for each in mentions(messages) if each.kind == "todo"] == ["b"]
    assert open_todos(messages) == ("b",)
