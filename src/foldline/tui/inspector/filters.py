"""What of a history is shown: by kind, by what became of it, by mark; and the screen to choose it on. Asks no
entry for its text."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple

from textual import events

from foldline.context.harmless import clean_line
from foldline.context.outline import CompactionOutline, MessageOutline, OtherOutline, Outline, RequestOutline
from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.protocol import Approval, Checkpoint, Clear, Edit, ModelChange, Revert, Subagent, Title, Undo
from foldline.tui.blocks.cells import Piece, piece, row
from foldline.tui.fates import LETTERS, gutter_sign, letter
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, table
from foldline.tui.lists.screen import ListScreen
from foldline.tui.panels.words import kind_name
from foldline.tui.widgets.lines import Line, boxed

Mark = Literal["pinned", "new", "failed", "thinking"]
Group = Literal["kind", "fate", "mark", "notes"]

SYSTEM_NOTES: Final = ("request", "notice", "approval", "edit", "checkpoint", "title", "model")
"""Kinds of entries that were never meant for the model, nor change the view by more than an entry. They are
shown where they are asked for."""
_MESSAGES: Final = ("user", "machine", "assist", "summary", "system", "dev")
_RULES: Final = ("compaction", "rewind", "clear", "undo", "subagent")
FATES: Final = tuple(fate for fate in LETTERS if fate != "aside")
MARKS: Final[tuple[Mark, ...]] = ("pinned", "new", "failed", "thinking")
TOOL: Final = "tool "
"""Stands before the name of a tool where that is a kind."""


class Facet(NamedTuple):
    """What a filter asks of an entry."""

    kind: str
    fate: str
    marks: frozenset[Mark] = frozenset()

    @property
    def is_note(self) -> bool:
        return self.kind in SYSTEM_NOTES


class Option(NamedTuple):
    """One thing to choose."""

    group: Group
    name: str

    @property
    def words(self) -> str:
        return "system notes" if self.group == "notes" else clean_line(self.name.removeprefix(TOOL))


@dataclass(frozen=True, slots=True)
class Filter:
    """Any of what is chosen in a group, in all groups in which something is. Nothing chosen: everything but
    system notes."""

    chosen: frozenset[Option] = frozenset()

    @property
    def active(self) -> bool:
        return bool(self.chosen)

    def admits(self, facet: Facet) -> bool:
        kinds, fates, marks = self._names("kind"), self._names("fate"), self._names("mark")
        if kinds:
            if facet.kind not in kinds:
                return False
        elif facet.is_note and Option("notes", "") not in self.chosen:
            return False
        return (not fates or facet.fate in fates) and (not marks or not marks.isdisjoint(facet.marks))

    def only(self, option: Option) -> "Filter":
        """With this choice alone in its group: what its count is about."""
        return Filter(frozenset(o for o in self.chosen if o.group != option.group) | {option})

    @property
    def words(self) -> str:
        """What is chosen, in the order in which it is offered."""
        return ", ".join(option.words for option in sorted(self.chosen, key=_place))

    def _names(self, group: Group) -> frozenset[str]:
        return frozenset(name for where, name in self.chosen if where == group)


EVERYTHING: Final = Filter()


@dataclass(slots=True)
class Tally:
    """How many entries there are of each facet: few, whatever the history's length."""

    counts: Counter[Facet] = field(default_factory=Counter)

    def shown(self, wanted: Filter) -> int:
        return sum(count for facet, count in self.counts.items() if wanted.admits(facet))

    def count(self, wanted: Filter, option: Option) -> int:
        """How many an option would show, whatever else is chosen in its group."""
        if option.group == "notes":
            return sum(count for facet, count in self.counts.items() if facet.is_note)
        return self.shown(wanted.only(option))

    def options(self, wanted: Filter) -> Sequence[Option]:
        """What can be chosen: kinds there are, and every state and mark."""
        kinds = {Option("kind", facet.kind) for facet in self.counts}
        kinds |= {option for option in wanted.chosen if option.group == "kind"}
        states = (Option("fate", name) for name in FATES)
        marks = (Option("mark", name) for name in MARKS)
        return [*sorted(kinds, key=_place), *states, *marks, Option("notes", "")]


def _place(option: Option) -> tuple[int, int, str]:
    """Messages, tools by name, rules, system notes; then states and marks."""
    match option:
        case Option("kind", name):
            for rank, known in ((0, _MESSAGES), (2, _RULES), (3, SYSTEM_NOTES)):
                if name in known:
                    return rank, known.index(name), ""
            return 1, 0, name
        case Option("fate", name):
            return 4, [*FATES].index(name), ""  # type: ignore[arg-type]
        case Option("mark", name):
            return 5, [*MARKS].index(name), ""  # type: ignore[arg-type]
        case _:
            return 6, 0, ""


def facet_of(projection: Projection, outline: Outline, new_from: int | None = None) -> Facet:
    """Of an entry. What is in the view is new from index `new_from` on."""
    match outline:
        case MessageOutline():
            fate = projection.fate(outline.index).kind
            fresh = new_from is not None and outline.index >= new_from and fate in _SENT
            marks = _marks(outline, projection.is_pinned(outline.index), fresh)
            return Facet(_kind(outline), fate, marks)
        case RequestOutline():
            return Facet("request", "aside", _FAILED if outline.failed else _NONE)
        case _:
            kind = _MARKERS.get(type(outline), "notice")
            fate = projection.fate(outline.index).kind
            return Facet(kind, fate, _PINNED if projection.is_pinned(outline.index) else _NONE)


def facet_of_item(item: ViewItem, new_from: int | None = None) -> Facet:
    """Of an item of the view."""
    fresh = new_from is not None and item.index >= new_from
    kind = "summary" if item.written else _kind(item.outline)
    return Facet(kind, item.fate, _marks(item.outline, item.pinned, fresh))


_SENT: Final = ("live", "clipped", "hidden")
_NONE: Final[frozenset[Mark]] = frozenset()
_FAILED: Final[frozenset[Mark]] = frozenset({"failed"})
_PINNED: Final[frozenset[Mark]] = frozenset({"pinned"})
_MARKERS: Final[Mapping[type, str]] = {
    CompactionOutline: "compaction",
    Revert: "rewind",
    Clear: "clear",
    Undo: "undo",
    Edit: "edit",
    Checkpoint: "checkpoint",
    Title: "title",
    ModelChange: "model",
    Approval: "approval",
    Subagent: "subagent",
    OtherOutline: "notice",
}


def _kind(outline: MessageOutline) -> str:
    if outline.type == "tool_result":
        return TOOL + outline.name
    return kind_name(outline.type, outline.origin)


def _marks(outline: MessageOutline, pinned: bool, fresh: bool) -> frozenset[Mark]:
    if not (pinned or fresh or outline.failed or outline.thinking):
        return _NONE
    has = {"pinned": pinned, "new": fresh, "failed": outline.failed, "thinking": outline.thinking > 0}
    return frozenset(mark for mark in MARKS if has[mark])


# --- The screen -------------------------------------------------------------------------------------------

KEYS: Final = table(
    "filter",
    "Filter",
    ScreenKey[None](
        "choose", ("space",), "Chooses it, or no longer; the panel follows at once.", hint="choose"
    ),
    ScreenKey("take", ("enter",), "Chooses it and goes back to the panel.", hint="select"),
    ScreenKey(
        "fate",
        ("L", "C", "H", "S", "T", "R", "X", "D"),
        "Chooses what became of an entry by its letter.",
        title="A state by its letter",
        own=True,
    ),
    ScreenKey("notes", ("a",), "Shows system notes, too, or hides them.", title="System notes"),
    ScreenKey("clear", ("backspace",), "Shows everything again.", hint="all", title="Clear the filter"),
    *moves("choice"),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "f"), "Back to the panel; the filter stays.", hint="close", title="Close"),
    title="Inspector: filter",
)

_GROUPS: Final = {"kind": "kind", "fate": "state", "mark": "mark", "notes": ""}
_SIGNS: Final = {
    **{Option("fate", fate): (letter(fate), gutter_sign(fate)) for fate in FATES},
    Option("mark", "pinned"): (("*", "accent"), (" ", "")),
    Option("mark", "new"): (("+", "live"), (" ", "")),
    Option("mark", "failed"): (("✗", "alert"), (" ", "")),
}


class FilterScreen(ListScreen[None, Option]):
    """What a list shows, with how much each choice would leave of it. The list behind it follows at once."""

    DEFAULT_CSS = "FilterScreen > ListBox { width: 54; }"
    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")

    def __init__(
        self, what: str, now: Filter, count: Callable[[], Awaitable[Tally]], want: Callable[[Filter], None]
    ) -> None:
        """`what` is in the list: entries or items; `count` tells how many there are of each, `want` shows
        what a filter admits."""
        super().__init__()
        self._what, self._filter, self._count, self._want = what, now, count, want
        self._tally: Tally | None = None
        """None while it is counted."""

    def height_wanted(self) -> int:
        return min(len(self.rows) + 2, 30)

    def on_mount(self) -> None:
        self.run_worker(self._counted())

    async def _counted(self) -> None:
        self._tally = await self._count()
        self.show_rows(self._tally.options(self._filter))
        self.fit()

    def on_key(self, event: events.Key) -> None:
        fate = next((fate for fate in FATES if LETTERS[fate] == event.character), None)
        if fate is not None:
            event.stop()
            self._toggle(Option("fate", fate))

    def act(self, command: str) -> None:
        match command:
            case "notes":
                self._toggle(Option("notes", ""))
            case "clear":
                self._show(EVERYTHING)
            case "choose" if self.row is not None:
                self._toggle(self.row)
            case "take":
                if self.row is not None and self.row not in self._filter.chosen:
                    self._toggle(self.row)
                self.dismiss()

    def _toggle(self, option: Option) -> None:
        """Choose it, or no longer; the mark goes there."""
        if option in self.rows:
            self.at = self.rows.index(option)
        self._show(Filter(self._filter.chosen ^ {option}))

    def _show(self, wanted: Filter) -> None:
        self._filter = wanted
        self._want(wanted)
        self.update()

    def draw(self, width: int, height: int) -> list[Line]:
        tally, draw = self._tally or Tally(), partial(self._line, width=width - 2)
        count = f"{tally.shown(self._filter):,} of {tally.counts.total():,} {self._what}"
        lines = self.row_lines(height - 2, 1, draw, [[(" counting …", "muted")]])
        return boxed(width, (("Filter", "text bold"),), count if self.rows else "", lines, *self.foot(width))

    def _line(self, option: Option, marked: bool, *, width: int) -> Line:
        """`▶● state  S┊ summarised     41`: the mark, whether it is chosen, what it is, how many it shows."""
        tally, chosen = self._tally or Tally(), option in self._filter.chosen
        count = tally.count(self._filter, option)
        style = ("text" if count or chosen else "muted") + " bold" * chosen
        words = f" {option.words}{' (note)' * (option.name in SYSTEM_NOTES)}"
        left = [
            Piece((("▶" if marked else " ", "accent"), ("●" if chosen else " ", "accent bold")), gap=0),
            piece(f"{_GROUPS[option.group]:<6}", "muted", gap=1),
            Piece((*_SIGNS.get(option, (("  ", ""),)), (words, style)), gap=0, cut="right"),
        ]
        return row(left, [piece(f"{count:,} ", "muted")], width, margin=0)
