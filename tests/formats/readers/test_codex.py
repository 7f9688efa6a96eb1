"""Reading Codex's sessions, on rows made here."""

from typing import Any

import pytest

from foldline.formats.base import JsonObject
from foldline.formats.readers.codex import reader
from foldline.protocol import (
    AssistantMessage,
    FileTouch,
    FoldlineError,
    ToolResultMessage,
)
from support.codex_rows import (
    META,
    call,
    event,
    item,
    output,
    prompt,
    read_rows,
    rolled_back,
    row,
)
from support.foreign import faults, view_texts

# --- the session ------------------------------------------------------------------------------------


def test_what_holds_no_row_is_refused_with_one_sentence(tmp_path: Any) -> None:
    with pytest.raises(FoldlineError, match="has no Codex rows"):
        reader.read(b'{"a":1}\n', tmp_path / "f")
    nothing_of_it = (
        {"type": "response_item"},
        {"type": ["session_meta"], "payload": {}},
        {},
    )
    assert not any(reader.recognises(JsonObject(record)) for record in nothing_of_it)
    assert reader.recognises(JsonObject(META))


# --- who speaks -------------------------------------------------------------------------------------


# --- answers ----------------------------------------------------------------------------------------


# --- calls and results ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "name", "arguments"),
    [
        (call("c", "shell", command=["ls"]), "shell", {"command": ["ls"]}),
        (
            item(
                "function_call",
                call_id="c",
                name="f",
                namespace="mcp__s__",
                arguments="",
            ),
            "mcp__s__f",
            {},
        ),
        (
            item(
                "function_call",
                call_id="c",
                name="spawn",
                namespace="team",
                arguments="{}",
            ),
            "spawn",
            {},
        ),
        (
            item("custom_tool_call", call_id="c", name="exec", input='a "b"'),
            "exec",
            {"input": 'a "b"'},
        ),
        (
            item("local_shell_call", call_id="c", action={"command": ["ls"]}),
            "local_shell",
            {"command": ["ls"]},
        ),
        (
            item("tool_search_call", call_id="c", arguments={"query": "q"}),
            "tool_search",
            {"query": "q"},
        ),
    ],
)
def test_calls_of_every_kind_pair_up_with_their_results(
    made: Any, name: str, arguments: Any
) -> None:
    session = read_rows(made, output("c", "done"))
    asked, result = session.entries
    assert isinstance(asked, AssistantMessage)
    assert (asked.calls[0].name, asked.calls[0].parsed()) == (name, arguments)
    assert isinstance(result, ToolResultMessage)
    assert (result.call_id, result.name, result.text) == ("c", name, "done")
    assert faults(session) == []


@pytest.mark.parametrize(
    ("text", "brief", "seconds", "failed"),
    [
        (
            "Wall time: 0.5 seconds\nProcess exited with code 0\nOutput:\na\nb\n",
            "2 lines",
            0.5,
            False,
        ),
        (
            "Wall time: 0.5 seconds\nProcess exited with code 2\nOutput:\n",
            "exit 2",
            0.5,
            True,
        ),
        ("Exit code: -1\nWall time: 3 seconds\nOutput:\nno", "exit -1", 3.0, True),
        ("Script failed\nWall time 1.0 seconds\nOutput:\nboom", "failed", 1.0, True),
        (
            '{"output":"a","metadata":{"exit_code":1,"duration_seconds":0.2}}',
            "exit 1",
            0.2,
            True,
        ),
        (
            '{"output":"a","metadata":{"exit_code":"x","duration_seconds":"y"}}',
            "1 line",
            None,
            False,
        ),
        ('{"output": cut off', "1 line", None, False),
        ("it says: Process exited with code 9", "1 line", None, False),
        ({"content": "no", "success": False}, "failed", None, True),
        (
            {"content": [{"type": "input_text", "text": "a"}], "success": True},
            "1 line",
            None,
            False,
        ),
        (
            [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            "2 lines",
            None,
            False,
        ),
    ],
)
def test_a_result_says_how_its_run_went(
    text: Any, brief: str, seconds: float | None, failed: bool
) -> None:
    _, result = read_rows(call("c"), output("c", text)).entries
    assert isinstance(result, ToolResultMessage)
    assert (result.details.brief, result.details.seconds, result.is_error) == (
        brief,
        seconds,
        failed,
    )


# --- files ------------------------------------------------------------------------------------------

PATCH = """*** Begin Patch
*** Update File: a.py
@@
-old
+new
+more
*** Add File: b.py
+one
*** Delete File: c.py
*** End Patch"""


@pytest.mark.parametrize(
    "made",
    [
        item("custom_tool_call", call_id="c", name="apply_patch", input=PATCH),
        call("c", "shell", command=["apply_patch", PATCH]),
        call("c", cmd=f"apply_patch <<'EOF'\n{PATCH}\nEOF"),
    ],
)
def test_without_a_report_the_patch_itself_names_the_files(made: Any) -> None:
    _, result = read_rows(made, output("c")).entries
    assert isinstance(result, ToolResultMessage)
    assert result.details.files == (
        FileTouch(path="a.py", action="modified", added=2, removed=1),
        FileTouch(path="b.py", action="modified", added=1),
        FileTouch(path="c.py", action="modified"),
    )


# --- damage, turns taken back -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turns", "left"), [(0, ["one", "two"]), (1, ["one"]), (9, [])]
)
def test_as_many_turns_go_as_there_are(turns: int, left: list[str]) -> None:
    assert (
        view_texts(read_rows(*prompt("one"), *prompt("two"), rolled_back(turns)))
        == left
    )


@pytest.mark.parametrize(
    "junk", [None, 3, -1, 1e308, "x", "", [], [None, 3, "x"], {"a": 1}, [[]], True]
)
def test_values_of_the_wrong_shape_are_never_an_error(junk: Any) -> None:
    names = (
        "role",
        "content",
        "name",
        "arguments",
        "call_id",
        "output",
        "input",
        "action",
        "summary",
        "tools",
    )
    kinds = (
        "message",
        "reasoning",
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "agent_message",
    )
    results = (
        "function_call_output",
        "tool_search_output",
        "web_search_call",
        "compaction",
        junk,
    )
    for kind in (*kinds, *results):
        read_rows(item(kind, **dict.fromkeys(names, junk)))
    for role in ("user", "assistant", "developer"):
        read_rows(item("message", role=role, content=junk))
        read_rows(
            item("message", role=role, content=[{"type": "input_text", "text": junk}])
        )
    read_rows(
        call("c"),
        output("c", junk),
        event("patch_apply_end", call_id=junk, changes=junk),
    )
    read_rows(
        call("c"),
        event("patch_apply_end", call_id=junk, changes={"a": junk}),
        output("c"),
    )
    read_rows(
        event("token_count", info=junk),
        event("token_count", info={"last_token_usage": junk}),
    )
    read_rows(*prompt("a"), event("thread_rolled_back", num_turns=junk))
    read_rows(*prompt("a"), row("compacted", message=junk, replacement_history=junk))
    read_rows(
        *prompt("a"),
        row("compacted", message="x", replacement_history=[junk, {"type": junk}]),
    )
    read_rows(event(junk, message=junk), row(junk), row("turn_context", model=junk))
    read_rows(
        *prompt("a"),
        header=row("session_meta", id=junk, cwd=junk, base_instructions=junk),
    )
