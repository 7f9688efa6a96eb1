"""Textual bindings for the keys of a screen, and the tables whose keys are bound now."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from foldline.frontend.key_names import WAYS_OUT, spelled
from foldline.frontend.keymap import KeyTable, ScreenKey, declared

F = TypeVar("F")


@runtime_checkable
class Keyed(Protocol):
    """A screen or panel with keys that are not always active."""

    def works_now(self, command: str) -> bool:
        """Whether a command of the widget's own table is currently active."""


def bindings(keys: Sequence[ScreenKey[F]], action: str) -> list[BindingType]:
    """Create bindings to `action('ID')`.

    Keys that a widget handles itself get no binding. Bindings for `WAYS_OUT` have no id, so that a keymap
    cannot remove them.
    """
    result: list[BindingType] = []
    for key in keys:
        if key.own or key.place == "prompt":
            continue
        names = [spelled(written) or written for written in key.keys]
        for is_way_out in (True, False):
            group = [name for name in names if (name in WAYS_OUT) == is_way_out]
            if not group:
                continue
            binding = Binding(
                ",".join(group),
                f"{action}('{key.id}')",
                key.label,
                show=False,
                priority=key.place == "anywhere",
                id=key.binding_id if key.screen and not is_way_out else None,
            )
            result.append(binding)
    return result


@dataclass(frozen=True, slots=True)
class ActiveTable:
    """A key table, and the widget that handles its keys."""

    table: KeyTable[Any]
    node: DOMNode
    actions: dict[str, str]
    """Textual actions by command, except for commands that a widget handles itself."""

    @property
    def name(self) -> str:
        return self.table.name

    def entries(self) -> Iterator[tuple[ScreenKey[Any], bool]]:
        """Yield each key that the screen binds, and whether it is active."""
        for key in self.table:
            if isinstance(self.node, Keyed):
                yield key, self.node.works_now(key.id)
            elif key.own or key.id in self.actions:
                yield key, True


def active_tables(screen: Screen[Any]) -> tuple[ActiveTable, ...]:
    """Return the tables of the keys that are bound now.

    These depend on the focus. The tables of the app are left out.
    """
    tables: dict[str, ActiveTable] = {}
    for active in screen.active_bindings.values():
        name, _, command = (active.binding.id or "").partition(".")
        keys = declared(name)
        if keys is not None and active.node is not screen.app:
            active_table = tables.setdefault(name, ActiveTable(keys, active.node, {}))
            active_table.actions[command] = active.binding.action
    return tuple(tables.values())
