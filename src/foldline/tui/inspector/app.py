"""`foldline open FILE`: the Inspector as a program of its own, read-only; what grows is followed."""

from typing import Any, ClassVar, Protocol

from textual.binding import Binding, BindingType

from foldline.context.projection import Projection
from foldline.protocol import SessionHeader
from foldline.tui.inspector.following import EVERY, Followed, Following
from foldline.tui.inspector.screen import InspectorScreen
from foldline.tui.keyed_app import KeyedApp
from foldline.tui.themes import DEFAULT_THEME


class SessionLike(Protocol):
    """What the Inspector needs of a session."""

    @property
    def header(self) -> SessionHeader: ...

    @property
    def projection(self) -> Projection: ...


class InspectorApp(KeyedApp[None]):
    """Shows one session. `q` or Esc quits."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", show=False),
        Binding("f2", "stay", show=False, priority=True),  # who presses it wants what is there already
    ]

    def __init__(
        self,
        session: SessionLike,
        title: str,
        *,
        theme: str = DEFAULT_THEME,
        followed: Followed[Any] | None = None,
        window: int = 0,
        every: float = EVERY,
    ) -> None:
        """`title` is the file's name. What is `followed` is shown as it grows, with a look `every` so many
        seconds; `session` is its session. `window` is the model's, in tokens; 0 where nobody has said it."""
        super().__init__(theme)
        self._followed = followed
        self._every = every
        self._model_window = window
        self._session = session
        self._file = title

    def action_stay(self) -> None:
        """The key that opens, and elsewhere closes, the Inspector: here it would end the program."""
        self.inspector.tell("This is the Inspector. Esc ends the program.")

    async def on_mount(self) -> None:
        projection = self._session.projection
        self.inspector = InspectorScreen(
            projection, self._file, cwd=self._session.header.cwd, window=self._model_window
        )
        await self.push_screen(self.inspector, lambda _: self.exit())
        if self._followed is not None:
            self.following = Following(self._followed, self.inspector)
            self.following.begin()
            self.run_worker(self.following.run(self._every), group="follow")
