"""The branches of a session, as a tree of turns.

Pure.

Rewinds, edited prompts and jumps create branches. Every active rewind starts a branch: earlier entries stay
in the history, and the session continues from an earlier point. Each turn lies on one branch.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from foldline.protocol import (
    NEW,
    Checkpoint,
    DeveloperMessage,
    NoticeRecord,
    Revert,
    Undo,
)
from foldline.protocol.operations import Rewind
from foldline.view.outline import MessageOutline, Outline
from foldline.view.projection import Projection
from foldline.view.state import ViewMarker

_NEAR = 16
"""Number of entries before a prompt in which its checkpoint is searched for."""
_NEVER_FIRST = ("system", "developer", "tool_result")
"""Types of messages that never start a branch."""


@dataclass(eq=False, slots=True)
class BranchTurn:
    """A prompt with all entries before the next prompt.

    It can also be the start of a branch without a prompt.
    """

    start: int
    """Index of the prompt or of the first message; -1 for the beginning of the session."""
    moment: int
    """Index of the turn's last entry that affects the view. A jump to this turn leads there."""
    parent: "BranchTurn | None" = None
    children: "list[BranchTurn]" = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Branches:
    """All turns of a session, and the turn at which the current view ends."""

    turns: Sequence[BranchTurn]
    now: BranchTurn

    def current_turns(self) -> set[BranchTurn]:
        """Return the turns that lead to the current view."""
        turns: set[BranchTurn] = set()
        turn: BranchTurn | None = self.now
        while turn is not None:
            turns.add(turn)
            turn = turn.parent
        return turns


def before_prompt(projection: Projection, index: int) -> Rewind:
    """Return the rewind to the point right before a prompt.

    The target is the prompt's checkpoint or, without a checkpoint, the entry before the prompt.
    """
    moment = index - 1
    for entry in projection.entries_before(index, _NEAR):
        if isinstance(entry, Checkpoint) and not entry.files:
            return Rewind(checkpoint=entry.id)
        if not isinstance(entry, Checkpoint | DeveloperMessage | NoticeRecord):
            moment = entry.index
            break
    return Rewind(moment=moment)


def prompt_number(projection: Projection, index: int) -> int | None:
    """Return the number of this prompt, counted from 1.

    Returns None if the entry is not a prompt.
    """
    prompts = [
        outline.index for outline in projection.entries.outlines if _is_prompt(outline)
    ]
    return prompts.index(index) + 1 if index in prompts else None


def _is_prompt(outline: Outline) -> bool:
    return (
        isinstance(outline, MessageOutline)
        and outline.type == "user"
        and outline.origin == "typed"
    )


def branches(projection: Projection) -> Branches:
    """Build the tree of turns.

    Takes time linear in the number of outlines. No text is read.
    """
    newest = BranchTurn(NEW, NEW)
    turns = [newest]
    places = [(NEW, newest)]
    """Index of each entry that starts a turn or returns to one, together with this turn."""
    has_jumped = False
    """Whether no entry has followed the newest active rewind so far."""
    for outline in projection.entries.outlines:
        index = outline.index
        if isinstance(outline, Revert) and not projection.is_undone(index):
            back_to = projection.reached_by(outline)
            if back_to is not None:
                newest = places[bisect_right(places, back_to, key=itemgetter(0)) - 1][1]
                places.append((index, newest))
                has_jumped = True
                continue
        if not isinstance(outline, MessageOutline | ViewMarker | Undo):
            continue
        if _is_prompt(outline) or (has_jumped and _starts_branch(outline)):
            parent = newest
            newest = BranchTurn(index, index, parent)
            parent.children.append(newest)
            turns.append(newest)
            places.append((index, newest))
            has_jumped = False
        if not has_jumped:
            newest.moment = index
    return Branches(turns, newest)


def _starts_branch(outline: Outline) -> bool:
    return not (isinstance(outline, MessageOutline) and outline.type in _NEVER_FIRST)
