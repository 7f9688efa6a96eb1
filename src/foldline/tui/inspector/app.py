"""`foldline open FILE`: the Inspector as a program of its own, read-only; what grows is followed."""

from typing import Any, ClassVar, Protocol

from textual.binding import Binding, BindingType

from foldline.context.projection import Projection
from foldline.protocol import SessionHeader
from foldline.tui.faults import PlainApp
from foldline.tui.inspector.following import EVERY, Followed, Following
from foldline.tui.inspector.screen import InspectorScreen
from foldline.tui.themes import DEFAULT_THEME, ROLE_DEFAULTS, load_themes


class SessionLike(Protocol):
    """What the Inspector needs of a session."""

    @property
    def header(self) -> SessionHeader: ...

    @property
    def projection(self) -> Projection: ...


class InspectorApp(PlainApp[None]):
    """Shows one session. `q` or Esc quits."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit", "Quit", show=False)]

    def __init__(
        self,
        session: SessionLike,
        title: str,
        *,
        theme: str = DEFAULT_THEME,
        followed: Followed[Any] | None = None,
        every: float = EVERY,
    ) -> None:
        """`title` is the file's name. What is `followed` is shown as it grows, with a look `every` so many
        seconds; `session` is its session."""
        super().__init__(ansi_color=True)
        self._followed = followed
        self._every = every
        self._session = session
        self._file = title
        for each in load_themes():
            self.register_theme(each)
        self.theme = theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ROLE_DEFAULTS

    async def on_mount(self) -> None:
        projection = self._session.projection
        self.inspector = InspectorScreen(projection, self._file, cwd=self._session.header.cwd)
        await self.push_screen(self.inspector, lambda _: self.exit())
        if self._followed is not None:
            self.following = Following(self._followed, self.inspector)
            self.following.begin()
            self.run_worker(self.following.run(self._every), group="follow")
