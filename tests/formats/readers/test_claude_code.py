"""Reading the sessions of Claude Code, on small files made here: messages, calls, results."""

from pathlib import Path
from typing import Any

import pytest

from foldline.formats.base import JsonObject
from foldline.formats.readers.claude_code import reader
from foldline.protocol import (
    FoldlineError,
    ToolResultMessage,
    Usage,
)
from support.claude_code_rows import (
    Record,
    attachment,
    boundary,
    call,
    outside_tree,
    piece,
    read,
    result,
    summary,
    text,
    texts,
    user,
)


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


# --- calls and results ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "brief"),
    [
        ("Exit code 2\nno rule", "exit 2"),
        (
            "The user doesn't want to proceed with this tool use. The tool use was rejected",
            "not run",
        ),
        ("<tool_use_error>Sibling tool call errored</tool_use_error>", "not run"),
        ("ENOENT", "failed"),
    ],
)
def test_errors_say_in_short_what_happened(said: str, brief: str) -> None:
    session = read(piece("m1", call("c1", "Bash")), result("c1", said, is_error=True))
    answer = session.entries[-1]
    assert isinstance(answer, ToolResultMessage)
    assert (answer.is_error, answer.text, answer.details.brief) == (True, said, brief)


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
    with pytest.raises(FoldlineError, match=r"s\.jsonl has no Claude Code records"):
        reader.read(data, Path("s.jsonl"))


BLOCK_KEYS = (
    "text",
    "thinking",
    "id",
    "name",
    "input",
    "source",
    "tool_use_id",
    "content",
    "is_error",
)
USER_KEYS = (
    "isMeta",
    "origin",
    "toolUseResult",
    "isCompactSummary",
    "planContent",
    "isSidechain",
)
RECORD_KEYS = (
    "timestamp",
    "cwd",
    "sessionId",
    "forkedFrom",
    "parentUuid",
    "level",
    "error",
)
TOLD_KEYS = (
    "preservedMessages",
    "preservedSegment",
    "preTokens",
    "userContext",
    "compactedToolIds",
)
ATTACHMENT_KEYS = ("content", "prompt", "path", "hookEvent", "text", "commandMode")


@pytest.mark.parametrize(
    "junk", [None, 3, "x", [], [None, 3, "x", {}], {"a": 1}, True, 1e400, "\ud83d"]
)
def test_values_of_the_wrong_shape_are_never_an_error(junk: Any) -> None:
    odd, told = (
        dict.fromkeys((*USER_KEYS, *RECORD_KEYS), junk),
        dict.fromkeys(TOLD_KEYS, junk),
    )
    kinds = ("text", "thinking", "tool_use", "image", "tool_result", junk)
    blocks = [{**dict.fromkeys(BLOCK_KEYS, junk), "type": kind} for kind in kinds]
    for content in (junk, blocks):
        read(user("a"), user(content, **odd), user("b"))
        read(
            piece("m1", text("a")),
            {"type": "assistant", "message": {"id": "m1", "content": content}},
        )
        read(
            piece("m1", text("a")),
            {"type": "assistant", "message": {"id": junk, "content": content}},
        )
    usage = dict.fromkeys(
        ("input_tokens", "output_tokens", "cache_read_input_tokens"), junk
    )
    read(
        piece("m1", text("a"), usage=usage, stop_reason=junk, model=junk),
        {"type": junk, "message": junk},
    )
    read(user("a"), boundary(**told), {**summary(), "message": junk}, user("b"))
    read(user("a"), {**boundary(), "compactMetadata": junk}, user("b", message=junk))
    for subtype in ("microcompact_boundary", "local_command", "api_error", junk):
        read(
            user("a"),
            {
                **odd,
                "type": "system",
                "subtype": subtype,
                "content": junk,
                "microcompactMetadata": told,
            },
        )
    read(
        user("a"),
        outside_tree("content-replacement", replacements=junk),
        outside_tree("summary", leafUuid=junk),
    )
    for kind in ("file", "nested_memory", "queued_command", "hook_success", junk):
        read(user("a"), attachment(kind, **dict.fromkeys(ATTACHMENT_KEYS, junk)))
    read(user("a"), {"type": "attachment", "attachment": junk})


def test_what_is_nested_very_deep_is_no_trouble() -> None:
    deep: Any = "x"
    for _ in range(50):
        deep = {"content": [deep]}
    assert texts(read(user("hi"), attachment("file", content=deep))) == ["hi"]


@pytest.mark.parametrize("odd", [None, [], [None], [{"type": "message"}], "x"])
def test_usage_without_requests_of_its_own_is_the_total(odd: Any) -> None:
    told = {"input_tokens": 7, "output_tokens": 3, "iterations": odd}
    [answer] = read(piece("m1", text("hi"), usage=told)).entries
    assert answer.usage == Usage(input=7, output=3)
