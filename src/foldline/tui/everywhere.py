"""What works on every screen of an app: help and the palette; and the keys the reader chose."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from textual.binding import BindingType

from foldline.tui.dressed import DressedApp
from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings, in_force
from foldline.tui.themes import DEFAULT_THEME

if TYPE_CHECKING:
    from foldline.tui.choosing.palette import Source

Result = TypeVar("Result")

_RECENT: Final = 8
"""Choices taken before that stand first in the palette."""


class Recent:
    """What was chosen in this program, the last one first."""

    def __init__(self) -> None:
        self.ids: tuple[str, ...] = ()

    def took(self, choice: str) -> None:
        self.ids = (choice, *(each for each in self.ids if each != choice))[:_RECENT]


class KeyedApp(DressedApp[Result]):
    """An app whose screens have tables of keys (`tui/keys/screens.py`)."""

    BINDINGS: ClassVar[list[BindingType]] = bindings([BY_ID["help"], BY_ID["palette"]], "everywhere")

    def __init__(self, theme: str = DEFAULT_THEME, themes_dir: Path | None = None) -> None:
        super().__init__(theme, themes_dir)
        self.recent = Recent()
        """What was chosen in the palette."""

    def palette_sources(self) -> "Sequence[Source]":
        """What the palette offers beside commands."""
        return ()

    def on_load(self) -> None:
        self.set_keymap(in_force().by_binding())

    def action_everywhere(self, command: str) -> None:
        """Help or the palette, over whatever is in front."""
        from foldline.tui import dialogs

        match command:
            case "help":
                dialogs.open_help(self)
            case "palette":
                dialogs.open_palette(self)
