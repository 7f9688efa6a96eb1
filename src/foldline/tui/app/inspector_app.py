"""The app run by `foldline open FILE`: an Inspector without a chat."""

from typing import ClassVar, Final

from textual.binding import Binding, BindingType

from foldline.tui.base_app import BaseApp
from foldline.tui.browser.inspector.follow import FollowingInspector

INSPECTOR_IS_OPEN: Final = "The Inspector is already open. Press Esc to quit."


class InspectorApp(BaseApp[None]):
    """Shows an Inspector. `q` or Esc quits."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", show=False),
        Binding("f2", "stay", show=False, priority=True),
    ]

    def __init__(self, inspector: FollowingInspector) -> None:
        super().__init__()
        self.inspector = inspector

    def action_stay(self) -> None:
        """Show the entries or, if they are already shown, say that the Inspector is open.

        Without this action, F2 would close the Inspector and so quit the app.
        """
        if self.inspector.panels.by_size:
            self.inspector.panels.go_to_history()
        else:
            self.inspector.tell(INSPECTOR_IS_OPEN)

    async def on_mount(self) -> None:
        await self.push_screen(self.inspector, lambda _: self.exit())
