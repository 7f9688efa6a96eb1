"""Which theme a screen opens in, known before its first paint."""

import os
from pathlib import Path

from foldline.agent.layers import config_dir, theme_name


def chosen_theme(option: str | None, cwd: Path) -> str:
    """The theme's name, from the option or the settings.

    Raises:
        FoldlineError: there is no such theme.
    """
    from foldline.tui.themes import DEFAULT_THEME, load_themes

    named = option or theme_name(cwd, os.environ) or DEFAULT_THEME
    known = [theme.name for theme in load_themes(config_dir(os.environ) / "themes")]
    if named not in known:
        from foldline.protocol import FoldlineError

        raise FoldlineError(f"There is no theme {named!r}: there are {', '.join(sorted(known))}.")
    return named
