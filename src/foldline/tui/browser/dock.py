"""The area beside the chat in which the Inspector is docked."""

from collections.abc import Callable
from typing import ClassVar, Final

from textual import events
from textual.widget import Widget

DOCKED_FROM: Final = 160
"""Minimum terminal width, in columns, for docking; see docs/design/screens.md."""
CHAT_COLUMNS: Final = 88
"""Width of the chat beside a docked panel, in columns."""

_KEYS_OF_PANEL: Final = frozenset({"complete", "escape", "page-up", "page-down"})
"""Chat commands whose keys the docked panel handles while it has the focus."""


class Dock(Widget, can_focus=True):
    """Docks a widget to the right of the chat, at full height.

    The dock is hidden while it is empty.

    Until the widget is mounted, the dock has the focus and collects keys for the widget.
    """

    DEFAULT_CSS: ClassVar[str] = """
    Dock { display: none; dock: right; height: 1fr; layout: vertical; border-left: none; }
    """

    FOCUS_ON_CLICK: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._inner: Widget | None = None
        self._enter: Callable[[], None] = lambda: None
        self._too_narrow: Callable[[], None] = lambda: None
        self._early: list[events.Key] = []
        """Keys pressed before the docked widget was mounted."""

    @property
    def is_used(self) -> bool:
        return self._inner is not None

    def put(
        self, inner: Widget, enter: Callable[[], None], too_narrow: Callable[[], None]
    ) -> None:
        """Dock a widget.

        Args:
            enter: focuses the widget.
            too_narrow: called if the terminal becomes too narrow.
        """
        self._inner = inner
        self._enter = enter
        self._too_narrow = too_narrow
        self.mount(inner)
        self.chat_columns(self.screen.size.width)
        self._focus_if_shown()

    def expect(self, width: int) -> None:
        """Show the dock, if the screen is wide enough.

        The dock then collects keys for a widget that will be docked.
        """
        if self._inner is None and width >= DOCKED_FROM:
            self.styles.width = width - CHAT_COLUMNS
            self.display = True
            self._focus_if_shown()

    def _focus_if_shown(self) -> None:
        if self.display:
            self.screen.set_focus(self)

    def on_key(self, event: events.Key) -> None:
        if self.has_focus:
            event.stop()
            event.prevent_default()
            self._early.append(event)

    def on_descendant_focus(self) -> None:
        """Send the collected keys to the mounted widget."""
        early, self._early = self._early, []
        for key in early:
            copied_key = events.Key(key.key, key.character)
            copied_key.set_sender(
                self.app
            )  # otherwise the key would not bubble past the dock
            self.app.post_message(copied_key)

    def clear(self) -> None:
        """Remove the docked widget."""
        inner, self._inner = self._inner, None
        self._early.clear()
        if inner is not None:
            inner.remove()
        self.display = False

    def chat_columns(self, width: int) -> int:
        """Lay out the dock.

        Returns:
            The width of the chat, in columns, on a screen of this width.
        """
        if self._inner is None:
            return width
        if width < DOCKED_FROM:
            self.call_later(self._too_narrow)
            return width
        self.styles.width = width - CHAT_COLUMNS
        self.display = True
        return CHAT_COLUMNS

    def keeps(self, command: object) -> bool:
        """Whether this command's key goes to the docked panel now."""
        return command in _KEYS_OF_PANEL and self.has_focus_within

    def enter(self) -> None:
        """Focus the docked widget."""
        if self._inner is not None:
            self._enter()
