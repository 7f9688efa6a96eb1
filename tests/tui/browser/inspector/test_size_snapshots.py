"""The Inspector by size as a picture. Look at it before accepting it: `… --snapshot-update`, then svg2png."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from support.scenes import Scene, chinese_shop, look_at_the_context, scene, shop_api

Compare = Callable[..., bool]


async def on_the_second(made: Scene, pilot: Pilot[None]) -> None:
    """On an entry, its keys priced."""
    panels = await look_at_the_context(made, pilot)
    await pilot.press("2", "down")
    await made.until(pilot, lambda: panels.has_edit_hints)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["small", "large"])
def test_context(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    folder = tmp_path / "shop-api"
    folder.mkdir()
    made = scene(folder, shop_api(), play=look_at_the_context)
    assert snap_compare(made.app, terminal_size=size, run_before=made)


@pytest.mark.slow
def test_chinese_context(snap_compare: Compare, tmp_path: Path) -> None:
    folder = tmp_path / "订单"
    folder.mkdir()
    made = scene(folder, chinese_shop(), play=on_the_second)
    assert snap_compare(made.app, terminal_size=(100, 30), run_before=made)
