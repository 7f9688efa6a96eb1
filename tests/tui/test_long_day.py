"""A long day at the real program. The two hours of it are `make bench`'s; here, its first minutes."""

from pathlib import Path

import pytest

from support.long_day import day


@pytest.mark.slow
def test_through_compactions_cancels_and_sizes_nothing_is_cleared_and_no_line_lost(
    tmp_path: Path,
) -> None:
    day(tmp_path / "shop", turns=8)
