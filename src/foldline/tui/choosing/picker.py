"""Choosing one of many by typing: the palette, themes, tool servers. One modal screen for all of them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input
from textual.worker import Worker

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, crop, cut_right, width_of, wrap_spans
from foldline.tui.keys.table import ScreenKey, bindings, name_of, table
from foldline.tui.prompting.completion import window_start
from foldline.tui.widgets.fields import FieldTop
from foldline.tui.widgets.lines import HEAVY, edge, sides
from foldline.tui.widgets.status import StatusLine

SLICE: Final = 400
"""Choices that are looked at between two keys: well below a millisecond each ten."""

_START, _WHOLE, _WORD, _INSIDE, _SPREAD, _NOTE = 100.0, 90.0, 80.0, 60.0, 20.0, 1.0
"""Where a word was found, best first: at the start, as a whole word, at the start of one, inside one, spread
over the label from the start of a word on, in the note."""


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
        if (fits := _fit(words, choice)) is not None:
            found.append((-fits[0], at, Ranked(choice, fits[1])))
    if words:
        found.sort(key=lambda each: each[:2])
    yield tuple(ranked for _, _, ranked in found)


def ranked(typed: str, choices: Sequence[Choice]) -> tuple[Ranked, ...]:
    """The same, at once."""
    return next(result for result in ranking(typed, choices) if result is not None)


def _fit(words: Sequence[str], choice: Choice) -> tuple[float, frozenset[int]] | None:
    if not words:
        return 0.0, frozenset()
    label = choice.label.lower()
    if len(label) != len(choice.label):  # a letter that is two in lower case
        label = choice.label
    note = f"{choice.note} {choice.keys}".lower()
    score, letters = 0.0, set[int]()
    for word in words:
        worth, places = _in_label(word, label)
        if not worth and word in note:
            worth = _NOTE
        if not worth:
            return None
        score += worth
        letters.update(places)
    return score, frozenset(letters)


def _in_label(word: str, label: str) -> tuple[float, Sequence[int]]:
    at = label.find(word)
    if at < 0:
        return _spread(word, label)
    while at > 0 and label[at - 1].isalnum():
        later = label.find(word, at + 1)
        if later < 0:
            first = label.find(word)
            return _INSIDE, range(first, first + len(word))
        at = later
    stop = at + len(word)
    whole = stop == len(label) or not label[stop].isalnum()
    return (_START if at == 0 else _WHOLE if whole else _WORD), range(at, stop)


def _spread(word: str, label: str) -> tuple[float, Sequence[int]]:
    """The letters one after the other, the first of them at the start of a word; best where they hang
    together."""
    best, places = 0.0, list[int]()
    start = label.find(word[0])
    while start >= 0:
        if start == 0 or not label[start - 1].isalnum():
            found = _from(start, word, label)
            if found:
                gaps = sum(two != one + 1 for one, two in pairwise(found))
                worth = _SPREAD * (1 - gaps / (len(word) + 1))
                if worth > best:
                    best, places = worth, found
        start = label.find(word[0], start + 1)
    return best, places


def _from(start: int, word: str, label: str) -> list[int]:
    found = [start]
    for letter in word[1:]:
        at = label.find(letter, found[-1] + 1)
        if at < 0:
            return []
        found.append(at)
    return found


__all__ = ["Choice", "Picker"]

ROWS = 14
_NOTE_ROWS = 4
"""Rows below the list for the whole note of the marked choice, the first of them blank."""

_MEASURED: Final = 200
"""Choices by which the columns are laid out."""

KEYS: Final[tuple[ScreenKey[None], ...]] = table(
    "picker",
    ScreenKey("up", ("up",), "One choice up; from the first to the last.", "List", place="anywhere"),
    ScreenKey("down", ("down",), "One choice down; from the last to the first.", "List", place="anywhere"),
    ScreenKey("page-up", ("pageup",), "A screen up.", "List", place="anywhere"),
    ScreenKey("page-down", ("pagedown",), "A screen down.", "List", place="anywhere"),
    ScreenKey("take", ("enter",), "Takes the marked choice.", "List", place="anywhere"),
    ScreenKey("close", ("escape",), "Closes; nothing is chosen.", "List", place="anywhere"),
    title="Choose from a list",
)


def choice_line(ranked: Ranked, marked: bool, column: int, width: int) -> list[Span]:
    """`▶Compact the context  /compact [focus]        F3`, the letters typed underlined."""
    choice = ranked.choice
    keys = clean_line(choice.keys)
    tail = cell_len(keys) + 2 if keys else 1
    label = list(_label(cut_right(clean_line(choice.label), column), ranked.letters, marked))
    blanks = " " * (column - width_of(label))
    note = cut_right(clean_line(choice.note), max(width - column - tail - 4, 0))
    left = [("▶" if marked else " ", "accent"), *label, (blanks + "  ", ""), (note, "muted")]
    return [*crop(left, width - tail), *([(f" {keys} ", "accent")] if keys else [(" ", "")])]


def _label(label: str, letters: frozenset[int], marked: bool) -> Iterator[Span]:
    for at, character in enumerate(label):
        yield character, f"{'accent underline' if at in letters else 'text'}{' reverse' if marked else ''}"


class _Choices(StatusLine):
    DEFAULT_CSS: ClassVar[str] = "_Choices { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.shown: Sequence[Ranked] = ()
        self.marked = 0
        self._widest = 0
        self._noted = False
        self.notes_in_full = False

    def show(self, shown: Sequence[Ranked]) -> None:
        """These, laid out by the first of them: that stays as it is while one scrolls."""
        self.shown = shown
        first = [each.choice for each in shown[:_MEASURED]]
        self._widest = max((cell_len(clean_line(choice.label)) for choice in first), default=0)
        self._noted = any(choice.note for choice in first)

    @property
    def choice(self) -> Choice | None:
        return self.shown[self.marked].choice if self.shown else None

    def lines(self, width: int) -> list[list[Span]]:
        note = self._note(width)
        rows = max(self.size.height - 1 - len(note), 0)
        first = window_start(self.marked, len(self.shown), rows)
        window = self.shown[first : first + rows]
        column = min(self._widest, max(width * 3 // 5 if self._noted else width - 5, 8))
        inner = [
            choice_line(each, first + at == self.marked, column, width - 2) for at, each in enumerate(window)
        ]
        if not inner:
            inner = [[("  nothing matches", "muted")]]
        inner += [*([[]] * (rows - len(inner))), *note]
        count = ((f"{self.marked + 1} of {len(self.shown)}", "muted"),) if self.shown else ()
        words = f"{name_of(KEYS, 'take')} takes · {name_of(KEYS, 'close')} closes"
        framed = [*(sides(HEAVY, line, width) for line in inner)]
        return self.with_message([*framed, edge(HEAVY, False, ((words, "muted"),), count, width)], width)

    def _note(self, width: int) -> list[list[Span]]:
        """What its row may have cut off, where there is the height."""
        if not self.notes_in_full or self.size.height < 2 * _NOTE_ROWS - 2:
            return []
        note = clean_line(self.choice.note) if self.choice is not None else ""
        is_cut = width_of([(note, "")]) > width - self._widest - 8
        lines = wrap_spans([(note, "text")], width - 4) if is_cut else []
        shown = [[], *([(" ", ""), *line] for line in lines)][:_NOTE_ROWS]
        return [*shown, *([[]] * (_NOTE_ROWS - len(shown)))]


class Picker(ModalScreen[str | None]):
    """Gives back the id of the choice, or None. `on_mark` is called with each id the mark comes to."""

    DEFAULT_CSS: ClassVar[str] = """
    Picker { align: center middle; background: transparent; }
    Picker > Vertical { width: 92; max-width: 100%; max-height: 100%; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "pick")

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
        self._box = Vertical()
        self._top = FieldTop(title, "type to find")
        self._list = _Choices()
        self._list.notes_in_full = notes_in_full

    def compose(self) -> ComposeResult:
        with self._box:
            yield self._top
            yield self._list

    def on_mount(self) -> None:
        self._top.input.focus()
        self._list.show(tuple(map(Ranked, self._choices)))
        ids = [choice.id for choice in self._choices]
        self._list.marked = ids.index(self._first) if self._first in ids else 0
        self._fit()

    def _fit(self) -> None:
        notes = _NOTE_ROWS if self._list.notes_in_full else 0
        self._box.styles.height = min(len(self._choices), ROWS) + 3 + notes
        self._list.update()

    def on_resize(self) -> None:
        self.call_after_refresh(self._list.update)

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self._list.tell(words)

    def add(self, more: Iterable[Choice]) -> None:
        """Further choices, below those there are."""
        self.offer((*self._choices, *more))

    def offer(self, choices: Iterable[Choice]) -> None:
        """These from now on. The mark stays on its choice, once the reader has moved it."""
        self._choices = tuple(choices)
        if self.is_mounted:
            self._fit()
            self._rank(keep=self._list.marked > 0)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._rank(keep=False)

    def _rank(self, *, keep: bool) -> None:
        """Find what fits; of many choices the first slice now, the others between keys and frames."""
        slices = ranking(self._top.input.value, self._choices)
        found = next(slices)
        if found is not None:
            self.workers.cancel_group(self, "rank")
            self._show(found, keep)
        else:
            work = partial(self._finish, slices, keep)
            _: Worker[None] = self.run_worker(work, group="rank", exclusive=True)

    async def _finish(self, slices: Iterator[tuple[Ranked, ...] | None], keep: bool) -> None:
        for found in slices:
            if found is not None:
                self._show(found, keep)
            await asyncio.sleep(0)

    def _show(self, found: tuple[Ranked, ...], keep: bool) -> None:
        before = self._list.choice
        if found == self._list.shown:
            return
        self._list.show(found)
        same = (at for at, each in enumerate(found) if before is not None and each.choice.id == before.id)
        at = next(same, 0) if keep else 0
        self._move_to(at)

    def action_pick(self, command: str) -> None:
        """What a key of the table does."""
        count, at = len(self._list.shown), self._list.marked
        match command:
            case "up" | "down" if count:
                self._move_to((at + (-1 if command == "up" else 1)) % count)
            case "page-up" | "page-down" if count:
                self._move_to(min(max(at + (-ROWS if command == "page-up" else ROWS), 0), count - 1))
            case "take" if self._list.choice is not None:
                self.dismiss(self._list.choice.id)
            case "close":
                self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """A click on a choice takes it, one beside the box closes it."""
        row = event.screen_y - self._list.region.y
        if not self._box.region.contains(event.screen_x, event.screen_y):
            self.dismiss(None)
        elif 0 <= row < self._list.size.height - 1:
            first = window_start(self._list.marked, len(self._list.shown), self._list.size.height - 1)
            if first + row < len(self._list.shown):
                self._move_to(first + row)
                self.action_pick("take")

    def _move_to(self, at: int) -> None:
        self._list.marked = max(at, 0)
        self._list.update()
        if self._on_mark is not None and self._list.choice is not None:
            self._on_mark(self._list.choice.id)
