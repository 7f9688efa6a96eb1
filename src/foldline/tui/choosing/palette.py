"""The palette: everything that can be done now, over any screen, found by typing."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from textual.app import App
from textual.screen import Screen

from foldline.protocol import FoldlineError
from foldline.tui.chat import ChatScreen
from foldline.tui.choosing.picker import Choice, Picker
from foldline.tui.everywhere import Recent
from foldline.tui.help import HelpScreen
from foldline.tui.keys.command import CHAT
from foldline.tui.keys.commands import COMMANDS
from foldline.tui.keys.stations import stations
from foldline.tui.widgets.telling import Tells

_TITLE: Final = "What do you want to do?"
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
        super().__init__(_TITLE, self._in_order())

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


def open_palette(app: App[Any], recent: Recent, sources: Iterable[Source] = ()) -> None:
    """Let the reader choose from everything that works where they are; once more, closes it."""
    if isinstance(app.screen, Palette):
        app.screen.dismiss(None)
        return
    if isinstance(app.screen, HelpScreen):
        app.screen.dismiss()
        if isinstance(app.screen, Palette):
            return
    below = _below(app)
    palette = Palette((*_of_screen(app, below), *_of_chat(app, below)), sources, recent.ids)

    def taken(choice: str | None) -> None:
        if choice is not None:
            recent.took(choice)
            palette.items[choice].run()

    app.push_screen(palette, taken)


def chat_of(app: App[Any]) -> ChatScreen | None:
    """The chat, also where other screens are above it."""
    return next((screen for screen in app.screen_stack if isinstance(screen, ChatScreen)), None)


def run_in_chat(app: App[Any], command: str, argument: str = "") -> None:
    """Carry out a command of the chat from whatever screen; what it answers is seen there."""
    chat = chat_of(app)
    if chat is None:
        return

    def pass_on() -> None:
        if isinstance(app.screen, Tells) and chat.remarked:
            app.screen.tell(chat.remarked)

    chat.remark("")
    chat.run_command(command, argument)
    # What the program answers comes after the message that tells it of the command.
    chat.call_later(app.call_later, pass_on)


def _below(app: App[Any]) -> Screen[Any]:
    """The screen in front, help apart: that has just been told to go."""
    return next(screen for screen in reversed(app.screen_stack) if not isinstance(screen, HelpScreen))


def _of_screen(app: App[Any], screen: Screen[Any]) -> Iterator[Item]:
    """What the keys of this screen do now, the chat's apart."""
    for station in stations(screen):
        if station.screen == CHAT:
            continue
        for key, works in station.entries():
            action = station.actions.get(key.id)
            if action is None or not works or not key.palette or _MOVES & {*key.keys}:
                continue
            choice = Choice(key.binding_id, key.label, station.title, key.name)

            def run(action: str = action, node: Any = station.node) -> None:
                app.call_later(app.run_action, action, node)

            yield Item(choice, run)


def _of_chat(app: App[Any], screen: Screen[Any]) -> Iterator[Item]:
    chat = chat_of(app)
    if chat is None:
        return
    open_now = {station.screen for station in stations(screen)}
    for command in COMMANDS:
        reaches = screen is chat or command.slash or command.group == "Questions"
        if command.palette and command.works(chat.state) and reaches and command.id not in open_now:
            choice = Choice(command.binding_id, command.title, command.usage, " ".join(command.names[:1]))

            def run(command: str = command.id) -> None:
                run_in_chat(app, command)

            yield Item(choice, run)
