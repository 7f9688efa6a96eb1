"""Key tables of screens, from which bindings, hints, help, palette and docs are generated."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeVar,
)

from foldline.frontend.key_names import WAYS_OUT, joined, key_name, spelled
from foldline.sequences import grouped

if TYPE_CHECKING:
    from foldline.agent.settings.layers import RawSetting


@dataclass(frozen=True, slots=True)
class Keymap:
    """The keys that the user has chosen, by screen and command.

    Keys have Textual's names.
    """

    chosen: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def keys_of(
        self, screen: str, command: str, ours: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the keys for a command.

        They are the keys that the user has chosen, or the default keys `ours`. Default keys in `WAYS_OUT` are
        always included.
        """
        chosen = self.chosen.get((screen, command))
        if chosen is None:
            return ours
        ways_out = [key for key in ours if key in WAYS_OUT]
        return tuple(dict.fromkeys((*ways_out, *chosen)))

    def by_binding(self) -> dict[str, str]:
        """Return the chosen keys in the format of Textual's `set_keymap`."""
        return {
            f"{screen}.{command}": ",".join(keys)
            for (screen, command), keys in self.chosen.items()
        }


def keymap_of(given: "Iterable[RawSetting]") -> Keymap:
    """Convert `keys.SCREEN.COMMAND` settings to a keymap.

    The last setting for a command wins.

    Invalid settings are ignored here. `registry.check` reports them later, because it has to load all tables.
    Keys in `WAYS_OUT` are ignored, too, because they belong to their commands on every screen.
    """
    chosen: dict[tuple[str, str], tuple[str, ...]] = {}
    for item in given:
        written = [item.value] if isinstance(item.value, str) else item.value
        if len(item.names) == 3 and isinstance(written, list):
            keys = (spelled(name) for name in written if isinstance(name, str))
            valid_keys = tuple(
                dict.fromkeys(key for key in keys if key and key not in WAYS_OUT)
            )
            if valid_keys:
                chosen[item.names[1], item.names[2]] = valid_keys
    return Keymap(chosen)


_IN_FORCE: ContextVar[Keymap] = ContextVar("keymap", default=Keymap())  # noqa: B039  # immutable


def in_force() -> Keymap:
    """Return the active keymap."""
    return _IN_FORCE.get()


def use(keymap: Keymap) -> None:
    """Set the active keymap.

    Called once, before any screen is created.
    """
    _IN_FORCE.set(keymap)


F = TypeVar("F")
"""The state that decides which keys are active."""

Place = Literal["anywhere", "prompt", "panel"]
"""Where the focus must be for a key to be active.

`prompt` is the prompt editor, which looks up its own keys in the table. `panel` is anywhere except in text
fields, so that letters can be commands.
"""


@dataclass(frozen=True)  # with slots, `ScreenKey[Facts](…)` could not be written
class ScreenKey(Generic[F]):
    """A command of a screen, with its keys."""

    id: str
    keys: tuple[str, ...] = ()
    """Default keys, the displayed one first. `pressed` returns the current keys."""
    help: str = ""
    """Description in full sentences, in which `{screen.id}` stands for the name of another key."""
    group: str = ""
    """Heading in help and docs, set by `table`."""
    hint: str = ""
    """Word for the command in the row of key hints.

    Empty if the key is not shown there.
    """
    shown: str = ""
    """Name of the default keys in hints.

    By default, this is the name of the first key.
    """
    works: Callable[[F], bool] = lambda _: True
    own: bool = False
    """Whether a widget of the screen handles these keys itself.

    If so, the user cannot change them.
    """
    title: str = ""
    """Name in the palette. The default is the first sentence of `help`."""
    place: Place = "panel"
    palette: bool = True
    screen: str = ""
    """Name of the table, set by `table`."""

    @property
    def pressed(self) -> tuple[str, ...]:
        """The keys chosen by the user, or the default keys.

        Keys have Textual's names.
        """
        return in_force().keys_of(self.screen, self.id, self.keys)

    @property
    def name(self) -> str:
        """The name of the command's key, for hints and sentences.

        Empty if the command has no key.
        """
        if self.shown and self.pressed == self.keys:
            return self.shown
        return key_name(self.pressed[0]) if self.pressed else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all keys of the command."""
        return tuple(map(key_name, self.pressed))

    @property
    def help_text(self) -> str:
        """The description, with the current names of other keys inserted."""
        return _KEY_NAME.sub(lambda match: _name_in(*match.groups()), self.help)

    @property
    def label(self) -> str:
        """The name of the command in lists."""
        return self.title or self.help_text.partition(". ")[0].rstrip(".")

    @property
    def binding_id(self) -> str:
        """The id of the binding in Textual's keymap."""
        return f"{self.screen}.{self.id}"


K = TypeVar("K", bound=ScreenKey[Any])


class KeyTable(tuple[K, ...]):
    """The keys of a screen."""

    name: str
    """The name of the table in settings: `NAME` in `[keys.NAME]`."""
    title: str


_TABLES: dict[str, KeyTable[Any]] = {}
_KEY_NAME: Final = re.compile(r"\{(\w+)\.([\w-]+)\}")


def _name_in(screen: str, id: str) -> str:
    """Return the name of a key on another screen.

    Returns the command id if that screen is not loaded yet.
    """
    return next((key.name for key in _TABLES.get(screen, ()) if key.id == id), id)


def table(name: str, *keys: K | str, title: str = "") -> KeyTable[K]:
    """Declare the keys of a screen.

    A string among the keys is the heading for the keys after it, except for keys that have their own group.
    The default title is the capitalised name.
    """
    group = ""
    listed: list[K] = []
    for key in keys:
        if isinstance(key, str):
            group = key
        else:
            listed.append(replace(key, screen=name, group=key.group or group))
    result = KeyTable(listed)
    result.name = name
    result.title = title or name.capitalize()
    _TABLES[name] = result
    return result


# --- keys of several screens ---------------------------------------------------------------------------

HELP: Final[ScreenKey[Any]] = ScreenKey(
    "help",
    ("f1", "question_mark"),
    "Shows this list.",
    "Program",
    "keys",
    "?",
)
"""The help key, the same on every screen."""


_MOVES: Final = (
    ("up", "up", "Goes up one {row}."),
    ("down", "down", "Goes down one {row}."),
    ("page-up", "pageup", "Goes up a screen."),
    ("page-down", "pagedown", "Goes down a screen."),
    ("first", "home", "Goes to the first {row}."),
    ("last", "end", "Goes to the last {row}."),
)
"""Command, key and description of each move in a list."""


def moves(row: str, *, ends: bool = True) -> Iterator[ScreenKey[Any]]:
    """Yield the keys that move the selection of a `ListScreen`.

    Args:
        row: The noun for a row.
        ends: Whether Home and End go to the first and the last row, instead of moving in a text field.
    """
    for id, key, text in _MOVES if ends else _MOVES[:-2]:
        yield ScreenKey(id, (key,), text.format(row=row), "List", place="anywhere")


def cursor_keys(
    move: str = "Moves the cursor.",
    page: str = "Goes up or down one screen, or to the first or last row.",
    hint: str = "move",
) -> Iterator[ScreenKey[Any]]:
    """Yield the keys of a `BlockView`, which handles these keys itself."""
    yield ScreenKey(
        "move",
        ("up", "down", "k", "j"),
        move,
        hint=hint,
        shown="↑↓",
        own=True,
        title="Move",
    )
    yield ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        page,
        own=True,
        title="Page",
    )


def jump_keys(
    name: str, keys: tuple[str, str], *, verb: str = "Goes", **more: Any
) -> Iterator[ScreenKey[Any]]:
    """Yield the keys for going to the previous and the next `name`.

    The commands are `older-NAME` and `newer-NAME`.
    """
    older, newer = keys
    yield ScreenKey(
        f"older-{name}",
        (older,),
        f"{verb} to the previous {name}.",
        title=f"Previous {name}",
        **more,
    )
    yield ScreenKey(
        f"newer-{name}",
        (newer,),
        f"{verb} to the next {name}.",
        title=f"Next {name}",
        **more,
    )


def search_keys(
    help: str = "Finds text in this panel.",
    row: str = "row",
    *,
    hint: str = "",
    works: Callable[[Any], bool] = lambda _: True,
) -> Iterator[ScreenKey[Any]]:
    """Yield the keys for searching a panel.

    Args:
        row: The noun for what is searched.
        hint: The hint for the next match.
        works: Whether the keys for the next and previous match are active.
    """
    yield ScreenKey("search", ("/",), help, hint="search", title="Search")
    yield ScreenKey(
        "next-match",
        ("n",),
        f"Goes to the next {row} with a match.",
        hint=hint,
        shown=hint and "n N",
        works=works,
        title="Next match",
    )
    yield ScreenKey(
        "previous-match",
        ("N",),
        f"Goes to the previous {row} with a match.",
        works=works,
        title="Previous match",
    )


def panel_keys(
    *panels: str, mark: str = "", shown: str = "Tab"
) -> Iterator[ScreenKey[Any]]:
    """Yield the keys for going to other panels.

    Args:
        panels: The panels for the digits 1, 2 …, each as `Files: description`.
    """
    to = "Goes to the next panel."
    if mark:
        to = f"Goes to the next panel, at the {mark} with ▷."
    yield ScreenKey(
        "next-panel",
        ("tab",),
        to,
        hint="panel",
        shown=shown,
        title="Next panel",
    )
    yield ScreenKey(
        "previous-panel",
        ("shift+tab",),
        "Goes to the previous panel.",
        title="Previous panel",
    )
    for number, panel in enumerate(panels, start=1):
        title = panel.partition(":")[0]
        yield ScreenKey(
            f"panel-{number}", (str(number),), f"Goes to {panel}.", title=title
        )


# --- bindings and active keys --------------------------------------------------------------------------


def declared(name: str) -> KeyTable[Any] | None:
    """Return the table with this name.

    Returns None if its module has not been imported yet.
    """
    return _TABLES.get(name)


def key_of(keys: Sequence[ScreenKey[F]], command: str) -> ScreenKey[F]:
    """Return the table's entry for a command, which must exist."""
    return next(key for key in keys if key.id == command)


def works(keys: Sequence[ScreenKey[F]], command: str, facts: F) -> bool:
    """Whether a command of the table is active in this state."""
    return key_of(keys, command).works(facts)


def name_of(keys: Sequence[ScreenKey[F]], command: str) -> str:
    """Return the name of a command's key for use in sentences."""
    return key_of(keys, command).name


def names_of(keys: Sequence[ScreenKey[F]], *commands: str) -> str:
    """Return the joined names of several commands' keys.

    They are used in sentences: `↑↓`, `{ }`.
    """
    names = (key_of(keys, command).names for command in commands)
    return joined([command_names[0] for command_names in names if command_names])


def hint_words(keys: Sequence[ScreenKey[F]], facts: F) -> Iterator[tuple[str, str]]:
    """Return the hints of the active keys as (keys, word).

    Keys with the same word are joined.
    """
    working = (key for key in keys if key.hint and key.pressed and key.works(facts))
    names_of = grouped((key.hint, key.name) for key in working)
    return ((joined(names), word) for word, names in names_of.items())
