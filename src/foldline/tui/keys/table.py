"""The keys of one screen: a table that bindings, hints, help, palette and docs come from; those active."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

from textual.binding import Binding, BindingType

from foldline.sequences import grouped
from foldline.tui.keys.names import WAYS_OUT, joined, key_name, spelled

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.screen import Screen

    from foldline.agent.layers import Given


@dataclass(frozen=True, slots=True)
class Keymap:
    """The chosen keys, in Textual's names, by screen and command."""

    chosen: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

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
    left out here: `registry.check` reports it, when there is the time to look at every table."""
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


F = TypeVar("F")
"""What decides which keys work."""

Place = Literal["anywhere", "prompt", "panel"]
"""Where a command's keys work. `anywhere`: whatever has the focus. `prompt`: in the editor, which asks here
what its keys mean. `panel`: outside of text fields, where a letter is a command."""


@dataclass(frozen=True)  # with slots, `ScreenKey[Facts](…)` could not be written
class ScreenKey(Generic[F]):
    """One thing the reader can ask for on a screen, and the keys that ask for it."""

    id: str
    keys: tuple[str, ...] = ()
    """Ours, the one to show first; what is in force is `pressed`."""
    help: str = ""
    """What it does, in sentences. `{screen.id}` stands for the name of another key; see `help_text`."""
    group: str = ""
    """Its heading in help and docs; set by `table` where headings stand between the keys."""
    hint: str = ""
    """Its word in the row of hints."""
    shown: str = ""
    """How the hint calls our keys, where not by the first of them."""
    works: Callable[[F], bool] = lambda _: True
    own: bool = False
    """Carried out by a component of the screen itself, whose keys are fixed."""
    title: str = ""
    """Its name in the palette, where the help is not short enough for one."""
    place: Place = "panel"
    palette: bool = True
    screen: str = ""
    """The screen whose table it is in; set by `table`."""

    @property
    def pressed(self) -> tuple[str, ...]:
        """The keys in force, by Textual's names: those the reader chose, else ours."""
        return in_force().keys_of(self.screen, self.id, self.keys)

    @property
    def name(self) -> str:
        """How hints and sentences call its key."""
        if self.shown and self.pressed == self.keys:
            return self.shown
        return key_name(self.pressed[0]) if self.pressed else ""

    @property
    def names(self) -> tuple[str, ...]:
        """All its keys as people know them."""
        return tuple(map(key_name, self.pressed))

    @property
    def help_text(self) -> str:
        """What it does, with the keys in force wherever it names another one."""
        return _KEY_NAME.sub(lambda match: _name_in(*match.groups()), self.help)

    @property
    def label(self) -> str:
        """Its name in lists."""
        return self.title or self.help_text.partition(". ")[0].rstrip(".")

    @property
    def binding_id(self) -> str:
        """What Textual's keymap knows it by."""
        return f"{self.screen}.{self.id}"


K = TypeVar("K", bound=ScreenKey[Any])


class KeyTable(tuple[K, ...]):
    """The keys of one screen, by which bindings, hints, help, palette and docs know it."""

    name: str
    """As in `[keys.NAME]`."""
    title: str


_TABLES: dict[str, KeyTable[Any]] = {}
_KEY_NAME: Final = re.compile(r"\{(\w+)\.([\w-]+)\}")


def _name_in(screen: str, id: str) -> str:
    """The name of a key of another screen; its command's name if that screen is not declared yet."""
    return next((key.name for key in _TABLES.get(screen, ()) if key.id == id), id)


def table(name: str, *keys: K | str, title: str = "") -> KeyTable[K]:
    """Declare the keys of a screen. A text between them is the group of those that follow and name none; the
    title is the name where none is given."""
    group, listed = "", list[K]()
    for key in keys:
        if isinstance(key, str):
            group = key
        else:
            listed.append(replace(key, screen=name, group=key.group or group))
    made = KeyTable(listed)
    made.name, made.title = name, title or name.capitalize()
    _TABLES[name] = made
    return made


# --- keys that many screens have -----------------------------------------------------------------------

HELP: Final[ScreenKey[Any]] = ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?")
"""On every screen the same; what closes a screen says itself what that leaves."""


def moves(
    row: str,
    *,
    letters: bool = True,
    home: tuple[str, ...] = ("home",),
    end: tuple[str, ...] = ("end",),
    far: str = "Ten {}s",
    place: Place = "panel",
) -> Iterator[ScreenKey[Any]]:
    """The keys that move the mark of a `ListScreen`.

    Args:
        row: what a row is called.
        letters: whether k and j move, too.
        far: how far Page Up and Page Down go; empty where there are no such keys.
    """
    key = partial(ScreenKey[Any], group="List", place=place)
    yield key("up", ("up", "k") if letters else ("up",), f"One {row} up.")
    yield key("down", ("down", "j") if letters else ("down",), f"One {row} down.")
    if far:
        yield key("page-up", ("pageup",), f"{far.format(row)} up.")
        yield key("page-down", ("pagedown",), f"{far.format(row)} down.")
    if home:
        yield key("first", home, f"To the first {row}.")
        yield key("last", end, f"To the last {row}.")


def cursor_keys(
    move: str = "Moves the cursor.",
    page: str = "A screen up or down, the first row, the last one.",
    hint: str = "move",
) -> Iterator[ScreenKey[Any]]:
    """The keys of a `BlockView`, which moves its cursor itself."""
    yield ScreenKey("move", ("up", "down", "k", "j"), move, hint=hint, shown="↑↓", own=True, title="Move")
    yield ScreenKey("page", ("pageup", "pagedown", "home", "end"), page, own=True, title="Page")


def jump_keys(
    name: str, keys: tuple[str, str], *, to: str = "To the", **more: Any
) -> Iterator[ScreenKey[Any]]:
    """`older-NAME` and `newer-NAME`, to the one before and the next."""
    older, newer = keys
    yield ScreenKey(f"older-{name}", (older,), f"{to} {name} before.", title=f"Previous {name}", **more)
    yield ScreenKey(f"newer-{name}", (newer,), f"{to} next {name}.", title=f"Next {name}", **more)


def search_keys(
    help: str = "Finds text in this panel.",
    row: str = "row",
    *,
    hint: str = "",
    works: Callable[[Any], bool] = lambda _: True,
) -> Iterator[ScreenKey[Any]]:
    """To search a panel, and to step from one `row` that holds the text to another; `hint` and `works` are
    those of these steps."""
    older, newer, both = f"The {row} before that holds it.", f"The next {row} that holds it.", hint and "n N"
    yield ScreenKey("search", ("/",), help, hint="search", title="Search")
    yield ScreenKey("next-match", ("n",), newer, "", hint, both, works, title="Next match")
    yield ScreenKey("previous-match", ("N",), older, works=works, title="Previous match")


def panel_keys(*panels: str, mark: str = "", shown: str = "Tab", below: str = "") -> Iterator[ScreenKey[Any]]:
    """Tab, Shift+Tab, and a digit for each of the panels, given as `Files: what it shows`; keys that move
    their borders, that to what stands `below` them among these."""
    to = f"To the next panel, on the {mark} marked ▷." if mark else "To the next panel."
    yield ScreenKey("next-panel", ("tab",), to, hint="panel", shown=shown, title="Next panel")
    yield ScreenKey("previous-panel", ("shift+tab",), "To the panel before.", title="Previous panel")
    moves = "Moves the border behind this panel, or before the last one, to the {}. A mouse drags it."
    for side in ("left", "right"):
        yield ScreenKey(f"border-{side}", (f"alt+{side}",), moves.format(side), title=f"Border to the {side}")
    for side in ("up", "down") if below else ():
        moves = f"Moves the border above {below} {side}. A mouse drags it."
        yield ScreenKey(f"border-{side}", (f"alt+shift+{side}",), moves, title=f"Border {side}")
    for number, panel in enumerate(panels, start=1):
        title = panel.partition(":")[0]
        yield ScreenKey(f"panel-{number}", (str(number),), f"To {panel}.", title=title)


# --- which are in force --------------------------------------------------------------------------------


def declared(name: str) -> KeyTable[Any] | None:
    """The table of this name; None while the module that declares it is not imported."""
    return _TABLES.get(name)


@runtime_checkable
class Keyed(Protocol):
    """A screen or panel whose table depends on something: it says which keys do anything now."""

    def works_now(self, command: str) -> bool:
        """Whether a command of its table would do something."""


def bindings(keys: Sequence[ScreenKey[F]], action: str) -> list[BindingType]:
    """A binding to `action('ID')` for each key that is not its component's own. A way out has no id, so that
    no keymap takes it away."""
    return [
        Binding(
            ",".join(names),
            f"{action}('{key.id}')",
            key.label,
            show=False,
            priority=key.place == "anywhere",
            id=key.binding_id if key.screen and not stays else None,
        )
        for key in keys
        if not key.own and key.place != "prompt"
        for stays in (True, False)
        if (names := [name for each in key.keys if ((name := spelled(each) or each) in WAYS_OUT) == stays])
    ]


def key_of(keys: Sequence[ScreenKey[F]], command: str) -> ScreenKey[F]:
    """The entry of a command."""
    return next(key for key in keys if key.id == command)


def works(keys: Sequence[ScreenKey[F]], command: str, facts: F) -> bool:
    """Whether a key does anything now."""
    return key_of(keys, command).works(facts)


def name_of(keys: Sequence[ScreenKey[F]], command: str) -> str:
    """How a sentence calls the key of a command."""
    return key_of(keys, command).name


def names_of(keys: Sequence[ScreenKey[F]], *commands: str) -> str:
    """How a sentence calls the keys of commands that belong together: `↑↓`, `{ }`."""
    return joined([name for command in commands for name in key_of(keys, command).names[:1]])


def hint_words(keys: Sequence[ScreenKey[F]], facts: F) -> Iterator[tuple[str, str]]:
    """(keys, word) of what works now, in order; those with the same word share a place."""
    working = (key for key in keys if key.hint and key.pressed and key.works(facts))
    names_of = grouped((key.hint, key.name) for key in working)
    return ((joined(names), word) for word, names in names_of.items())


@dataclass(frozen=True, slots=True)
class ActiveTable:
    """A table of keys, and the part of the screen that carries it out."""

    table: KeyTable[Any]
    node: "DOMNode"
    actions: dict[str, str]
    """What Textual runs, by command; those that a component carries out itself have none."""

    @property
    def name(self) -> str:
        return self.table.name

    def entries(self) -> Iterator[tuple[ScreenKey[Any], bool]]:
        """Every key of the table, and whether it does anything now; a screen that is not the table's own may
        have some of them."""
        for key in self.table:
            if isinstance(self.node, Keyed):
                yield key, self.node.works_now(key.id)
            elif key.own or key.id in self.actions:
                yield key, True


def active_tables(screen: "Screen[Any]") -> tuple[ActiveTable, ...]:
    """The tables whose keys work where the focus is; keys that work on every screen make none."""
    found: dict[str, ActiveTable] = {}
    for active in screen.active_bindings.values():
        name, _, command = (active.binding.id or "").partition(".")
        if active.node is not screen.app and (table := declared(name)) is not None:
            here = found.setdefault(name, ActiveTable(table, active.node, {}))
            here.actions[command] = active.binding.action
    return tuple(found.values())
