"""`/effort` in the chat: without a word it shows what is set and what is possible."""

from pathlib import Path
from typing import get_args

import pytest

from foldline.agent.settings.schema import AllSettings
from foldline.agent.settings.settings import load_settings
from foldline.tui.lists.picker import Picker
from support.live import live

POSSIBLE = get_args(AllSettings.model_fields["effort"].annotation)


async def test_without_a_word_it_lists_what_is_possible_and_points_at_what_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "settings"))
    async with live(tmp_path / "shop", "ok") as running:
        running.agent.settings = load_settings(tmp_path, {}, {"effort": "low"})
        await running.enter("/effort ")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert all(word in running.text for word in POSSIBLE)
        [marked] = [line for line in running.text.splitlines() if "▶" in line]
        assert marked.strip(" ┃").removeprefix("▶").split() == ["low"]
