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
        self._desk = shown.runner.agent.desk
        self._gathering: Gathering = Gathering(self._desk)
        self._screen: ContextScreen | None = None
        self._stale = False

    def open(self) -> None:
        """Push it, and follow the session until it is closed."""
        from foldline.tui.context_screen.screen import ContextScreen

        if isinstance(self._app.screen, ContextScreen):
            return  # its key was pressed twice
        self._screen = ContextScreen(
            f"{self._app.state.workdir} ▸ {self._app.state.title or 'new session'}",
            self._desk.projection,
            self._gathering.state(self._shown.figures.room(), self._prompts(), self._app.state.doing),
            overhead=self._desk.overhead,
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
            self._screen.show(now, self._desk.overhead)

    def _inspect(self, index: int | None) -> None:
        if index is None:
            self._shown.inspecting.open(self._app.state)
        else:
            self._shown.inspecting.open_at(index, self._app.state)

    def _preview(self) -> None:
        self._shown.previewing.open()
