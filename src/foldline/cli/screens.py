"""Screens that are opened from the command line: their theme and keys, `foldline open` and `foldline demo`.

The chat imports this before its first paint: whatever is slow is imported in the functions.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from foldline.agent.layers import keys_given, theme_name
from foldline.data import config_dir

from .arguments import UsageError
from .streams import has_terminal

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp
    from foldline.tui.inspector.following import Followed, InspectorApp

_FIRST_LINE: Final = 1_000_000
"""Bytes of a first line that may still be a header."""


# --- themes and keys ----------------------------------------------------------------------------------


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


def use_chosen_keys() -> None:
    """Puts the user's keys in force, before the first screen is made. Looks at no screen.

    Raises:
        FoldlineError: the file of settings cannot be read.
    """
    given = keys_given(os.environ)
    if given:
        from foldline.tui.keys.table import keymap_of, use

        use(keymap_of(given))


def check_chosen_keys() -> None:
    """Checks the user's keys against the tables of the screens they are for, which takes a moment.

    Raises:
        FoldlineError: there is no such screen, command or key, or two commands share one.
    """
    given = keys_given(os.environ)
    if given:
        from foldline.tui.keys.registry import check

        check(given)


def _prepare(app: "FoldlineApp | InspectorApp", theme: str | None) -> None:
    """Gives an app that knows the shipped themes only the user's own, and the one that was chosen."""
    app.themes_dir = own_themes()
    app.use_theme(chosen_theme(theme, Path.cwd()))


# --- foldline open ------------------------------------------------------------------------------------


def open_session(source: str, format_name: str | None, theme: str | None) -> int:
    followed, name = _followed(source, format_name)
    if not has_terminal():
        raise UsageError(
            "The inspector needs a terminal: `foldline view` and `foldline history` work without one."
        )
    return _inspect(followed, name, theme)


def read_along(path: Path, theme: str | None) -> int:
    """The inspector on the session of ours in this event file, following what others write; its exit code."""
    from foldline.history.follower import Follower

    return _inspect(Follower(path), path.parent.name, theme)


def _inspect(followed: "Followed[Any]", name: str, theme: str | None) -> int:
    from foldline.tui.inspector.following import FollowingInspector, InspectorApp
    from foldline.tui.terminal.app import run_app

    from .settings import window_of

    check_chosen_keys()
    use_chosen_keys()
    window = window_of(followed.session.projection, followed.session.header.cwd)
    known = 0 if window.assumed else window.tokens
    app = InspectorApp(FollowingInspector(followed.session, name, followed, window=known))
    _prepare(app, theme)
    run_app(app)
    return app.return_code or 0


def _followed(source: str, format_name: str | None) -> "tuple[Followed[Any], str]":
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
    found = read_source(source, format_name)
    return Rereader(found.path, format_name, found.session()), found.name


def _is_ours(path: Path) -> bool:
    from foldline.files import opened
    from foldline.history import is_our_header

    try:
        with opened(path) as file:
            return is_our_header(file.readline(_FIRST_LINE))
    except OSError:
        return False


# --- foldline demo ------------------------------------------------------------------------------------


def demo(theme: str | None) -> int:
    if not has_terminal():
        raise UsageError("The demo needs a terminal.")
    from foldline.tui.demo import DemoApp
    from foldline.tui.terminal.app import run_app

    check_chosen_keys()
    use_chosen_keys()
    app = DemoApp(Path.cwd())
    _prepare(app, theme)
    run_app(app)
    if app.failure is not None:
        from .output import note

        note(app.failure)
        return 1
    return app.return_code or 0
