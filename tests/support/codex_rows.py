"""Builders of rows of Codex sessions."""

import json
from pathlib import Path
from typing import Any

from foldline.formats import ForeignSession
from foldline.formats.readers.codex import reader
from foldline.protocol import dump_entry, parse_entry

Row = dict[str, Any]
META: Row = {
    "timestamp": "2026-01-02T03:04:05.678Z",
    "type": "session_meta",
    "payload": {
        "id": "cx-1",
        "timestamp": "2026-01-02T03:04:05Z",
        "cwd": "/x",
        "model_provider": "openai",
    },
}


def read_rows(*rows: Row | bytes, header: Row = META) -> ForeignSession:
    """Read a session of these rows, and check that its entries round-trip."""
    lines = [
        row if isinstance(row, bytes) else json.dumps(row).encode()
        for row in (header, *rows)
    ]
    session = reader.read(
        b"".join(line + b"\n" for line in lines), Path("/x/rollout-1.jsonl")
    )
    for entry in session.entries:
        assert parse_entry(dump_entry(entry)) == entry
    return session


def row(kind: str, **payload: Any) -> Row:
    return {"timestamp": "2026-01-02T03:04:06Z", "type": kind, "payload": payload}


def item(kind: str, **fields: Any) -> Row:
    return row("response_item", type=kind, **fields)


def event(kind: str, **fields: Any) -> Row:
    return row("event_msg", type=kind, **fields)


def message_row(role: str, *texts: str) -> Row:
    """A message by the user, the developer or the system."""
    return item(
        "message",
        role=role,
        content=[{"type": "input_text", "text": text} for text in texts],
    )


def prompt(text: str) -> list[Row]:
    """A prompt: recorded twice, as Codex does."""
    return [message_row("user", text), event("user_message", message=text, images=[])]


def answer(text: str) -> list[Row]:
    content = [{"type": "output_text", "text": text}]
    return [
        event("agent_message", message=text),
        item("message", role="assistant", content=content),
    ]


def call(call_id: str, name: str = "exec_command", **arguments: Any) -> Row:
    return item(
        "function_call", call_id=call_id, name=name, arguments=json.dumps(arguments)
    )


def output(call_id: str, text: Any = "ok") -> Row:
    return item("function_call_output", call_id=call_id, output=text)


def usage(
    total: int,
    *,
    input: int = 10,
    cached: int = 4,
    output: int = 3,
    reasoning: int = 2,
    window: int = 0,
) -> Row:
    """The token usage of the last request; `total` is that of the session."""
    last = {
        "input_tokens": input,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": input + output,
    }
    info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}}
    if window:
        info["model_context_window"] = window
    return event("token_count", info=info)


def rolled_back(turns: int) -> Row:
    return event("thread_rolled_back", num_turns=turns)


def compaction_row(*items: Row, message: str = "") -> Row:
    """A compaction with the items of the new context."""
    return row(
        "compacted",
        message=message,
        replacement_history=[item["payload"] for item in items],
    )


SEALED = item("compaction", encrypted_content="gAAAA")
