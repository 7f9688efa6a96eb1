"""Choosing one of many by typing: the palette, themes, tool servers. One modal screen for all of them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.cells import cell_len
from textual import events, on
from textual.widgets import Input
from textual.worker import Worker

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, crop, cut_right, width_of, wrap_spans
from foldline.tui.fuzzy import fit_words
from foldline.tui.keys.table import ScreenKey, bindings, moves, name_of, table
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.widgets.lines import Line, boxed, filled, key_words

SLICE: Final = 400
"""Choices that are looked at between two keys: well below a millisecond each ten."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose. `id` is what is handed back; the texts may be foreign."""

    id: str
    label: str
    note: str = ""
    keys: str = ""
    """What reaches it without the list."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A choice that fits."""

    choice: Choice
    letters: frozenset[int] = frozenset()
    """Places in its label of what was typed."""


def ranking(typed: str, choices: Sequence[Choice]) -> Iterator[tuple[Ranked, ...] | None]:
    """The choices that hold every word typed, best first; of equal ones the first. None after each slice of
    them, then the result."""
    words = typed.lower().split()
    found: list[tuple[float, int, Ranked]] = []
    for at, choice in enumerate(choices):
        if at and at % SLICE == 0:
            yield None
        if (fits := fit_words(words, choice.label, f"{choice.note} {choice.keys}")) is not None:
            found.append((-fits[0], at, Ranked(choice, fits[1])))
    if words:
        found.sort(key=lambda each: each[:2])
    yield tuple(ranked for _, _, ranked in found)


def ranked(typed: str, choices: Sequence[Choice]) -> tuple[Ranked, ...]:
    """The same, at once."""
    return next(result for result in ranking(typed, choices) if result is not None)


ROWS: Final = 14
"""Choices that are seen at once, where there are as many."""
_WIDTH: Final = 92
_MEASURED: Final = 200
"""Choices by which the columns are laid out."""

KEYS: Final = table(
    "picker",
    *moves("choice", letters=False, home=(), far="A screen", place="anywhere"),
    "List",
    ScreenKey[None]("take", ("enter",), "Selects the marked choice.", place="anywhere"),
    ScreenKey(
        "end-session",
        ("delete",),
        "Closes the marked one of the open sessions.",
        place="anywhere",
    ),
    ScreenKey("close", ("escape",), "Closes; nothing is chosen.", place="anywhere"),
    title="Choose from a list",
)


def choice_line(ranked: Ranked, marked: bool, column: int, width: int) -> list[Span]:
    """`▶Compact the context  /compact [focus]        F3`, the letters typed underlined."""
    choice = ranked.choice
    keys = clean_line(choice.keys)
    tail = cell_len(keys) + 2 if keys else 1
    label = list(_label(cut_right(clean_line(choice.label), column), ranked.letters))
    blanks = " " * (column - width_of(label))
    note = cut_right(clean_line(choice.note), max(width - column - tail - 4, 0))
    left = [("▶" if marked else " ", "accent"), *label, (blanks + "  ", ""), (note, "muted")]
    return [*crop(left, width - tail), *([(f" {keys} ", "accent")] if keys else [(" ", "")])]


def _label(label: str, letters: frozenset[int]) -> Iterator[Span]:
    for at, character in enumerate(label):
        yield character, "accent underline" if at in letters else "text"


class Picker(ListScreen[str | None, Ranked]):
    """Gives back the id of the choice, or None. `on_mark` is called with each id the mark comes to."""

    DEFAULT_CSS = f"Picker > ListBox {{ width: {_WIDTH}; }}"
    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        marked: str | None = None,
        on_mark: Callable[[str], None] | None = None,
        on_end: Callable[[str], None] | None = None,
        notes_in_full: bool = False,
    ) -> None:
        """`on_end` is called with the id of a choice that its key ends. `notes_in_full`: below the list
        stands all of what the row of the marked choice had no room for."""
        self._find = Field("find", "type to find")
        super().__init__((), (self._find,))
        self._title = title
        self._choices = tuple(choices)
        self._on_mark = on_mark
        self._on_end = on_end
        self._notes_in_full = notes_in_full
        self._show(tuple(map(Ranked, choices)))
        self.at = next((at for at, choice in enumerate(choices) if choice.id == marked), 0)

    def field(self) -> Field:
        return self._find

    def height_wanted(self) -> int:
        return min(len(self._choices), ROWS) + 3 + self._note_rows(min(_WIDTH, self.app.size.width))

    def offer(self, choices: Iterable[Choice]) -> None:
        """These from now on. The mark stays on its choice, once the user has moved it."""
        self._choices = tuple(choices)
        if self.is_mounted:
            self.fit()
            self._rank(keep=self.at > 0)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._rank(keep=False)

    def _rank(self, *, keep: bool) -> None:
        """Find what fits; of many choices the first slice now, the others between keys and frames."""
        slices = ranking(self._find.value, self._choices)
        found = next(slices)
        if found is not None:
            self.workers.cancel_group(self, "rank")
            self._found(found, keep)
        else:
            work = partial(self._finish, slices, keep)
            _: Worker[None] = self.run_worker(work, group="rank", exclusive=True)

    async def _finish(self, slices: Iterator[tuple[Ranked, ...] | None], keep: bool) -> None:
        for found in slices:
            if found is not None:
                self._found(found, keep)
            await asyncio.sleep(0)

    def _found(self, found: tuple[Ranked, ...], keep: bool) -> None:
        before = self.row
        if found != self.rows:
            self._show(found)
            same = (at for at, each in enumerate(found) if before and each.choice.id == before.choice.id)
            self.at = next(same, 0) if keep else 0
            self.moved()
            self.update()

    def _show(self, found: tuple[Ranked, ...]) -> None:
        """These, laid out by the first of them: that stays as it is while one scrolls."""
        self.rows = found
        first = [each.choice for each in found[:_MEASURED]]
        self._widest = max((cell_len(clean_line(choice.label)) for choice in first), default=0)
        self._noted = any(choice.note for choice in first)

    def moved(self) -> None:
        if self._on_mark is not None and self.row is not None:
            self._on_mark(self.row.choice.id)

    def do(self, command: str) -> None:
        """Arrows go from the last choice to the first; pages stop there."""
        match command:
            case "up" | "down" if self.rows:
                self.move_to((self.at + (-1 if command == "up" else 1)) % len(self.rows))
            case "page-up" | "page-down":
                self.move(-ROWS if command == "page-up" else ROWS)
            case "take" if self.row is not None:
                self.dismiss(self.row.choice.id)
            case "end-session" if self.row is not None and self._on_end is not None:
                self._on_end(self.row.choice.id)
            case _:
                super().do(command)

    def clicked(self, line: int) -> None:
        super().clicked(line)
        if line in self.seen:
            self.action_list("take")

    def on_click(self, event: events.Click) -> None:
        """A click beside the box closes it."""
        if not self.box.region.contains(event.screen_x, event.screen_y):
            self.dismiss(None)

    def draw(self, width: int, height: int) -> list[Line]:
        note = self._note(width, height)
        column = min(self._widest, max(width * 3 // 5 if self._noted else width - 5, 8))
        rows = self.row_lines(
            max(height - 3 - len(note), 0),
            2,
            lambda row, marked: choice_line(row, marked, column, width - 2),
            empty=[[("  nothing matches", "muted")]],
        )
        count = ((f"{self.at + 1} of {len(self.rows)}", "muted"),) if self.rows else ()
        words = {
            "take": "select",
            **({"end-session": "close session"} if self._on_end else {}),
            "close": "close",
        }
        keys = key_words((name_of(KEYS, command), word) for command, word in words.items())
        head = [(" ❯ ", "accent")]
        title = ((self._title, "text bold"),)
        return boxed(width, title, "", [head, *rows, *note], keys, count)

    def _note(self, width: int, height: int) -> list[Line]:
        """Below a blank row what the row of the marked choice has cut off: as many rows for each choice."""
        rows = min(self._note_rows(width), max(height - 5, 0))
        lines = self._cut_off(self.row.choice, width) if self.row is not None else []
        return filled([[], *([(" ", ""), *line] for line in lines)], rows)

    def _note_rows(self, width: int) -> int:
        if not self._notes_in_full:
            return 0
        most = max((len(self._cut_off(choice, width)) for choice in self._choices), default=0)
        return most + 1 if most else 0

    def _cut_off(self, choice: Choice, width: int) -> list[Line]:
        """The whole note of a choice, where its row has no room for all of it."""
        note = clean_line(choice.note)
        is_cut = width_of([(note, "")]) > width - self._widest - 8
        return wrap_spans([(note, "text")], width - 4) if is_cut else []
