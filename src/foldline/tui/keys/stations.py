"""What the keys on the screen mean just now: the tables in force, from the focus outwards."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from textual.dom import DOMNode
from textual.screen import Screen

from foldline.tui.keys.screens import EVERYWHERE, SCREENS
from foldline.tui.keys.table import Keyed, ScreenKey


@dataclass(frozen=True, slots=True)
class Station:
    """A part of the screen that carries out a table of keys."""

    screen: str
    """The name of its table."""
    node: DOMNode
    actions: dict[str, str]
    """What Textual runs, by command; those that a component carries out itself have none."""

    @property
    def title(self) -> str:
        return SCREENS[self.screen].title

    def entries(self) -> Iterator[tuple[ScreenKey[Any], bool]]:
        """Every key of the table, and whether it does anything now."""
        for key in SCREENS[self.screen].table():
            yield key, not isinstance(self.node, Keyed) or self.node.works_now(key.id)


def stations(screen: Screen[Any]) -> tuple[Station, ...]:
    """The parts of a screen whose keys work where the focus is, the innermost first. A key that works on
    every screen makes no station."""
    found: dict[str, Station] = {}
    for active in screen.active_bindings.values():
        name, dot, command = (active.binding.id or "").partition(".")
        if dot and name in SCREENS and active.node is not screen.app:
            station = found.setdefault(name, Station(name, active.node, {}))
            station.actions[command] = active.binding.action
    return tuple(found.values())


def is_everywhere(key: ScreenKey[Any]) -> bool:
    """Whether a command of the chat works on every screen."""
    return key.id in EVERYWHERE
