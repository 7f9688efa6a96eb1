"""Base class for the apps: themes, help and the palette."""

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

from foldline.frontend.commands import BY_ID
from foldline.frontend.keymap import in_force
from foldline.tui.keys.bindings import bindings
from foldline.tui.look.themes import (
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
from foldline.tui.terminal.app import TerminalApp

if sys.platform != "win32":
    from foldline.tui.terminal.driver import BackgroundDriver, BackgroundReported

if TYPE_CHECKING:
    from foldline.tui.overlays.palette import ItemSource, PaletteItem

Result = TypeVar("Result")


class BaseApp(TerminalApp[Result]):
    """Applies a theme, and opens help and the palette over any screen.

    The `auto` theme becomes dark or light once the terminal reports its background.
    """

    CSS: ClassVar[str] = (
        "Screen { background: $role-background; } ModalScreen { background: transparent; }"
    )
    """CSS rules for the backgrounds of screens.

    The rules are set on the app, because Textual's rule for native colours overrides a screen's own CSS.
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(
        [BY_ID["help"], BY_ID["palette"]], "everywhere"
    )

    _dark: bool | None = None
    """Whether the terminal's background is dark; None if unknown."""

    def __init__(
        self, theme: str = DEFAULT_THEME, themes_dir: Path | None = None
    ) -> None:
        super().__init__(ansi_color=True, driver_class=_driver())
        if self.console.color_system is None and not self.no_color:
            # Without this, Textual would use 16 million colours, for example with TERM=dumb.
            self.no_color = True
            self.add_line_filter(NoColor())
        self.themes_dir = themes_dir
        """The folder with the user's themes.

        It might not exist.
        """
        self._dark = is_dark(os.environ)
        self._few_colours = self.console.color_system == "standard"
        is_dark_or_unknown = self._dark is not False
        first = load_theme(
            theme, themes_dir, dark=is_dark_or_unknown, few_colours=self._few_colours
        )
        if first is not None:
            self.register_theme(first)
        self.theme = theme
        self.recent: list[str] = []
        """Choices made in the palette, newest first."""

    # --- themes

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ROLE_DEFAULTS

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        if self.paints_background or clash(self.current_theme, self._dark):
            variables.update(
                painted(self.current_theme)
            )  # lines are drawn with these variables, too
        return variables

    def load_themes(self) -> None:
        """Read new and changed theme files."""
        dark = self._dark is not False
        for theme in load_themes(
            self.themes_dir, dark=dark, few_colours=self._few_colours
        ):
            self.register_theme(theme)

    @property
    def themes(self) -> Collection[Theme]:
        """All themes, after rereading changed theme files.

        When the app starts, only one theme file is read.
        """
        self.load_themes()
        return self.available_themes.values()

    def theme_faults(self) -> dict[str, str]:
        """Return the error for each broken theme file, by theme name."""
        return theme_faults(self.themes_dir)

    def use_theme(self, name: str) -> None:
        """Apply a theme, rereading its file if it has changed."""
        self.load_themes()
        is_same_name = self.theme == name
        self.theme = name
        if is_same_name:
            self.apply_theme_again(
                name
            )  # Textual ignores a theme whose name has not changed

    def theme_clash(self, name: str) -> str:
        """Return a warning if this theme does not suit the terminal's background."""
        theme = self.available_themes[name]
        return "" if painted(theme) else clash(theme, self._dark)

    @property
    def wants_background(self) -> bool:
        """Whether the terminal's background matters for the choice of a theme."""
        return not self.no_color and self.console.color_system in ("256", "truecolor")

    def on_background_reported(self, message: "BackgroundReported") -> None:
        if message.dark != self._dark:
            self._dark = message.dark
            self.load_themes()
            if self.theme == AUTO:
                self.apply_theme_again(AUTO)

    # --- help and palette

    def palette_items(self, below: Screen[Any]) -> "Iterable[PaletteItem]":
        """Return palette items to add to this screen's commands."""
        return ()

    def palette_sources(self) -> "Sequence[ItemSource]":
        """Return sources of palette items that are loaded in the background."""
        return ()

    def on_load(self) -> None:
        self.set_keymap(in_force().by_binding())

    def action_everywhere(self, command: str) -> None:
        """Run a command that works on every screen: open help or the palette."""
        match command:
            case "help":
                from foldline.tui.overlays.help import open_help

                open_help(self)
            case "palette":
                from foldline.tui.overlays.palette import open_palette

                open_palette(
                    self, self.recent, self.palette_items, self.palette_sources()
                )


def _driver() -> type[Driver] | None:
    """Return Foldline's terminal driver.

    Returns None to let Textual choose a driver, for example in a browser.
    """
    return None if sys.platform == "win32" or constants.DRIVER else BackgroundDriver
