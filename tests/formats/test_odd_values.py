"""Files of other agents in which any one value is of a kind that nobody would write."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import FORMATS, read_foreign
from foldline.protocol import FoldlineError, dump_entry, parse_entry
from formats.readers.test_kimi_spine import RECEIPT, Spine
from support import claude_code_rows as claude
from support import codex_rows as codex
from support.foreign import faults

HUGE = 10**400
NESTED: Any = json.loads("[" * 150 + "]" * 150)
ODD = (
    HUGE,
    -HUGE,
    float("nan"),
    float("inf"),
    -1,
    2.5,
    True,
    None,
    "",
    "x",
    [],
    {},
    [None],
    NESTED,
)
CHANGES = 60
"""Of each session, with one odd value each."""


def _claude() -> list[Any]:
    records = [
        claude.user("hi"),
        claude.piece(
            "m",
            claude.call("c", "Read", file_path="a"),
            usage={"input_tokens": 9, "iterations": []},
        ),
        claude.result(
            "c",
            [{"type": "tool_reference", "tool_name": "x"}],
            toolUseResult={"durationMs": 3},
        ),
        claude.boundary(
            preTokens=5, preservedMessages={"anchorUuid": "u0", "uuids": ["u1"]}
        ),
        claude.summary(),
    ]
    links = [
        {"uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None}
        for n in range(len(records))
    ]
    return [
        {**link, "sessionId": "s", "cwd": "/x", **record}
        for link, record in zip(links, records, strict=True)
    ]


def _codex() -> list[Any]:
    changes = {"a": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b"}}
    items = {"type": "FileChange", "id": "c", "changes": changes, "status": "completed"}
    base = {"thread_id": "aaaa-1", "end_byte_offset": 9, "end_ordinal_exclusive": 3}
    meta = {**codex.META, "payload": {**codex.META["payload"], "history_base": base}}
    return [
        meta,
        *codex.prompt("hi"),
        codex.call("c", cmd="ls"),
        codex.event("item_completed", item=items),
        codex.output(
            "c", {"output": "ok", "metadata": {"exit_code": 1, "duration_seconds": 2}}
        ),
        codex.usage(9),
        codex.compaction_row(
            codex.message_row("user", "hi"), codex.SEALED, message="so far"
        ),
        codex.rolled_back(1),
    ]


def _pi() -> list[Any]:
    usage = {"input": 3, "output": 2, "cacheRead": 1, "cost": {"total": 1}}
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}
    messages = [
        {"role": "user", "content": "hi", "timestamp": 5},
        {
            "role": "assistant",
            "content": [call],
            "usage": usage,
            "stopReason": "toolUse",
        },
        {
            "role": "toolResult",
            "toolCallId": "c",
            "content": [],
            "details": {"wallTimeMs": 4},
        },
        {"role": "bashExecution", "command": "ls", "exitCode": 1},
    ]
    ids = [
        {"id": f"i{n}", "parentId": f"i{n - 1}" if n else None}
        for n in range(len(messages))
    ]
    compaction = {
        "type": "compaction",
        "id": "f",
        "parentId": "i3",
        "summary": "s",
        "firstKeptEntryId": "i1",
    }
    header = {
        "type": "session",
        "id": "p",
        "timestamp": "2026-01-02T03:04:05Z",
        "cwd": "/x",
        "version": 3,
    }
    records = [
        {"type": "message", **link, "message": each}
        for link, each in zip(ids, messages, strict=True)
    ]
    return [
        header,
        *records,
        {**compaction, "tokensBefore": 9},
        {"type": "session_init", "systemPrompt": "Be."},
    ]


def _kimi_code() -> list[Any]:
    code = Spine()
    code.user("one").moves("spine_open", RECEIPT, summary="a").answer("in a", "r")
    code.moves("spine_close", memory="A.").add(
        "spine.close", id="1", closedAt=3, memory="B."
    )
    code.records.append({"type": "llm.request", "kind": "loop", "messageCount": 3})
    return (
        code.compaction(compactedCount=1, keptUserMessageCount=1)
        .add("context.undo", count=1)
        .records
    )


def _kimi() -> list[Any]:
    return [
        {"role": "_system_prompt", "content": "Be."},
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": "yes",
            "tool_calls": [{"id": "c", "function": {"name": "Shell"}}],
        },
        {"role": "_usage", "token_count": 12},
        {"role": "tool", "content": "ok", "tool_call_id": "c"},
    ]


def _klaude() -> list[Any]:
    parts = [{"type": "text", "text": "hi"}]
    usage = {"input_tokens": 3, "output_tokens": 2}
    return [
        {"type": "UserMessage", "data": {"parts": parts, "created_at": "2026-01-02"}},
        {
            "type": "AssistantMessage",
            "data": {"parts": parts, "usage": usage, "stop_reason": "stop"},
        },
        {
            "type": "CompactionEntry",
            "data": {"summary": "s", "first_kept_index": 1, "tokens_before": 3},
        },
        {"type": "RewindEntry", "data": {"checkpoint_id": 0, "note": "n"}},
    ]


def _opencode() -> list[Any]:
    tokens = {"input": 3, "output": 2, "reasoning": 1, "cache": {"read": 1, "write": 1}}
    state = {
        "status": "completed",
        "input": {"filePath": "a"},
        "output": "o",
        "time": {"compacted": 5},
    }
    tool = {"type": "tool", "tool": "read", "callID": "c", "state": state}
    info = {
        "id": "s",
        "directory": "/x",
        "title": "t",
        "time": {"created": 5},
        "revert": {"messageID": "m9"},
    }
    messages = [
        {
            "info": {"id": "m1", "role": "user", "time": {"created": 5}},
            "parts": [{"type": "text", "text": "hi"}],
        },
        {"info": {"id": "m2", "role": "assistant", "tokens": tokens}, "parts": [tool]},
        {
            "info": {"id": "m3", "role": "user"},
            "parts": [{"type": "compaction", "tail_start_id": "m2"}],
        },
        {
            "info": {
                "id": "m4",
                "role": "assistant",
                "summary": True,
                "finish": "stop",
                "parentID": "m3",
            },
            "parts": [{"type": "text", "text": "so far"}],
        },
    ]
    return [{"info": info, "messages": messages}]


def _copilot() -> list[Any]:
    call = {"toolCallId": "c", "name": "edit", "arguments": {"path": "a"}}
    usage = {"usage": {"inputTokens": 9, "outputTokens": 1, "apiCallId": "r"}}
    ran = {
        "toolCallId": "c",
        "success": True,
        "result": {"content": "ok"},
        "shellExecution": {"exitCode": 1},
    }
    events: list[tuple[str, dict[str, Any]]] = [
        (
            "session.start",
            {
                "sessionId": "s",
                "startTime": "2026-01-02T03:04:05Z",
                "context": {"cwd": "/x"},
            },
        ),
        (
            "user.message",
            {
                "content": "hi",
                "transformedContent": "now hi",
                "attachments": [{"type": "blob"}],
            },
        ),
        ("system.message", {"content": "Be."}),
        ("session.usage_record", usage),
        (
            "assistant.message",
            {"content": "yes", "toolRequests": [call], "apiCallId": "r"},
        ),
        ("tool.execution_start", {"toolCallId": "c"}),
        ("tool.execution_complete", ran),
        ("session.compaction_start", {}),
        (
            "session.compaction_complete",
            {"summaryContent": "s", "preCompactionTokens": 5},
        ),
        (
            "subagent.started",
            {"toolCallId": "c", "agentName": "explore", "parentToolCallId": "c"},
        ),
    ]
    return [
        {
            "type": kind,
            "data": data,
            "id": "e",
            "parentId": None,
            "timestamp": "2026-01-02T03:04:05Z",
        }
        for kind, data in events
    ]


def _openai() -> list[Any]:
    response = {
        "model": "m",
        "usage": {"prompt_tokens": 3},
        "choices": [{"finish_reason": "stop"}],
    }
    return [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "yes",
            "extra": {"timestamp": 5, "response": response},
        },
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": "ok",
            "extra": {"returncode": 1},
        },
    ]


SESSIONS = {
    "claude-code": _claude,
    "codex": _codex,
    "copilot": _copilot,
    "pi": _pi,
    "kimi-cli": _kimi,
    "kimi-code": _kimi_code,
    "klaude-code": _klaude,
    "opencode": _opencode,
    "openai": _openai,
}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a value, with each of its keys."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", SESSIONS)
def test_an_odd_value_anywhere_is_no_error_of_ours(tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    path = tmp_path / "session.jsonl"
    for _ in range(CHANGES):
        records = json.loads(json.dumps(SESSIONS[name]()))
        container, key = chance.choice(list(places(records)))
        container[key] = chance.choice(ODD)
        path.write_text("\n".join(map(json.dumps, records)))
        for format in (None, name if name in FORMATS else "kimi-cli"):
            try:
                session = read_foreign(path, format)
            except FoldlineError:
                continue
            assert faults(session) == [], records
            for line in map(dump_entry, session.entries):
                assert dump_entry(parse_entry(line)) == line


def test_a_count_of_400_digits_is_none(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    records = [
        codex.META,
        *codex.prompt("hi"),
        *codex.answer("1"),
        codex.usage(HUGE, input=HUGE),
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    [answer] = [
        entry for entry in read_foreign(path).entries if entry.type == "assistant"
    ]
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (0, 3)


def test_the_sessions_here_are_read_without_an_odd_value(tmp_path: Path) -> None:
    for name, made in SESSIONS.items():
        path = tmp_path / "session.jsonl"
        path.write_text("\n".join(map(json.dumps, made())))
        assert faults(read_foreign(path)) == [], name
