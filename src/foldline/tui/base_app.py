"""An app with our themes, and screens with tables of keys: help and the palette work on all of them."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import constants
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import NoColor
from textual.screen import Screen
from textual.theme import Theme

from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings, in_force
from foldline.tui.terminal.app import TerminalApp
from foldline.tui.themes import (
    AUTO,
    DEFAULT_THEME,
    ROLE_DEFAULTS,
    clash,
    is_dark,
    load_theme,
    load_themes,
    painted,
    theme_faults,
)

if sys.platform != "win32":
    from foldline.tui.terminal.driver import AskingDriver, BackgroundReported

if TYPE_CHECKING:
    from foldline.tui.screens.palette import Item, Source

Result = TypeVar("Result")


class BaseApp(TerminalApp[Result]):
    """Wears one of the themes; `auto` is dark or light as soon as the terminal has said which it is.

    Opens help and palette over whatever screen is in front, with the keys that the user chose."""

    CSS: ClassVar[str] = "Screen { background: $role-background; } ModalScreen { background: transparent; }"
    """In the app, since Textual's own rule for native colours outdoes what a screen says of itself."""
    BINDINGS: ClassVar[list[BindingType]] = bindings([BY_ID["help"], BY_ID["palette"]], "everywhere")

    _dark: bool | None = None
    """Whether the terminal's background is dark; None until it is known."""

    def __init__(self, theme: str = DEFAULT_THEME, themes_dir: Path | None = None) -> None:
        super().__init__(ansi_color=True, driver_class=_driver())
        if self.console.color_system is None and not self.no_color:
            # TERM=dumb and its like: Textual itself would paint in 16 million colours there.
            self.no_color = True
            self.add_line_filter(NoColor())
        self.themes_dir = themes_dir
        """The folder of the user's own themes; it need not exist."""
        self._dark = is_dark(os.environ)
        self._few_colours = self.console.color_system == "standard"
        chosen = load_theme(theme, themes_dir, dark=self._dark is not False, few_colours=self._few_colours)
        if chosen is not None:
            self.register_theme(chosen)
        self.theme = theme
        self.recent: list[str] = []
        """What was chosen in the palette, the last one first."""

    # --- themes

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ROLE_DEFAULTS

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        if self.paints_background or clash(self.current_theme, self._dark):
            variables.update(painted(self.current_theme))  # also those that lines are drawn with
        return variables

    def load_themes(self) -> None:
        """Read the theme files, also those that were changed since."""
        dark, few = self._dark is not False, self._few_colours
        for theme in load_themes(self.themes_dir, dark=dark, few_colours=few):
            self.register_theme(theme)

    @property
    def themes(self) -> Collection[Theme]:
        """All there are, as their files are now. A start reads only the one in use."""
        self.load_themes()
        return self.available_themes.values()

    def theme_faults(self) -> dict[str, str]:
        """What is wrong with the user's theme files that are broken, by the names of their themes."""
        return theme_faults(self.themes_dir)

    def use_theme(self, name: str) -> None:
        """Take a theme, as its file is now."""
        self.load_themes()
        again = self.theme == name
        self.theme = name
        if again:
            self.apply_theme_again(name)  # Another theme of the same name: Textual sees no change.

    def theme_clash(self, name: str) -> str:
        """Say that this theme does not suit the terminal's background; empty if it paints its own."""
        theme = self.available_themes[name]
        return "" if painted(theme) else clash(theme, self._dark)

    @property
    def wants_background(self) -> bool:
        """Whether the terminal's background decides what is seen, or which themes fit."""
        return not self.no_color and self.console.color_system in ("256", "truecolor")

    def on_background_reported(self, message: "BackgroundReported") -> None:
        if message.dark != self._dark:
            self._dark = message.dark
            self.load_themes()
            if self.theme == AUTO:
                self.apply_theme_again(AUTO)

    # --- help and palette

    def palette_items(self, below: Screen[Any]) -> "Iterable[Item]":
        """What the palette offers over this screen beside the screen's own keys."""
        return ()

    def palette_sources(self) -> "Sequence[Source]":
        """What joins the palette as soon as it is known."""
        return ()

    def on_load(self) -> None:
        self.set_keymap(in_force().by_binding())

    def action_everywhere(self, command: str) -> None:
        """Open help or the palette."""
        match command:
            case "help":
                from foldline.tui.screens.help import open_help

                open_help(self)
            case "palette":
                from foldline.tui.screens.palette import open_palette

                open_palette(self, self.recent, self.palette_items, self.palette_sources())


def _driver() -> type[Driver] | None:
    """What speaks with the terminal; None: Textual's choice, as in a browser."""
    return None if sys.platform == "win32" or constants.DRIVER else AskingDriver
