"""The place beside the chat: empty, or what is docked there; the chat has then 88 columns."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual import events
from textual.geometry import Region
from textual.widget import Widget

from foldline.tui.widgets.borders import Borders, Movable
from foldline.tui.widgets.lines import LEAST

DOCKED_FROM: Final = 160
"""Columns from which something can stand beside the chat; docs/design/screens.md."""
CHAT_COLUMNS: Final = 88
"""What is left to the chat then, until the reader moves the border."""

_KEPT: Final = frozenset({"complete", "escape", "page-up", "page-down"})
"""Commands of the chat that work anywhere, but not where the docked panel has the focus: their keys mean the
same there, of the panel."""


class Dock(Movable, can_focus=True):
    """Stands right of the chat, from the first row to the last; not there while it is empty. What is docked
    takes a moment to be there: until then this has the focus, and keeps the keys for it."""

    DEFAULT_CSS: ClassVar[str] = """
    Dock { display: none; dock: right; height: 1fr; layout: vertical; border-left: none; }
    """

    FOCUS_ON_CLICK: ClassVar[bool] = False

    def __init__(self, fit: Callable[[], None]) -> None:
        """`fit` lays the screen out again."""
        super().__init__()
        self._fit = fit
        self._border = Borders(self._parts, self._give)
        self.borders = (self._border,)
        self._dragged_to: Sequence[int] = ()
        """Columns of chat and dock while they are given others."""
        self._inner: Widget | None = None
        self._enter: Callable[[], None] = lambda: None
        self._too_narrow: Callable[[], None] = lambda: None
        self._early: list[events.Key] = []
        """Keys that were pressed before what is docked could take them."""

    @property
    def taken(self) -> bool:
        return self._inner is not None

    def put(self, inner: Widget, enter: Callable[[], None], too_narrow: Callable[[], None]) -> None:
        """Dock a widget, to which `enter` gives the focus. `too_narrow` is called where there is no room for
        it any more."""
        self._inner, self._enter, self._too_narrow = inner, enter, too_narrow
        self.mount(inner)
        self.chat_columns(self.screen.size.width)
        self._await_it()

    def expect(self, width: int) -> None:
        """A key was pressed that docks something on a screen of this width: those behind it are for that."""
        if self._inner is None and width >= DOCKED_FROM:
            self.styles.width = width - self._columns_of_chat(width)
            self.display = True
            self._await_it()

    def _await_it(self) -> None:
        if self.display:
            self.screen.set_focus(self)

    def on_key(self, event: events.Key) -> None:
        if self.has_focus:
            event.stop()
            event.prevent_default()
            self._early.append(event)

    def on_descendant_focus(self) -> None:
        """It is there now."""
        early, self._early = self._early, []
        for key in early:
            again = events.Key(key.key, key.character)
            again.set_sender(self.app)  # else it would bubble no further than up to here
            self.app.post_message(again)

    def clear(self) -> None:
        """Nothing is docked any more."""
        inner, self._inner = self._inner, None
        self._early.clear()
        if inner is not None:
            inner.remove()
        self.display = False

    def chat_columns(self, width: int) -> int:
        """What is left to the chat of a screen of this width."""
        if self._inner is None:
            return width
        if width < DOCKED_FROM:
            self.call_later(self._too_narrow)
            return width
        chat = self._columns_of_chat(width)
        self.styles.width = width - chat
        self.display = True
        return chat

    def _columns_of_chat(self, width: int) -> int:
        chat, docked = (
            self._dragged_to or self._border.kept(self.app.size) or (CHAT_COLUMNS, width - CHAT_COLUMNS)
        )
        return max(min(chat * width // (chat + docked), width - LEAST[0]), LEAST[0])

    def _parts(self) -> dict[str, Region]:
        return {"chat": Region(0, 0, self.region.x, self.region.bottom), "docked": self.region}

    def _give(self, columns: Sequence[int]) -> None:
        self._dragged_to = columns
        self._fit()
        self._dragged_to = ()

    def keeps(self, command: object) -> bool:
        """Whether the key of this command is the docked panel's now."""
        return command in _KEPT and self.has_focus_within

    def enter(self) -> None:
        """Give the focus to what is docked."""
        if self._inner is not None:
            self._enter()
