"""The tool `todo`: a list that each call replaces, printed with marks."""

from foldline.agent.tools import ToolContext
from foldline.agent.tools.history import NO_TODOS, SEVERAL_STARTED
from support.tools import TOOLS, call


def item(content: str, status: str = "pending", **more: object) -> dict[str, object]:
    return {"content": content, "status": status, **more}


async def test_the_list_is_printed_with_a_mark_for_each_status(
    context: ToolContext,
) -> None:
    todos = [item("read", "completed"), item("write", "in_progress"), item("test")]
    outcome = await call(context, "todo", todos=todos)
    assert outcome.text == "[x] read\n[>] write\n[ ] test"
    assert (outcome.brief, outcome.is_error, outcome.files) == (
        "1 of 3 done",
        False,
        (),
    )


async def test_a_call_replaces_the_whole_list(context: ToolContext) -> None:
    await call(context, "todo", todos=[item("one"), item("two")])
    assert (
        await call(context, "todo", todos=[item("two", "completed")])
    ).text == "[x] two"
    assert (await call(context, "todo", todos=[])).text == NO_TODOS


async def test_two_items_in_progress_are_advised_against_and_kept(
    context: ToolContext,
) -> None:
    outcome = await call(
        context, "todo", todos=[item("a", "in_progress"), item("b", "in_progress")]
    )
    assert not outcome.is_error
    assert outcome.text == "[>] a\n[>] b\n" + SEVERAL_STARTED.format(count=2)


async def test_an_item_stays_on_its_line(context: ToolContext) -> None:
    assert (
        await call(context, "todo", todos=[item("a\n[x] b")])
    ).text == "[ ] a ⏎ [x] b"


async def test_what_other_todo_tools_add_to_an_item_is_no_reason_to_refuse(
    context: ToolContext,
) -> None:
    outcome = await call(
        context,
        "todo",
        todos=[item("a", id="1", priority="high", activeForm="Doing a")],
    )
    assert outcome.text == "[ ] a"


async def test_a_status_there_is_not_is_named(context: ToolContext) -> None:
    outcome = await call(context, "todo", todos=[item("a", "maybe")])
    assert outcome.is_error
    assert "`todos.0.status` is wrong" in outcome.text
    assert "pending" in outcome.text


def test_the_schema_tells_what_an_item_is() -> None:
    items = TOOLS["todo"].spec.parameters["properties"]["todos"]["items"]
    assert items["required"] == ["content", "status"]
    assert items["properties"]["status"]["enum"] == [
        "pending",
        "in_progress",
        "completed",
    ]
    assert items["additionalProperties"] is False


def test_the_title_is_the_item_at_hand() -> None:
    todo = TOOLS["todo"]
    assert (
        todo.title({"todos": [item("a", "completed"), item("b", "in_progress")]}) == "b"
    )
    assert todo.title({"todos": [item("a", "completed"), item("b"), item("c")]}) == "b"
    assert todo.title({"todos": [item("a", "completed")]}) == ""
