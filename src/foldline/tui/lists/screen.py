"""The list screen: rows with a mark, and what every list does with keys, mouse, fields and questions."""

import math
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from rich.console import RenderableType
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.message import Message
from textual.screen import ModalScreen, Screen

from foldline.tui.blocks.cells import Spans, in_reverse, width_of
from foldline.tui.blocks.styles import styles_from
from foldline.tui.keys.names import key_name
from foldline.tui.keys.table import KeyTable, ScreenKey, key_of
from foldline.tui.textual_private import OrderedInput, dimmed, in_mode_of, mode_of
from foldline.tui.widgets.lines import Line, cover_if_too_small, filled, key_words
from foldline.tui.widgets.question import DEAF_SECONDS, TOO_SOON
from foldline.tui.widgets.status import StatusLine

Result = TypeVar("Result")
Row = TypeVar("Row")

_ELSE: Final = (("any other key: no", "muted key:escape"),)
_FAR: Final = 1_000_000
_STEPS: Final = {"up": -1, "down": 1, "page-up": -10, "page-down": 10, "first": -_FAR, "last": _FAR}
"""How many rows further a key moves the mark."""


Answers = Mapping[str, tuple[str, Callable[[], object]]]
"""By key: its word, and what it does."""


@dataclass(slots=True)
class Question:
    """Something that is done only once a second key confirms it. Any other key means no."""

    sentence: str
    answers: Answers
    deaf_until: float = 0.0
    """Until then Enter and letters leave it as it is: they were typed for something else."""

    def take_keys(self, deaf_until: float) -> None:
        """Take its keys from that moment on: it is on the screen."""
        self.deaf_until = deaf_until


class TypedText:
    """Tells text that is typed at a screen whose letters are commands from single keys."""

    def __init__(self) -> None:
        self._last = self._before = -math.inf

    def note(self, event: events.Key, now: float) -> None:
        """Note a key, in the seconds of the screen's clock."""
        if event.is_printable:
            self._before, self._last = self._last, now

    @property
    def deaf_until(self) -> float:
        """Until when a question that the last key opened takes no Enter: it may end a line of text if another
        letter came right before that key."""
        return self._before + DEAF_SECONDS


class LeftOnce(Screen[Result]):
    """For screens that a message closes, or when something is done: until that comes, the key
    may have been pressed again, or another screen been opened on top.

    Textual's own `dismiss` takes away whatever screen is in front, and fails where there is none above the
    first."""

    @property
    def is_open(self) -> bool:
        """From when it is pushed to when it is left, also while others lie over it."""
        return mode_of(self) is not None

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Leave it, with all that lies over it. Nothing, where it has been left."""
        if not self.is_open:
            return AwaitComplete()
        self.uncover()
        with in_mode_of(self):
            return super().dismiss(result)

    def uncover(self) -> None:
        """Close what lies over it; it must be open."""
        with in_mode_of(self):
            while self.app.screen is not self:
                self.app.screen.dismiss()


class Field(OrderedInput):
    """A line of text within a box. Enter posts `Done` to the screen."""

    DEFAULT_CSS: ClassVar[str] = """
    Field, Field:focus {
        display: none; height: 1; border: none; padding: 0; background: transparent; color: $role-text;
        .input--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .input--placeholder { text-style: none; color: $role-muted; }
        .input--selection { text-style: reverse; color: $role-text; background: transparent; }
    }
    """

    class Done(Message):
        """Enter was pressed in it."""

    def __init__(self, id: str, placeholder: str, *, password: bool = False) -> None:
        super().__init__(
            id=id, placeholder=placeholder, password=password, compact=True, select_on_focus=False
        )
        self.cursor_blink = False

    async def action_submit(self) -> None:
        self.post_message(self.Done())


class ListBox(StatusLine, can_focus=True):
    """Draws what its screen says; has the focus while no field has it."""

    def __init__(self, owner: "ListScreen[Any, Any]", fields: Sequence[Field]) -> None:
        super().__init__()
        self._owner = owner
        self._fields = fields

    def compose(self) -> ComposeResult:
        yield from self._fields

    def lines(self, width: int) -> list[Line]:
        return self.with_message(self._owner.draw(width, self.size.height), width)

    def focus_on_click(self) -> bool:
        return self._owner.field() is None

    def on_click(self, event: events.Click) -> None:
        self._owner.clicked(event.y)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._owner.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._owner.move(-1)


class ListScreen(ModalScreen[Result], LeftOnce[Result], Generic[Result, Row]):
    """A box over the screen below, with rows of which one is marked.

    A screen declares `KEYS`, binds them with `BINDINGS = bindings(KEYS, "list")`, draws itself in `draw`, and
    carries its commands out in `act`. Moving, help, questions, mouse and fields are done here.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ListScreen { align: center middle; background: transparent; }
    ListScreen > ListBox { width: 100; max-width: 100%; max-height: 100%; background: $role-background; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None
    KEYS: ClassVar[KeyTable[Any]]
    dims = True
    """Whether what is behind the box steps back."""

    def __init__(self, rows: Sequence[Row] = (), fields: Sequence[Field] = ()) -> None:
        super().__init__()
        self.rows: Sequence[Row] = rows
        self.clock = time.monotonic
        self.at = 0
        """The place of the mark."""
        self.question: Question | None = None
        self.typed = TypedText()
        self.fields = fields
        self.box = ListBox(self, fields)
        self._first = 0
        """The row that was at the top: it stays there as long as the mark is in sight."""
        self.seen: dict[int, int] = {}
        """Which row stands on which line of the box."""

    # --- what a screen says of itself -------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        """Exactly `height` lines of `width` cells; `boxed` of `widgets/lines.py` helps."""
        raise NotImplementedError

    def act(self, command: str) -> None:
        """Carry out a command of the table that works now, and that is not done here."""

    def height_wanted(self) -> int | str:
        """Lines of the box where there are as many; or a height as Textual's styles have it."""
        return 30

    def moved(self) -> None:
        """The mark is at another row."""

    def word(self, key: ScreenKey[Any]) -> str:
        """The word of a key in the row of hints."""
        return key.hint

    def field(self) -> Field | None:
        """The field that is open now."""
        return None

    def field_place(self, height: int) -> tuple[int, int]:
        """(line of the open field in a box of this height, cells it leaves free at the right)."""
        return 1, 2

    # --- the mark ---------------------------------------------------------------------------------------

    @property
    def row(self) -> Row | None:
        """The marked row."""
        return self.rows[self.at] if self.at < len(self.rows) else None

    def show_rows(self, rows: Sequence[Row], same: Callable[[Row, Row], bool] | None = None) -> None:
        """Show other rows. The mark stays in its place, or, with `same`, at its row where that is there."""
        before, self.rows = self.row, rows
        if before is not None and same is not None:
            self.at = next((at for at, row in enumerate(rows) if same(row, before)), self.at)
        self.at = min(self.at, max(len(rows) - 1, 0))
        self.update()

    def move(self, step: int) -> None:
        """The mark goes so many rows further, within the list."""
        self.move_to(min(max(self.at + step, 0), max(len(self.rows) - 1, 0)))

    def move_to(self, at: int) -> None:
        self.question = None
        if at != self.at:
            self.at = at
            self.moved()
        self.update()

    def row_lines(
        self,
        room: int,
        top: int,
        line: Callable[[Row, bool], Line],
        empty: Sequence[Line] = (),
        *,
        reverses: bool = True,
    ) -> list[Line]:
        """Exactly `room` lines with the rows around the mark, drawn by `line(row, is_marked)`; the marked one
        in reverse, where the keys move it. `top` is the line of the box on which they begin; `empty` stands
        there where there is no row."""
        least = max(self._first, self.at - room + 1)
        first = self._first = max(min(least, self.at, len(self.rows) - room), 0)
        shown = self.rows[first : first + room]
        self.seen = {top + at: first + at for at in range(len(shown))}
        lines = [line(row, first + at == self.at) for at, row in enumerate(shown)]
        if lines and reverses:
            lines[self.at - first] = in_reverse(lines[self.at - first])
        return filled(lines or empty, room)

    def clicked(self, line: int) -> None:
        """A click marks the row that stands there."""
        if line in self.seen:
            self.move_to(self.seen[line])

    # --- keys -------------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return True

    def hints(self) -> list[tuple[str, str]]:
        """(keys, word) of what works now."""
        shown = [key for key in self.KEYS if key.hint and key.pressed and self.works_now(key.id)]
        return [(key.name, self.word(key)) for key in shown]

    def foot(self, width: int, keep: Container[str] = ()) -> tuple[Spans, Spans]:
        """What answers the question; else the hints, the last of them for the right end of the lower edge.
        Where there is no room the last go first, those whose keys are in `keep` at the very end."""
        if self.question is not None:
            words: dict[str, str] = {}
            for key, (word, _) in self.question.answers.items():
                words.setdefault(word, key_name(key))
            return key_words((key, word) for word, key in words.items()), _ELSE
        *shown, last = self.hints()
        while shown and width_of(key_words((*shown, last))) > width - 10:
            others = [each for each in shown if each[0] not in keep]
            shown.remove(others[-1] if others else shown[-1])
        return key_words(shown), key_words((last,), "muted")

    def action_list(self, command: str) -> None:
        """What a key of the table does; also an answer by the palette, which keys give before."""
        question = self.question
        answers = question.answers if question is not None else {}
        key = next((each for each in key_of(self.KEYS, command).pressed if each in answers), None)
        if question is not None and key is not None:
            self._answer(question, key)
        elif self.works_now(command):
            self.do(command)

    def do(self, command: str) -> None:
        """Carry out a command that works now."""
        match command:
            case "help":
                self.app.call_later(self.app.run_action, "app.everywhere('help')")
            case _ if command in _STEPS and len(self.rows):
                self.move(_STEPS[command])
            case "close":
                self.leave()
            case _:
                self.act(command)

    def leave(self) -> None:
        """One step outwards; here, out of the screen."""
        self.dismiss(None)

    def ask(self, sentence: str, answers: Answers) -> None:
        """Do nothing before one of these keys is pressed next; `draw` shows the question."""
        self.question = Question(sentence, answers)
        self.update()

    def confirm(self, sentence: str, command: str, do: Callable[[], object], word: str = "yes") -> None:
        """Do it only if Enter, or the key of `command` if there is one, is pressed next, once the question is
        on the screen."""
        keys = key_of(self.KEYS, command).pressed if command else ()
        question = Question(sentence, dict.fromkeys(("enter", *keys), (word, do)), math.inf)
        self.question = question
        self.update()
        self.call_after_refresh(question.take_keys, self.typed.deaf_until)

    def on_key(self, event: events.Key) -> None:
        self.typed.note(event, self.clock())
        if self.question is not None:
            event.stop()
            event.prevent_default()
            self._answer(self.question, event.key)

    def _answer(self, question: Question, key: str) -> None:
        """Also where the key came as a command: one pressed right behind another sees no question yet."""
        is_typed = key == "enter" or len(key) == 1
        if key in question.answers and is_typed and self.clock() < question.deaf_until:
            self.tell(TOO_SOON)
            return
        self.question = None
        self.tell("")
        if key in question.answers:
            question.answers[key][1]()
        self.update()

    # --- showing ----------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self.box

    def render(self) -> RenderableType:
        if not self.dims:
            return super().render()
        return dimmed(super().render(), styles_from(self.app.theme_variables, self.app.no_color)["muted dim"])

    def on_mount(self) -> None:
        self.fit()
        self.place_field()

    def on_resize(self, event: events.Resize) -> None:
        cover_if_too_small(self, event.size)
        self.call_after_refresh(self.update)

    def fit(self) -> None:
        """Take the height that is wanted now."""
        self.box.styles.height = self.height_wanted()

    def update(self) -> None:
        """Draw what is new."""
        if self.is_mounted:
            self.place_field()
            self.box.update()

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self.box.tell(words)

    def place_field(self) -> None:
        """Show the open field on its line, and give it the focus; without one, the box has it."""
        shown = self.field()
        for field in self.fields:
            field.display = field is shown
        if shown is not None:
            line, right = self.field_place(self.box.size.height)
            shown.styles.margin = (line, right, 0, 4)
        wanted = self.box if shown is None else shown
        if not wanted.has_focus:
            wanted.focus()


class PageScreen(ListScreen[None, Row]):
    """Rows that are read and not chosen: `at` is the one at the top."""

    margin: ClassVar[int] = 2
    """Lines of the box that show no row."""

    @property
    def room(self) -> int:
        """Rows that are seen at once."""
        return max(self.box.size.height - self.margin, 1)

    @property
    def last_top(self) -> int:
        return max(len(self.rows) - self.room, 0)

    def move(self, step: int) -> None:
        self.at = min(max(self.at + step, 0), self.last_top)
        self.update()

    def do(self, command: str) -> None:
        if command in ("page-up", "page-down"):
            step = max(self.room - 1, 1)
            self.move(-step if command == "page-up" else step)
        else:
            super().do(command)
