"""The palette: everything that can be done now, over any screen, found by typing.

The chat offers its commands there, and themes, models, settings and sessions by name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual.app import App
from textual.screen import Screen

from foldline.context.harmless import clean_line
from foldline.protocol import FoldlineError
from foldline.tui.keys.commands import BY_ID, CHAT, COMMANDS, common_first
from foldline.tui.keys.table import active_tables
from foldline.tui.lists.picker import Choice, Picker
from foldline.tui.prompting.completion import arguments
from foldline.tui.screens.help import HelpScreen

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp

_TITLE: Final = "What do you want to do?"
_RECENT: Final = 8
"""Choices taken before that stand first."""
_MOVES: Final = frozenset(
    {"up", "down", "left", "right", "pageup", "pagedown", "home", "end", "ctrl+home", "ctrl+end"}
)
"""Keys of what one does by keys only: moving about."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something the palette does."""

    choice: Choice
    run: Callable[[], object]
    """Called when the screen that was below the palette is in front again."""


Source = Callable[[], Awaitable[Sequence[Item]]]
"""Gives further items, and may take its time: they join the list when they are there."""


class Palette(Picker):
    """The list, and what its choices do."""

    def __init__(self, items: Iterable[Item], sources: Iterable[Source], recent: Sequence[str]) -> None:
        """`recent`: the choices taken before, the last one first."""
        self._items = tuple(items)
        self._late: dict[int, Sequence[Item]] = {}
        self.items = {item.choice.id: item for item in self._items}
        self._recent = tuple(recent)
        self._sources = tuple(sources)
        super().__init__(_TITLE, self._in_order(), notes_in_full=True)

    def _in_order(self) -> list[Choice]:
        """What was chosen before first."""
        known = [each for each in self._recent if each in self.items]
        return [self.items[each].choice for each in dict.fromkeys((*known, *self.items))]

    def on_mount(self) -> None:
        for number, source in enumerate(self._sources):
            self.run_worker(self._join(number, source), group="sources")

    async def _join(self, number: int, source: Source) -> None:
        try:
            items = await source()
        except FoldlineError as failure:
            self.tell(str(failure))
            return
        # In the order of the sources, whichever was the fastest.
        self._late[number] = items
        late = (item for at in sorted(self._late) for item in self._late[at])
        self.items = {item.choice.id: item for item in (*self._items, *late)}
        self.offer(self._in_order())


def open_palette(
    app: App[Any],
    recent: list[str],
    others: Callable[[Screen[Any]], Iterable[Item]],
    sources: Iterable[Source] = (),
) -> None:
    """Offer everything that works where the user is; where it is open, close it.

    Args:
        recent: the choices taken before, the last one first; kept up to date.
        others: what there is to do beside the keys of the screen below.
    """
    if isinstance(app.screen, Palette):
        app.screen.dismiss(None)
        return
    if isinstance(app.screen, HelpScreen):
        app.screen.dismiss()
        if isinstance(app.screen, Palette):
            return
    # Help is closing, and may still be there.
    below = next(screen for screen in reversed(app.screen_stack) if not isinstance(screen, HelpScreen))
    palette = Palette((*_of_screen(app, below), *others(below)), sources, recent)

    def taken(choice: str | None) -> None:
        if choice is not None:
            recent[:] = [choice, *(each for each in recent if each != choice)][:_RECENT]
            palette.items[choice].run()

    app.push_screen(palette, taken)


def _of_screen(app: App[Any], screen: Screen[Any]) -> Iterator[Item]:
    """What the keys of this screen do now, the chat's apart."""
    for active in active_tables(screen):
        if active.name == CHAT:
            continue
        for key, works in active.entries():
            action = active.actions.get(key.id)
            if action is None or not works or not key.palette or _MOVES & {*key.keys}:
                continue
            choice = Choice(key.binding_id, key.label, active.table.title, key.name)

            def run(action: str = action, node: Any = active.node) -> None:
                app.call_later(app.run_action, action, node)

            yield Item(choice, run)


# --- what the chat offers -------------------------------------------------------------------------------

_SESSIONS: Final = 50
"""Sessions of this folder that are offered, the newest."""


def run_in_chat(app: "FoldlineApp", command: str, argument: str = "") -> None:
    """Carry out a command of the chat from whatever screen; what it answers is seen there."""
    app.chat.remark("")
    app.chat.run_command(command, argument)
    # What the program answers comes after the message that posts the command.
    app.chat.call_later(app.call_later, app.tell_above)


def chat_items(app: "FoldlineApp", below: Screen[Any]) -> Iterator[Item]:
    """The commands that do something now, from the screen below the palette."""
    open_now = {active.name for active in active_tables(below)}
    for command in common_first(COMMANDS):
        offered = command.palette and command.place != "prompt"
        reaches = below is app.chat or command.slash or command.group == "Questions"
        if offered and command.works(app.chat.state) and reaches and command.id not in open_now:
            note = " · ".join(filter(None, (command.usage, command.help_text)))
            choice = Choice(command.binding_id, command.title, note, " ".join(command.names[:1]))
            yield Item(choice, partial(run_in_chat, app, command.id))
    for own in app.chat.state.own_commands:
        yield Item(Choice(f"own:{own.id}", f"/{own.id}", own.title), partial(_offer, app, own.id))


def _offer(app: "FoldlineApp", name: str) -> None:
    """Put a command into the editor: something may stand behind it."""
    if not app.chat.prompt.give_back(f"/{name} "):
        app.say(f"The prompt holds other text: /{name} goes there")


def chat_sources(app: "FoldlineApp") -> Sequence[Source]:
    return (
        partial(_named, app, "theme", "Theme"),
        partial(_named, app, "strategy", "Strategy"),
        partial(_named, app, "model", "Model"),
        partial(_settings, app),
        partial(_sessions, app),
    )


async def _named(app: "FoldlineApp", command: str, word: str) -> Sequence[Item]:
    """What may stand behind a slash command, where that does something now."""
    if not BY_ID[command].works(app.state):
        return ()
    known = await asyncio.to_thread(arguments, command, "", app)
    return [
        Item(
            Choice(f"{command}:{each.label}", f"{word}: {each.label}", each.note),
            partial(run_in_chat, app, command, each.label),
        )
        for each in known
    ]


async def _settings(app: "FoldlineApp") -> Sequence[Item]:
    from foldline.agent.settings_schema import KEYS, LABELS

    items = []
    for key, field in KEYS.items():
        what = clean_line((field.description or "").partition(".")[0].replace("`", ""))
        choice = Choice(f"setting:{key}", f"Setting: {LABELS[key]}", f"{key}: {what}")
        items.append(Item(choice, partial(run_in_chat, app, "settings", key)))
    return items


async def _sessions(app: "FoldlineApp") -> Sequence[Item]:
    from foldline.history import data_home, list_sessions

    infos = await asyncio.to_thread(list_sessions, data_home(), app.chat.root)
    return [
        Item(
            Choice(
                f"session:{info.id}",
                f"Session: {clean_line(info.meta.title or info.meta.first_prompt or 'not named yet')}",
                f"{info.meta.updated_at.astimezone():%Y-%m-%d %H:%M}",
            ),
            partial(run_in_chat, app, "sessions", str(info.path)),
        )
        for info in infos[:_SESSIONS]
        if info.readable and str(info.path) != app.chat.file
    ]
