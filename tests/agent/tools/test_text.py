"""Every tool whose result was too long points at the rest, and the pointer shows it."""

from collections.abc import Callable

import pytest

from foldline.agent.tools import ToolContext
from foldline.context.tokens import estimate_tokens
from support.tools import TOOLS, call

LINES = 400


def _tree(context: ToolContext) -> None:
    for number in range(LINES):
        (context.cwd / f"a file with number {number:03}.txt").write_text("needle\n")


def _file(context: ToolContext) -> None:
    (context.cwd / "a").write_text("".join(f"needle in line {number}\n" for number in range(LINES)))


def _nothing(context: ToolContext) -> None:
    pass


TODOS = [{"content": f"item number {number} of a list", "status": "pending"} for number in range(LINES)]


@pytest.mark.parametrize(
    ("prepared", "tool", "arguments"),
    [
        (_file, "read", {"path": "a"}),
        (_file, "grep", {"pattern": "needle"}),
        (_tree, "glob", {"pattern": "*.txt"}),
        (_tree, "ls", {}),
        (_nothing, "todo", {"todos": TODOS}),
        (_nothing, "bash", {"command": f"seq -f 'line %g of it' 1 {LINES}"}),
    ],
    ids=["read", "grep", "glob", "ls", "todo", "bash"],
)
async def test_head_rest_and_tail_are_the_whole(
    context: ToolContext,
    prepared: Callable[[ToolContext], None],
    tool: str,
    arguments: dict[str, object],
) -> None:
    prepared(context)
    context.max_tokens = 100_000
    whole = (await call(context, tool, **arguments)).text.splitlines()
    context.max_tokens = 600
    outcome = await call(context, tool, **arguments)
    assert estimate_tokens(outcome.text) <= 600
    shown = outcome.text.splitlines()
    at = next(place for place, line in enumerate(shown) if line.startswith("[…"))
    path, _, numbers = shown[at].partition("`read` ")[2].partition(" with offset ")
    offset, limit = (int(word) for word in numbers.split()[:4:3])
    context.max_tokens = 100_000
    assert TOOLS["read"].inside({"path": path}, context)
    rest = (await call(context, "read", path=path, offset=offset, limit=limit)).text.splitlines()[:-1]
    assert len(rest) == limit
    found = [*shown[:at], *rest, *shown[at + 1 :]]
    assert found == whole
