"""A home folder with sessions of other agents in their usual places."""

import json
import os
from collections.abc import Iterable
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from foldline.formats.session_list import FoundSession, found_sessions

from .claude_code_rows import user
from .codex_rows import META

VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "KIMI_CODE_HOME",
    "KIMI_SHARE_DIR",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "QWEN_HOME",
    "QWEN_RUNTIME_DIR",
    "VIBE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)
UUID = "0a1b2c3d-1111-4222-8333-44445555{:04}"


class AgentHomes:
    """Writes session files below a home folder and sets it as the user's home."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self._written = 0
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(home))

    def put(self, place: str, *records: Any, torn: bytes = b"") -> Path:
        """Write a file of these records, newer than the previous file."""
        lines = [
            record if isinstance(record, bytes) else json.dumps(record).encode()
            for record in records
        ]
        return self.write(place, b"".join(line + b"\n" for line in lines) + torn)

    def write(self, place: str, data: bytes) -> Path:
        path = self.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._written += 1
        os.utime(path, (1_800_000_000 + self._written, 1_800_000_000 + self._written))
        return path

    def claude_code(
        self,
        *records: dict[str, Any],
        folder: str = ".claude/projects/-x",
        name: str = "",
    ) -> Path:
        name = name or UUID.format(self._written)
        return self.put(f"{folder}/{name}.jsonl", *chain_records(records))

    def codex(
        self,
        *rows: dict[str, Any],
        day: str = ".codex/sessions/2026/01/02",
        meta: Any = None,
    ) -> Path:
        name = f"rollout-2026-01-02T03-04-05-{UUID.format(self._written)}"
        return self.put(f"{day}/{name}.jsonl", meta or META, *rows)

    def pi(
        self, *records: dict[str, Any], folder: str = ".pi/agent/sessions/--x--"
    ) -> Path:
        name = UUID.format(self._written)
        head = {
            "type": "session",
            "version": 3,
            "id": name,
            "timestamp": "2026-01-02T03:04:05Z",
            "cwd": "/x",
        }
        return self.put(
            f"{folder}/2026-01-02T03-04-05-678Z_{name}.jsonl", head, *records
        )

    def kimi(
        self,
        *records: dict[str, Any],
        cwd: str = "/x",
        session: str = "k1",
        file: str = "context",
    ) -> Path:
        folder = md5(cwd.encode(), usedforsecurity=False).hexdigest()
        self.put(".kimi/kimi.json", {"work_dirs": [{"path": cwd}]})
        return self.put(f".kimi/sessions/{folder}/{session}/{file}.jsonl", *records)

    def klaude(
        self, *records: dict[str, Any], session: str = "abc", **meta: Any
    ) -> Path:
        folder = f".klaude/projects/-x/sessions/{session}"
        self.put(f"{folder}/meta.json", {"id": session, "work_dir": "/x", **meta})
        return self.put(f"{folder}/events.jsonl", *records)


def chain_records(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Link Claude Code records: each is the child of the previous one."""
    linked: list[dict[str, Any]] = []
    for place, record in enumerate(records):
        parent = f"u{place - 1}" if place else None
        about = {
            "uuid": f"u{place}",
            "parentUuid": parent,
            "sessionId": "s",
            "cwd": "/x",
        }
        linked.append({**about, "timestamp": "2026-01-02T03:04:05Z", **record})
    return linked


def claude_prompt(text: str) -> dict[str, Any]:
    """Return a Claude Code record of a prompt."""
    return user(text)


def only_session(agent: str) -> FoundSession:
    """Return the single session found for an agent."""
    (session,) = found_sessions([agent])
    return session
