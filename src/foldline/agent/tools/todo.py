"""The tool `todo`: the model's list of what is to do. Each call replaces it; only the history keeps it."""

from typing import Literal

from pydantic import ConfigDict, Field

from foldline.context.todos import Todo, current_todo

from .base import Arguments, BaseTool, ToolContext, ToolOutcome, fitted
from .text import one_line

Status = Literal["pending", "in_progress", "completed"]

_MARKS: dict[Status, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoItem(Arguments):
    # Models that know other todo tools add ids and priorities: no reason to refuse the list.
    model_config = ConfigDict(extra="ignore")

    content: str = Field(min_length=1, description="What is to do, in a few words that stay the same.")
    status: Status = Field(description="Where it stands.")


class TodoArguments(Arguments):
    todos: list[TodoItem] = Field(description="All items, done ones too, in working order.")


class TodoTool(BaseTool[TodoArguments]):
    name = "todo"
    description = (
        "Keep a list of what is to do; each call replaces all of it. For work of three or more steps, or "
        "several requests: write it before you begin, have one item in_progress, and mark it completed as "
        "soon as it is done and checked. Not for a single step or a question."
    )
    arguments = TodoArguments

    def headline(self, arguments: TodoArguments) -> str:
        return current_todo([Todo(item.content, item.status) for item in arguments.todos])

    async def act(self, arguments: TodoArguments, context: ToolContext) -> ToolOutcome:
        todos = arguments.todos
        if not todos:
            return ToolOutcome("The list is empty.", brief="empty")
        lines = [f"{_MARKS[item.status]} {one_line(item.content)}" for item in todos]
        started = sum(item.status == "in_progress" for item in todos)
        if started > 1:
            lines.append(f"({started} items are in progress: better finish one before the next.)")
        done = sum(item.status == "completed" for item in todos)
        text, full = await fitted("\n".join(lines), context, self.name)
        return ToolOutcome(text, brief=f"{done} of {len(todos)} done", full_output=full)
