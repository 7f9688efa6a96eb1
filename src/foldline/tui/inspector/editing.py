"""The edit keys at work: what they ask for at a place, and what is said of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.tui.inspector.edits import (
    EditKey,
    Picked,
    action_of,
    actions_of,
    entries_words,
    undo_target,
    undo_words,
)
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.offering import nothing_to
from foldline.tui.keys.table import name_of
from foldline.tui.messages import EditWanted, UndoWanted


@dataclass(frozen=True, slots=True)
class Answer:
    """What a key asks for, if anything, and the words for the status row."""

    words: str
    wanted: Sequence[Message] = ()


def edit(projection: Projection, index: int, key: EditKey, *, later: bool) -> Answer:
    """An edit of one entry. `later`: something runs, and it waits for the end of that."""
    action = action_of(projection, index, key) if index >= 0 else None
    if action is None:
        return Answer(nothing_to(projection, index, key))
    said = _later(f"{action} {entries_words(projection.group(index))}", later)
    return Answer(said, (EditWanted(index, action),))


def edit_all(projection: Projection, picked: Picked, key: EditKey, *, later: bool) -> Answer:
    """The same for all that are marked; each is an edit of its own."""
    action, targets = actions_of(projection, picked, key)
    if action is None:
        return Answer(f"Nothing to {key} in what is marked.")
    said = f"{action}: {many(len(targets), 'edit')}"
    back = f"{name_of(KEYS, 'undo')} takes back one after the other"
    wanted = tuple(EditWanted(target, action) for target in targets)
    return Answer(_later(said, later) or f"{said}. {back}.", wanted)


def undo(projection: Projection, *, later: bool) -> Answer:
    """The newest change of the view taken back, or why it cannot be."""
    marker = undo_target(projection)
    if marker is None:
        return Answer("Nothing to undo: no fold, edit, clear or rewind is in force.")
    refusal = projection.undo_refusal(marker.index)
    if refusal is not None:
        return Answer(refusal)
    said = _later(f"undo {undo_words(projection, marker)}", later)
    return Answer(said, (UndoWanted(marker.index),))


def _later(what: str, later: bool) -> str:
    """A key that acts at once needs no words: the panels show it."""
    return f"{what}: after this turn" if later else ""
