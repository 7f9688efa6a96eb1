"""Rewind: choose a place, see what going back would do, choose context, files or both, confirm."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

from textual.binding import BindingType

from foldline.agent.rewind import FileDiff, Outcome, diffs_since, foresee
from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.context.rewind_points import FileChange, RewindPoint, rewind_points
from foldline.protocol import operations
from foldline.tui.blocks.cells import Span, Spans, cut_left, cut_right, piece, row, wrap_spans
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, table
from foldline.tui.lists.screen import ListScreen
from foldline.tui.runner import Runner
from foldline.tui.screens.diff import DiffScreen
from foldline.tui.textual_private import mode_of
from foldline.tui.widgets.lines import Line, Rule, boxed, filled

if TYPE_CHECKING:
    from foldline.tui.chat import ChatScreen

Place = TypeVar("Place")
What = Literal["both", "context", "files"]


KEYS: Final = table(
    "rewind",
    "Go back",
    ScreenKey[None](
        "both",
        ("b",),
        "Goes back to right before the marked place, with the context and the files that write and edit "
        "changed since. Shows what changes, and asks.",
        hint="both",
    ),
    ScreenKey("context", ("c",), "Only the context goes back. Asks, too.", hint="context"),
    ScreenKey("files", ("f",), "Only the files go back. Asks, too.", hint="files"),
    ScreenKey("diff", ("d",), "What changed in the files since the marked place.", hint="changes"),
    ScreenKey(
        "overwrite",
        ("o",),
        "Puts back, too, what somebody else changed since; /undo has it. Again: keeps them.",
        hint="overwrite, too",
    ),
    ScreenKey(
        "go",
        ("ctrl+s",),
        "Confirms the question, as Enter does once it has been there for a second; no letter does, for it "
        "may be typed ahead. The prompt is then in the editor again. /undo takes it back.",
    ),
    *moves("place"),
    "List",
    ScreenKey("steps", ("s", "enter"), "Lists the steps within the turns, or hides them.", hint="steps"),
    HELP,
    "Program",
    ScreenKey("close", ("escape",), "Closes; nothing has changed.", hint="close"),
)

_NOTHING: Final = " There is nothing to rewind to; /tree shows every turn."
DETAILS: Final = 7
"""Lines below the list, frame apart, where there is room for them."""
_LEAST_ROWS: Final = 6
"""Lines that are not for details, however low the terminal: frame, rule, and three of the list."""
_FILES: Final = 4
"""Files named there."""
_WITH: Final[dict[What, str]] = {
    "both": "with context and files",
    "context": "with the context",
    "files": "with the files",
}


class PlacesScreen(ListScreen[operations.Rewind | None, Place]):
    """Places to go to. Gives back what was chosen, or None; nothing happens before that."""

    go, going = "Go back", "going back"
    """What this is called."""

    def __init__(
        self, rows: Sequence[Place], foresee: Callable[[operations.Rewind], Awaitable[Outcome]]
    ) -> None:
        """`foresee` finds out what going there would do."""
        super().__init__(rows)
        self._foresee = foresee
        self.outcome: Outcome | None = None
        """None until the files were looked at."""
        self.overwrite = False
        """Whether what others changed is put back as well."""
        self.wanted: operations.Rewind | None = None
        """What the question is about, while there is one."""

    def going_to(self, place: Place) -> operations.Rewind | None:
        """What goes to this place; None where it is here."""
        raise NotImplementedError

    def named(self, place: Place, room: int) -> str:
        """`right before “Make it faster”`, where words have so much room."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.moved()

    def moved(self) -> None:
        self.outcome, self.overwrite = None, False
        asked = None if self.row is None else self.going_to(self.row)
        if asked is not None and self.is_running:
            # The function and not what it gives: where it is overtaken at once, nothing was begun.
            self.run_worker(partial(self._look, self.row, asked), group="look", exclusive=True)  # type: ignore[arg-type]

    async def _look(self, place: Place, asked: operations.Rewind) -> None:
        outcome = await self._foresee(asked)
        if self.row is place:
            self.outcome = outcome
            self.update()

    def can(self, what: What) -> bool:
        """Whether going back with this would change anything."""
        known = self.outcome
        if known is None:
            return False
        files = bool(known.changing or (self.overwrite and known.conflicts))
        return what == "context" or files

    def works_now(self, command: str) -> bool:
        match command:
            case "go":
                return self.question is not None
            case "both" | "context" | "files":
                return self.can(command)
            case "overwrite":
                return self.outcome is not None and bool(self.outcome.conflicts)
            case _:
                return True

    def act(self, command: str) -> None:
        match command:
            case "both" | "context" | "files" if self.row is not None and self.outcome is not None:
                conflicts = tuple(change.path for change in self.outcome.conflicts) if self.overwrite else ()
                what = {"context": command != "files", "files": command != "context", "overwrite": conflicts}
                asked = self.going_to(self.row)
                self.wanted = None if asked is None else asked.model_copy(update=what)
                self.confirm(
                    f"{self.go} {_WITH[command]}", "go", partial(self.dismiss, self.wanted), self.go.lower()
                )
            case "overwrite":
                self.overwrite = not self.overwrite
        self.update()

    def word(self, key: ScreenKey[Any]) -> str:
        return "keep them" if key.id == "overwrite" and self.overwrite else key.hint

    # --- drawing ----------------------------------------------------------------------------------------

    def draw_places(
        self, title: str, line: Callable[[Place, bool], Line], width: int, height: int
    ) -> list[Line]:
        """The question, or the list with what going to the marked place does below it."""
        if self.question is not None and self.outcome is not None and self.row is not None:
            return self._question(self.question.sentence, self.outcome, self.row, width, height)
        below = min(DETAILS, max(height - _LEAST_ROWS, 1))
        body: list[Line | Rule] = [
            *self.row_lines(max(height - below - 3, 1), 1, line),
            Rule(((f"what {self.going} does", "muted"),)),
            *self._details(width - 2, below),
        ]
        head: Spans = ((title, "text bold"),)
        return boxed(width, head, f"{self.at + 1} of {len(self.rows)}", body, *self.foot(width, ("Enter",)))

    def _question(self, asks: str, outcome: Outcome, place: Place, width: int, height: int) -> list[Line]:
        """What is to change, all of it as far as there is room, and the keys that answer."""
        where = self.named(place, max(width // 2, 8))
        context: list[Line] = [[(" context  ", "muted"), ("stays as it is", "text")]]
        files: list[Line] = [[(" files    ", "muted"), ("stay as they are", "text")]]
        if self.wanted is not None and self.wanted.context:
            context = _context_lines(outcome, width - 2)
        if self.wanted is not None and self.wanted.files:
            files = self._file_lines(outcome, width - 2, max(height - 5 - len(context), 1))
        body = [
            *filled([[], *context, *files], height - 3),
            [(" /undo takes it back.", "muted")],
        ]
        title = (("? ", "altered"), (cut_right(f"{asks} to {where}?", width - 8), "text bold"))
        return boxed(width, title, "", body, *self.foot(width))

    def _details(self, width: int, height: int) -> list[Line]:
        """Exactly `height` lines: context and files."""
        lines: list[Line] = [[(" nothing: you are here", "muted")]]
        if self.row is not None and self.going_to(self.row) is not None:
            lines = [[(" looking at the files …", "muted")]]
            if self.outcome is not None:
                context = _context_lines(self.outcome, width)
                lines = [*context, *self._file_lines(self.outcome, width, _FILES)]
        return filled(lines, height)

    def _file_lines(self, outcome: Outcome, width: int, most: int) -> list[Line]:
        if not outcome.files:
            return [[(" files    ", "muted"), ("unchanged", "muted")]]
        loud = ("conflict", "unreadable")
        shown = sorted(outcome.files, key=lambda change: change.kind not in loud)
        lines = [_file_line(change, self.overwrite, width) for change in shown[:most]]
        lines[0][0] = (" files    ", "muted")
        if len(shown) > most:
            lines.append([("          ", ""), (f"and {len(shown) - most} more", "muted")])
        return lines


class RewindScreen(PlacesScreen[RewindPoint]):
    """The prompts and steps that the session came by."""

    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(
        self,
        places: Sequence[RewindPoint],
        foresee: Callable[[operations.Rewind], Awaitable[Outcome]],
        diffs: Callable[[int], Awaitable[Sequence[FileDiff]]],
    ) -> None:
        """`places`: newest first. `diffs` finds out what changed in files since an entry."""
        super().__init__([place for place in places if place.kind == "turn"], foresee)
        self.places = places
        self._diffs = diffs
        self.steps = False
        """Whether the steps within the turns are listed, too."""

    def height_wanted(self) -> int:
        return max(min(len(self.places) + DETAILS + 3, 30), DETAILS + 6) if self.places else 3

    def going_to(self, place: RewindPoint) -> operations.Rewind:
        return operations.Rewind(checkpoint=place.id)

    def named(self, place: RewindPoint, room: int) -> str:
        label = cut_right(clean_line(place.label) or "(no words)", room)
        return f"right before “{label}”" if place.kind == "turn" else f"right after {label}"

    def works_now(self, command: str) -> bool:
        match command:
            case "diff":
                return self.outcome is not None and bool(self.outcome.files)
            case "steps":
                return any(place.kind == "step" for place in self.places)
            case _:
                return super().works_now(command)

    def act(self, command: str) -> None:
        match command:
            case "diff" if self.row is not None:
                self.run_worker(self._show_diffs(self.row), group="diff", exclusive=True)
            case "steps":
                self.toggle_steps()
        super().act(command)

    async def _show_diffs(self, place: RewindPoint) -> None:
        where = "before" if place.kind == "turn" else "after"
        files = await self._diffs(place.index)
        # Another session may be on the screen by now.
        self.app.push_screen(DiffScreen(f"Changed since {where} “{place.label}”", files), mode=mode_of(self))

    def toggle_steps(self) -> None:
        """List the steps, or not; a mark on a step goes to the place of its turn."""
        before = self.row
        self.steps = not self.steps
        self.rows = [place for place in self.places if self.steps or place.kind == "turn"]
        if before is not None:
            here = (at for at, place in enumerate(self.rows) if place.index <= before.index)
            self.at = next(here, 0)
            if self.row is not before:
                self.moved()

    def word(self, key: ScreenKey[Any]) -> str:
        return "hide steps" if key.id == "steps" and self.steps else super().word(key)

    def draw(self, width: int, height: int) -> list[Line]:
        title = "Rewind to right before …"
        if not self.rows:
            nothing = filled([[(_NOTHING, "muted")]], height - 2)
            return boxed(width, ((title, "text bold"),), "", nothing, *self.foot(width))
        return self.draw_places(title, partial(self._place_line, width=width - 2), width, height)

    def _place_line(self, place: RewindPoint, marked: bool, width: int) -> Line:
        is_turn = place.kind == "turn"
        left = [
            piece("▶" if marked else " ", "accent", gap=0),
            piece("❯ " if is_turn else "  after ", "accent" if is_turn else "muted", gap=1),
            piece(clean_line(place.label) or "(no words)", gap=0, cut="right"),
        ]
        right = [piece(f"{many(place.changes, 'file')} since", "muted", rank=1)] if place.changes else []
        if place.at is not None:
            right.append(piece(place.at.astimezone().strftime("%H:%M"), "muted"))
        return row(left, right, width)


def _context_lines(outcome: Outcome, width: int) -> list[Line]:
    items = f"{many(outcome.items, 'item')} {'leaves' if outcome.items == 1 else 'leave'} the view"
    if outcome.items < 0:
        items = "what was compacted since is there again"
    if outcome.prompts:
        items += f", {many(outcome.prompts, 'prompt')} among them"
    if outcome.come:
        items += f", {many(outcome.come, 'item')} {'comes' if outcome.come == 1 else 'come'} back"
    before = numbers.tokens(outcome.before.tokens, estimated=outcome.before.estimated)
    after = numbers.tokens(outcome.after.tokens, estimated=outcome.after.estimated)
    sizes = f"{before} → {after} tokens"
    name: Span = (" context  ", "muted")
    wrapped = wrap_spans([(sizes, "text"), (f", {items}", "muted")], width - len(name[0]))
    return [[(" " * len(name[0]), "") if at else name, *line] for at, line in enumerate(wrapped)]


def _file_line(change: FileChange, overwrite: bool, width: int) -> Line:
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


def open_rewind(chat: "ChatScreen", runner: Runner) -> None:
    """Show the places. The prompt of a turn that the context left comes back to the editor."""
    state = runner.agent.state
    places = rewind_points(state.projection)

    def go(asked: operations.Rewind | None) -> None:
        if asked is not None:
            chat.run_worker(carry_out(asked), group="rewind")

    async def carry_out(asked: operations.Rewind) -> None:
        place = next(place for place in places if place.id == asked.checkpoint)
        executor = runner.agent.executor
        finished = await executor.wait_for(executor.submit(asked))
        if finished.outcome == "done" and asked.context and place.prompt:
            chat.prompt.give_back(place.prompt)

    chat.push_screen(RewindScreen(places, partial(foresee, state), partial(diffs_since, state)), go)
