"""The screens that open over the chat for a moment. Each is imported when it is opened, not before."""

from collections.abc import Callable, Sequence
from typing import Any

from textual.app import App, SuspendNotSupported

from foldline.tui.commands import COMMANDS, keys_or_usage
from foldline.tui.state import ChatState

Remark = Callable[[str], None]


def open_help(app: App[Any]) -> None:
    """All keys and commands."""
    from foldline.tui.help import HelpScreen, help_blocks

    app.push_screen(HelpScreen("Help: keys and commands", help_blocks()))


def open_palette(app: App[Any], state: ChatState, chosen: Callable[[str | None], None]) -> None:
    """Every command that works now; `chosen` gets the id of the one taken, or None."""
    from foldline.tui.picker import Choice, Picker

    usable = [command for command in COMMANDS if command.palette and command.enabled(state)]
    choices = [Choice(c.id, c.title, keys_or_usage(c)) for c in usable]
    app.push_screen(Picker("What do you want to do?", choices), chosen)


def change_theme(app: App[Any], name: str, remark: Remark) -> None:
    """Take the theme of that name; without a name, let the reader pick one."""
    from foldline.tui.themes import own_themes

    names = own_themes(app.available_themes.values())
    if name in names:
        app.theme = name
        remark(f"Theme {name}")
    elif name:
        remark(f"There is no theme {name}; there are {', '.join(names)}")
    else:
        _pick_theme(app, names)


def _pick_theme(app: App[Any], names: Sequence[str]) -> None:
    """Moving through the list shows each theme; leaving it gives back the one before."""
    from foldline.tui.picker import Choice, Picker

    before = app.theme

    def use(name: str | None) -> None:
        app.theme = name or before

    choices = [Choice(name, name) for name in names]
    app.push_screen(Picker("Which colours?", choices, marked=before, on_mark=use), use)


def edited(app: App[Any], text: str, remark: Remark) -> str | None:
    """The text after the reader's own editor; None, with a remark, where that did not work."""
    from foldline.tui.external import edit_text

    try:
        with app.suspend():
            return edit_text(text)
    except SuspendNotSupported:
        remark("This terminal cannot be lent to an editor")
    except (OSError, ValueError) as error:
        remark(f"The editor did not work: {error}; the prompt is as it was")
    return None
