"""Builders of Claude Code records, and a checked `read`."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

from foldline.formats import ForeignSession
from foldline.formats.readers.claude_code import reader
from foldline.protocol import Compaction, dump_entry, parse_entry
from foldline.view.projection import project
from foldline.view.rules import broken

Record = dict[str, Any]
PICTURE: Record = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="},
}


def lines_of(*records: Record | bytes) -> bytes:
    """Return a file of these records; by default each is the child of the previous one."""
    lines, parent = [], None
    for place, source in enumerate(records):
        if isinstance(source, bytes):
            lines.append(source)
            continue
        record = {
            "uuid": f"u{place}",
            "parentUuid": parent,
            "sessionId": "s-1",
            "cwd": "/x",
            **source,
        }
        record.setdefault("timestamp", "2026-01-02T03:04:05.678Z")
        if record["uuid"] is None:
            del record["uuid"], record["parentUuid"]
        else:
            parent = record["uuid"]
        lines.append(json.dumps(record).encode())
    return b"".join(line + b"\n" for line in lines)


def read(*records: Record | bytes, torn: bytes = b"") -> ForeignSession:
    """Read a file of these records and check the result.

    It must be writable, and its projection must satisfy every invariant.
    """
    session = reader.read(lines_of(*records) + torn, Path("session.jsonl"))
    indices = [entry.index for entry in session.entries]
    assert indices == sorted(set(indices))
    for line in map(dump_entry, session.entries):
        assert dump_entry(parse_entry(line)) == line
    assert broken(project(session.entries)) == []
    return session


def user(content: Any, **fields: Any) -> Record:
    return {"type": "user", "message": {"role": "user", "content": content}, **fields}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def call(call_id: str, name: str, **arguments: Any) -> Record:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def piece(answer: str, block: Record, **fields: Any) -> Record:
    """One of the records of an answer."""
    message_fields = {
        key: fields.pop(key)
        for key in ("usage", "stop_reason", "model")
        if key in fields
    }
    return {
        "type": "assistant",
        "message": {
            "id": answer,
            "role": "assistant",
            "content": [block],
            **message_fields,
        },
        **fields,
    }


def result(
    call_id: str, content: Any = "ok", *, is_error: bool = False, **fields: Any
) -> Record:
    block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content,
        "is_error": is_error,
    }
    return user([block], **fields)


def attachment(kind: str, **fields: Any) -> Record:
    return {"type": "attachment", "attachment": {"type": kind, **fields}}


def outside_tree(kind: str, **fields: Any) -> Record:
    """A record outside the message tree."""
    return {"type": kind, "uuid": None, **fields}


def boundary(**metadata: Any) -> Record:
    return {
        "type": "system",
        "subtype": "compact_boundary",
        "parentUuid": None,
        "compactMetadata": {"trigger": "auto", **metadata},
    }


def summary(words: str = "so far", **fields: Any) -> Record:
    return user(words, isCompactSummary=True, isVisibleInTranscriptOnly=True, **fields)


def texts(session: ForeignSession) -> list[str]:
    return [item.message.text for item in project(session.entries).view]


def compaction_of(session: ForeignSession) -> Compaction:
    return next(
        entry for entry in reversed(session.entries) if isinstance(entry, Compaction)
    )


def microcompact(*calls: str) -> Record:
    metadata = {"trigger": "auto", "preTokens": 50, "compactedToolIds": list(calls)}
    return {
        "type": "system",
        "subtype": "microcompact_boundary",
        "microcompactMetadata": metadata,
    }


# --- requests ---------------------------------------------------------------------------------------


def rendered(kind: str, *texts: str, role: str = "user", **fields: Any) -> Record:
    """An attachment with its text as sent to the model."""
    payload = {
        "rendered": [{"content": words} for words in texts],
        "renderedRole": role,
    }
    return {**attachment(kind, **fields), **payload}


def note(words: str) -> str:
    return f"<system-reminder>\n{words}\n</system-reminder>"


def request_message(role: str, *content: Any) -> Record:
    """A message of a request, of texts or other blocks."""
    return {
        "role": role,
        "content": [
            text(block) if isinstance(block, str) else block for block in content
        ],
    }


def digest(value: Any) -> str:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(data.encode()).hexdigest()


def blob(message: Record) -> Record:
    return outside_tree("api-request-blob", hash=digest(message), message=message)


def request(
    name: str,
    *messages: Record,
    system: str = "Be useful.",
    base: str = "",
    keep: int = 0,
    marked: int = -1,
) -> list[Record]:
    """The records of a request, without its content blobs.

    The message at index `marked` has a cache marker.
    """
    shape = {"system": [text(system)], "tools": [{"name": "Read"}]}
    sent = copy.deepcopy(list(messages))
    marks = []
    if marked >= 0:
        sent[marked]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        path = ["messages", marked, "content", len(sent[marked]["content"]) - 1]
        marks = [{"path": path, "value": {"type": "ephemeral"}}]
    parameters = {"model": "claude-x", "max_tokens": 9}
    return [
        outside_tree("api-request-shape", shapeHash=digest(shape), shape=shape),
        outside_tree(
            "api-request",
            id=name,
            params=parameters,
            shapeHash=digest(shape),
            keep=keep,
            tail=[digest(message) for message in messages[keep:]],
            cacheControl=marks,
            requestDigest=digest({**parameters, **shape, "messages": sent}),
            **({"base": base} if base else {}),
        ),
    ]
