"""What the keys mean just now: the tables that work where the focus is, the innermost first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from textual.dom import DOMNode
from textual.screen import Screen

from foldline.tui.keys.table import Keyed, KeyTable, ScreenKey, declared


@dataclass(frozen=True, slots=True)
class ActiveTable:
    """A table of keys, and the part of the screen that carries it out."""

    table: KeyTable[Any]
    node: DOMNode
    actions: dict[str, str]
    """What Textual runs, by command; those that a component carries out itself have none."""

    @property
    def name(self) -> str:
        return self.table.name

    def entries(self) -> Iterator[tuple[ScreenKey[Any], bool]]:
        """Every key of the table, and whether it does anything now."""
        for key in self.table:
            yield key, not isinstance(self.node, Keyed) or self.node.works_now(key.id)


def active_tables(screen: Screen[Any]) -> tuple[ActiveTable, ...]:
    """The tables whose keys work where the focus is; keys that work on every screen make none."""
    found: dict[str, ActiveTable] = {}
    for active in screen.active_bindings.values():
        name, _, command = (active.binding.id or "").partition(".")
        if active.node is not screen.app and (table := declared(name)) is not None:
            here = found.setdefault(name, ActiveTable(table, active.node, {}))
            here.actions[command] = active.binding.action
    return tuple(found.values())
