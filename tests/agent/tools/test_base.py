import json

import pytest

from foldline.agent.tools import ToolContext
from foldline.agent.tools.base import BAD_ARGUMENTS, MISSING, UNKNOWN, WRONG
from support.sentences import says
from support.tools import TOOLS, call


def test_the_default_tools_and_what_they_may_do() -> None:
    assert {name: tool.level for name, tool in TOOLS.items()} == {
        "read": "read",
        "write": "edit",
        "edit": "edit",
        "bash": "run",
        "jobs": "read",
        "grep": "read",
        "glob": "read",
        "ls": "read",
        "fetch": "run",
        "todo": "read",
    }


@pytest.mark.parametrize("name", list(TOOLS))
def test_schemas_are_plain_json_schema_with_a_description_for_each_argument(
    name: str,
) -> None:
    schema = TOOLS[name].spec.parameters
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert all(
        {"type", "description"} <= set(prop) for prop in schema["properties"].values()
    )
    assert not any(word in json.dumps(schema) for word in ("anyOf", "$ref", "$defs"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, MISSING.format(name="path")),
        ({"path": "a", "lines": 3}, UNKNOWN.format(name="lines")),
        ({"path": "a", "offset": "x"}, WRONG.format(name="offset", message="")[:-2]),
        ({"path": "a", "offset": 0}, WRONG.format(name="offset", message="")[:-2]),
        ({"path": ["a"]}, WRONG.format(name="path", message="")[:-2]),
    ],
)
async def test_wrong_arguments_are_one_sentence_for_the_model(
    context: ToolContext, arguments: dict[str, object], sentence: str
) -> None:
    outcome = await call(context, "read", **arguments)
    assert outcome.is_error
    assert sentence in outcome.text
    assert says(outcome.text, BAD_ARGUMENTS, arguments="path, offset?, limit?")
    assert "\n" not in outcome.text


async def test_null_and_numbers_as_text_are_taken_for_what_they_mean(
    context: ToolContext,
) -> None:
    (context.cwd / "a").write_text("1\n2\n3\n")
    outcome = await call(context, "read", path="a", offset="2", limit=None)
    assert outcome.text == "2\n3\n[lines 2–3 of 3]"


@pytest.mark.parametrize("name", list(TOOLS))
def test_titles_never_fail(name: str) -> None:
    assert TOOLS[name].title({}) in ("", ".", "list")
    assert "\n" not in TOOLS[name].title({"path": "a\nb", "nonsense": 1})


def test_titles_name_what_the_call_is_about() -> None:
    assert TOOLS["read"].title({"path": "a.py"}) == "a.py"
    assert (
        TOOLS["read"].title({"path": "a.py", "offset": 5, "limit": 10}) == "a.py:5-14"
    )
    assert (
        TOOLS["grep"].title({"pattern": "x y", "path": "src", "glob": "*.py"})
        == '"x y" src *.py'
    )
    assert TOOLS["ls"].title({}) == "."
