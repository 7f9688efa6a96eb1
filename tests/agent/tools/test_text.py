"""Every tool whose result was too long points at the rest, and the pointer shows it."""

import re
from collections.abc import Callable

import pytest

from foldline.agent.tools import ToolContext
from foldline.view.tokens import estimate_tokens
from support.tools import TOOLS, call

LINES = 400


def _tree(context: ToolContext) -> None:
    for number in range(LINES):
        (context.cwd / f"a file with number {number:03}.txt").write_text("needle\n")


def _file(context: ToolContext) -> None:
    (context.cwd / "a").write_text(
        "".join(f"needle in line {number}\n" for number in range(LINES))
    )


def _nothing(context: ToolContext) -> None:
    pass


TODOS = [
    {"content": f"item number {number} of a list", "status": "pending"}
    for number in range(LINES)
]


@pytest.mark.parametrize(
    ("prepared", "tool", "arguments"),
    [
        (_file, "grep", {"pattern": "needle"}),
        (_tree, "glob", {"pattern": "*.txt"}),
        (_tree, "ls", {}),
        (_nothing, "todo", {"todos": TODOS}),
        (_nothing, "bash", {"command": f"seq -f 'line %g of it' 1 {LINES}"}),
    ],
    ids=["grep", "glob", "ls", "todo", "bash"],
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
    rest = (
        await call(context, "read", path=path, offset=offset, limit=limit)
    ).text.splitlines()[:-1]
    assert len(rest) == limit
    found = [*shown[:at], *rest, *shown[at + 1 :]]
    assert found == whole


async def test_a_long_file_is_read_in_portions_each_of_which_says_how_to_go_on(
    context: ToolContext,
) -> None:
    _file(context)
    context.max_tokens = 600
    read, offset, told = "", 1, []
    while offset:
        outcome = await call(context, "read", path="a", offset=offset)
        assert estimate_tokens(outcome.text) <= 600
        said = re.search(
            r"\[Portion (\d+) of (\d+), lines .*\. Continue with offset (\d+)\.\]\Z",
            outcome.text,
        )
        read += outcome.text[: said.start() if said else outcome.text.rfind("[lines")]
        offset = int(said[3]) if said else 0
        told += [(int(said[1]), int(said[2]))] if said else []
    assert read == (context.cwd / "a").read_text()
    assert [number for number, _ in told] == list(range(1, len(told) + 1))
    assert {of for _, of in told} == {len(told) + 1}


async def test_a_portion_of_some_lines_ends_where_these_end(
    context: ToolContext,
) -> None:
    _file(context)
    context.max_tokens = 600
    outcome = await call(context, "read", path="a", offset=11, limit=200)
    offset, limit = map(
        int,
        re.findall(r"Continue with offset (\d+) and limit (\d+)\.\]\Z", outcome.text)[
            0
        ],
    )
    assert offset + limit == 211


async def test_of_a_file_of_very_many_portions_head_and_tail_are_shown(
    context: ToolContext,
) -> None:
    (context.cwd / "a").write_text(
        "".join(f"needle in line {number}\n" for number in range(100 * LINES))
    )
    context.max_tokens = 600
    outcome = await call(context, "read", path="a")
    assert "left out" in outcome.text
    assert outcome.text.endswith(f"needle in line {100 * LINES - 1}\n")


async def test_a_failure_in_the_middle_of_an_output_is_shown_and_the_pointer_covers_the_rest(
    context: ToolContext,
) -> None:
    (context.cwd / "log").write_text(
        "".join(
            "ERROR cannot connect\n" if n == 1_500 else f"line {n} is well\n"
            for n in range(3_000)
        )
    )
    context.max_tokens = 600
    outcome = await call(context, "bash", command="cat log")
    assert estimate_tokens(outcome.text) <= 600
    shown = outcome.text.splitlines()
    at = shown.index("ERROR cannot connect")
    assert shown[at - 2 : at + 3 : 4] == ["line 1498 is well", "line 1502 is well"]
    pointer = next(line for line in shown if line.startswith("[…"))
    offset, limit = map(int, re.findall(r"(?:offset|limit) (\d+)", pointer))
    assert shown[shown.index(pointer) - 1] == f"line {offset - 2} is well"
    assert f"line {offset + limit - 1} is well" in shown
    assert f"line {offset + limit - 2} is well" not in shown
