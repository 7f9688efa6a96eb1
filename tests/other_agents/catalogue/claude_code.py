"""Claude Code, a command for each prompt."""

import json
from pathlib import Path
from uuid import uuid4

from ..install import Npm
from ..wires import Json
from .base import Agent


class ClaudeCode(Agent):
    name = "claude-code"
    title = "Claude Code"
    version = "2.1.332"
    packages = Npm(("@anthropic-ai/claude-code@2.1.332",))
    can_rewind = True
    handoff = "claude-code"

    def set_up(self) -> None:
        self.place.set(
            {
                "ANTHROPIC_BASE_URL": self.place.address,
                "ANTHROPIC_API_KEY": "dummy",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1",
            }
        )

    def begin(self, session: str = "") -> None:
        self.session = session
        self._resume_at = ""

    def prompt(self, text: str) -> None:
        command = [
            "claude",
            "-p",
            text,
            "--dangerously-skip-permissions",
            "--model",
            "claude-sonnet-4-5",
        ]
        if self.session:
            command += ["--resume", self.session]
        else:
            self.session = str(uuid4())
            command += ["--session-id", self.session]
        if self._resume_at:
            command += ["--resume-session-at", self._resume_at]
            self._resume_at = ""
        self.place.run(*command)

    def compact(self) -> None:
        self.prompt("/compact")

    def rewind(self) -> None:
        """The next prompt continues after the answer before the last prompt."""
        rows = [json.loads(line) for line in self.path().read_text().splitlines()]
        rows = [
            row
            for row in rows
            if row.get("type") in ("user", "assistant") and not row.get("isSidechain")
        ]
        last = max(
            place
            for place, row in enumerate(rows)
            if row.get("promptId") and _is_prompt(row)
        )
        before = [row for row in rows[:last] if row["type"] == "assistant"]
        self._resume_at = before[-1]["uuid"]

    def path(self) -> Path:
        return self.place.newest(f".claude/projects/*/{self.session}.jsonl")


def _is_prompt(row: Json) -> bool:
    content = row["message"]["content"]
    text = (
        content
        if isinstance(content, str)
        else "".join(part.get("text", "") for part in content)
    )
    return row["type"] == "user" and text.startswith("Job ")
