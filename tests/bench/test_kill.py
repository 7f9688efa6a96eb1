"""`kill -9`, a thousand times, or 10,000 (`make kill`): the reopened view is the old or the new one."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from bench.tables import table
from support.kill_campaign import CampaignStats, campaign

ROUNDS = int(os.environ.get("FOLDLINE_KILL_ROUNDS", "1000"))
"""Number of kills: seven or eight a second."""
SEED = 2026


def test_killed_again_and_again_the_reopened_view_is_the_old_or_the_new_one(
    benchmark: Callable[..., object], tmp_path: Path
) -> None:
    def run() -> CampaignStats:
        with campaign(tmp_path, SEED) as kills:
            return asyncio.run(kills.run(ROUNDS))

    stats = benchmark.pedantic(run, rounds=1)  # type: ignore[attr-defined]
    _note(stats)
    assert stats.rounds == ROUNDS
    assert stats.compactions > 0


def _note(stats: CampaignStats) -> None:
    output = table(
        "kill -9 of a process that runs tools, compacts, undoes and appends",
        "killed",
        "times",
    )
    for moment, times in sorted(stats.moments.items()):
        output.row(
            f"while writing {moment}" if ": " in moment else moment, f"{times:,}"
        )
    output.note(
        "old, new: the view found at the next open; in part: some entries of an append of several"
    )
    output.note("a power cut: what no sync had confirmed is gone in part, or is NULs")
    output.note(
        f"{stats.rounds:,} rounds, {stats.compactions:,} compactions, {stats.torn} records cut off, "
        f"at most {stats.most_damage} in one session"
    )
