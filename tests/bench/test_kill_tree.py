"""`kill -9` of a session with subagents, again and again: each history of the tree is whole, no orphans,
and the model hears of each that was killed with it."""

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
from support.trees import check_told, check_tree

ROUNDS = int(os.environ.get("FOLDLINE_KILL_TREE_ROUNDS", "100"))
VICTIM = Path(__file__).parents[1] / "support" / "tree_victim.py"
LONGEST = 1.2
"""Seconds a process works at most: a dozen children."""
FRESH_EVERY = 10
"""Rounds after which another session is begun."""


def begun(folder: Path, home: Path) -> Path:
    """The event file of a new session with one entry."""
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
    """How many children the session with the most of them had."""
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
            asyncio.run(check_told(events))
    return children
