"""The preview of a session that is worked on: what it wishes for is carried out."""

from collections.abc import Callable

from textual import on

from foldline.tui.preview.messages import PreviewMessage
from foldline.tui.preview.screen import PreviewScreen
from foldline.tui.preview.state import PreviewState


class OwnedPreview(PreviewScreen):
    """The preview, and where its wishes go."""

    def __init__(
        self,
        title: str,
        carry_out: Callable[[PreviewMessage], None],
        *,
        clock: Callable[[], float],
        state: PreviewState,
    ) -> None:
        super().__init__(title, clock=clock, state=state)
        self._carry_out = carry_out

    @on(PreviewMessage)
    def _wish(self, message: PreviewMessage) -> None:
        message.stop()
        self._carry_out(message)
