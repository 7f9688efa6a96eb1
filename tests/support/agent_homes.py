"""The home folder of a user of other agents, with sessions where those agents would have put them."""

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
    """Puts files below a home folder, which commands and readers then take for the user's."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self._written = 0
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(home))

    def put(self, place: str, *records: Any, torn: bytes = b"") -> Path:
        """A file of these records, each newer than the one before."""
        lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
        return self.write(place, b"".join(line + b"\n" for line in lines) + torn)

    def write(self, place: str, data: bytes) -> Path:
        path = self.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._written += 1
        os.utime(path, (1_800_000_000 + self._written, 1_800_000_000 + self._written))
        return path

    def claude_code(
        self, *records: dict[str, Any], folder: str = ".claude/projects/-x", name: str = ""
    ) -> Path:
        name = name or UUID.format(self._written)
        return self.put(f"{folder}/{name}.jsonl", *chained(records))

    def codex(self, *rows: dict[str, Any], day: str = ".codex/sessions/2026/01/02", meta: Any = None) -> Path:
        name = f"rollout-2026-01-02T03-04-05-{UUID.format(self._written)}"
        return self.put(f"{day}/{name}.jsonl", meta or META, *rows)

    def pi(self, *records: dict[str, Any], folder: str = ".pi/agent/sessions/--x--") -> Path:
        name = UUID.format(self._written)
        head = {"type": "session", "version": 3, "id": name, "timestamp": "2026-01-02T03:04:05Z", "cwd": "/x"}
        return self.put(f"{folder}/2026-01-02T03-04-05-678Z_{name}.jsonl", head, *records)

    def kimi(
        self, *records: dict[str, Any], cwd: str = "/x", session: str = "k1", file: str = "context"
    ) -> Path:
        folder = md5(cwd.encode(), usedforsecurity=False).hexdigest()
        self.put(".kimi/kimi.json", {"work_dirs": [{"path": cwd}]})
        return self.put(f".kimi/sessions/{folder}/{session}/{file}.jsonl", *records)

    def klaude(self, *records: dict[str, Any], session: str = "abc", **meta: Any) -> Path:
        folder = f".klaude/projects/-x/sessions/{session}"
        self.put(f"{folder}/meta.json", {"id": session, "work_dir": "/x", **meta})
        return self.put(f"{folder}/events.jsonl", *records)


def chained(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of Claude Code, each the child of the one before."""
    made: list[dict[str, Any]] = []
    for place, record in enumerate(records):
        parent = f"u{place - 1}" if place else None
        about = {"uuid": f"u{place}", "parentUuid": parent, "sessionId": "s", "cwd": "/x"}
        made.append({**about, "timestamp": "2026-01-02T03:04:05Z", **record})
    return made


def said(text: str) -> dict[str, Any]:
    """A prompt to Claude Code."""
    return user(text)


def only(agent: str) -> FoundSession:
    """The one session that is found of an agent."""
    (found,) = found_sessions([agent])
    return found
