"""Where a session can be rewound to, and what that does to the files our tools changed. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
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
)

from .calls import subject_of
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
    """The whole prompt of a turn: sent again, it starts the turn anew."""


def rewind_points(projection: Projection) -> list[RewindPoint]:
    """Where it is possible to go back to, newest first: what was reverted is left out."""
    gone = reverted_spans(projection)
    images, changed = list(projection.images), set[str]()
    found = []
    for checkpoint in reversed(projection.checkpoints):
        while images and images[-1][0] >= checkpoint.index:
            changed.add(images.pop()[1].path)
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
        prompt = next((e for e in earlier if isinstance(e, UserMessage) and e.origin == "typed"), None)
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
    """`conflict`: it holds what we did not record, so somebody else changed it: it stays unless asked."""
    now: str | None
    target: str | None
    mode: int | None = None
    why: str = ""
    """For `unreadable`, and a `conflict` for another reason than that it was changed since."""
    link: str | None = None
    """As the image has it."""

    @property
    def image(self) -> FileImage:
        """The change, as a checkpoint records it."""
        return FileImage(path=self.path, before=self.now, after=self.target, mode=self.mode, link=self.link)


def changes_to(images: Images, index: int, look: Look, foreign: int = NEW) -> list[FileChange]:
    """What puts every file back to what it held at entry `index`; files that do already are left out. Entries
    up to `foreign` were not written here: that they name a content does not make it ours."""
    ours = _ours(image for at, image in images if at > foreign)
    elsewhere = _held(image for at, image in images if at <= foreign)
    changes = []
    for path, image in first_since(images, index).items():
        change = _change(image, look(image), ours.get(path, set()), elsewhere.get(path, set()))
        if change is not None:
            changes.append(change)
    return changes


def first_since(images: Images, index: int) -> dict[str, FileImage]:
    """By path, its first change at or after this entry: before it, the file was as it was then."""
    found: dict[str, FileImage] = {}
    for at, image in images:
        if at >= index:
            found.setdefault(image.path, image)
    return found


def _held(images: Iterable[FileImage]) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for image in images:
        found.setdefault(image.path, set()).update((image.before, image.after))
    return found


def _ours(images: Iterable[FileImage]) -> dict[str, set[str | None]]:
    """By path, the contents our changes found first or wrote. What somebody else wrote in between is theirs,
    even where it comes back."""
    ours: dict[str, set[str | None]] = {}
    theirs: dict[str, set[str | None]] = {}
    for image in images:
        known = ours.setdefault(image.path, {image.before})
        others = theirs.setdefault(image.path, set())
        if image.before not in known:
            others.add(image.before)
        if image.after not in others:
            known.add(image.after)
    return ours


def _change(
    image: FileImage, now: "str | Unreadable | None", ours: set[str | None], elsewhere: set[str | None]
) -> FileChange | None:
    path, target = image.path, image.before
    if isinstance(now, Unreadable):
        return FileChange(path, "unreadable", None, target, why=now.why)
    if now == target:
        return None
    if now not in ours:
        why = "recorded elsewhere, not here" if now in elsewhere else ""
        return FileChange(path, "conflict", now, target, image.mode, why, image.link)
    kind: ChangeKind = "remove" if target is None else "write"
    return FileChange(path, kind, now, target, image.mode, link=image.link)


def restored_paths(images: Iterable[tuple[int, FileImage]]) -> frozenset[str]:
    """The files that our changes left as they found them, all in all."""
    first: dict[str, str | None] = {}
    last: dict[str, str | None] = {}
    for _, image in images:
        first.setdefault(image.path, image.before)
        last[image.path] = image.after
    return frozenset(path for path, content in last.items() if content == first[path])
