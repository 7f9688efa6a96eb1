"""Names of server tools: what every provider takes, distinct, and the same whatever order they come in."""

import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.agent.extensions.mcp.tools import (
    BrokenSchema,
    nullable_arguments,
    plain_schema,
    prefixes,
    tool_names,
)

NAME = st.text() | st.text(alphabet="ab_.", max_size=6)


def test_an_ordinary_tool_is_named_by_server_and_tool() -> None:
    assert prefixes(["git", "my-docs"]) == {
        "git": "mcp__git__",
        "my-docs": "mcp__my-docs__",
    }
    assert tool_names("mcp__git__", ["log"]) == {"log": "mcp__git__log"}


@given(st.dictionaries(NAME, st.lists(NAME, max_size=4), max_size=4))
def test_names_are_what_providers_take_and_no_two_tools_share_one(
    servers: dict[str, list[str]],
) -> None:
    beginnings = prefixes(servers)
    assert len(set(beginnings.values())) == len(servers)
    names = [
        name
        for each, tools in servers.items()
        for name in tool_names(beginnings[each], tools).values()
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == len(names)
    for server, tools in servers.items():
        prefix = beginnings[server]
        assert all(
            name.startswith(prefix) for name in tool_names(prefix, tools).values()
        )
        assert tool_names(prefix, reversed(tools)) == tool_names(prefix, tools)


def test_two_tools_that_differ_in_a_sign_only_keep_apart() -> None:
    names = tool_names("mcp__s__", ["a.b", "a_b", "c"])
    assert names["c"] == "mcp__s__c"
    assert names["a.b"] != names["a_b"]
    assert names["a.b"].startswith("mcp__s__a_b_")


PAGE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Arguments",
    "type": "object",
    "$defs": {
        "Point": {
            "title": "Point",
            "type": "object",
            "properties": {"x": {"type": "integer"}},
        },
        "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}},
    },
    "properties": {
        "title": {"title": "Title", "type": "string", "description": "Of the page."},
        "at": {"$ref": "#/$defs/Point", "description": "Where."},
        "tree": {"$ref": "#/$defs/Tree"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "either": {"type": ["string", "integer", "null"]},
        "many": {"type": "array"},
        "kind": {"const": "page"},
        "far": {"$ref": "https://example.org/schema.json"},
        "free": True,
    },
    "required": ["title", "unknown"],
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"type": "null"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
        {"$ref": "#/$defs/Maybe"},
        {"enum": ["a", None]},
        {"type": "string", "nullable": True},
    ],
)
def test_a_nullable_argument_is_not_required(schema: dict[str, object]) -> None:
    defs = {"Point": {"type": "object"}, "Maybe": {"type": ["integer", "null"]}}
    root = {
        "type": "object",
        "$defs": defs,
        "properties": {"a": schema, "b": {"type": "string"}},
        "required": ["a", "b"],
    }
    assert plain_schema(root)["required"] == ["b"]
    assert nullable_arguments(root) == {"a"}


@pytest.mark.parametrize(
    "schema",
    [None, {}, {"required": "a"}, {"required": [["a"], 7, "a"], "properties": {"a": True}},
     {"required": ["a"], "properties": {"a": {"$ref": "#/properties/a"}}},
     {"$ref": "#", "required": ["a"]}],
)  # fmt: skip
def test_odd_schemas_have_no_nullable_arguments(schema: object) -> None:
    assert nullable_arguments(schema) == frozenset()


def test_alternatives_that_name_each_other_are_looked_at_a_few_times_alone() -> None:
    itself = {"anyOf": [{"$ref": "#/$defs/A"}] * 4}
    root = {"$defs": {"A": itself}, "required": ["a"], "properties": {"a": itself}}
    assert nullable_arguments(root) == frozenset()


def test_references_nulls_and_titles_go_and_all_that_is_said_stays() -> None:
    assert plain_schema(PAGE) == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Of the page."},
            "at": {
                "type": "object",
                "properties": {"x": {"type": "integer"}},
                "description": "Where.",
            },
            "tree": {"type": "object", "properties": {"left": {}}},
            "maybe": {"type": "string"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "many": {"type": "array", "items": {}},
            "kind": {"enum": ["page"]},
            "far": {},
            "free": {},
        },
        "required": ["title"],
    }


def test_alternatives_at_the_root_become_properties() -> None:
    branches = [
        {"properties": {"id": {"type": "string"}}},
        {"properties": {"name": {"type": "string"}}},
    ]
    plain = plain_schema({"type": "object", "oneOf": branches})
    assert plain["properties"] == {"id": {"type": "string"}, "name": {"type": "string"}}
    assert "oneOf" not in plain


@pytest.mark.parametrize(
    "schema", [None, [], "object", {"type": "array"}, {"type": "string"}]
)
def test_what_describes_no_object_is_refused(schema: object) -> None:
    with pytest.raises(BrokenSchema):
        plain_schema(schema)


def test_a_schema_that_unfolds_without_end_is_refused() -> None:
    defs: dict[str, Any] = {
        f"d{n}": {
            "properties": {
                "a": {"$ref": f"#/$defs/d{n + 1}"},
                "b": {"$ref": f"#/$defs/d{n + 1}"},
            }
        }
        for n in range(20)
    }
    with pytest.raises(BrokenSchema, match="more than"):
        plain_schema(
            {
                "type": "object",
                "$defs": defs,
                "properties": {"top": {"$ref": "#/$defs/d0"}},
            }
        )


KEYS = [
    "type",
    "properties",
    "items",
    "$ref",
    "anyOf",
    "allOf",
    "required",
    "enum",
    "minLength",
    "a",
]
WORDS = ["object", "array", "string", "#/a", "#", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_a_server_sends_is_refused_or_a_schema(schema: object) -> None:
    try:
        plain = plain_schema(schema)
    except BrokenSchema:
        return
    assert plain["type"] == "object"
    jsonschema.Draft202012Validator.check_schema(plain)
