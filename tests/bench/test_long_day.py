"""Two hours with the real program, a turn every thirty seconds."""

from collections.abc import Callable
from pathlib import Path

from support.long_day import day

TURNS = 240


def test_two_hours_without_a_clear_or_a_lost_line(
    benchmark: Callable[..., object], tmp_path: Path
) -> None:
    benchmark.pedantic(lambda: day(tmp_path / "shop", TURNS), rounds=1)  # type: ignore[attr-defined]
