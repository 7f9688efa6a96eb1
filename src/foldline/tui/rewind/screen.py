"""The Rewind screen: choose a place, see what going back would do, choose context, files or both, confirm."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, Literal

from textual.binding import BindingType
from textual.containers import Vertical
from textual.worker import Worker

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.context.rewind_points import FileChange, RewindPoint
from foldline.protocol import operations
from foldline.tui.blocks.cells import Piece, Span, cut_left, cut_right, piece
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import ScreenKey, bindings, name_of, names_of, table, works
from foldline.tui.prompting.completion import window_start
from foldline.tui.widgets.box import BoxedScreen
from foldline.tui.widgets.lines import HEAVY, edge, framed_row, sides

What = Literal["both", "context", "files"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What going back to the marked place would do."""

    before: int
    """Tokens of the next request now, as screens show them."""
    after: int
    items: int
    """Items that would leave the view."""
    prompts: int = 0
    """Typed prompts among them."""
    files: Sequence[FileChange] = ()

    @property
    def changing(self) -> Sequence[FileChange]:
        """Files that would be put back without a further word."""
        return [change for change in self.files if change.kind in ("write", "remove")]

    @property
    def conflicts(self) -> Sequence[FileChange]:
        return [change for change in self.files if change.kind == "conflict"]


@dataclass(frozen=True, slots=True)
class RewindState:
    """The places, newest first, the mark among them, and what is known of it."""

    places: tuple[RewindPoint, ...]
    marked: int | None = None
    """Id of the place the cursor is at; None where there is no place at all."""
    steps: bool = False
    """Whether the steps within the turns are listed, too."""
    outcome: Outcome | None = None
    """None until the files were looked at."""
    overwrite: bool = False
    """Whether what others changed is put back as well."""
    asked: What | None = None
    """What the reader wants to go back with: it is done at their second word, once they know what changes."""

    @property
    def shown(self) -> tuple[RewindPoint, ...]:
        return tuple(place for place in self.places if self.steps or place.kind == "turn")

    @property
    def place(self) -> RewindPoint | None:
        return next((place for place in self.places if place.id == self.marked), None)

    def moved(self, step: int) -> "RewindState":
        """The mark so many rows further, within the list."""
        ids = [place.id for place in self.shown]
        if not ids:
            return self
        at = ids.index(self.marked) if self.marked in ids else 0
        return self._at(ids[min(max(at + step, 0), len(ids) - 1)])

    def toggled_steps(self) -> "RewindState":
        """Steps listed or not; a mark on a step goes to the place of its turn."""
        state = replace(self, steps=not self.steps)
        if any(place.id == self.marked for place in state.shown):
            return state
        earlier = (place.id for place in state.shown if self.place and place.index < self.place.index)
        return state._at(next(earlier, state.shown[0].id if state.shown else None))

    def _at(self, marked: int | None) -> "RewindState":
        return self if marked == self.marked else RewindState(self.places, marked, self.steps)

    def can(self, what: What) -> bool:
        """Whether going back with this would change anything."""
        known = self.outcome
        if known is None or self.place is None:
            return False
        files = bool(known.changing or (self.overwrite and known.conflicts))
        return {"context": True, "files": files, "both": files}[what]

    def ask(self, what: What | None) -> "RewindState":
        """With this as what is asked about; with nothing, where it would change nothing."""
        return replace(self, asked=what if what is not None and self.can(what) else None)

    @property
    def operation(self) -> operations.Rewind | None:
        """What the reader was asked about, and the agent is to do; None where nothing is asked."""
        what = self.asked
        if what is None or self.marked is None or self.outcome is None:
            return None
        conflicts = tuple(change.path for change in self.outcome.conflicts) if self.overwrite else ()
        return operations.Rewind(
            checkpoint=self.marked, context=what != "files", files=what != "context", overwrite=conflicts
        )


def begin(places: Sequence[RewindPoint]) -> RewindState:
    """With the mark at the newest turn."""
    state = RewindState(tuple(places))
    first = state.shown[0] if state.shown else None
    return replace(state, marked=first.id if first else None)


def _has_steps(state: RewindState) -> bool:
    return any(place.kind == "step" for place in state.places)


def _has_conflicts(state: RewindState) -> bool:
    return state.outcome is not None and bool(state.outcome.conflicts)


KEYS: Final[tuple[ScreenKey[RewindState], ...]] = table(
    "rewind",
    ScreenKey(
        "both",
        ("b",),
        "To right before the marked place, with the context and the files that write and edit changed "
        "since. Says what that changes, and asks.",
        "Go back",
        "both",
        works=lambda state: state.can("both"),
    ),
    ScreenKey(
        "context",
        ("c",),
        "Only with what the model has: the files stay as they are. Asks, too.",
        "Go back",
        "context",
        works=lambda state: state.can("context"),
    ),
    ScreenKey(
        "files",
        ("f",),
        "Only with the files: the conversation goes on as it is. Asks, too.",
        "Go back",
        "files",
        works=lambda state: state.can("files"),
    ),
    ScreenKey(
        "overwrite",
        ("o",),
        "Puts back, too, what somebody else changed since; what they hold now is kept first. Again, spares "
        "them.",
        "Go back",
        "overwrite, too",
        works=_has_conflicts,
    ),
    ScreenKey(
        "go",
        ("ctrl+s",),
        "Goes back as the question says; no letter does, for it may be typed ahead. The prompt is then "
        "in the editor again. /undo takes it back.",
        "Go back",
        works=lambda state: state.asked is not None,
    ),
    ScreenKey("up", ("up", "k"), "To the place after.", "Choose"),
    ScreenKey("down", ("down", "j"), "To the place before.", "Choose"),
    ScreenKey("page-up", ("pageup",), "Ten places up.", "Choose"),
    ScreenKey("page-down", ("pagedown",), "Ten places down.", "Choose"),
    ScreenKey("first", ("home",), "To the newest place.", "Choose"),
    ScreenKey("last", ("end",), "To the oldest place.", "Choose"),
    ScreenKey(
        "steps",
        ("s", "enter"),
        "Lists the steps within the turns, or hides them.",
        "Choose",
        "steps",
        works=_has_steps,
    ),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape",), "Leaves the question, else closes; nothing has changed.", "Program"),
)


def hints(state: RewindState) -> tuple[tuple[str, str], ...]:
    """(key, word) of what works at the mark."""
    return tuple((key.name, _word(key, state)) for key in KEYS if key.hint and key.works(state))


def _word(key: ScreenKey[RewindState], state: RewindState) -> str:
    match key.id:
        case "overwrite" if state.overwrite:
            return "spare them"
        case "steps" if state.steps:
            return "hide steps"
        case _:
            return key.hint


DETAILS = 8
"""Lines below the list, frame apart, where there is room for them."""
_LEAST_ROWS = 6
"""Lines that are not for details, however low the terminal: frame, rule, and three of the list."""
FILES = 4
"""Files named there."""


def screen_lines(state: RewindState, width: int, height: int) -> list[list[Span]]:
    """Exactly `height` lines of `width` cells."""
    if state.asked is not None and state.outcome is not None and state.place is not None:
        return _question(state, state.outcome, state.place, state.asked, width, height)
    shown = state.shown
    below = min(DETAILS, max(height - _LEAST_ROWS, 1))
    room = max(height - below - 3, 1)
    at = next((number for number, place in enumerate(shown) if place.id == state.marked), 0)
    first = window_start(at, len(shown), room)
    count = ((f"{at + 1} of {len(shown)}", "muted"),) if shown else ()
    rows = [
        _place_row(place, place.id == state.marked, state.steps, width)
        for place in shown[first : first + room]
    ]
    if not shown:
        rows = [sides(HEAVY, [("  There is nothing to go back over yet.", "muted")], width)]
    rows += [sides(HEAVY, [], width)] * (room - len(rows))
    details = [sides(HEAVY, line, width) for line in _details(state, width - 2, below)]
    return [
        edge(HEAVY, True, (("Rewind to right before …", "text bold"),), count, width),
        *rows,
        _rule("what going back does", width),
        *details,
        edge(HEAVY, False, ((_moves(), "muted"),), (), width),
    ]


def _question(
    state: RewindState, outcome: Outcome, place: RewindPoint, what: What, width: int, height: int
) -> list[list[Span]]:
    """What is to change, all of it as far as there is room, and the keys that answer."""
    label = cut_right(clean_line(place.label) or "(no words)", max(width // 2, 8))
    when = f"before “{label}”" if place.kind == "turn" else f"after {label}"
    context = [(" context  ", "muted"), ("stays as it is", "text")]
    files = [[(" files    ", "muted"), ("stay as they are", "text")]]
    if what != "files":
        context = _context_line(outcome)
    if what != "context":
        files = _file_lines(state, outcome, width - 2, max(height - 7, 1))
    lines = [[], context, *files][: height - 4]
    lines += [[]] * (height - 4 - len(lines))
    go, leave = name_of(KEYS, "go"), name_of(KEYS, "close")
    asks = f"Go back {_WITH[what]} to right {when}?"
    return [
        edge(HEAVY, True, (("? ", "altered"), (cut_right(asks, width - 8), "text bold")), (), width),
        *(sides(HEAVY, line, width) for line in lines),
        sides(HEAVY, [(" /undo takes it back. Letters do nothing here.", "muted")], width),
        sides(HEAVY, [(f" {go}", "accent"), (" goes back", "text")], width),
        edge(HEAVY, False, ((f"{leave} changes nothing", "muted"),), (), width),
    ]


_WITH: Final[dict[What, str]] = {
    "both": "with context and files",
    "context": "with the context",
    "files": "with the files",
}


def _moves() -> str:
    return f"{names_of(KEYS, 'up', 'down')} choose · {name_of(KEYS, 'close')} closes, nothing changes"


def _place_row(place: RewindPoint, marked: bool, steps: bool, width: int) -> list[Span]:
    style = "text reverse" if marked else "text"
    label = clean_line(place.label) or "(no words)"
    sign = "❯ " if place.kind == "turn" else ("  after " if steps else "after ")
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        piece(sign, "accent" if place.kind == "turn" else "muted", gap=1),
        Piece(((label, style),), gap=0, cut="right"),
    ]
    right = [piece(_files(place.changes), "muted", rank=1)] if place.changes else []
    if place.at is not None:
        right.append(piece(place.at.astimezone().strftime("%H:%M"), "muted"))
    return framed_row(HEAVY, left, right, width)


def _files(count: int) -> str:
    return f"{many(count, 'file')} since"


def _rule(words: str, width: int) -> list[Span]:
    fill = max(width - len(words) - 5, 0)
    return [("┠─ ", "accent"), (words, "muted"), (" " + "─" * fill, "accent"), ("┨", "accent")]


def _details(state: RewindState, width: int, height: int) -> list[list[Span]]:
    """Exactly `height` lines: context, files, keys."""
    lines: list[list[Span]] = []
    if state.place is not None:
        lines = [[(" looking at the files …", "muted")]]
        if state.outcome is not None:
            lines = [_context_line(state.outcome), *_file_lines(state, state.outcome, width, FILES)]
    lines = lines[: height - 1]
    lines += [[]] * (height - 1 - len(lines))
    return [*lines, _keys(state)]


def _context_line(outcome: Outcome) -> list[Span]:
    items = f"{many(outcome.items, 'item')} {'leaves' if outcome.items == 1 else 'leave'} the view"
    if outcome.items < 0:
        items = "what was compacted since is there again"
    if outcome.prompts:
        items += f", {many(outcome.prompts, 'prompt')} among them"
    sizes = f"{numbers.tokens(outcome.before)} → {numbers.tokens(outcome.after, estimated=True)} tokens"
    return [(" context  ", "muted"), (sizes, "text"), (f", {items}", "muted")]


def _file_lines(state: RewindState, outcome: Outcome, width: int, most: int) -> list[list[Span]]:
    if not outcome.files:
        return [[(" files    ", "muted"), ("as they were then, or changed by no tool of ours", "muted")]]
    shown: Sequence[FileChange] = sorted(outcome.files, key=lambda change: change.kind not in _LOUD)
    lines = [_file_line(change, state.overwrite, width) for change in shown[:most]]
    lines[0][0] = (" files    ", "muted")
    if len(shown) > most:
        lines.append([("          ", ""), (f"and {len(shown) - most} more", "muted")])
    return lines


_LOUD = ("conflict", "unreadable")


def _file_line(change: FileChange, overwrite: bool, width: int) -> list[Span]:
    words, style = _fate(change, overwrite)
    room = max(width - 13 - len(words), 8)
    return [("          ", ""), (cut_left(clean_line(change.path), room), "text"), (f"  {words}", style)]


def _fate(change: FileChange, overwrite: bool) -> tuple[str, str]:
    match change.kind:
        case "write":
            return "is put back", "muted"
        case "remove":
            return "is removed again", "muted"
        case "conflict" if overwrite:
            return f"is {'removed' if change.target is None else 'overwritten'}, /undo has it", "alert"
        case "conflict":
            return f"! {change.why or 'changed by somebody else'}: stays", "alert"
        case _:
            return cut_right(f"! stays: {clean_line(change.why)}", 40), "alert"


def _keys(state: RewindState) -> list[Span]:
    """What can be done at the mark, as the row of hints says it."""
    return [
        (" ", ""),
        *(span for key, word in hints(state) for span in ((key, "accent"), (f" {word}   ", "text"))),
    ]


_STEPS = {"up": -1, "down": 1, "page-up": -10, "page-down": 10, "first": -1_000_000, "last": 1_000_000}
"""How many rows further a key moves the mark."""

Look = Callable[[int], Awaitable[Outcome]]
"""Finds out what going back to a checkpoint would do."""


class RewindScreen(BoxedScreen[operations.Rewind | None, RewindState]):
    """Gives back what was chosen, or None. Nothing happens before that."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "rewind")

    def __init__(self, state: RewindState, look: Look) -> None:
        super().__init__(state, screen_lines)
        self._look = look

    def on_mount(self) -> None:
        rows = len(self.state.places) + DETAILS + 3
        self.query_one(Vertical).styles.height = max(min(rows, 30), DETAILS + 6)
        self._box.focus()
        self._look_at_it()

    def _show(self, state: RewindState) -> None:
        moved = state.marked != self.state.marked
        self._box.show(state)
        if moved:
            self._look_at_it()

    def _look_at_it(self) -> None:
        if self.state.marked is not None:
            # The function and not what it gives: where it is overtaken at once, nothing was begun.
            work = partial(self._foresee, self.state.marked)
            _: Worker[None] = self.run_worker(work, group="look", exclusive=True)

    async def _foresee(self, checkpoint: int) -> None:
        outcome = await self._look(checkpoint)
        if checkpoint == self.state.marked:
            self._show(replace(self.state, outcome=outcome))

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now. At the question, letters do not."""
        asks = self.state.asked is not None
        return works(KEYS, command, self.state) and (not asks or command in ("go", "help", "close"))

    def action_rewind(self, command: str) -> None:
        """What a key of the table does."""
        state = self.state
        if not self.works_now(command):
            return
        match command:
            case "both" | "context" | "files":
                self._show(state.ask(command))
            case "go":
                self.dismiss(state.operation)
            case "overwrite":
                self._show(replace(state, overwrite=not state.overwrite))
            case "steps":
                self._show(state.toggled_steps())
            case "help":
                open_help(self.app)
            case "close" if state.asked is not None:
                self._show(state.ask(None))
            case "close":
                self.dismiss(None)
            case _:
                self._show(state.moved(_STEPS[command]))
