"""A mistral-vibe 3 store, built from context messages and displayed messages."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class VibeStore:
    """Writes `CURRENT` and the files it names with their digests."""

    def __init__(
        self, folder: Path, context: list[Record], shown: list[Record], *journal: Record
    ) -> None:
        self.folder = folder
        self.journal = list(journal)
        self.usage: Record = {}
        self.runtime: Record = {"session_metadata": {"cwd": "/w"}}
        self._chunks = {
            "checkpoint": [context[:2], context[2:]],
            "projection_state": [shown],
        }

    def write(self) -> Path:
        """Write the store; return the path of `CURRENT`."""
        session = {"contextUsage": self.usage}
        documents: dict[str, Record] = {
            "checkpoint": {"context": {"messages": []}},
            "projection_state": {
                "snapshot": {"history": {"entries": []}, "session": session}
            },
            "runtime_state": self.runtime,
        }
        manifest: Record = {
            "recovery_journal_segment": {"path": "journal/0000000000000008.jsonl"}
        }
        for name, document in documents.items():
            chunks = [
                self._put(f"chunks/{_digest(_json(chunk))}.json", chunk)
                for chunk in self._chunks.get(name, [])
            ]
            file = f"{name.replace('_', '-')}.json"
            digest = self._put(f"generations/0000000000000007/{file}", document)
            manifest[name] = {"path": file, "sha256": digest, "chunks": chunks}
        digest = self._put("generations/0000000000000007/manifest.json", manifest)
        about = {
            "environment": {"working_directory": "/w"},
            "config": {"model_name": "devstral"},
            "title": "Look",
        }
        self._put("meta.json", {**about, "start_time": "2026-01-02T03:04:05+00:00"})
        journal = self.folder / manifest["recovery_journal_segment"]["path"]
        journal.parent.mkdir(exist_ok=True)
        journal.write_bytes(b"".join(self._records()))
        current = {
            "store_format": "mistral.vibe.unified-session-store/v1",
            "session_id": "v1",
        }
        self._put(
            "CURRENT",
            {**current, "generation": "0000000000000007", "manifest_sha256": digest},
        )
        return self.folder / "CURRENT"

    def _records(self) -> list[bytes]:
        lines: list[bytes] = []
        before = None
        for number, record in enumerate(self.journal, start=8):
            body = _json(
                {**record, "previous_record_sha256": before, "sequence": number}
            )
            before = _digest(body)
            lines.append(body[:-1] + b',"record_sha256":"' + before.encode() + b'"}\n')
        return lines

    def _put(self, name: str, value: Any) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_json(value) + b"\n")
        return _digest(_json(value))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


# --- the context ---------------------------------------------------------------------------------------


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def message(
    role: str, *content: Record, source: str = "history", **about: Any
) -> Record:
    return {
        "message": {"role": role, "content": list(content), **about},
        "source": source,
    }


def prompt(words: str) -> Record:
    return message("user", text(words))


def call(call_id: str, path: str) -> Record:
    arguments = {"raw": json.dumps({"path": path}), "type": "json"}
    return {
        "type": "tool_call",
        "id": call_id,
        "name": "read_file",
        "arguments": arguments,
    }


def result(call_id: str, words: str, outcome: str = "success") -> Record:
    return message(
        "tool", text(words), tool_call_id=call_id, name="read_file", outcome=outcome
    )


def compacted_context(summary: str, *prompts: Record) -> list[Record]:
    """Return the context after a compaction."""
    opening = message(
        "user", text("Before: <previous_user_messages>"), source="injection"
    )
    words = (
        f"</previous_user_messages> <compaction_summary>{summary}</compaction_summary>"
    )
    return [opening, *prompts, message("user", text(words), source="injection")]


# --- what was shown ------------------------------------------------------------------------------------


def displayed(role: str, words: str, second: int = 0) -> Record:
    at = 1_767_323_045_000 + 1000 * second
    return {
        "type": "message",
        "id": f"{role}-{words}",
        "role": role,
        "content": [text(words)],
        "createdAt": at,
    }


def effect(path: str, output: Record, status: str = "completed") -> Record:
    detail = {"toolName": "file_system.read_file", "input": {"path": path}}
    return {
        "type": "effect",
        "id": f"effect-{path}",
        "detail": detail,
        "state": {"status": status, "output": output},
    }


def checkpoint(kind: str, identity: str = "1") -> Record:
    return {
        "type": "checkpoint",
        "kind": kind,
        "id": f"{kind}-{identity}",
        "message": f"Context {kind}.",
    }


# --- the journal ---------------------------------------------------------------------------------------


def request(*messages: Record, kind: str = "append") -> Record:
    arguments = {"messages": [message["message"] for message in messages], "type": kind}
    body = {"purpose": "agent", "model_input": {"messages": arguments}}
    return {"payload": {"request": body}, "type": "action_intent"}


def answer_record(*parts: Record) -> Record:
    return {
        "payload": {"result": {"result": {"parts": list(parts)}}},
        "type": "action_result",
    }


def tool_record(call_id: str, output: Record, kind: str = "tool_succeeded") -> Record:
    return {
        "payload": {"result": {"call_id": call_id, "type": kind, "result": output}},
        "type": "action_result",
    }
