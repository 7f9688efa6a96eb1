"""Choosing one of many by typing: the palette, themes, models, sessions. One modal screen for all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, width_of, wrap_spans
from foldline.tui.widgets.completion import Candidate, candidate_lines
from foldline.tui.widgets.frames import HEAVY, edge, sides
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.telling import Telling

ROWS = 14
_NOTE_ROWS = 4
"""Rows below the list for the whole note of the marked choice, the first of them blank."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose. `id` is what is handed back; label and note may be foreign text."""

    id: str
    label: str
    note: str = ""


def matching(typed: str, choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """The choices that hold every word typed: first in the label, at its start best, then in the note."""
    words = typed.lower().split()

    def rank(choice: Choice) -> int | None:
        label, note = choice.label.lower(), choice.note.lower()
        if not all(word in label or word in note for word in words):
            return None
        if not words or label.startswith(words[0]):
            return 0
        return 1 if all(word in label for word in words) else 2

    ranked = [(found, at) for at, choice in enumerate(choices) if (found := rank(choice)) is not None]
    return tuple(choices[at] for _, at in sorted(ranked))


class _Choices(Telling):
    DEFAULT_CSS: ClassVar[str] = "_Choices { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.shown: Sequence[Choice] = ()
        self.marked = 0
        self.notes_in_full = False

    def lines(self, width: int) -> list[list[Span]]:
        note = self._note(width)
        rows = self.size.height - 1 - len(note)
        candidates = [Candidate("", clean_line(c.label), clean_line(c.note)) for c in self.shown]
        inner = candidate_lines(candidates, self.marked, rows, width - 2)
        if not candidates:
            inner = [[("  nothing matches", "muted")]]
        inner += [*([[]] * (rows - len(inner))), *note]
        count = ((f"{self.marked + 1} of {len(self.shown)}", "muted"),) if self.shown else ()
        keys = (("Enter takes · Esc closes", "muted"),)
        framed = [*(sides(HEAVY, line, width) for line in inner), edge(HEAVY, False, keys, count, width)]
        return self.with_told(framed, width)

    def _note(self, width: int) -> list[list[Span]]:
        """What its row may have cut off, where there is the height."""
        if not self.notes_in_full or self.size.height < 2 * _NOTE_ROWS - 2:
            return []
        note = clean_line(self.shown[self.marked].note) if self.shown else ""
        beside = max((width_of([(clean_line(choice.label), "")]) for choice in self.shown), default=0)
        is_cut = width_of([(note, "")]) > width - beside - 6
        lines = wrap_spans([(note, "text")], width - 4) if is_cut else []
        shown = [[], *([(" ", ""), *line] for line in lines)][:_NOTE_ROWS]
        return [*shown, *([[]] * (_NOTE_ROWS - len(shown)))]


class _Top(Lines):
    DEFAULT_CSS: ClassVar[str] = """
    _Top { height: 2; }
    _Top > Input, _Top > Input:focus {
        margin: 1 2 0 4; height: 1; border: none; padding: 0; background: transparent; color: $role-text;
        .input--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .input--placeholder { color: $role-muted; }
    }
    """

    def __init__(self, title: str, input: Input) -> None:
        super().__init__()
        self._title = title
        self._input = input

    def compose(self) -> ComposeResult:
        yield self._input

    def lines(self, width: int) -> list[list[Span]]:
        return [
            edge(HEAVY, True, ((self._title, "text bold"),), (), width),
            sides(HEAVY, [(" ❯ ", "accent")], width),
        ]


class Picker(ModalScreen[str | None]):
    """Gives back the id of the choice, or None. `on_mark` is called with each id the mark comes to."""

    DEFAULT_CSS: ClassVar[str] = """
    Picker { align: center middle; background: transparent; }
    Picker > Vertical { width: 92; max-width: 100%; max-height: 100%; background: ansi_default; }
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        marked: str | None = None,
        on_mark: Callable[[str], None] | None = None,
        notes_in_full: bool = False,
    ) -> None:
        """`notes_in_full`: below the list stands all of what the row of the marked choice had no room for."""
        super().__init__()
        self._choices = tuple(choices)
        self._first = marked
        self._on_mark = on_mark
        self._input = Input(placeholder="type to find", compact=True)
        self._input.cursor_blink = False
        self._top = _Top(title, self._input)
        self._list = _Choices()
        self._list.notes_in_full = notes_in_full

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._top
            yield self._list

    def on_mount(self) -> None:
        self._input.focus()
        self.query_one(Vertical).styles.height = (
            min(len(self._choices), ROWS) + 3 + (_NOTE_ROWS if self._list.notes_in_full else 0)
        )
        self._list.shown = self._choices
        ids = [choice.id for choice in self._choices]
        self._list.marked = ids.index(self._first) if self._first in ids else 0
        self._list.update()

    def on_resize(self) -> None:
        self.call_after_refresh(self._list.update)

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self._list.tell(words)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        found = matching(event.value, self._choices)
        if found != self._list.shown:
            self._list.shown = found
            self._move_to(0)

    def on_key(self, event: events.Key) -> None:
        step = {"up": -1, "down": 1, "pageup": -ROWS, "pagedown": ROWS}.get(event.key)
        if step is not None:
            last = len(self._list.shown) - 1
            around = self._list.marked + step
            self._move_to(around % (last + 1) if abs(step) == 1 and last >= 0 else min(max(around, 0), last))
        elif event.key == "enter":
            if self._list.shown:
                self.dismiss(self._list.shown[self._list.marked].id)
        elif event.key == "escape":
            self.dismiss(None)
        else:
            return
        event.stop()
        event.prevent_default()

    def _move_to(self, at: int) -> None:
        self._list.marked = max(at, 0)
        self._list.update()
        if self._on_mark is not None and self._list.shown:
            self._on_mark(self._list.shown[self._list.marked].id)
