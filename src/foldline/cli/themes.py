"""Which theme a screen opens in, known before its first paint."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.agent.layers import theme_name
from foldline.data import config_dir

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp
    from foldline.tui.inspector.app import InspectorApp


def own_themes() -> Path:
    """The folder of the user's own themes; it need not exist."""
    return config_dir(os.environ) / "themes"


def chosen_theme(option: str | None, cwd: Path) -> str:
    """The theme's name, from the option or the settings; where neither names one, the terminal decides.

    Raises:
        FoldlineError: there is no such theme, or its file is broken.
    """
    from foldline.tui.themes import AUTO, load_theme, load_themes

    named = option or theme_name(cwd, os.environ) or AUTO
    if load_theme(named, own_themes()) is None:
        from foldline.protocol import FoldlineError

        known = sorted(theme.name for theme in load_themes(own_themes()))
        raise FoldlineError(f"There is no theme {named!r}: there are {', '.join(known)}.")
    return named


def dress(app: "FoldlineApp | InspectorApp", option: str | None) -> None:
    """Give an app that knows the shipped themes only the user's own, and the one that was chosen."""
    app.themes_dir = own_themes()
    app.wear(chosen_theme(option, Path.cwd()))
