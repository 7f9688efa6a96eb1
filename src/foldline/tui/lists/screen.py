"""The base of all dialogs: a box over another screen, with an optional text field."""

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from rich.console import RenderableType
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.message import Message
from textual.screen import ModalScreen

from foldline.frontend.keymap import KeyTable
from foldline.tui.look.cells import Spans
from foldline.tui.look.lines import Line, cover_if_too_small, key_words
from foldline.tui.look.status import StatusLine
from foldline.tui.look.styles import styles_from
from foldline.tui.look.textual_private import (
    OrderedInput,
    SessionScreen,
    dimmed,
    in_mode_of,
    mode_of,
)

Result = TypeVar("Result")
Row = TypeVar("Row")

_FAR: Final = 1_000_000
_STEPS: Final = {"up": -1, "down": 1, "first": -_FAR, "last": _FAR}
"""Number of rows by which each command moves the selection or the page."""


class LeftOnce(SessionScreen[Result]):
    """A screen that tolerates more than one `dismiss`.

    It may be dismissed again after it has closed, or while it is behind other screens. Used for screens that
    a message closes, because the user may press the key again before the message arrives. Textual's `dismiss`
    would close the wrong screen, or fail on the last one.
    """

    @property
    def is_open(self) -> bool:
        """Whether this screen is on a screen stack."""
        return mode_of(self) is not None

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close this screen and all screens above it.

        Does nothing if it is already closed.
        """
        if not self.is_open:
            return AwaitComplete()
        self.uncover()
        with in_mode_of(self):
            return super().dismiss(result)

    def uncover(self) -> None:
        """Close all screens above this one, which must be open."""
        with in_mode_of(self):
            while self.app.screen is not self:
                self.app.screen.dismiss()


class Field(OrderedInput):
    """The text field in the first line of a box. Enter posts `Done`."""

    DEFAULT_CSS: ClassVar[str] = """
    Field, Field:focus {
        height: 1; border: none; padding: 0; margin: 1 2 0 4; background: transparent; color: $role-text;
        .input--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .input--placeholder { text-style: none; color: $role-muted; }
        .input--selection { text-style: reverse; color: $role-text; background: transparent; }
    }
    """

    class Done(Message):
        """Posted when Enter is pressed in the field."""

    def __init__(self, id: str, placeholder: str, *, password: bool = False) -> None:
        super().__init__(
            id=id,
            placeholder=placeholder,
            password=password,
            compact=True,
            select_on_focus=False,
        )
        self.cursor_blink = False

    async def action_submit(self) -> None:
        self.post_message(self.Done())


PROMPT: Final = (" ❯ ", "accent")
"""The symbol before the field."""


class ListBox(StatusLine, can_focus=True):
    """The box of a list screen. It has the focus if it has no field."""

    def __init__(self, owner: "ListScreen[Any, Any]") -> None:
        super().__init__()
        self._owner = owner

    def compose(self) -> ComposeResult:
        if self._owner.field is not None:
            yield self._owner.field

    def lines(self, width: int) -> list[Line]:
        return self.with_message(self._owner.draw(width, self.size.height), width)

    def focus_on_click(self) -> bool:
        return self._owner.field is None

    def on_click(self, event: events.Click) -> None:
        self._owner.clicked(event.y)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._owner.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._owner.move(-1)


class ListScreen(ModalScreen[Result], LeftOnce[Result], Generic[Result, Row]):
    """Rows in a box in front of another screen: the base of pickers, pages and fields.

    A subclass declares `KEYS`, binds them with `BINDINGS = bindings(KEYS, "list")`, draws the box in `draw`,
    and runs its own commands in `do`.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ListScreen { align: center middle; background: transparent; }
    ListScreen > ListBox { width: 100; max-width: 100%; max-height: 100%; background: $role-background; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None
    KEYS: ClassVar[KeyTable[Any]]
    dims = True
    """Whether the screen behind the box is dimmed."""

    def __init__(self, field: Field | None = None) -> None:
        super().__init__()
        self.rows: Sequence[Row] = ()
        self.clock = time.monotonic
        self.at = 0
        """Index of the selected row or, on a page, of the first visible row."""
        self.field = field
        self.box = ListBox(self)

    # --- for subclasses ---------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        """Return `height` lines of `width` cells, for example from `boxed` in `look/lines.py`."""
        raise NotImplementedError

    def height_wanted(self) -> int | str:
        """Return the height of the box: a number of lines, or in Textual's syntax."""
        raise NotImplementedError

    def move(self, step: int) -> None:
        """Move the selection or the page down by `step` rows. A negative `step` moves it up."""

    def clicked(self, line: int) -> None:
        """Called when a line of the box is clicked."""

    # --- keys -------------------------------------------------------------------------------------------

    def hints(self) -> list[tuple[str, str]]:
        """Return the hints of the keys as (key, word), the one for closing last."""
        return [(key.name, key.hint) for key in self.KEYS if key.hint and key.pressed]

    def foot(self, width: int) -> Spans:
        """Return the hints that fit into the bottom border. The last one always stays."""
        hints = self.hints()
        while (
            len(hints) > 1
            and sum(len(f"{key} {word}") + 3 for key, word in hints) > width - 6
        ):
            del hints[-2]
        return key_words(hints)

    def action_list(self, command: str) -> None:
        """Run a command from the key table."""
        self.do(command)

    def do(self, command: str) -> None:
        match command:
            case "close":
                self.leave()
            case _ if command in _STEPS:
                self.move(_STEPS[command])

    def leave(self) -> None:
        """Go back one step. By default, this closes the screen."""
        self.dismiss(None)

    # --- showing ----------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self.box

    def render(self) -> RenderableType:
        if not self.dims:
            return super().render()
        styles = styles_from(self.app.theme_variables, self.app.no_color)
        return dimmed(super().render(), styles["muted dim"])

    def on_mount(self) -> None:
        self.fit()
        (self.field or self.box).focus()

    def on_resize(self, event: events.Resize) -> None:
        cover_if_too_small(self, event.size)
        self.fit()
        self.call_after_refresh(self.update)

    def fit(self) -> None:
        """Set the height of the box to `height_wanted()`."""
        self.box.styles.height = self.height_wanted()

    def update(self) -> None:
        """Redraw the box."""
        if self.is_mounted:
            self.box.update()

    def tell(self, words: str) -> None:
        """Show a message in the box's bottom border for two seconds."""
        self.box.tell(words)
