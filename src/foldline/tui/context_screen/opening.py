"""Connects the Context screen to the program and the agent: /context."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foldline.protocol.events import Event
    from foldline.tui.app import FoldlineApp
    from foldline.tui.context_screen.gathering import Prompts
    from foldline.tui.context_screen.screen import ContextScreen
    from foldline.tui.presenter import Shown
    from foldline.tui.runner import Runner
from dataclasses import dataclass
from typing import Final

from foldline.tui.keys.table import ScreenKey, table

EVERY = 0.2
"""Seconds between two looks, at least, while the agent works."""


def context_commands(app: "FoldlineApp", shown: "Shown") -> "dict[str, Callable[[Runner, str], None]]":
    return {"context": lambda _, __: Opened(app, shown).open()}


class Opened:
    """One Context screen, kept up to date for as long as it is open."""

    def __init__(self, app: "FoldlineApp", shown: "Shown") -> None:
        from foldline.tui.context_screen.gathering import Gathering

        self._app = app
        self._shown = shown
        self._state = shown.runner.agent.state
        self._gathering: Gathering = Gathering(self._state)
        self._screen: ContextScreen | None = None
        self._stale = False

    def open(self) -> None:
        """Push it, and follow the session until it is closed."""
        from foldline.tui.context_screen.screen import ContextScreen

        if isinstance(self._app.screen, ContextScreen):
            return  # its key was pressed twice
        self._screen = ContextScreen(
            f"{self._app.state.workdir} ▸ {self._app.state.title or 'new session'}",
            self._state.projection,
            self._gathering.state(self._shown.figures.room(), self._prompts(), self._app.state.doing),
            overhead=self._state.overhead,
            inspect=self._inspect,
            preview=self._preview,
        )
        stop = self._shown.runner.agent.executor.subscribe(self._hear)
        self._app.push_screen(self._screen, lambda _: stop())
        self._look()

    def _prompts(self) -> "Prompts":
        from foldline.tui.context_screen.gathering import Prompts

        waiting = self._app.state.waiting
        return Prompts(waiting.held, waiting.queued, self._app.chat.prompt.editor.text)

    def _hear(self, event: "Event") -> None:
        """Whatever changes a number, or what the agent does. What streams in changes neither."""
        from foldline.protocol.events import TextDelta, ThinkingDelta, ToolOutput

        if not self._stale and not isinstance(event, TextDelta | ThinkingDelta | ToolOutput):
            self._stale = True
            self._app.set_timer(EVERY, self._look)

    def _look(self) -> None:
        """Show what is now, and work out what a fold would give."""
        self._stale = False
        screen = self._screen
        if screen is not None and screen.is_attached:
            self._show()
            screen.run_worker(self._gathering.plan_anew(self._show), group="plan")

    def _show(self) -> None:
        if self._screen is not None and self._screen.is_attached:
            now = self._gathering.state(self._shown.figures.room(), self._prompts(), self._app.state.doing)
            self._screen.show(now, self._state.overhead)

    def _inspect(self, index: int | None) -> None:
        if index is None:
            self._shown.inspecting.open(self._app.state)
        else:
            self._shown.inspecting.open_at(index, self._app.state)

    def _preview(self) -> None:
        self._shown.previewing.open()


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides which keys work."""

    on_entry: bool = False
    """Whether the cursor is on an entry of the history."""
    editable: bool = False
    """Whether edits apply to it."""
    undoable: bool = False
    """Whether anything that changed the view is in force."""


def _on_entry(facts: Facts) -> bool:
    return facts.on_entry


def _editable(facts: Facts) -> bool:
    return facts.editable


def _undoable(facts: Facts) -> bool:
    return facts.undoable


KEYS: Final[tuple[ScreenKey[Facts], ...]] = table(
    "context",
    ScreenKey("move", ("up", "down", "k", "j"), "Moves the cursor.", "Panels", own=True),
    ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first row, the last one.",
        "Panels",
        own=True,
    ),
    ScreenKey("next-panel", ("tab",), "To the other panel.", "Panels", "panel", "Tab"),
    ScreenKey("previous-panel", ("shift+tab",), "To the other panel.", "Panels", palette=False),
    ScreenKey("panel-1", ("1",), "To Use: the window by category.", "Panels"),
    ScreenKey("panel-2", ("2",), "To Largest: the heaviest items of the next request.", "Panels"),
    ScreenKey(
        "enter",
        ("enter",),
        "In Use: goes to the largest item of this category. In Largest: opens it in the Inspector.",
        "Panels",
        own=True,
    ),
    ScreenKey("open", ("o",), "Opens the entry in the Inspector.", "Panels", "open", works=_on_entry),
    ScreenKey(
        "pin",
        ("p",),
        "Pins an entry and its tool group: every later fold keeps them. Again, unpins.",
        "Edit",
        "pin",
        works=_editable,
    ),
    ScreenKey(
        "hide",
        ("z",),
        "Puts a stub in the place of a tool result; again, shows it.",
        "Edit",
        "hide",
        works=_editable,
    ),
    ScreenKey(
        "drop",
        ("x",),
        "Takes an entry and its tool group out of the view.",
        "Edit",
        "drop",
        works=_editable,
    ),
    ScreenKey(
        "restore",
        ("r",),
        "Brings an entry and its tool group back verbatim.",
        "Edit",
        works=_editable,
    ),
    ScreenKey(
        "undo",
        ("u",),
        "Takes back the newest change of the view, then the one before.",
        "Edit",
        "undo",
        works=_undoable,
    ),
    ScreenKey("search", ("/",), "Finds text in this panel.", "Search", "search"),
    ScreenKey("next-match", ("n",), "The next row that holds it.", "Search"),
    ScreenKey("previous-match", ("N",), "The row before that holds it.", "Search"),
    ScreenKey("inspector", ("f2",), "The Inspector, at the entry under the cursor.", "Program"),
    ScreenKey(
        "preview", ("f3",), "The Compact preview: the fold before it is made.", "Program", "fold preview"
    ),
    ScreenKey("help", ("?", "f1"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "f4"), "Ends the search, else closes.", "Program", "close", "Esc"),
)
