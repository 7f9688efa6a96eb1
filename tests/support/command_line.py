"""Run the command line in tests, with its own home and folder."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foldline.cli import main
from foldline.history import Session
from foldline.protocol import Entry


@dataclass(frozen=True)
class CommandResult:
    """The output and exit status of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class CommandLine:
    """Runs commands in its own folder; `keep` stores sessions for them."""

    def __init__(
        self, home: Path, cwd: Path, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.home = home
        self.cwd = cwd
        self._capture = capture

    def __call__(self, *arguments: str | Path) -> CommandResult:
        self._capture.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = self._capture.readouterr()
        return CommandResult(code, out, err)

    def keep(
        self,
        entries: Sequence[Entry],
        session_id: str | None = None,
        cwd: Path | None = None,
    ) -> Path:
        """Store a session with these entries; return its folder."""
        kept = Session.create(cwd or self.cwd, home=self.home, session_id=session_id)
        asyncio.run(kept._commit(entries, durable=True))  # keeps the indices
        kept.close()
        assert kept.path is not None
        return kept.path.parent


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line without settings, keys or sessions of the person running the tests."""
    for name in list(os.environ):
        if (
            name.startswith(("FOLDLINE_", "OPENAI_"))
            and name != "FOLDLINE_SHARED_SESSIONS"
        ):
            monkeypatch.delenv(name)
    home, cwd = tmp_path / "home", tmp_path / "work"
    cwd.mkdir()
    monkeypatch.setenv("FOLDLINE_HOME", str(home))
    monkeypatch.chdir(cwd)
    return CommandLine(home, cwd, capsys)
