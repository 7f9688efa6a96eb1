"""Runs `foldline open` and `foldline demo`, and applies the theme and keys of all screens.

The chat imports this module before its first paint, so slow modules are imported in functions.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from foldline.agent.settings.layers import key_settings, theme_name
from foldline.data import config_dir

from .arguments import UsageError
from .streams import has_terminal

if TYPE_CHECKING:
    from foldline.tui.app.inspector_app import InspectorApp
    from foldline.tui.browser.inspector.follow import FollowedSession

NO_SUCH_THEME = "There is no theme {name!r}. Available: {themes}."
NEEDS_TERMINAL = "The inspector needs a terminal. Without one, use `foldline view` or `foldline history`."
_FIRST_LINE = 1_000_000
"""Maximum size of a session header, in bytes.

A longer first line is not recognised as a header.
"""


# --- themes and keys ----------------------------------------------------------------------------------


def own_themes() -> Path:
    """Return the folder for the user's themes, which need not exist."""
    return config_dir(os.environ) / "themes"


def chosen_theme(option: str | None, cwd: Path) -> str:
    """Return the name of the theme to use.

    It is taken from the option, the settings, or the terminal, in this order.

    Raises:
        FoldlineError: the theme does not exist, or its file is invalid.
    """
    from foldline.tui.look.themes import AUTO, load_theme, load_themes

    name = option or theme_name(cwd, os.environ) or AUTO
    if load_theme(name, own_themes()) is None:
        from foldline.protocol import FoldlineError

        themes = ", ".join(sorted(theme.name for theme in load_themes(own_themes())))
        raise FoldlineError(NO_SUCH_THEME, name=name, themes=themes)
    return name


def use_chosen_keys() -> None:
    """Apply the user's keys.

    Call this before the first screen is created.

    Raises:
        FoldlineError: the settings file cannot be read.
    """
    keys = key_settings(os.environ)
    if keys:
        from foldline.frontend.keymap import keymap_of, use

        use(keymap_of(keys))


def check_chosen_keys() -> None:
    """Check the user's keys against the key tables of all screens.

    Raises:
        FoldlineError: a screen, command or key is unknown.
    """
    keys = key_settings(os.environ)
    if keys:
        from foldline.tui.keys.registry import check

        check(keys)


def _prepare(app: "InspectorApp", theme: str | None) -> None:
    """Set an app's theme and the folder of the user's themes."""
    app.themes_dir = own_themes()
    app.use_theme(chosen_theme(theme, Path.cwd()))


# --- foldline open ------------------------------------------------------------------------------------


def open_session(source: str, format_name: str | None, theme: str | None) -> int:
    followed, name = _followed(source, format_name)
    if not has_terminal():
        raise UsageError(NEEDS_TERMINAL)
    from foldline.tui.app.inspector_app import InspectorApp
    from foldline.tui.browser.inspector.follow import FollowingInspector
    from foldline.tui.terminal.app import run_app

    from .settings import window_of

    check_chosen_keys()
    use_chosen_keys()
    session = followed.session
    window = window_of(session.projection, session.header.cwd)
    window_tokens = 0 if window.assumed else window.tokens
    app = InspectorApp(
        FollowingInspector(session, name, followed, window=window_tokens)
    )
    _prepare(app, theme)
    run_app(app)
    return app.return_code or 0


def _followed(source: str, format_name: str | None) -> "tuple[FollowedSession, str]":
    from foldline.formats.reader import Rereader
    from foldline.history.follower import Follower

    from .output import note
    from .sources import path_of, read_source

    path = path_of(source)
    if format_name in (None, "foldline") and _is_ours(path):
        follower = Follower(path)
        if follower.session.damage:
            note(f"{source}: {follower.session.damage}.")
        return follower, path.parent.name if source == path.parent.name else source
    session = read_source(source, format_name)
    return Rereader(session.path, format_name, session.session()), session.name


def _is_ours(path: Path) -> bool:
    from foldline.files import opened
    from foldline.history import is_our_header

    try:
        with opened(path) as file:
            return is_our_header(file.readline(_FIRST_LINE))
    except OSError:
        return False


# --- foldline demo ------------------------------------------------------------------------------------


RECORDED_FOLDER: Final = Path("/home/you/foldline")
"""The folder in which the recorded session took place. It does not exist."""
DEMO_NEEDS_TERMINAL: Final = "The demo needs a terminal."


def demo(theme: str | None) -> int:
    """Play the recording in the chat.

    This uses a session that is deleted when the program exits.
    """
    if not has_terminal():
        raise UsageError(DEMO_NEEDS_TERMINAL)
    from foldline.tui.app.app import FoldlineApp
    from foldline.tui.demo.replay import recorded_prompts, replaying_agent
    from foldline.tui.terminal.app import run_app

    check_chosen_keys()
    use_chosen_keys()
    theme_name = chosen_theme(theme, Path.cwd())
    with TemporaryDirectory(prefix="foldline-demo-") as home:
        app = FoldlineApp(
            lambda: replaying_agent(RECORDED_FOLDER, Path(home)),
            root=Path.cwd(),
            theme=theme_name,
            prompts=recorded_prompts(),
            themes_dir=own_themes(),
        )
        run_app(app)
    if app.failure is not None:
        from .output import note

        note(app.failure)
        return 1
    return app.return_code or 0
