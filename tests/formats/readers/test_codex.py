"""Reading Codex's sessions, on rows made here."""

from datetime import UTC, datetime
from typing import Any

import pytest

from foldline.formats.base import JsonObject
from foldline.formats.readers.codex import reader
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    FileTouch,
    FoldlineError,
    ImagePart,
    ModelChange,
    NoticeRecord,
    SystemMessage,
    TextPart,
    ThinkingPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
)
from support.codex_rows import (
    META,
    answer,
    call,
    event,
    item,
    output,
    prompt,
    read_rows,
    rolled_back,
    row,
    told,
    usage,
)
from support.foreign import faults, said, view

AGENTS = "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>"
ENVIRONMENT = "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>"


# --- the session ------------------------------------------------------------------------------------


def test_the_header_names_the_session() -> None:
    session = read_rows(*prompt("hi"))
    assert session.format == "codex"
    assert (session.header.id, session.header.cwd) == ("cx-1", "/x")
    assert session.header.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_lost_header_is_made_up_from_what_is_left() -> None:
    session = read_rows(row("turn_context", cwd="/y", model="m"), *prompt("hi"), header=prompt("first")[0])
    assert (session.header.id, session.header.cwd) == ("rollout-1", "/y")
    assert session.header.created_at == datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)


def test_what_holds_no_row_is_refused_with_one_sentence(tmp_path: Any) -> None:
    with pytest.raises(FoldlineError, match="has no rows of Codex"):
        reader.read(b'{"a":1}\n', tmp_path / "f")
    nothing_of_it = ({"type": "response_item"}, {"type": ["session_meta"], "payload": {}}, {})
    assert not any(reader.recognises(JsonObject(record)) for record in nothing_of_it)
    assert reader.recognises(JsonObject(META))


def test_base_instructions_are_the_system_prompt_and_repeated_headers_say_nothing() -> None:
    header = {**META, "payload": {**META["payload"], "base_instructions": {"text": "You are Codex."}}}
    session = read_rows(*prompt("hi"), header, *prompt("ho"), header=header)
    assert [type(message) for message in view(session)] == [SystemMessage, UserMessage, UserMessage]
    assert len(session.entries) == 3


def test_the_header_of_the_origin_of_a_fork_is_kept_raw_and_noted() -> None:
    fork = {**META, "payload": {**META["payload"], "id": "cx-2", "forked_from_id": "cx-1"}}
    session = read_rows(META, *prompt("hi"), header=fork)
    assert session.header.id == "cx-2"
    assert session.notes == ("The session was forked from cx-1.",)
    assert session.entries[0].type == "codex.session_meta"


def test_files_without_an_envelope_are_read() -> None:
    bare = [record["payload"] for record in (told("user", "hi"), answer("ho")[1], call("c"), output("c"))]
    header = {"id": "old", "timestamp": "2025-05-01T00:00:00Z", "instructions": None}
    session = read_rows({"record_type": "state"}, *bare, header=header)
    assert session.header.id == "old"
    assert said(session) == ["hi", "ho", "ok"]


def test_a_model_change_is_told_once_and_unknown_rows_stay_as_they_are() -> None:
    first, again, other = (row("turn_context", model=model, effort="high") for model in ("a", "a", "b"))
    world = {**row("world_state", full=True), "ordinal": 7}
    session = read_rows(first, *answer("x"), again, other, *answer("y"), world)
    changes = [entry for entry in session.entries if isinstance(entry, ModelChange)]
    assert [(change.model, change.provider) for change in changes] == [("a", "openai"), ("b", "openai")]
    answers = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert [one.model for one in answers] == ["a", "b"]
    kept = [entry for entry in session.entries if isinstance(entry, Unknown)]
    assert [entry.type for entry in kept] == ["codex.turn_context", "codex.world_state"]
    assert kept[-1].model_dump()["record"] == world


def test_titles_and_troubles_are_told() -> None:
    session = read_rows(
        event("thread_name_updated", thread_name="The name"),
        event("error", message="It broke."),
        event("turn_aborted", reason="interrupted"),
    )
    title, broke, aborted = session.entries
    assert isinstance(title, Title)
    assert title.title == "The name"
    assert isinstance(broke, NoticeRecord)
    assert (broke.text, broke.level) == ("It broke.", "error")
    assert isinstance(aborted, NoticeRecord)
    assert aborted.text == "The turn was ended early: interrupted."


# --- who speaks -------------------------------------------------------------------------------------


def test_only_what_was_typed_is_the_users() -> None:
    session = read_rows(
        told("developer", "<permissions instructions>none</permissions instructions>", "more"),
        told("user", AGENTS, ENVIRONMENT),
        *prompt("do it"),
        told("user", "something a hook says"),
        told("user", "<user_shell_command>ls</user_shell_command>"),
        told("user", "<turn_aborted>stopped</turn_aborted>"),
    )
    rules, agents, environment, typed, hook, shell, aborted = session.entries
    assert isinstance(rules, DeveloperMessage)
    assert rules.origin == "notice"
    assert isinstance(agents, DeveloperMessage)
    assert (agents.origin, agents.source, agents.text) == ("instructions", "/x/AGENTS.md", AGENTS)
    assert isinstance(environment, DeveloperMessage)
    assert environment.origin == "notice"
    assert isinstance(aborted, DeveloperMessage)
    voices = [(one.text, one.origin) for one in (typed, hook, shell) if isinstance(one, UserMessage)]
    assert voices == [
        ("do it", "typed"),
        ("something a hook says", "machine"),
        ("<user_shell_command>ls</user_shell_command>", "shell"),
    ]


def test_a_prompt_that_looks_like_machine_text_is_still_the_users() -> None:
    [typed] = read_rows(*prompt(ENVIRONMENT)).entries
    assert isinstance(typed, UserMessage)
    assert typed.origin == "typed"


def test_without_events_the_shape_of_a_text_tells_who_speaks() -> None:
    session = read_rows(told("user", AGENTS), told("user", ENVIRONMENT), told("user", "do <b>it</b>"))
    assert [entry.type for entry in session.entries] == ["developer", "developer", "user"]
    assert session.entries[-1].origin == "typed"  # type: ignore[attr-defined]


def test_images_come_along_with_their_prompt() -> None:
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
        {"type": "input_audio", "data": "x"},
    ]
    session = read_rows(item("message", role="user", content=content), event("user_message", message="look"))
    [typed] = session.entries
    assert isinstance(typed, UserMessage)
    assert typed.origin == "typed"
    assert typed.parts == (TextPart(text="look"), ImagePart(media_type="image/png", data="aGk="))
    assert session.notes == (
        "Left out, pieces of messages of a kind that cannot be shown here: input_audio (1).",
    )


def test_what_another_agent_says_is_machine_text() -> None:
    content = [{"type": "input_text", "text": "from /root/a: done"}]
    session = read_rows(
        item("agent_message", author="/root/a", recipient="/root", content=content),
        row("inter_agent_communication", author="/root/b", content="hello"),
    )
    assert all(isinstance(entry, DeveloperMessage) for entry in session.entries)
    assert said(session) == ["from /root/a: done", "hello"]


# --- answers ----------------------------------------------------------------------------------------


def test_the_items_of_one_request_are_one_answer_told_once() -> None:
    reasoning = item("reasoning", summary=[{"type": "summary_text", "text": "**Plan**"}])
    session = read_rows(
        *prompt("go"),
        event("agent_reasoning", text="**Plan**"),
        reasoning,
        *answer("I look."),
        call("c1", cmd="ls"),
        call("c2", cmd="pwd"),
        output("c1", "a"),
        output("c2", "/x"),
        usage(13),
        *answer("Done."),
    )
    _, first, one, two, last = session.entries
    assert isinstance(first, AssistantMessage)
    assert first.parts == (
        ThinkingPart(text="**Plan**"),
        TextPart(text="I look."),
        ToolCallPart(call_id="c1", name="exec_command", arguments='{"cmd": "ls"}'),
        ToolCallPart(call_id="c2", name="exec_command", arguments='{"cmd": "pwd"}'),
    )
    assert [one.text, two.text, last.text] == ["a", "/x", "Done."]  # type: ignore[attr-defined]
    assert faults(session) == []


def test_an_index_is_the_place_of_a_row_and_damage_leaves_a_gap() -> None:
    session = read_rows(*prompt("a"), b'{"torn', *prompt("b"), *answer("c"))
    assert [entry.index for entry in session.entries] == [1, 4, 7]
    assert session.notes[0] == "1 damaged record (line 4) was left out."


def test_a_row_of_two_messages_moves_what_follows_by_one() -> None:
    session = read_rows(told("user", AGENTS, ENVIRONMENT), *prompt("a"))
    assert [entry.index for entry in session.entries] == [1, 2, 3]


def test_usage_belongs_to_the_answer_before_it_and_counts_once() -> None:
    session = read_rows(
        *answer("a"), usage(13), usage(13), *prompt("b"), usage(13), *answer("c"), usage(30, input=17)
    )
    answers = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert answers[0].usage == Usage(input=10, cached=4, output=3, reasoning=2)
    assert answers[1].usage == Usage(input=17, cached=4, output=3, reasoning=2)


def test_encrypted_reasoning_is_left_out_and_counted() -> None:
    session = read_rows(item("reasoning", summary=[], encrypted_content="gAAA"), *answer("x"))
    [only] = session.entries
    assert isinstance(only, AssistantMessage)
    assert only.parts == (TextPart(text="x"),)
    assert session.notes == ("Pieces of reasoning that are encrypted, left out: 1.",)


def test_reasoning_in_full_is_preferred_to_its_summary() -> None:
    content = [{"type": "reasoning_text", "text": "all of it"}]
    [only] = read_rows(item("reasoning", content=content, summary=[{"text": "short"}])).entries
    assert isinstance(only, AssistantMessage)
    assert only.thinking == "all of it"


# --- calls and results ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "name", "arguments"),
    [
        (call("c", "shell", command=["ls"]), "shell", {"command": ["ls"]}),
        (item("function_call", call_id="c", name="f", namespace="mcp__s__", arguments=""), "mcp__s__f", {}),
        (item("function_call", call_id="c", name="spawn", namespace="team", arguments="{}"), "spawn", {}),
        (item("custom_tool_call", call_id="c", name="exec", input='a "b"'), "exec", {"input": 'a "b"'}),
        (
            item("local_shell_call", call_id="c", action={"command": ["ls"]}),
            "local_shell",
            {"command": ["ls"]},
        ),
        (item("tool_search_call", call_id="c", arguments={"query": "q"}), "tool_search", {"query": "q"}),
    ],
)
def test_calls_of_every_kind_pair_up_with_their_results(made: Any, name: str, arguments: Any) -> None:
    session = read_rows(made, output("c", "done"))
    asked, result = session.entries
    assert isinstance(asked, AssistantMessage)
    assert (asked.calls[0].name, asked.calls[0].parsed()) == (name, arguments)
    assert isinstance(result, ToolResultMessage)
    assert (result.call_id, result.name, result.text) == ("c", name, "done")
    assert faults(session) == []


def test_a_search_on_the_server_has_a_result_that_says_what_is_missing() -> None:
    action = {"type": "search", "query": "q"}
    session = read_rows(
        item("web_search_call", id="ws", action=action), *answer("Found."), call("c"), output("c")
    )
    asked, searched, result = session.entries
    assert isinstance(asked, AssistantMessage)
    assert [one.name for one in asked.calls] == ["web_search", "exec_command"]
    assert isinstance(searched, ToolResultMessage)
    assert searched.text == "(This ran on the provider's side; what it found is not in the file.)"
    assert isinstance(result, ToolResultMessage)
    assert faults(session) == []


def test_an_image_made_on_the_server_is_its_result() -> None:
    made = item("image_generation_call", id="ig", revised_prompt="a cat", result="aGk=")
    _, result = read_rows(made).entries
    assert isinstance(result, ToolResultMessage)
    assert result.parts == (ImagePart(media_type="image/png", data="aGk="),)


@pytest.mark.parametrize(
    ("text", "brief", "seconds", "failed"),
    [
        ("Wall time: 0.5 seconds\nProcess exited with code 0\nOutput:\na\nb\n", "2 lines", 0.5, False),
        ("Wall time: 0.5 seconds\nProcess exited with code 2\nOutput:\n", "exit 2", 0.5, True),
        ("Exit code: -1\nWall time: 3 seconds\nOutput:\nno", "exit -1", 3.0, True),
        ("Script failed\nWall time 1.0 seconds\nOutput:\nboom", "failed", 1.0, True),
        ('{"output":"a","metadata":{"exit_code":1,"duration_seconds":0.2}}', "exit 1", 0.2, True),
        ('{"output":"a","metadata":{"exit_code":"x","duration_seconds":"y"}}', "1 line", None, False),
        ('{"output": cut off', "1 line", None, False),
        ("it says: Process exited with code 9", "1 line", None, False),
        ({"content": "no", "success": False}, "failed", None, True),
        ({"content": [{"type": "input_text", "text": "a"}], "success": True}, "1 line", None, False),
        ([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], "2 lines", None, False),
    ],
)
def test_a_result_says_how_its_run_went(text: Any, brief: str, seconds: float | None, failed: bool) -> None:
    _, result = read_rows(call("c"), output("c", text)).entries
    assert isinstance(result, ToolResultMessage)
    assert (result.details.brief, result.details.seconds, result.is_error) == (brief, seconds, failed)


def test_an_image_in_a_result_comes_along() -> None:
    pieces = [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]
    _, result = read_rows(call("c", "view_image", path="/x/a.png"), output("c", pieces)).entries
    assert isinstance(result, ToolResultMessage)
    assert result.parts == (ImagePart(media_type="image/png", data="aGk="),)
    assert result.details.files == (FileTouch(path="/x/a.png", action="read"),)


def test_a_result_without_a_call_and_a_call_without_a_result_do_no_harm() -> None:
    session = read_rows(output("lost"), call("c1"), *prompt("next"), output("c1", "late"))
    assert said(session) == ["", "late", "next"]
    assert faults(session) == []


def test_a_repeated_result_stays_out_of_the_view() -> None:
    session = read_rows(call("c"), output("c", "a"), output("c", "b"))
    assert said(session) == ["", "a"]


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


def test_what_a_patch_is_reported_to_have_changed_is_on_its_result() -> None:
    changes = {
        "/x/a.py": {"type": "update", "unified_diff": "@@ -1 +1,2 @@\n-old\n+new\n+--- more"},
        "/x/b.py": {"type": "add", "content": "one\ntwo\n"},
        "/x/c.py": {"type": "update", "unified_diff": "", "move_path": "/x/d.py"},
    }
    session = read_rows(
        item("custom_tool_call", call_id="c", name="apply_patch", input=PATCH),
        event("patch_apply_end", call_id="c", success=True, changes=changes),
        output("c", "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess."),
    )
    result = session.entries[-1]
    assert isinstance(result, ToolResultMessage)
    assert result.details.files == (
        FileTouch(path="/x/a.py", action="modified", added=2, removed=1),
        FileTouch(path="/x/b.py", action="modified", added=2),
        FileTouch(path="/x/c.py", action="modified"),
        FileTouch(path="/x/d.py", action="modified"),
    )
    assert result.details.brief == "+4 −1"
    assert "+one\n+two" in (result.details.diff or "")


def test_patches_of_a_script_are_on_the_result_of_the_script() -> None:
    changes = {"/x/a.py": {"type": "delete", "content": "gone\n"}}
    session = read_rows(
        item("custom_tool_call", call_id="c", name="exec", input="tools.apply_patch(patch)"),
        event("patch_apply_end", call_id="exec-1", success=True, changes=changes),
        event("patch_apply_end", call_id="exec-2", success=False, changes={"/x/z.py": {"type": "add"}}),
        output("c", "Script completed\nWall time 0.1 seconds\nOutput:\n{}"),
    )
    result = session.entries[-1]
    assert isinstance(result, ToolResultMessage)
    assert result.details.files == (FileTouch(path="/x/a.py", action="modified", removed=1),)


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


def test_a_patch_that_failed_changed_nothing() -> None:
    patch = item("custom_tool_call", call_id="c", name="apply_patch", input=PATCH)
    _, result = read_rows(patch, output("c", "Exit code: 1\nOutput:\nno such file")).entries
    assert isinstance(result, ToolResultMessage)
    assert result.details.files == ()


# --- damage, turns taken back -----------------------------------------------------------------------


def test_turns_taken_back_leave_the_view_and_stay_in_the_history() -> None:
    session = read_rows(
        told("user", ENVIRONMENT),
        *prompt("one"),
        *answer("1"),
        told("developer", "context of two"),
        *prompt("two"),
        *answer("2"),
        *prompt("three"),
        *answer("3"),
        rolled_back(2),
        *prompt("four"),
    )
    assert said(session) == [ENVIRONMENT, "one", "1", "four"]
    texts = [entry.text for entry in session.entries if isinstance(entry, UserMessage)]
    assert texts == ["one", "two", "three", "four"]
    assert faults(session) == []


@pytest.mark.parametrize(("turns", "left"), [(0, ["one", "two"]), (1, ["one"]), (9, [])])
def test_as_many_turns_go_as_there_are(turns: int, left: list[str]) -> None:
    assert said(read_rows(*prompt("one"), *prompt("two"), rolled_back(turns))) == left


def test_checkpoints_are_made_only_where_turns_are_taken_back() -> None:
    session = read_rows(*prompt("one"), *answer("1"), *prompt("two"))
    assert [entry.type for entry in session.entries] == ["user", "assistant", "user"]


@pytest.mark.parametrize("junk", [None, 3, -1, 1e308, "x", "", [], [None, 3, "x"], {"a": 1}, [[]], True])
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
    kinds = ("message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "agent_message")
    results = ("function_call_output", "tool_search_output", "web_search_call", "compaction", junk)
    for kind in (*kinds, *results):
        read_rows(item(kind, **dict.fromkeys(names, junk)))
    for role in ("user", "assistant", "developer"):
        read_rows(item("message", role=role, content=junk))
        read_rows(item("message", role=role, content=[{"type": "input_text", "text": junk}]))
    read_rows(call("c"), output("c", junk), event("patch_apply_end", call_id=junk, changes=junk))
    read_rows(call("c"), event("patch_apply_end", call_id=junk, changes={"a": junk}), output("c"))
    read_rows(event("token_count", info=junk), event("token_count", info={"last_token_usage": junk}))
    read_rows(*prompt("a"), event("thread_rolled_back", num_turns=junk))
    read_rows(*prompt("a"), row("compacted", message=junk, replacement_history=junk))
    read_rows(*prompt("a"), row("compacted", message="x", replacement_history=[junk, {"type": junk}]))
    read_rows(event(junk, message=junk), row(junk), row("turn_context", model=junk))
    read_rows(*prompt("a"), header=row("session_meta", id=junk, cwd=junk, base_instructions=junk))
