"""`foldline open FILE`: the Inspector as a program of its own, read-only; a file that grows is followed."""

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from foldline.history import Session
from foldline.tui.base_app import BaseApp
from foldline.tui.inspector.following import EVERY, Followed, FollowingInspector


class InspectorApp(BaseApp[None]):
    """Shows one session. `q` or Esc quits."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", show=False),
        Binding("f2", "stay", show=False, priority=True),  # who presses it wants what is there already
    ]

    def __init__(
        self,
        session: Session,
        title: str,
        *,
        followed: Followed[Any] | None = None,
        window: int = 0,
        every: float = EVERY,
    ) -> None:
        """
        Args:
            title: the file's name.
            followed: shown as it grows; `session` is its session.
            window: the model's, in tokens; 0 where nobody has said it.
            every: seconds between two looks at what is followed.
        """
        super().__init__()
        self.inspector = FollowingInspector(session, title, followed, window=window, every=every)

    def action_stay(self) -> None:
        """The key that opens, and elsewhere closes, the Inspector: here it would end the program."""
        self.inspector.tell("This is the Inspector. Esc ends the program.")

    async def on_mount(self) -> None:
        await self.push_screen(self.inspector, lambda _: self.exit())
