"""Todo lists kept by tools: open, done and newly completed items."""

import pytest

from foldline.memory.audit import facts_of
from foldline.memory.subjects import subject_of
from foldline.memory.todos import newly_completed, open_todos, todo_list
from foldline.protocol import BaseMessage
from support.history import History, call, history


def todos(**status: str) -> list[dict[str, str]]:
    return [{"content": name, "status": stands} for name, stands in status.items()]


def todo_step(built: History, name: str = "todo", **status: str) -> History:
    """Append a step: a todo call and its result."""
    return built.step(name, "noted", todos=todos(**status))


def test_the_newest_call_determines_the_open_items() -> None:
    built = todo_step(history().user("go"), a="completed", b="pending", c="in_progress")
    assert open_todos(built.entries) == ("b", "c")
    todo_step(built, b="completed", c="cancelled")
    assert open_todos(built.entries) == ()


def test_without_a_todo_call_nothing_is_open_done_or_new() -> None:
    built = history().turn("go", "- [x] not a tool call")
    assert open_todos(built.entries) == ()
    assert not newly_completed(built.projection())
    assert not newly_completed(history().projection())


def test_an_open_item_that_becomes_done_is_newly_completed() -> None:
    built = todo_step(history().user("go"), a="in_progress", b="pending")
    assert not newly_completed(built.projection())
    todo_step(built, a="completed", b="in_progress")
    assert newly_completed(built.projection())


@pytest.mark.parametrize(
    "after",
    [{"a": "in_progress"}, {"a": "cancelled"}, {"b": "completed"}, {}],
    ids=["goes on", "given up", "done and never open", "taken off the list"],
)
def test_other_changes_of_the_list_complete_no_item(after: dict[str, str]) -> None:
    built = todo_step(history().user("go"), a="pending")
    assert not newly_completed(todo_step(built, **after).projection())


def test_an_item_done_before_is_not_newly_completed() -> None:
    built = todo_step(todo_step(history().user("go"), a="pending"), a="completed")
    assert not newly_completed(
        todo_step(built, a="completed", b="pending").projection()
    )


def test_a_completion_is_new_only_in_the_step_that_reports_it() -> None:
    built = todo_step(todo_step(history().user("go"), a="pending"), a="completed")
    assert not newly_completed(built.step("read", "text", path="x").projection())
    assert not newly_completed(built.assistant("Done.").projection())


def test_two_calls_in_one_step_give_two_lists() -> None:
    calls = [
        call("todo", todos=todos(a="pending")),
        call("todo", todos=todos(a="completed")),
    ]
    assert newly_completed(
        history().user("go").assistant(calls=calls).result("1").result("2").projection()
    )


def test_a_refused_call_does_not_change_the_list() -> None:
    built = todo_step(history().user("go"), a="pending", b="pending")
    todo_step(built, a="completed", b="pending")
    built.assistant(calls=[call("todo", todos=todos(a="done", b="done"))]).result(
        "wrong", error=True
    )
    assert open_todos(built.entries) == ("b",)
    assert not newly_completed(built.projection())


def test_other_entries_between_the_calls_are_ignored() -> None:
    built = todo_step(history().user("go"), a="pending").step("read", "text", path="x")
    built.turn("more", "yes").clear().user("on")
    assert newly_completed(todo_step(built, a="completed").projection())


def test_todo_lists_of_other_tools_are_recognised() -> None:
    built = todo_step(history().user("go"), "TodoWrite", a="in_progress")
    assert newly_completed(todo_step(built, "todowrite", a="completed").projection())
    built.step("SetTodoList", "ok", todos=[{"title": "b", "status": "In Progress"}])
    assert newly_completed(
        built.step(
            "SetTodoList", "ok", todos=[{"title": "b", "status": "Done"}]
        ).projection()
    )


@pytest.mark.parametrize("value", [None, "a", 5, {"content": "a"}])
def test_an_argument_that_is_not_a_list_gives_no_items(value: object) -> None:
    assert todo_list({"todos": value}) is None


def test_items_without_text_are_ignored() -> None:
    listed = todo_list(
        {"todos": [5, {}, {"content": " "}, {"content": 3}, {"text": "a"}]}
    )
    assert listed is not None
    assert [(todo.text, todo.is_open) for todo in listed] == [("a", True)]


def test_a_calls_title_names_the_current_item() -> None:
    assert (
        subject_of(call("TodoWrite", todos=todos(a="pending", b="in_progress"))).text
        == "b"
    )
    assert subject_of(call("todo", todos=todos(a="completed", b="pending"))).text == "b"
    assert subject_of(call("todo", todos=todos(a="completed"))).text == ""


def test_the_facts_contain_the_same_open_items() -> None:
    built = todo_step(history().user("go"), a="completed", b="pending")
    messages = [entry for entry in built.entries if isinstance(entry, BaseMessage)]
    assert [each.text for each in facts_of(messages) if each.kind == "todo"] == ["b"]
    assert open_todos(messages) == ("b",)
