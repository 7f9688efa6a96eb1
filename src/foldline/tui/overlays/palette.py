"""The palette: a picker of all available commands, with themes, models, settings and sessions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual.app import App
from textual.screen import Screen

from foldline.frontend.commands import BY_ID, CHAT, COMMANDS, common_first
from foldline.protocol import FoldlineError
from foldline.text.harmless import clean_line
from foldline.tui.keys.bindings import active_tables
from foldline.tui.lists.picker import Picker
from foldline.tui.lists.rows import PickerItem
from foldline.tui.overlays.help import HelpScreen
from foldline.tui.prompting.completion import arguments

if TYPE_CHECKING:
    from foldline.tui.session_window import Program

_TITLE: Final = "What do you want to do?"
_RECENT: Final = 8
"""Maximum number of recent choices to remember. They are listed first."""
_MOVES: Final = frozenset(
    {
        "up",
        "down",
        "left",
        "right",
        "pageup",
        "pagedown",
        "home",
        "end",
        "ctrl+home",
        "ctrl+end",
    }
)
"""Keys that only move the cursor. The palette does not list their commands."""


@dataclass(frozen=True, slots=True)
class PaletteItem:
    """An item of the palette with its action."""

    choice: PickerItem
    run: Callable[[], object]
    """The action, called after the palette has closed."""


ItemSource = Callable[[], Awaitable[Sequence[PaletteItem]]]
"""Loads more items.

They are added to the palette once they are loaded.
"""


class Palette(Picker):
    """A picker that runs the chosen item."""

    def __init__(
        self,
        items: Iterable[PaletteItem],
        sources: Iterable[ItemSource],
        recent: Sequence[str],
    ) -> None:
        """Create the palette.

        `recent` contains the ids of earlier choices, newest first.
        """
        self._items = tuple(items)
        self._late: dict[int, Sequence[PaletteItem]] = {}
        self.items = {item.choice.id: item for item in self._items}
        self._recent = tuple(recent)
        self._sources = tuple(sources)
        super().__init__(_TITLE, self._in_order())

    def _in_order(self) -> list[PickerItem]:
        """Return the items with recent choices first."""
        recent = [id for id in self._recent if id in self.items]
        return [self.items[id].choice for id in dict.fromkeys((*recent, *self.items))]

    def on_mount(self) -> None:
        for number, source in enumerate(self._sources):
            self.run_worker(self._join(number, source), group="sources")

    async def _join(self, number: int, source: ItemSource) -> None:
        try:
            items = await source()
        except FoldlineError as failure:
            self.tell(str(failure))
            return
        # Keep the order of the sources.
        self._late[number] = items
        late = (item for at in sorted(self._late) for item in self._late[at])
        self.items = {item.choice.id: item for item in (*self._items, *late)}
        self.offer(self._in_order())


def open_palette(
    app: App[Any],
    recent: list[str],
    others: Callable[[Screen[Any]], Iterable[PaletteItem]],
    sources: Iterable[ItemSource] = (),
) -> None:
    """Open the palette for the screen in front.

    If the palette is already open, close it.

    Args:
        recent: Ids of earlier choices, newest first. The list is updated.
        others: Returns more items, in addition to the commands of the screen below.
    """
    if isinstance(app.screen, Palette):
        app.screen.dismiss(None)
        return
    if isinstance(app.screen, HelpScreen):
        app.screen.dismiss()
        if isinstance(app.screen, Palette):
            return
    # The help may still be closing.
    below = next(
        screen
        for screen in reversed(app.screen_stack)
        if not isinstance(screen, HelpScreen)
    )
    palette = Palette((*_of_screen(app, below), *others(below)), sources, recent)

    def run(choice: str | None) -> None:
        if choice is not None:
            recent[:] = list(dict.fromkeys((choice, *recent)))[:_RECENT]
            palette.items[choice].run()

    app.push_screen(palette, run)


def _of_screen(app: App[Any], screen: Screen[Any]) -> Iterator[PaletteItem]:
    """Yield the available commands of a screen other than the chat."""
    for active in active_tables(screen):
        if active.name == CHAT:
            continue
        for key, works in active.entries():
            action = active.actions.get(key.id)
            if action is None or not works or not key.palette or _MOVES & {*key.keys}:
                continue
            choice = PickerItem(key.binding_id, key.label, active.table.title, key.name)

            def run(action: str = action, node: Any = active.node) -> None:
                app.call_later(app.run_action, action, node)

            yield PaletteItem(choice, run)


# --- items of the chat ----------------------------------------------------------------------------------

_SESSIONS: Final = 50
"""Maximum number of sessions in this folder to list, newest first."""


def run_in_chat(app: "Program", command: str, argument: str = "") -> None:
    """Run a chat command.

    The command's message is shown on the current screen.
    """
    app.chat.remark("")
    app.chat.run_command(command, argument)
    # The command was posted as an event, and shows its message when the event is handled.
    app.chat.call_later(app.chat.app.call_later, app.tell_above)


def chat_items(app: "Program", below: Screen[Any]) -> Iterator[PaletteItem]:
    """Yield the available commands of the chat."""
    chat: object = app.chat
    open_now = {active.name for active in active_tables(below)}
    for command in common_first(COMMANDS):
        offered = command.palette and command.place != "prompt"
        reaches = below is chat or command.slash or command.group == "Questions"
        if (
            offered
            and command.works(app.chat.state)
            and reaches
            and command.id not in open_now
        ):
            note = " · ".join(filter(None, (command.usage, command.help_text)))
            choice = PickerItem(
                command.binding_id, command.title, note, " ".join(command.names[:1])
            )
            yield PaletteItem(choice, partial(run_in_chat, app, command.id))
    for own in app.chat.state.own_commands:
        yield PaletteItem(
            PickerItem(f"own:{own.name}", f"/{own.name}", own.description),
            partial(_offer, app, own.name),
        )


OTHER_TEXT: Final = (
    "The prompt already contains text. Clear it to insert /{command} there."
)
UNTITLED: Final = "not named yet"


def _offer(app: "Program", name: str) -> None:
    """Put a command into the editor, so that the user can add arguments."""
    if not app.chat.prompt.give_back(f"/{name} "):
        app.say(OTHER_TEXT.format(command=name))


def chat_sources(app: "Program") -> Sequence[ItemSource]:
    return (
        partial(_named, app, "theme", "Theme"),
        partial(_named, app, "strategy", "Strategy"),
        partial(_named, app, "model", "Model"),
        partial(_settings, app),
        partial(_sessions, app),
    )


async def _named(app: "Program", command: str, word: str) -> Sequence[PaletteItem]:
    """Return an item for each possible argument of a command.

    There are no items if the command is not available.
    """
    if not BY_ID[command].works(app.chat.state):
        return ()
    completions = await asyncio.to_thread(arguments, command, "", app.chat.app)
    return [
        PaletteItem(
            PickerItem(
                f"{command}:{argument.label}",
                f"{word}: {argument.label}",
                argument.note,
            ),
            partial(run_in_chat, app, command, argument.label),
        )
        for argument in completions
    ]


async def _settings(app: "Program") -> Sequence[PaletteItem]:
    from foldline.agent.settings.descriptions import add_descriptions
    from foldline.agent.settings.schema import KEYS, LABELS

    add_descriptions()
    items = []
    for key, field in KEYS.items():
        sentence = clean_line(
            (field.description or "").partition(".")[0].replace("`", "")
        )
        choice = PickerItem(
            f"setting:{key}", f"Setting: {LABELS[key]}", f"{key}: {sentence}"
        )
        items.append(PaletteItem(choice, partial(run_in_chat, app, "settings", key)))
    return items


async def _sessions(app: "Program") -> Sequence[PaletteItem]:
    from foldline.history import data_home, list_sessions

    infos = await asyncio.to_thread(list_sessions, data_home(), app.chat.root)
    return [
        PaletteItem(
            PickerItem(
                f"session:{info.id}",
                f"Session: {clean_line(info.meta.title or info.meta.first_prompt or UNTITLED)}",
                f"{info.meta.updated_at.astimezone():%Y-%m-%d %H:%M}",
            ),
            partial(run_in_chat, app, "sessions", str(info.path)),
        )
        for info in infos[:_SESSIONS]
        if info.readable and str(info.path) != app.chat.file
    ]
