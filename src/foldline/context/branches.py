"""The branches of a session as a tree of turns: what rewinds, edits of a prompt and jumps left behind. Pure.

Every rewind in force begins a way on: it leaves the entries before it where they are, and goes on from an
earlier moment. So the ways part the history into stretches, and each turn lies in one of them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from foldline.protocol import NEW, Checkpoint, DeveloperMessage, NoticeRecord, Revert, Undo
from foldline.protocol.operations import Rewind

from .outline import MessageOutline, Outline
from .projection import Projection
from .view_state import ViewMarker

_NEAR = 16
"""Entries before a prompt that are looked at for its checkpoint."""
_BESIDE = ("system", "developer", "tool_result")
"""Messages that no way begins with."""


@dataclass(eq=False, slots=True)
class BranchTurn:
    """A prompt, or how a way went on without one, up to the last thing before the next prompt."""

    start: int
    """Index of the prompt, or of the first message; -1 for the beginning of the session."""
    moment: int
    """Index of its last entry that matters to the view: going to this turn is going there."""
    parent: "BranchTurn | None" = None
    children: "list[BranchTurn]" = field(default_factory=list)
    is_prompt: bool = True


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A turn, where it stands in the tree as it is drawn."""

    turn: BranchTurn
    stem: str
    """`│ ├─`: what stands left of it."""
    on_way: bool
    """Whether the view of now came this way."""


@dataclass(frozen=True, slots=True)
class Branches:
    """All turns of a session, and the one that the view of now ends in."""

    turns: Sequence[BranchTurn]
    now: BranchTurn
    places: Sequence[tuple[int, BranchTurn]]
    """From which entry on which turn is the newest."""

    def turn_at(self, index: int) -> BranchTurn:
        """The turn that was the newest when this entry was."""
        return self.places[bisect_right(self.places, index, key=itemgetter(0)) - 1][1]

    def rows(self) -> list[BranchRow]:
        """The turns from the first on, in which each branch is indented and the way to now is not."""
        way: set[BranchTurn] = set()
        turn: BranchTurn | None = self.now
        while turn is not None:
            way.add(turn)
            turn = turn.parent
        rows: list[BranchRow] = []
        waiting = [(self.turns[0], "", "")]
        while waiting:
            turn, stem, below = waiting.pop()
            rows.append(BranchRow(turn, stem, turn in way))
            if not turn.children:
                continue
            straight = next((each for each in turn.children if each in way), turn.children[-1])
            waiting.append((straight, below, below))
            others = [each for each in turn.children if each is not straight]
            waiting += [(each, f"{below}├─", f"{below}│ ") for each in reversed(others)]
        return rows


def before_prompt(projection: Projection, index: int) -> Rewind:
    """What goes back to right before this prompt: to its checkpoint, or, where there is none, to the entry
    before it."""
    moment = index - 1
    for entry in projection.before(index, _NEAR):
        if isinstance(entry, Checkpoint) and not entry.files:
            return Rewind(checkpoint=entry.id)
        if not isinstance(entry, Checkpoint | DeveloperMessage | NoticeRecord):
            moment = entry.index
            break
    return Rewind(moment=moment)


def prompt_number(projection: Projection, index: int) -> int | None:
    """Which of the prompts of this session entry `index` is, counted from 1; None where it is none."""
    typed = [each.index for each in projection.entries.outlines if _is_typed(each)]
    return typed.index(index) + 1 if index in typed else None


def _is_typed(outline: Outline) -> bool:
    return isinstance(outline, MessageOutline) and outline.type == "user" and outline.origin == "typed"


def branches(projection: Projection) -> Branches:
    """The tree of this history, linear in its outlines; no text is read."""
    newest = BranchTurn(NEW, NEW, is_prompt=False)
    turns, places = [newest], [(NEW, newest)]
    left = False
    """Whether an earlier moment was gone back to, and nothing has come since."""
    for outline in projection.entries.outlines:
        index = outline.index
        if isinstance(outline, Revert) and not projection.is_annulled(index):
            back_to = projection.reached_by(outline)
            if back_to is not None:
                newest, left = Branches(turns, newest, places).turn_at(back_to), True
                places.append((index, newest))
                continue
        if not isinstance(outline, MessageOutline | ViewMarker | Undo):
            continue
        is_prompt = _is_typed(outline)
        is_said_beside = isinstance(outline, MessageOutline) and outline.type in _BESIDE
        if is_prompt or (left and not is_said_beside):
            newest = BranchTurn(index, index, newest, is_prompt=is_prompt)
            assert newest.parent is not None
            newest.parent.children.append(newest)
            turns.append(newest)
            places.append((index, newest))
            left = False
        if not left:
            newest.moment = index
    return Branches(turns, newest, places)
