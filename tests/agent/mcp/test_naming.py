"""Names of server tools: what every provider takes, distinct, and the same whatever order they come in."""

import re

from hypothesis import given
from hypothesis import strategies as st

from foldline.agent.mcp.tools import prefixes, tool_names

NAME = st.text() | st.text(alphabet="ab_.", max_size=6)


def test_an_ordinary_tool_is_named_by_server_and_tool() -> None:
    assert prefixes(["git", "my-docs"]) == {"git": "mcp__git__", "my-docs": "mcp__my-docs__"}
    assert tool_names("mcp__git__", ["log"]) == {"log": "mcp__git__log"}


@given(st.dictionaries(NAME, st.lists(NAME, max_size=4), max_size=4))
def test_names_are_what_providers_take_and_no_two_tools_share_one(servers: dict[str, list[str]]) -> None:
    beginnings = prefixes(servers)
    assert len(set(beginnings.values())) == len(servers)
    names = [name for each, tools in servers.items() for name in tool_names(beginnings[each], tools).values()]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == len(names)
    for server, tools in servers.items():
        prefix = beginnings[server]
        assert all(name.startswith(prefix) for name in tool_names(prefix, tools).values())
        assert tool_names(prefix, reversed(tools)) == tool_names(prefix, tools)


def test_two_tools_that_differ_in_a_sign_only_keep_apart() -> None:
    names = tool_names("mcp__s__", ["a.b", "a_b", "c"])
    assert names["c"] == "mcp__s__c"
    assert names["a.b"] != names["a_b"]
    assert names["a.b"].startswith("mcp__s__a_b_")
