"""Which keys the reader chose instead of ours: one immutable value, in force for the whole program.

The names of keys stand in hints, sentences and help, most of them made by pure functions; the value is
ambient, like a language, so that none of them has to be handed it (docs/decisions/0027-keys.md).
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foldline.tui.keys.names import WAYS_OUT, spelled

if TYPE_CHECKING:
    from foldline.agent.layers import Given

Chosen = Mapping[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Keymap:
    """The chosen keys, in Textual's names, by screen and command."""

    chosen: Chosen = field(default_factory=dict)

    def keys_of(self, screen: str, command: str, ours: tuple[str, ...]) -> tuple[str, ...]:
        """The keys of a command: those chosen, else `ours`. A way out stays one, whatever is chosen."""
        chosen = self.chosen.get((screen, command))
        if chosen is None:
            return ours
        stay = tuple(key for key in ours if key in WAYS_OUT)
        return (*stay, *(key for key in chosen if key not in stay))

    def by_binding(self) -> dict[str, str]:
        """The chosen keys as Textual's `set_keymap` takes them."""
        return {f"{screen}.{command}": ",".join(keys) for (screen, command), keys in self.chosen.items()}


def keymap_of(given: "Iterable[Given]") -> Keymap:
    """The keys that were set, each as `keys.SCREEN.COMMAND`; what was set last wins. What makes no sense is
    left out here: `configured.check` tells it, when there is the time to look at every table."""
    chosen: dict[tuple[str, str], tuple[str, ...]] = {}
    for item in given:
        written = [item.value] if isinstance(item.value, str) else item.value
        if len(item.names) == 3 and isinstance(written, list):
            keys = [spelled(each) for each in written if isinstance(each, str)]
            named = tuple(dict.fromkeys(key for key in keys if key is not None))
            if named:
                chosen[item.names[1], item.names[2]] = named
    return Keymap(chosen)


_OURS = Keymap()
_IN_FORCE: ContextVar[Keymap] = ContextVar("keymap", default=_OURS)


def in_force() -> Keymap:
    """The keymap of this program."""
    return _IN_FORCE.get()


def use(keymap: Keymap) -> None:
    """Let this one be in force. Called once, before a screen is made: screens do not look for another one."""
    _IN_FORCE.set(keymap)
