"""Every strategy on every recorded session at every window, every promise checked at each fold."""

import asyncio
from collections.abc import Callable

import pytest

from bench.tables import table
from foldline.compaction import BUILT_IN
from support.recorded import needs_recorded, readable
from support.recorded_folds import played

pytestmark = needs_recorded
WINDOWS = (8_192, 32_768, 131_072, 1_048_576)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", BUILT_IN)
def test_all_recorded_sessions_go_through(benchmark: Callable[..., object], name: str, window: int) -> None:
    async def all_of_them() -> tuple[int, int]:
        runs = [await played(path, name, window) for path in readable()]
        return sum(run.folds for run in runs), sum(run.refused for run in runs)

    folds, refused = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: asyncio.run(all_of_them()), rounds=1
    )
    rows = table("Recorded sessions", "strategy", "window", "folds", "refused")
    rows.row(name, f"{window:,}", folds, refused)
    assert folds >= len(readable()) // 2
