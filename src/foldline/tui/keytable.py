"""The keys of one screen: a table that bindings, hints and the help list come from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from textual.binding import Binding, BindingType

from foldline.tui.blocks import Block, RuleBlock, TextBlock
from foldline.tui.commands import key_name

F = TypeVar("F")
"""What decides which keys work."""

_NAMES = {"home": "Home", "space": "Space"}


@dataclass(frozen=True, slots=True)
class ScreenKey(Generic[F]):
    """One key and what it does on its screen."""

    id: str
    keys: tuple[str, ...]
    help: str
    group: str
    hint: str = ""
    """Its word in the row of hints."""
    shown: str = ""
    """How the hint calls the keys, where not by the first of them."""
    works: Callable[[F], bool] = lambda _: True
    own: bool = False
    """Carried out by a component of the screen itself."""

    @property
    def name(self) -> str:
        """How hints call it."""
        return self.shown or named(self.keys[0])


def bindings(keys: Sequence[ScreenKey[F]], action: str) -> list[BindingType]:
    """A binding to `action('ID')` for each key that is not its component's own."""
    return [
        Binding(",".join(key.keys), f"{action}('{key.id}')", key.help, show=False)
        for key in keys
        if not key.own
    ]


def works(keys: Sequence[ScreenKey[F]], command: str, facts: F) -> bool:
    """Whether a key does anything now."""
    return next(key for key in keys if key.id == command).works(facts)


def named(key: str) -> str:
    """A key as people know it; letters as they are typed."""
    return key if len(key) == 1 else _NAMES.get(key, key_name(key))


def help_blocks(keys: Sequence[ScreenKey[F]]) -> Iterator[Block]:
    """A rule for each group, a paragraph for each key."""
    groups = dict.fromkeys(key.group for key in keys)
    for number, group in enumerate(groups):
        yield RuleBlock((number, 0), group, "muted", gap=int(bool(number)), stop=False, wide=False)
        for at, key in enumerate((key for key in keys if key.group == group), 1):
            lead = " ".join(map(named, key.keys))
            yield TextBlock((number, at), key.help, lead=((f"{lead:<18} ", "accent"),))
