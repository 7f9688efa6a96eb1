"""Every strategy on every recorded session and window, with all invariants checked."""

import asyncio
from collections.abc import Callable

import pytest

from bench.tables import table
from foldline.compaction import BUILT_IN
from support.recorded_compactions import play_recording
from support.recordings import compactable_recordings, needs_recorded

pytestmark = needs_recorded
WINDOWS = (8_192, 32_768, 131_072, 1_048_576)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", BUILT_IN)
def test_all_recorded_sessions_go_through(
    benchmark: Callable[..., object], name: str, window: int
) -> None:
    async def all_of_them() -> tuple[int, int]:
        runs = [
            await play_recording(path, name, window)
            for path in compactable_recordings()
        ]
        return sum(run.compactions for run in runs), sum(run.refused for run in runs)

    compactions, refused = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: asyncio.run(all_of_them()), rounds=1
    )
    rows = table("Recorded sessions", "strategy", "window", "compactions", "refused")
    rows.row(name, f"{window:,}", compactions, refused)
    assert compactions >= len(compactable_recordings()) // 2
