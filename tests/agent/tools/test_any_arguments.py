"""Whatever a model gives a tool: a title, and an outcome in words that can be sent; nothing is raised."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.agent.tools import (
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
    default_tools,
)
from foldline.agent.tools.history import recall_tools
from foldline.history import Session
from support.agents import PATIENCE
from support.limits import examples

ODD = [
    "",
    " ",
    ".",
    "..",
    "~",
    "~nobody/x",
    "a.txt/b",
    "/dev/null",
    "a\x00b",
    "\ud800",
    "x" * 300,
    "\n",
]
PATTERNS = [
    "*",
    "**/*",
    "[",
    "[!",
    "{a,b",
    "(",
    "(?P<",
    "\\",
    "{" * 100,
    '"',
    '" "',
    "a{9999999}",
]
TEXTS = st.sampled_from(["a.txt", *ODD, *PATTERNS]) | st.text(max_size=20)


def nested(levels: int) -> object:
    value: object = "x"
    for _ in range(levels):
        value = [value]
    return value


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just(10**400)
)
ANYTHING = st.recursive(
    SCALARS | st.integers(0, 90).map(nested),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=6,
)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "integer": st.integers(-1, 5) | st.integers(),
    "number": st.floats(-1, 0.01) | st.floats(),
    "boolean": st.booleans(),
}


def values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Mostly what the schema asks for."""
    match schema:
        case {"enum": names}:
            right = st.sampled_from(names)
        case {"type": "array", "items": item}:
            right = st.lists(values(item), max_size=3)
        case {"type": "object"}:
            right = arguments(schema)
        case {"type": kind}:
            right = RIGHT[kind]
    return st.one_of(right, right, right, ANYTHING)


def arguments(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {name: values(each) for name, each in schema["properties"].items()}
    needed = {name: fields.pop(name) for name in schema["required"]}
    return st.fixed_dictionaries(needed, optional=fields) | st.dictionaries(
        TEXTS, ANYTHING, max_size=3
    )


def tools_of(session: Session) -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in (*default_tools(), *recall_tools(session))}


LEAVES_THE_FOLDER = ("bash", "fetch")
"""What is given to these is a command, or an address in the world: they are only asked about."""
NAMES = [tool.spec.name for tool in default_tools()] + [
    "history_search",
    "history_read",
]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_a_tool_is_given_makes_it_raise(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    tool = tools_of(Session.create(folder, home=tmp_path / "home"))[name]

    @settings(max_examples=examples(25))
    @given(arguments(tool.spec.parameters))
    def holds(asked: dict[str, Any]) -> None:
        (folder / "a.txt").write_text("hello\nworld\n")
        context = ToolContext(folder, lambda text: None, 500, folder / "outputs")
        tool.title(asked).encode()
        tool.rules(asked)
        if name in LEAVES_THE_FOLDER or not tool.inside(asked, context):
            return
        try:
            tool.preview(asked, context)
        except ToolFailure as failure:
            assert str(failure)
        outcome = asyncio.run(asyncio.wait_for(tool.run(asked, context), PATIENCE))
        assert isinstance(outcome, ToolOutcome)
        assert outcome.text.encode()
        outcome.brief.encode()

    holds()
