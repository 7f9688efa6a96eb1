"""Actions of the app that are available on any screen."""

from collections.abc import Callable
from typing import Any, Final

from textual.app import App, SuspendNotSupported

NO_EDITOR: Final = "This terminal cannot run an editor."
EDITOR_FAILED: Final = "The editor failed: {error}. The text has not changed."


def open_help(app: App[Any]) -> None:
    """Show the current screen's keys and all commands."""
    app.call_later(app.run_action, "app.everywhere('help')")


def open_palette(app: App[Any]) -> None:
    """Show the command palette."""
    app.call_later(app.run_action, "app.everywhere('palette')")


def edited(app: App[Any], text: str, notify: Callable[[str], None]) -> str | None:
    """Let the user edit text in $VISUAL or $EDITOR, and return the new text.

    If the editor fails, calls `notify` with the error and returns None.
    """
    from foldline.frontend.editor import edit_text

    try:
        with app.suspend():
            return edit_text(text)
    except SuspendNotSupported:
        notify(NO_EDITOR)
    except (OSError, ValueError) as error:
        notify(EDITOR_FAILED.format(error=error))
    return None
