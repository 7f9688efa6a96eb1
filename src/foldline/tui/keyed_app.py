"""An app whose screens have tables of keys: help and the palette work on all of them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.binding import BindingType
from textual.screen import Screen

from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings, in_force
from foldline.tui.themed_app import ThemedApp
from foldline.tui.themes import DEFAULT_THEME

if TYPE_CHECKING:
    from foldline.tui.screens.palette import Item, Source

Result = TypeVar("Result")


class KeyedApp(ThemedApp[Result]):
    """Opens help and palette over whatever screen is in front, with the keys that the user chose."""

    BINDINGS: ClassVar[list[BindingType]] = bindings([BY_ID["help"], BY_ID["palette"]], "everywhere")

    def __init__(self, theme: str = DEFAULT_THEME, themes_dir: Path | None = None) -> None:
        super().__init__(theme, themes_dir)
        self.recent: list[str] = []
        """What was chosen in the palette, the last one first."""

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
