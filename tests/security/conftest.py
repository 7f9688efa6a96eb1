"""The front door of a house of its own: no settings, keys or sessions of whoever runs the tests."""

import os
from pathlib import Path

import pytest

from support.front_door import FrontDoor


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> FrontDoor:
    for name in list(os.environ):
        if name.startswith(("FOLDLINE_", "OPENAI_")) and name != "FOLDLINE_SHARED_SESSIONS":
            monkeypatch.delenv(name)
    home, cwd = tmp_path / "home", tmp_path / "work"
    cwd.mkdir()
    monkeypatch.setenv("FOLDLINE_HOME", str(home))
    monkeypatch.chdir(cwd)
    return FrontDoor(home, cwd, capsys)
