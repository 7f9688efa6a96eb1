"""Where a session can be rewound to, and what that does to the files our tools changed. Pure."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    DeveloperMessage,
    Entry,
    FileImage,
    Revert,
    ToolResultMessage,
    UserMessage,
    entered,
    is_typed,
)
from foldline.sequences import grouped

from .calls import subject_of
from .outline import MessageOutline
from .projection import Projection
from .view import first_words

_NEAR = 64
"""Entries around a checkpoint that are looked at for what names it."""
_TURN = 400
"""Entries before a moment that are looked at for its prompt."""
_STEPS = BaseMessage | Compaction | Clear | Checkpoint | Revert


@dataclass(frozen=True, slots=True)
class RewindPoint:
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
    """The whole prompt of a turn: sent again, it repeats the turn."""


def rewind_points(projection: Projection) -> list[RewindPoint]:
    """Where it is possible to go back to, newest first: what was reverted is left out."""
    gone = reverted_spans(projection)
    images, changed = list(projection.images), set[str]()
    found = []
    for checkpoint in reversed(projection.checkpoints):
        while images and images[-1][0] >= checkpoint.index:
            _, image = images.pop()
            changed |= {image.path} if image.before != image.after else set()
        place = _place(projection, checkpoint, gone, len(changed))
        if place is not None:
            found.append(place)
    return found


Spans = Sequence[tuple[int, int]]
"""Of entries that rewinds in force went back over, each between the entry gone back to and the rewind."""


def reverted_spans(projection: Projection) -> Spans:
    reverts = (marker for marker in projection.markers if isinstance(marker, Revert))
    return [(back_to, each.index) for each in reverts if (back_to := projection.reached_by(each)) is not None]


def is_within(index: int, spans: Spans) -> bool:
    """Whether the entry lies on a branch that was left."""
    return any(first < index < last for first, last in spans)


def _place(projection: Projection, checkpoint: Checkpoint, gone: Spans, changes: int) -> RewindPoint | None:
    """None where nothing follows the checkpoint that is still there, or it lies within a tool group."""
    following = _following(projection, checkpoint.index)
    if checkpoint.files or following is None or isinstance(following, Checkpoint | Revert):
        return None
    if is_within(following.index, gone):
        return None
    kind: Literal["turn", "step"]
    if isinstance(following, UserMessage):
        kind, label, prompt = "turn", first_words(following), entered(following.text)
    else:
        kind, label, prompt = "step", _done_last(projection.before(checkpoint.index, _NEAR)), ""
    return RewindPoint(checkpoint.id, checkpoint.index, checkpoint.at, kind, label, changes, prompt)


def _following(projection: Projection, index: int) -> Entry | None:
    """What a checkpoint stands before; of a turn its prompt, whatever the machine says ahead of that."""
    near = (entry for entry in projection.after(index, _NEAR) if not isinstance(entry, DeveloperMessage))
    return next((entry for entry in near if isinstance(entry, _STEPS)), None)


def rewind_words(projection: Projection, revert: Revert) -> str:
    """What a rewind did, in a few words: `context and files back to before “Make it faster”`."""
    what = "context and files" if revert.files and revert.context else "files" if revert.files else "context"
    if revert.moment is not None:
        earlier = projection.before(revert.moment + 1, _TURN)
        prompt = next((e for e in earlier if is_typed(e)), None)
        named = "" if prompt is None else f" of “{first_words(prompt)}”"
        return f"{what} of entry {revert.moment}, on the branch{named}"
    index = projection.checkpoint(revert.checkpoint)
    following = None if index is None else _following(projection, index)
    place = f"checkpoint {revert.checkpoint}"
    if isinstance(following, UserMessage):
        place = f"before “{first_words(following)}”"
    if revert.message is not None:
        return f"the model went back to checkpoint {revert.checkpoint} with a message to itself"
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


Images = Sequence[tuple[int, FileImage]]
"""Changes of files in order, each with the index of the checkpoint that recorded it."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why it is not known what a file holds now: no reason to take it for missing."""

    why: str


Look = Callable[[FileImage], "str | Unreadable | None"]
"""What the file of an image holds now."""

ChangeKind = Literal["write", "remove", "conflict", "unreadable"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What going back does to one file."""

    path: str
    kind: ChangeKind
    """`conflict`: somebody else changed it since our last record, so it stays unless asked."""
    now: str | None
    target: str | None
    mode: int | None = None
    why: str = ""
    """For `unreadable`, and a `conflict` for another reason than that it was changed since."""
    link: str | None = None
    """As the image has it."""
    by_others: bool = False
    """Whether the target is somebody else's work."""

    @property
    def image(self) -> FileImage:
        """The change, as a checkpoint records it."""
        return FileImage(
            path=self.path,
            before=self.now,
            after=self.target,
            mode=self.mode,
            link=self.link,
            by_others=self.by_others,
        )


@dataclass(frozen=True, slots=True)
class HeldContent:
    """What a file held at a moment."""

    content: str | None
    by_others: bool = False
    """Whether it was somebody else's work."""


def changes_to(
    images: Images, index: int, look: Look, foreign: int = NEW, settled: int = sys.maxsize
) -> list[FileChange]:
    """What puts every file that was changed since back to what it held at entry `index`.

    A file is ours to change if it is as our last record left it.

    Args:
        foreign: entries up to this one were not written here and make nothing ours.
        settled: a change recorded after this entry may not have been made, because of a crash.
    """
    changes = []
    for records in by_path(images).values():
        first = next((image for at, image in records if at >= index and image.before != image.after), None)
        if first is not None:
            now = look(first)
            refusal = _refusal(records, now, foreign, settled)
            changes.append(_change(first, held_at(records, index), now, refusal))
    return [change for change in changes if change is not None]


def changes_back(images: Images, index: int, look: Look) -> list[FileChange]:
    """What gives each file back what the rewind recorded at entry `index` took from it."""
    changes = []
    for records in by_path(images).values():
        since = [image for at, image in records if at >= index]
        if (index, since[0]) in records:
            now = look(since[0])
            changes.append(_change(since[0], held_at(records, index), now, _refusal_since(since, now)))
    return [change for change in changes if change is not None]


def by_path(images: Images) -> Mapping[str, Images]:
    """The records of each file, in order."""
    return grouped((image.path, (at, image)) for at, image in images)


def held_at(records: Images, index: int) -> HeldContent:
    """What a file held right before entry `index`, by its records.

    A record of that entry found it so; else the last record before left it so.
    """
    last: FileImage | None = None
    for at, image in records:
        if at < index:
            last = image
        elif last is None:
            return HeldContent(image.before)
        elif at == index:
            return HeldContent(image.before, last.by_others or image.before != last.after)
        else:
            break
    assert last is not None, "a file has records"
    return HeldContent(last.after, last.by_others)


def settled_index(projection: Projection) -> int:
    """The newest entry that follows a change once it is made: a message, or the rewind. `NEW` if none."""
    settled = (
        entry.index
        for entry in reversed(projection.entries.outlines)
        if isinstance(entry, MessageOutline | Revert)
    )
    return next(settled, NEW)


_CHANGED = ""
"""The reason of a conflict that needs no words of its own: somebody else changed the file since."""


def _refusal(records: Images, now: "str | Unreadable | None", foreign: int, settled: int) -> str | None:
    """Why a file is not ours to change; None if it is."""
    at, last = records[-1]
    if at > foreign and now == last.after and not last.by_others:
        return None
    if at > max(foreign, settled) and now == last.before and not held_at(records, at).by_others:
        return None
    known = {content for at, image in records if at <= foreign for content in (image.before, image.after)}
    return "recorded elsewhere, not here" if now in known else _CHANGED


def _refusal_since(since: Sequence[FileImage], now: "str | Unreadable | None") -> str | None:
    """Why a file is not as the rewind that made the first of these records left it; None if it is."""
    rewound, last = since[0], since[-1]
    if now != last.after or any(later.before != earlier.after for earlier, later in pairwise(since)):
        return _CHANGED
    return None if last.after == rewound.after else "written again after the rewind"


def _change(
    image: FileImage, held: HeldContent, now: "str | Unreadable | None", refusal: str | None
) -> FileChange | None:
    path, target = image.path, held.content
    if isinstance(now, Unreadable):
        return FileChange(path, "unreadable", None, target, why=now.why)
    if now == target:
        return None
    kind: ChangeKind = "remove" if target is None else "write"
    if refusal is not None:
        kind = "conflict"
    return FileChange(path, kind, now, target, image.mode, refusal or "", image.link, held.by_others)


def restored_paths(images: Iterable[tuple[int, FileImage]]) -> frozenset[str]:
    """The files that our changes left as they found them, all in all."""
    first: dict[str, str | None] = {}
    last: dict[str, str | None] = {}
    for _, image in images:
        first.setdefault(image.path, image.before)
        last[image.path] = image.after
    return frozenset(path for path, content in last.items() if content == first[path])
