"""The places a session can go back to, as people know them: before a prompt, or before a step of its turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    Entry,
    Revert,
    ToolResultMessage,
    UserMessage,
)

from .calls import subject_of
from .projection import Projection
from .view import first_words

_NEAR = 64
"""Entries around a checkpoint that are looked at for what names it."""
_STEPS = BaseMessage | Compaction | Clear | Checkpoint | Revert


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint that the history still leads to."""

    id: int
    index: int
    at: datetime | None
    kind: Literal["turn", "step"]
    label: str
    """A turn: the first words of its prompt. A step: what was done right before it."""
    changes: int
    """Files our tools changed from here on."""
    prompt: str = ""
    """The whole prompt of a turn: sent again, it starts the turn anew."""


def places(projection: Projection) -> list[Place]:
    """Where it is possible to go back to, newest first: what was reverted is left out."""
    gone = _reverted_spans(projection)
    images, changed = list(projection.images), set[str]()
    found = []
    for checkpoint in reversed(projection.checkpoints):
        while images and images[-1][0] >= checkpoint.index:
            changed.add(images.pop()[1].path)
        place = _place(projection, checkpoint, gone, len(changed))
        if place is not None:
            found.append(place)
    return found


def _reverted_spans(projection: Projection) -> list[tuple[int, int]]:
    reverts = (marker for marker in projection.markers if isinstance(marker, Revert) and marker.context)
    return [
        (back_to, revert.index)
        for revert in reverts
        if (back_to := projection.checkpoint(revert.checkpoint)) is not None
    ]


def _place(
    projection: Projection, checkpoint: Checkpoint, gone: Sequence[tuple[int, int]], changes: int
) -> Place | None:
    """None where nothing that is still there follows right after it, or it is within a tool group."""
    following = _following(projection, checkpoint.index)
    if checkpoint.files or following is None or isinstance(following, Checkpoint | Revert):
        return None
    if any(first < following.index < last for first, last in gone):
        return None
    kind: Literal["turn", "step"]
    if isinstance(following, UserMessage):
        kind, label, prompt = "turn", first_words(following), following.text
    else:
        kind, label, prompt = "step", _done_last(projection.before(checkpoint.index, _NEAR)), ""
    return Place(checkpoint.id, checkpoint.index, checkpoint.at, kind, label, changes, prompt)


def _following(projection: Projection, index: int) -> Entry | None:
    """What happened right after this entry, records of requests and files apart."""
    return next((entry for entry in projection.after(index, _NEAR) if isinstance(entry, _STEPS)), None)


def rewind_words(projection: Projection, revert: Revert) -> str:
    """What a rewind did, in a few words: `context and files back to before “Make it faster”`."""
    index = projection.checkpoint(revert.checkpoint)
    following = None if index is None else _following(projection, index)
    place = f"checkpoint {revert.checkpoint}"
    if isinstance(following, UserMessage):
        place = f"before “{first_words(following)}”"
    if revert.message is not None:
        return f"the model went back to checkpoint {revert.checkpoint} with a message to itself"
    what = "context and files" if revert.files and revert.context else "files" if revert.files else "context"
    return f"{what} back to {place}"


def _done_last(entries: Sequence[Entry]) -> str:
    """What was done last, the newest of these entries first: `edit src/a.py`."""
    results = []
    for entry in entries:
        match entry:
            case ToolResultMessage():
                results.append(entry)
            case AssistantMessage() if results:
                calls = {call.call_id: call for call in entry.calls}
                call = calls.get(results[0].call_id)
                subject = subject_of(call).text if call else ""
                return " ".join(word for word in (results[0].name, subject) if word)
            case UserMessage():
                return "the prompt"
            case _:
                pass
    return "what came before"
