"""The transcript as a panel, in pictures. Look at them before you accept them (svg2png)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from support import scenes
from support.scenes import Scene, scene

Compare = Callable[..., bool]


def found(words: str) -> Callable[[Scene, Pilot[None]], Any]:
    """Somebody looks for this, and stands on what was found."""

    async def play(made: Scene, pilot: Pilot[None]) -> None:
        await pilot.press("tab", "slash")
        pane = made.app.chat.reading
        pane.bar.field.value = words
        await made.until(pilot, lambda: pane._search.place is not None)
        await pilot.press("enter")

    return play


def test_a_search_in_the_transcript(snap_compare: Compare, tmp_path: Path) -> None:
    made = scene(
        tmp_path / "shop-api", scenes.shop_api(), play=found("# 0"), branch="main"
    )
    assert snap_compare(made.app, terminal_size=(120, 36), run_before=made)


@pytest.mark.slow
def test_a_search_in_chinese_without_colour(
    snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    made = scene(
        tmp_path / "shop-api",
        scenes.chinese_shop(),
        play=found("订单"),
        branch="主分支",
    )
    assert snap_compare(made.app, terminal_size=(80, 24), run_before=made)
