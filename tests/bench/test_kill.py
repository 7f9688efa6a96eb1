"""`kill -9`, a thousand times, or 10,000 (`make kill`): the reopened view is the old or the new one."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from bench.tables import table
from support.killing import Found, campaign

ROUNDS = int(os.environ.get("FOLDLINE_KILL_ROUNDS", "1000"))
"""How often to kill: seven or eight times a second."""
SEED = 2026


def test_killed_again_and_again_the_reopened_view_is_the_old_or_the_new_one(
    benchmark: Callable[..., object], tmp_path: Path
) -> None:
    def run() -> Found:
        with campaign(tmp_path, SEED) as made:
            return asyncio.run(made.run(ROUNDS))

    found = benchmark.pedantic(run, rounds=1)  # type: ignore[attr-defined]
    _note(found)
    assert found.rounds == ROUNDS
    assert found.folds > 0


def _note(found: Found) -> None:
    shown = table("kill -9 of a process that runs tools, folds, undoes and appends", "killed", "times")
    for moment, times in sorted(found.moments.items()):
        shown.row(f"while writing {moment}" if ": " in moment else moment, f"{times:,}")
    shown.note("old, new: the view found at the next open; in part: some entries of an append of several")
    shown.note("a power cut: what no sync had confirmed is gone in part, or is NULs")
    shown.note(
        f"{found.rounds:,} rounds, {found.folds:,} folds, {found.torn} records cut off, "
        f"at most {found.most_damage} in one session"
    )
