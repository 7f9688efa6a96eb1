"""`kill -9` at random moments of a real process: the reopened view is the old or the new one."""

from pathlib import Path

import pytest

from support.kill_campaign import campaign


@pytest.mark.slow
async def test_killed_at_any_moment_the_reopened_view_is_the_old_or_the_new_one(
    tmp_path: Path,
) -> None:
    """A sample; `make kill` runs 10,000 rounds (tests/bench/test_kill.py)."""
    with campaign(tmp_path, seed=9) as made:
        found = await made.run(20)
    assert found.rounds == 20
