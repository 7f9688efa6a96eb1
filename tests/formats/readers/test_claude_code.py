"""Reading the sessions of Claude Code, on small files made here: messages, calls, results."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foldline.formats.base import JsonObject
from foldline.formats.readers.claude_code import reader
from foldline.protocol import (
    AssistantMessage,
    FileTouch,
    FoldlineError,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultMessage,
    Usage,
)
from support.claude_code_rows import (
    PICTURE,
    Record,
    attachment,
    beside,
    boundary,
    call,
    piece,
    read,
    result,
    summary,
    text,
    texts,
    user,
)


def test_the_header_names_the_session() -> None:
    session = read(user("hi"), user("on", sessionId="s-2", cwd="/y"))
    assert session.format == "claude-code"
    assert (session.header.id, session.header.cwd) == ("s-2", "/x")
    assert session.header.created_at == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def test_an_index_is_the_place_in_the_file() -> None:
    session = read(user("a"), b"", user("b"), b'{"torn', user("c", parentUuid="u2"))
    assert [entry.index for entry in session.entries] == [0, 1, 3]
    assert session.damage.lines == (4,)
    assert session.notes == ("1 damaged record (line 4) was left out.",)


def test_the_pieces_of_an_answer_are_one_message_with_one_usage() -> None:
    began = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    session = read(
        user("look"),
        piece(
            "m1",
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            usage={**began, "output_tokens": 1},
        ),
        piece("m1", text("I look."), usage={**began, "output_tokens": 1}),
        piece(
            "m1",
            call("c1", "Bash", command="echo 你好"),
            usage={**began, "output_tokens": 97},
            stop_reason="tool_use",
            model="claude-x",
        ),
        result("c1"),
    )
    _, answer, _ = session.entries
    assert isinstance(answer, AssistantMessage)
    assert answer.index == 1
    assert answer.parts[:2] == (ThinkingPart(text="hm", signature="sig"), TextPart(text="I look."))
    assert answer.calls[0].arguments == '{"command":"echo 你好"}'
    assert answer.usage == Usage(input=125, cached=100, output=97)
    assert (answer.model, answer.stop_reason) == ("claude-x", "tool_calls")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("refusal", "filtered"),
        (None, None),
        ("novel", None),
    ],
)
def test_stop_reasons(theirs: str | None, ours: str | None) -> None:
    [answer] = read(piece("m1", text("hi"), stop_reason=theirs)).entries
    assert answer.stop_reason == ours


def test_a_failed_request_is_an_error_that_the_model_never_saw() -> None:
    session = read(
        user("hi"),
        piece("m1", text("API Error: 529"), isApiErrorMessage=True, model="<synthetic>"),
        piece("m2", text("hello"), model="claude-x"),
    )
    assert texts(session) == ["hi", "hello"]
    failed = session.entries[1]
    assert (failed.stop_reason, failed.error) == ("error", "API Error: 529")


def test_answers_without_an_id_stand_for_themselves() -> None:
    session = read(user("hi"), piece("", text("one")), piece("", text("two")))
    assert texts(session) == ["hi", "one", "two"]


def test_blocks_of_unknown_kind_are_left_out_with_a_note() -> None:
    session = read(piece("m1", {"type": "hologram"}), piece("m1", text("hi")))
    assert texts(session) == ["hi"]
    assert session.notes == (
        "Left out, pieces of messages of a kind that cannot be shown here: hologram (1).",
    )


def test_images_come_along_in_requests_and_results() -> None:
    session = read(
        user([text("this"), PICTURE]),
        piece("m1", call("c1", "Read", file_path="p.jpg")),
        result("c1", [PICTURE, text("as text")]),
    )
    asked, _, shown = session.entries
    picture = ImagePart(media_type="image/jpeg", data="aGk=")
    assert asked.parts == (TextPart(text="this"), picture)
    assert shown.parts == (picture, TextPart(text="as text"))


# --- calls and results ------------------------------------------------------------------------------


def test_results_of_parallel_calls_hang_on_different_pieces_and_all_count() -> None:
    """So Claude Code writes them: the next answer follows only one of the results."""
    session = read(
        user("go", uuid="a"),
        piece("m1", call("c1", "Bash"), uuid="b"),
        piece("m1", call("c2", "Bash"), uuid="c"),
        piece("m1", call("c3", "Bash"), uuid="d"),
        result("c3", "three", uuid="e", parentUuid="d"),
        result("c1", "one", uuid="f", parentUuid="b"),
        result("c2", "two", uuid="g", parentUuid="c"),
        piece("m2", text("done"), uuid="h", parentUuid="e"),
    )
    assert texts(session) == ["go", "", "three", "one", "two", "done"]
    assert session.notes == ()


def test_results_that_come_between_the_pieces_follow_the_whole_answer() -> None:
    session = read(
        user("go"),
        piece("m1", call("c1", "Read", file_path="a")),
        result("c1", "one"),
        piece("m1", call("c2", "Read", file_path="b")),
        result("c2", "two"),
    )
    _, answer, *results = session.entries
    assert [each.call_id for each in answer.calls] == ["c1", "c2"]
    assert [(each.index, each.call_id, each.name) for each in results] == [
        (2, "c1", "Read"),
        (4, "c2", "Read"),
    ]


def test_what_hooks_noted_beside_the_branch_belongs_to_it() -> None:
    session = read(
        user("go", uuid="a"),
        piece("m1", call("c1", "Read"), uuid="b"),
        result("c1", "one", uuid="c"),
        {**attachment("hook_additional_context", content=["mind this"]), "uuid": "d", "parentUuid": "b"},
        piece("m2", text("done"), uuid="e", parentUuid="c"),
    )
    assert texts(session) == ["go", "", "one", "mind this", "done"]


def test_several_results_in_one_record_are_several_messages() -> None:
    blocks = [result(f"c{n}", f"r{n}")["message"]["content"][0] for n in (1, 2)]
    session = read(
        user("go"),
        piece("m1", call("c1", "Bash")),
        piece("m1", call("c2", "Bash")),
        user([*blocks, text("and hurry")], toolUseResult={"stdout": "r1"}),
        user("well?"),
    )
    assert texts(session) == ["go", "", "r1", "r2", "and hurry", "well?"]
    assert [entry.index for entry in session.entries] == [0, 1, 3, 4, 5, 6]


def test_a_call_without_a_result_stays_without_one() -> None:
    session = read(piece("m1", call("c1", "Bash")), user("stop"))
    assert [entry.type for entry in session.entries] == ["assistant", "user"]


def test_file_tools_touch_files_only_where_they_succeed() -> None:
    hunk = {"oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 2, "lines": [" same", "-old", "+new"]}
    session = read(
        piece("m1", call("c1", "Read", file_path="short/r.py")),
        result("c1", "1→a\n2→b", toolUseResult={"type": "text", "file": {"filePath": "/x/r.py"}}),
        piece("m2", call("c2", "Write", file_path="/x/w.py", content="1\n2\n3\n")),
        result("c2", toolUseResult={"type": "create", "filePath": "/x/w.py", "structuredPatch": []}),
        piece("m3", call("c3", "Edit", file_path="/x/e.py")),
        result("c3", toolUseResult={"filePath": "/x/e.py", "structuredPatch": [hunk]}),
        piece("m4", call("c4", "Edit", file_path="/x/no.py")),
        result("c4", "<tool_use_error>no</tool_use_error>", is_error=True, toolUseResult="Error: no"),
        piece("m5", call("c5", "NotebookEdit", notebook_path="/x/n.ipynb")),
        result("c5"),
        piece("m6", call("c6", "Grep", path="/x")),
        result("c6", toolUseResult={"filenames": ["/x/r.py"], "durationMs": 1500}),
    )
    results = [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]
    assert [touch for each in results for touch in each.details.files] == [
        FileTouch(path="/x/r.py", action="read"),
        FileTouch(path="/x/w.py", action="modified", added=3),
        FileTouch(path="/x/e.py", action="modified", added=1, removed=1),
        FileTouch(path="/x/n.ipynb", action="modified"),
    ]
    assert [each.details.brief for each in results] == [
        "2 lines",
        "3 lines",
        "+1 −1",
        "failed",
        "1 line",
        "1 line",
    ]
    assert results[2].details.diff == "--- /x/e.py\n+++ /x/e.py\n@@ -3,2 +3,2 @@\n same\n-old\n+new\n"
    assert results[5].details.seconds == 1.5


@pytest.mark.parametrize(
    ("said", "brief"),
    [
        ("Exit code 2\nno rule", "exit 2"),
        ("The user doesn't want to proceed with this tool use. The tool use was rejected", "not run"),
        ("<tool_use_error>Sibling tool call errored</tool_use_error>", "not run"),
        ("ENOENT", "failed"),
    ],
)
def test_errors_say_in_short_what_happened(said: str, brief: str) -> None:
    session = read(piece("m1", call("c1", "Bash")), result("c1", said, is_error=True))
    answer = session.entries[-1]
    assert isinstance(answer, ToolResultMessage)
    assert (answer.is_error, answer.text, answer.details.brief) == (True, said, brief)


def test_output_that_was_put_into_a_file_names_the_file() -> None:
    outcome = {"stdout": "x", "persistedOutputPath": "/out.txt"}
    session = read(piece("m1", call("c1", "Bash")), result("c1", toolUseResult=outcome))
    assert session.entries[-1].details.full_output == "/out.txt"


# --- what a file may be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "is_theirs"),
    [
        ({"type": "user", "uuid": "u", "parentUuid": None, "message": {}}, True),
        ({"type": "progress", "uuid": "u", "parentUuid": None}, True),
        ({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}, True),
        ({"type": "summary", "summary": "t", "leafUuid": "u"}, True),
        ({"type": "queue-operation", "operation": "enqueue", "sessionId": "s"}, True),
        ({"type": "session", "id": "i", "timestamp": "t", "cwd": "/"}, False),
        ({"type": "message", "id": "a", "parentId": None}, False),
        ({"type": "response_item", "payload": {}}, False),
        ({"type": "UserMessage", "data": {}}, False),
        ({"type": "user", "uuid": 3, "parentUuid": None}, False),
        ({"type": ["user"]}, False),
        ({"role": "user", "content": "hi"}, False),
        ({}, False),
    ],
)
def test_a_session_is_known_by_its_records(record: Record, is_theirs: bool) -> None:
    assert reader.recognises(JsonObject(record)) is is_theirs


@pytest.mark.parametrize("data", [b"", b"\0\0", b'{"a": 1}\n', b"[]\n", b"hello"])
def test_a_file_without_its_records_is_refused(data: bytes) -> None:
    with pytest.raises(FoldlineError, match=r"s\.jsonl has no record of Claude Code"):
        reader.read(data, Path("s.jsonl"))


def test_a_torn_tail_is_damage() -> None:
    session = read(user("one"), torn=b'{"type":"user","message":{"ro\0\0\0')
    assert texts(session) == ["one"]
    assert session.damage.lines == (2,)


def test_a_session_of_titles_alone_is_empty() -> None:
    session = read(beside("summary", summary="Of another", leafUuid="x"))
    assert texts(session) == []


BLOCK_KEYS = ("text", "thinking", "id", "name", "input", "source", "tool_use_id", "content", "is_error")
USER_KEYS = ("isMeta", "origin", "toolUseResult", "isCompactSummary", "planContent", "isSidechain")
RECORD_KEYS = ("timestamp", "cwd", "sessionId", "forkedFrom", "parentUuid", "level", "error")
TOLD_KEYS = ("preservedMessages", "preservedSegment", "preTokens", "userContext", "compactedToolIds")
ATTACHMENT_KEYS = ("content", "prompt", "path", "hookEvent", "text", "commandMode")


@pytest.mark.parametrize("junk", [None, 3, "x", [], [None, 3, "x", {}], {"a": 1}, True, 1e400, "\ud83d"])
def test_values_of_the_wrong_shape_are_never_an_error(junk: Any) -> None:
    odd, told = dict.fromkeys((*USER_KEYS, *RECORD_KEYS), junk), dict.fromkeys(TOLD_KEYS, junk)
    kinds = ("text", "thinking", "tool_use", "image", "tool_result", junk)
    blocks = [{**dict.fromkeys(BLOCK_KEYS, junk), "type": kind} for kind in kinds]
    for content in (junk, blocks):
        read(user("a"), user(content, **odd), user("b"))
        read(piece("m1", text("a")), {"type": "assistant", "message": {"id": "m1", "content": content}})
        read(piece("m1", text("a")), {"type": "assistant", "message": {"id": junk, "content": content}})
    usage = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_input_tokens"), junk)
    read(piece("m1", text("a"), usage=usage, stop_reason=junk, model=junk), {"type": junk, "message": junk})
    read(user("a"), boundary(**told), {**summary(), "message": junk}, user("b"))
    read(user("a"), {**boundary(), "compactMetadata": junk}, user("b", message=junk))
    for subtype in ("microcompact_boundary", "local_command", "api_error", junk):
        read(
            user("a"),
            {**odd, "type": "system", "subtype": subtype, "content": junk, "microcompactMetadata": told},
        )
    read(user("a"), beside("content-replacement", replacements=junk), beside("summary", leafUuid=junk))
    for kind in ("file", "nested_memory", "queued_command", "hook_success", junk):
        read(user("a"), attachment(kind, **dict.fromkeys(ATTACHMENT_KEYS, junk)))
    read(user("a"), {"type": "attachment", "attachment": junk})


def test_what_is_nested_very_deep_is_no_trouble() -> None:
    deep: Any = "x"
    for _ in range(50):
        deep = {"content": [deep]}
    assert texts(read(user("hi"), attachment("file", content=deep))) == ["hi"]


def test_usage_is_that_of_the_last_request_where_an_advisor_was_asked() -> None:
    first = {"type": "message", "input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 5}
    advice = {"type": "advisor_message", "input_tokens": 1500, "output_tokens": 300}
    last = {"type": "message", "input_tokens": 350, "cache_read_input_tokens": 1000, "output_tokens": 20}
    total = {"input_tokens": 450, "cache_read_input_tokens": 1900, "output_tokens": 25}
    told = {**total, "iterations": [first, advice, last]}
    [answer] = read(piece("m1", text("hi"), usage=told)).entries
    assert answer.usage == Usage(input=1350, cached=1000, output=20)


@pytest.mark.parametrize("odd", [None, [], [None], [{"type": "message"}], "x"])
def test_usage_without_requests_of_its_own_is_the_total(odd: Any) -> None:
    told = {"input_tokens": 7, "output_tokens": 3, "iterations": odd}
    [answer] = read(piece("m1", text("hi"), usage=told)).entries
    assert answer.usage == Usage(input=7, output=3)


def test_the_tools_that_a_search_found_are_its_result() -> None:
    found = [{"type": "tool_reference", "tool_name": "Lookup"}, {"type": "tool_reference"}]
    session = read(user("go"), piece("m1", call("c1", "ToolSearch", query="x")), result("c1", found))
    assert session.entries[-1].text == "(loaded the tool Lookup)"
    assert session.notes == (
        "Left out, pieces of messages of a kind that cannot be shown here: tool_reference (1).",
    )


def test_results_whose_calls_are_cut_off_are_counted() -> None:
    session = read(result("c1", "one", parentUuid="gone"), piece("m1", text("done")))
    assert texts(session) == ["done"]
    assert session.notes == ("Not in the view, results of tool calls that are not in the file: 1.",)
