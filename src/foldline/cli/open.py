"""`foldline open`: the inspector on any session, read-only; it follows what others write meanwhile."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline.files import opened
from foldline.history import is_our_header
from foldline.history.follower import Follower

from .arguments import UsageError
from .keys import check_chosen_keys, use_chosen_keys
from .output import note
from .sources import path_of, read_source
from .themes import dress
from .windows import window_of

if TYPE_CHECKING:
    from foldline.tui.inspector.following import Followed

_FIRST_LINE = 1_000_000
"""Bytes of a first line that may still be a header."""


def run(source: str, format_name: str | None, theme: str | None) -> int:
    followed, name = _opened(source, format_name)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The inspector needs a terminal: `foldline view` and `foldline history` work without one."
        )
    return _inspected(followed, name, theme)


def read_along(path: Path, theme: str | None) -> int:
    """The inspector on the session of ours in this event file; how it ended."""
    return _inspected(Follower(path), path.parent.name, theme)


def _inspected(followed: "Followed[Any]", name: str, theme: str | None) -> int:
    from foldline.tui.inspector.app import InspectorApp
    from foldline.tui.terminal.app import run_app

    check_chosen_keys()
    use_chosen_keys()
    window = window_of(followed.session.projection, followed.session.header.cwd)
    known = 0 if window.assumed else window.tokens
    app = InspectorApp(followed.session, name, followed=followed, window=known)
    dress(app, theme)
    run_app(app)
    return app.return_code or 0


def _opened(source: str, format_name: str | None) -> "tuple[Followed[Any], str]":
    path = path_of(source)
    if format_name in (None, "foldline") and _is_ours(path):
        follower = Follower(path)
        damage = follower.session.damage
        if damage:
            note(f"{source}: {damage}.")
        return follower, path.parent.name if source == path.parent.name else source
    from foldline.formats.reader import Rereader

    found = read_source(source, format_name)
    return Rereader(found.path, format_name, found.session()), found.name


def _is_ours(path: Path) -> bool:
    try:
        with opened(path) as file:
            return is_our_header(file.readline(_FIRST_LINE))
    except OSError:
        return False
