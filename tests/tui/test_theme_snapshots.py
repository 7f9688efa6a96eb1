"""The chat in each theme but the one all other pictures wear. Look at them before accepting them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.tui.look.themes import AUTO, DEFAULT_THEME, load_themes
from support import scenes

Compare = Callable[..., bool]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "theme", sorted({theme.name for theme in load_themes()} - {DEFAULT_THEME, AUTO})
)
def test_chat(
    snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    made = scenes.scene(
        tmp_path / "shop-api", scenes.shop_api(), branch="orders-idempotent ±3"
    )
    made.app.load_themes()
    made.app.theme = theme
    assert snap_compare(made.app, terminal_size=(100, 30), run_before=made)
