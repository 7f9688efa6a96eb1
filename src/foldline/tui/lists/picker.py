"""The picker: a modal screen for choosing an item by typing.

Items are commands, themes, tool servers and others.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final

from rich.cells import cell_len
from textual import events, on
from textual.widgets import Input
from textual.worker import Worker

from foldline.frontend.keymap import ScreenKey, moves, name_of, table
from foldline.text.harmless import clean_line
from foldline.tui.keys.bindings import bindings
from foldline.tui.lists.fuzzy import fit_words
from foldline.tui.lists.screen import PROMPT, Field, ListScreen
from foldline.tui.look.cells import (
    Span,
    crop,
    cut_right,
    in_reverse,
    width_of,
    wrap_spans,
)
from foldline.tui.look.lines import Line, boxed, filled

SLICE: Final = 400
"""Number of items ranked before yielding to the event loop.

Ranking this many items takes a few milliseconds.
"""


@dataclass(frozen=True, slots=True)
class PickerItem:
    """An item of a picker.

    The picker returns its `id`. The texts are untrusted.
    """

    id: str
    label: str
    note: str = ""
    right: str = ""
    """Text at the right end of the row, such as the keys with the same effect."""
    detail: str = ""
    """Text below the list while the item is selected.

    By default, this is the note, if the row cuts it off.
    """


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item that matches the typed text."""

    choice: PickerItem
    letters: frozenset[int] = frozenset()
    """Positions of the typed letters in the label."""


def ranking(
    typed: str, choices: Sequence[PickerItem]
) -> Iterator[tuple[Ranked, ...] | None]:
    """Rank the items that contain all typed words, best match first.

    Yields None after each batch of `SLICE` items, and finally the result. Equally good matches keep their
    original order.
    """
    words = typed.lower().split()
    scores: list[tuple[float, Ranked]] = []
    for at, choice in enumerate(choices):
        if at and at % SLICE == 0:
            yield None
        match = fit_words(
            words, choice.label, f"{choice.note} {choice.right} {choice.detail}"
        )
        if match is not None:
            score, letters = match
            scores.append((-score, Ranked(choice, letters)))
    if words:
        scores.sort(key=itemgetter(0))
    yield tuple(ranked for _, ranked in scores)


def ranked(typed: str, choices: Sequence[PickerItem]) -> tuple[Ranked, ...]:
    """Rank all items at once."""
    return next(result for result in ranking(typed, choices) if result is not None)


FIND: Final = "type to find"
NO_MATCH: Final = "nothing matches"
AS_TYPED: Final = "as typed"
JUST_OPENED: Final = "This list has just opened. Press Enter again to continue."
ROWS: Final = 14
"""Maximum number of visible items."""
_WIDTH: Final = 100
_DETAILS: Final = 8
"""Maximum number of lines below the list."""
_MEASURED: Final = 200
"""Number of items, from the top, that determine the column widths and the lines for details."""

KEYS: Final = table(
    "picker",
    *moves("item", ends=False),
    "List",
    ScreenKey[None]("take", ("enter",), "Chooses the selected item.", place="anywhere"),
    ScreenKey(
        "remove",
        ("delete",),
        "Closes the selected session, stops the job, revokes the rule or resets the setting.",
        place="anywhere",
    ),
    ScreenKey(
        "close",
        ("escape",),
        "Closes the list without choosing an item.",
        place="anywhere",
    ),
    title="Choose from a list",
)


def choice_line(ranked: Ranked, marked: bool, column: int, width: int) -> list[Span]:
    """Return the line of an item: `▶Compact the context  /compact [focus]        F3`.

    Typed letters are underlined.
    """
    choice = ranked.choice
    right = clean_line(choice.right)
    if cell_len(right) > width // 3:
        right = ""
    tail = cell_len(right) + 2 if right else 1
    label = list(_label(cut_right(clean_line(choice.label), column), ranked.letters))
    blanks = " " * (column - width_of(label))
    note = cut_right(clean_line(choice.note), max(width - column - tail - 4, 0))
    spans = [
        ("▶" if marked else " ", "accent"),
        *label,
        (blanks + "  ", ""),
        (note, "muted"),
    ]
    end = (f" {right} ", "muted") if right else (" ", "")
    return [*crop(spans, width - tail), end]


def _label(label: str, letters: frozenset[int]) -> Iterator[Span]:
    for at, character in enumerate(label):
        yield character, "accent underline" if at in letters else "text"


class Picker(ListScreen[str | None, Ranked]):
    """A list of items, in which typed letters filter and only keys act.

    Its result is the id of the chosen item, or None.
    """

    DEFAULT_CSS = f"Picker > ListBox {{ width: {_WIDTH}; }}"
    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")

    def __init__(
        self,
        title: str,
        choices: Iterable[PickerItem],
        *,
        marked: str | None = None,
        on_mark: Callable[[str], None] | None = None,
        on_take: Callable[[str], object] | None = None,
        on_remove: Callable[[str], object] | None = None,
        take_word: str = "select",
        remove_word: str = "remove",
        empty: str = NO_MATCH,
        takes_typed: bool = False,
        deaf_until: float = 0.0,
        hint: str = "",
    ) -> None:
        """Create a picker.

        Args:
            marked: The id of the item that is selected first.
            on_mark: Called with the id of each item that the user selects.
            on_take: Called with the id of the chosen item. Without it, the choice closes the picker.
            on_remove: Called with the id of an item to remove.
            take_word: The word for Enter in the hints.
            remove_word: The word for the key that calls `on_remove`.
            empty: The text in an empty list.
            takes_typed: Whether the typed word itself is the last item.
            deaf_until: Time until which no item is chosen, for a picker that opens without a key press.
            hint: The text below the list while `say` shows no message.
        """
        self._find = Field("find", FIND)
        super().__init__(self._find)
        self._title = title
        self._first = 0
        """Index of the first visible row. It changes only to keep the selection visible."""
        self.seen: dict[int, int] = {}
        """Index of each visible row, by its line in the box."""
        self._choices = tuple(choices)
        self._on_mark = on_mark
        self._on_take = on_take
        self._on_remove = on_remove
        self._words = (take_word, remove_word)
        self._empty = empty
        self._takes_typed = takes_typed
        self._deaf_until = deaf_until
        self._hint = hint
        self._message = ""
        self._show(tuple(map(Ranked, self._choices)))
        self.select(marked)

    def select(self, id: str | None) -> None:
        """Select the item with this id.

        If there is none, select the first item.
        """
        self.at = next(
            (at for at, row in enumerate(self.rows) if row.choice.id == id), 0
        )

    def say(self, message: str) -> None:
        """Show a message below the list, instead of the hint. An empty message shows the hint again."""
        self._message = message
        self.fit()
        self.update()

    @property
    def marked(self) -> str | None:
        """The id of the selected item."""
        return None if self.row is None else self.row.choice.id

    def height_wanted(self) -> int | str:
        width = min(_WIDTH, self.app.size.width)
        rows = max(min(len(self._choices), ROWS), len(self._empty_lines(width)))
        return rows + 3 + self._detail_rows(width)

    def offer(self, choices: Iterable[PickerItem]) -> None:
        """Replace the items.

        If the user has moved the selection, it stays on its item.
        """
        choices = tuple(choices)
        if choices != self._choices and self.is_mounted:
            self._choices = choices
            self.fit()
            self._rank(keep=self.at > 0)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._rank(keep=False)

    def _rank(self, *, keep: bool) -> None:
        """Rank the items.

        The first batch is ranked immediately, the others in the background.
        """
        slices = ranking(self._find.value, self._choices)
        result = next(slices)
        if result is not None:
            self.workers.cancel_group(self, "rank")
            self._show_ranked(result, keep)
        else:
            work = partial(self._finish, slices, keep)
            _: Worker[None] = self.run_worker(work, group="rank", exclusive=True)

    async def _finish(
        self, slices: Iterator[tuple[Ranked, ...] | None], keep: bool
    ) -> None:
        for result in slices:
            if result is not None:
                self._show_ranked(result, keep)
            await asyncio.sleep(0)

    def _show_ranked(self, rows: tuple[Ranked, ...], keep: bool) -> None:
        """Show the ranked items.

        With `keep`, the selection stays on its item.
        """
        typed = self._find.value.strip()
        names = {row.choice.label for row in rows}
        if self._takes_typed and len(typed.split()) == 1 and typed not in names:
            rows = (*rows, Ranked(PickerItem(typed, typed, AS_TYPED)))
        if rows == self.rows:
            return
        marked = self.marked
        self._show(rows)
        self.select(marked if keep else None)
        self.moved()
        self.update()

    def _show(self, rows: tuple[Ranked, ...]) -> None:
        """Set the rows, and compute the column widths from the first ones."""
        self.rows = rows
        first = [row.choice for row in rows[:_MEASURED]]
        self._widest = max(
            (cell_len(clean_line(choice.label)) for choice in first), default=0
        )
        self._noted = any(choice.note for choice in first)

    @property
    def row(self) -> Ranked | None:
        """The selected row, or None if the list is empty."""
        return self.rows[self.at] if self.at < len(self.rows) else None

    def move(self, step: int) -> None:
        """Move the selection. It stops at the ends of the list."""
        last = max(len(self.rows) - 1, 0)
        self.move_to(min(max(self.at + step, 0), last))

    def move_to(self, at: int) -> None:
        """Select the row with this index."""
        if at != self.at:
            self.at = at
            self.moved()
        self.update()

    def moved(self) -> None:
        """Called after another row has been selected."""
        if self._on_mark is not None and self.marked is not None:
            self._on_mark(self.marked)

    def do(self, command: str) -> None:
        """Run a command.

        The arrow keys wrap around at the ends of the list, the page keys do not.
        """
        match command:
            case "up" if self.rows:
                self.move_to((self.at - 1) % len(self.rows))
            case "down" if self.rows:
                self.move_to((self.at + 1) % len(self.rows))
            case "page-up" | "page-down":
                self.move(-ROWS if command == "page-up" else ROWS)
            case "take" if self.marked is not None:
                self._take(self.marked)
            case "remove" if self.marked is not None and self._on_remove is not None:
                self._on_remove(self.marked)
            case _:
                super().do(command)

    def _take(self, id: str) -> None:
        if self.clock() < self._deaf_until:
            self.tell(JUST_OPENED)
        elif self._on_take is None:
            self.dismiss(id)
        else:
            self._on_take(id)

    def clicked(self, line: int) -> None:
        """Choose the item at the line of the box that was clicked."""
        if line in self.seen:
            self.move_to(self.seen[line])
            self.action_list("take")

    def on_click(self, event: events.Click) -> None:
        """Close the picker on a click outside the box."""
        if not self.box.region.contains(event.screen_x, event.screen_y):
            self.dismiss(None)

    def draw(self, width: int, height: int) -> list[Line]:
        lines = self._message_lines(width)
        if self.row is not None:
            lines += self._details(self.row.choice, width)
        room = min(self._detail_rows(width), max(height - 4, 0))
        details = filled([[], *lines], room)
        rows = self._row_lines(max(height - 3 - room, 0), width)
        count = ((f"{self.at + 1} of {len(self.rows)}", "muted"),) if self.rows else ()
        title = ((clean_line(self._title), "text bold"),)
        body = [[PROMPT], *rows, *details]
        return boxed(
            width,
            title,
            body,
            self.foot(width),
            count,
        )

    def _row_lines(self, room: int, width: int) -> list[Line]:
        """Draw the rows around the selection in exactly `room` lines."""
        least = max(self._first, self.at - room + 1)
        self._first = max(min(least, self.at, len(self.rows) - room), 0)
        visible = self.rows[self._first : self._first + room]
        self.seen = {2 + at: self._first + at for at in range(len(visible))}
        column = self._column(width)
        lines = []
        for at, row in enumerate(visible, start=self._first):
            line = choice_line(row, at == self.at, column, width - 2)
            lines.append(in_reverse(line) if at == self.at else line)
        return filled(lines or self._empty_lines(width), room)

    def hints(self) -> list[tuple[str, str]]:
        take, remove = self._words
        hints = [(name_of(KEYS, "take"), take)]
        if self._on_remove is not None:
            hints.append((name_of(KEYS, "remove"), remove))
        return [*hints, (name_of(KEYS, "close"), "close")]

    def _empty_lines(self, width: int) -> list[Line]:
        empty = NO_MATCH if self._choices else self._empty
        return [
            [("  ", ""), *line] for line in wrap_spans([(empty, "muted")], width - 6)
        ]

    def _column(self, width: int) -> int:
        """Return the width of the labels."""
        most = width * 3 // 5 if self._noted else width - 5
        return min(self._widest, max(most, 8))

    def _detail_rows(self, width: int) -> int:
        """Return the number of lines for details, which is the same for all items."""
        choices = self._choices[:_MEASURED]
        most = max((len(self._details(choice, width)) for choice in choices), default=0)
        most += len(self._message_lines(width))
        return min(most + 1, _DETAILS) if most else 0

    def _message_lines(self, width: int) -> list[Line]:
        span = (clean_line(self._message), "text")
        if not self._message:
            span = (self._hint, "muted")
        if not span[0]:
            return []
        return [[(" ", ""), *line] for line in wrap_spans([span], width - 4)]

    def _details(self, choice: PickerItem, width: int) -> list[Line]:
        """Return the lines below the list while an item is selected.

        They also show the label and the note in full, if the row cuts them off.
        """
        label, note = clean_line(choice.label), clean_line(choice.note)
        column = self._column(width)
        texts = [label] if cell_len(label) > column else []
        if choice.detail:
            texts += [clean_line(line) for line in choice.detail.splitlines()]
        elif cell_len(note) > width - column - cell_len(choice.right) - 8:
            texts.append(note)
        return [
            [(" ", ""), *line]
            for text in texts
            for line in wrap_spans([(text, "text")], width - 4)
        ]
