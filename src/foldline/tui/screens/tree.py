"""The tree of a session: its branches and forks, and what going to one changes."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from foldline.agent.rewind import Outcome
from foldline.context import numbers
from foldline.context.branches import BranchRow, branches
from foldline.context.harmless import clean_line
from foldline.context.projection import Projection
from foldline.context.view import first_words
from foldline.history.catalog import SessionInfo
from foldline.protocol import AssistantMessage, BaseMessage, operations
from foldline.sequences import grouped
from foldline.tui.blocks.cells import Piece, cut_left, cut_right, piece, row
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, table
from foldline.tui.screens.rewind import DETAILS, PlacesScreen
from foldline.tui.widgets.lines import Line, filled


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A turn of this session, or a session that was forked from it there."""

    branch: BranchRow
    fork: SessionInfo | None = None


KEYS: Final = table(
    "tree",
    "Go there",
    ScreenKey[None](
        "enter",
        ("enter",),
        "Goes to the end of the marked turn: the model has what it had there. Asks first. The way that is "
        "left stays in the tree. A fork is opened beside this session.",
        hint="go there",
    ),
    ScreenKey(
        "both", ("b",), "Goes there, and puts the files back as they were then. Asks, too.", hint="both"
    ),
    ScreenKey(
        "overwrite",
        ("o",),
        "Puts back, too, what somebody else changed since; /undo has it. Again: keeps them.",
        hint="overwrite, too",
    ),
    ScreenKey("go", ("ctrl+s",), "Confirms the question, as Enter does. /undo takes it back."),
    "Look and copy",
    ScreenKey(
        "difference", ("d",), "Compares what the model had there with what it has now.", hint="compare"
    ),
    ScreenKey(
        "answer",
        ("a",),
        "Copies the last answer of the marked turn to the model here, with a word on where it comes from.",
        hint="copy answer",
    ),
    *moves("turn"),
    "List",
    HELP,
    "Program",
    ScreenKey("close", ("escape",), "Closes; nothing has changed.", hint="close"),
)


class TreeScreen(PlacesScreen[TreeRow]):
    """Gives back where to go, or None."""

    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")
    go, going = "Go", "going there"

    def __init__(
        self,
        projection: Projection,
        foresee: Callable[[operations.Rewind], Awaitable[Outcome]],
        *,
        compare: Callable[[TreeRow], object],
        copy: Callable[[AssistantMessage], object],
        open_fork: Callable[[SessionInfo], object],
    ) -> None:
        self._projection = projection
        self._compare, self._copy, self._open_fork = compare, copy, open_fork
        self.found = branches(projection)
        super().__init__([TreeRow(each) for each in self.found.rows()], foresee)
        self.at = next(at for at, each in enumerate(self.rows) if self._is_now(each))

    def show_forks(self, forks: Sequence[tuple[int, SessionInfo]]) -> None:
        """Show the sessions that were forked from this one, each below the turn it begins in."""
        found = grouped((self.found.turn_at(index).start, fork) for index, fork in forks)
        rows = []
        for each in self.rows:
            rows.append(each)
            rows += [TreeRow(each.branch, fork) for fork in found.get(each.branch.turn.start, ())]
        self.show_rows(rows, lambda one, other: one == other)
        self.fit()

    def height_wanted(self) -> int:
        return max(min(len(self.rows) + DETAILS + 3, 30), DETAILS + 6)

    def going_to(self, place: TreeRow) -> operations.Rewind | None:
        if place.fork is not None or self._is_now(place) or place.branch.turn.moment < 0:
            return None
        return operations.Rewind(moment=place.branch.turn.moment)

    def named(self, place: TreeRow, room: int) -> str:
        words = self._words(place)
        return f"the end of “{cut_right(words, room)}”" if place.branch.turn.is_prompt else words

    def works_now(self, command: str) -> bool:
        place = self.row
        match command:
            case "enter":
                return place is not None and (place.fork is not None or self.can("context"))
            case "difference":
                return place is not None and self.going_to(place) is not None
            case "answer":
                return place is not None and not place.branch.on_way and self._said(place) is not None
            case _:
                return super().works_now(command)

    def act(self, command: str) -> None:
        place, answer = self.row, None if self.row is None else self._said(self.row)
        match command:
            case "enter" if place is not None and place.fork is not None:
                self.dismiss(None)
                self._open_fork(place.fork)
            case "enter":
                super().act("context")
            case "difference" if place is not None:
                self._compare(place)
            case "answer" if answer is not None:
                self._copy(answer)
                self.tell(f"Answer {answer.index} is copied to the model here")
            case _:
                super().act(command)

    def word(self, key: ScreenKey[Any]) -> str:
        is_fork = key.id == "enter" and self.row is not None and self.row.fork is not None
        return "open the fork" if is_fork else super().word(key)

    def _is_now(self, place: TreeRow) -> bool:
        return place.fork is None and place.branch.turn is self.found.now

    def _said(self, place: TreeRow) -> AssistantMessage | None:
        """The last answer of the turn."""
        turn = place.branch.turn
        for entry in self._projection.before(turn.moment + 1, _LOOKED_AT) if place.fork is None else ():
            if entry.index < turn.start:
                return None
            if isinstance(entry, AssistantMessage) and entry.text.strip():
                return entry
        return None

    # --- drawing ----------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        return self.draw_places("Branches", partial(self._line, width=width - 2), width, height)

    def _details(self, width: int, height: int) -> list[Line]:
        if self.row is not None and self.row.fork is not None:
            return filled([[(" this session stays open: the fork is one of its own", "muted")]], height)
        return super()._details(width, height)

    def _line(self, place: TreeRow, marked: bool, *, width: int) -> Line:
        turn, fork = place.branch.turn, place.fork
        stem = place.branch.stem if fork is None else place.branch.stem.replace("├─", "│ ") + "├─"
        sign = "⑂ " if fork is not None else "❯ " if turn.is_prompt else "  "
        style = "text" if place.branch.on_way and fork is None else "muted"
        left = [
            piece("▶" if marked else " ", "accent", gap=0),
            piece(cut_left(stem, max(width // 3, 2)), "muted", gap=1),
            piece(sign, "accent" if place.branch.on_way and fork is None else "muted", gap=0),
            Piece(((self._words(place), style),), gap=0, cut="right", least=_LEAST),
        ]
        return row(left, self._facts(place), width)

    def _words(self, place: TreeRow) -> str:
        turn = place.branch.turn
        if place.fork is not None:
            return f"fork: {clean_line(place.fork.meta.title) or place.fork.id}"
        if turn.start < 0:
            return "the beginning of the session"
        said = self._projection.entry(turn.start)
        words = clean_line(first_words(said)) if isinstance(said, BaseMessage) else ""
        return words or "(no words)" if turn.is_prompt else f"goes on: {words}".removesuffix(": ")

    def _facts(self, place: TreeRow) -> list[Piece]:
        """Its tokens, its time, and whether it is now."""
        turn = place.branch.turn
        if place.fork is not None:
            return [piece(f"{place.fork.meta.updated_at.astimezone():%d %b %H:%M}", "muted")]
        facts = [piece("now", "live bold")] if self._is_now(place) else []
        requests = self._projection.requests
        last = bisect_right(requests, turn.moment + 1, key=lambda asked: asked.entry) - 1
        if last >= 0 and requests[last].entry >= turn.start >= 0:
            asked = requests[last]
            facts.append(piece(numbers.tokens(asked.tokens, estimated=asked.is_estimated), "muted", rank=1))
        said = self._projection.entry(turn.start)
        if said is not None and said.at is not None:
            facts.append(piece(f"{said.at.astimezone():%H:%M}", "muted", rank=2))
        return facts


_LEAST: Final = 20
"""Cells of a prompt that stay before its figures go."""
_LOOKED_AT: Final = 200
"""Entries of a turn that are looked at for its last answer."""
