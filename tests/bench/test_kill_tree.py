"""Repeated `kill -9` of a session with subagents.

Each history of the tree stays intact, there are no orphans, and the model is told of each subagent killed.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.history import Session
from foldline.protocol import UserMessage, text_parts
from support.trees import check_reports, check_tree

ROUNDS = int(os.environ.get("FOLDLINE_KILL_TREE_ROUNDS", "100"))
VICTIM = Path(__file__).parents[1] / "support" / "tree_victim.py"
LONGEST = 1.2
"""Longest life of a process in seconds: enough for a dozen subagents."""
FRESH_EVERY = 10
"""Rounds per session."""


def begun(folder: Path, home: Path) -> Path:
    """Create a session with one entry; return its event file."""
    session = Session.create(folder, home=home)
    asyncio.run(session.append(UserMessage(parts=text_parts("begin")), durable=True))
    session.close()
    assert session.path is not None
    return session.path


def test_killed_again_and_again_each_history_of_the_tree_is_whole(
    benchmark: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "home"))
    children = benchmark.pedantic(lambda: campaign(tmp_path), rounds=1)  # type: ignore[attr-defined]
    print(f"{ROUNDS} rounds, up to {children} children in one session")
    assert children > 0


def campaign(tmp_path: Path) -> int:
    """Return the largest number of subagents of a session."""
    chance = random.Random(2026)
    folder = tmp_path / "project"
    folder.mkdir()
    events, children = begun(folder, tmp_path / "home"), 0
    for number in range(ROUNDS):
        if number and number % FRESH_EVERY == 0:
            events = begun(folder, tmp_path / "home")
        command = [sys.executable, str(VICTIM), str(events), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, LONGEST))
            assert victim.poll() is None, "it ended by itself"
            victim.kill()
        children = max(children, check_tree(events, torn=True) - 1)
        if number % FRESH_EVERY % 3 == 2:
            asyncio.run(check_reports(events))
    return children
