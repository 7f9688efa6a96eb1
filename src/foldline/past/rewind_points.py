"""Points to which a session can be rewound.

Also determines the effect of a rewind on files changed by our tools. Pure.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from foldline.memory.subjects import subject_of
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
    is_typed,
)
from foldline.sequences import grouped
from foldline.text.shorten import first_line
from foldline.view.outline import MessageOutline
from foldline.view.projection import Projection

_NEAR = 64
"""Number of entries around a checkpoint in which a name for it is searched for."""
_TURN = 400
"""Number of entries before a point in history in which its prompt is searched for."""
_STEPS = BaseMessage | Compaction | Clear | Checkpoint | Revert


@dataclass(frozen=True, slots=True)
class RewindPoint:
    """A checkpoint on the current branch."""

    id: int
    index: int
    at: datetime | None
    kind: Literal["turn", "step"]
    label: str
    """For a turn, the first words of the prompt; for a step, the last call before the step."""
    changes: int
    """Number of files that our tools changed after this point."""
    prompt: str = ""
    """For a turn, the entire prompt. Sending it again repeats the turn."""


def rewind_points(projection: Projection) -> list[RewindPoint]:
    """Return the rewind points, newest first. Points in reverted parts are left out."""
    spans = reverted_spans(projection)
    images = list(projection.images)
    changed: set[str] = set()
    points = []
    for checkpoint in reversed(projection.checkpoints):
        while images and images[-1][0] >= checkpoint.index:
            _, image = images.pop()
            if image.before != image.after:
                changed.add(image.path)
        point = _point(projection, checkpoint, spans, len(changed))
        if point is not None:
            points.append(point)
    return points


Spans = Sequence[tuple[int, int]]
"""Ranges of entries skipped by active rewinds.

Each range lies between the target and the rewind, both excluded.
"""


def reverted_spans(projection: Projection) -> Spans:
    spans = []
    for marker in projection.markers:
        back_to = projection.reached_by(marker) if isinstance(marker, Revert) else None
        if back_to is not None:
            spans.append((back_to, marker.index))
    return spans


def is_within(index: int, spans: Spans) -> bool:
    """Return whether the entry lies on an abandoned branch."""
    return any(first < index < last for first, last in spans)


def _point(
    projection: Projection, checkpoint: Checkpoint, spans: Spans, changes: int
) -> RewindPoint | None:
    """Return the rewind point for a checkpoint.

    Returns None if no active entry follows the checkpoint, or if the checkpoint lies within a tool group.
    """
    following = _following(projection, checkpoint.index)
    if (
        checkpoint.files
        or following is None
        or isinstance(following, Checkpoint | Revert)
    ):
        return None
    if is_within(following.index, spans):
        return None
    prompt = ""
    if isinstance(following, UserMessage):
        label = first_line(following.text)
        prompt = following.editable
    else:
        label = _last_step(projection.entries_before(checkpoint.index, _NEAR))
    kind: Literal["turn", "step"] = "turn" if following.type == "user" else "step"
    return RewindPoint(
        checkpoint.id, checkpoint.index, checkpoint.at, kind, label, changes, prompt
    )


def _following(projection: Projection, index: int) -> Entry | None:
    """Return the step that follows a checkpoint.

    For a turn, this is the prompt, even if messages added by Foldline come before it.
    """
    for entry in projection.entries_after(index, _NEAR):
        if isinstance(entry, _STEPS) and not isinstance(entry, DeveloperMessage):
            return entry
    return None


def rewind_words(projection: Projection, revert: Revert) -> str:
    """Describe a rewind.

    For example, `context and files back to before “Make it faster”`.
    """
    scope = "context"
    if revert.files:
        scope = "context and files" if revert.context else "files"
    if revert.moment is not None:
        earlier = projection.entries_before(revert.moment + 1, _TURN)
        prompt = next((entry for entry in earlier if is_typed(entry)), None)
        prompt_words = "" if prompt is None else f" of “{first_line(prompt.text)}”"
        return f"{scope} of entry {revert.moment}, on the branch{prompt_words}"
    if revert.message is not None:
        return f"the model went back to checkpoint {revert.checkpoint}, with a message to itself"
    index = projection.checkpoint(revert.checkpoint)
    following = None if index is None else _following(projection, index)
    if isinstance(following, UserMessage):
        return f"{scope} back to before “{first_line(following.text)}”"
    return f"{scope} back to checkpoint {revert.checkpoint}"


def _last_step(newest_first: Sequence[Entry]) -> str:
    """Describe the newest call or prompt among these entries: `edit src/a.py`."""
    results: list[ToolResultMessage] = []
    for entry in newest_first:
        match entry:
            case ToolResultMessage():
                results.append(entry)
            case AssistantMessage() if results:
                newest_result = results[0]
                calls = {call.call_id: call for call in entry.calls}
                call = calls.get(newest_result.call_id)
                subject = subject_of(call).text if call else ""
                return " ".join(word for word in (newest_result.name, subject) if word)
            case UserMessage():
                return "the prompt"
            case _:
                pass
    return "earlier work"


Images = Sequence[tuple[int, FileImage]]
"""File changes in order, each with the index of the checkpoint that recorded it."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that cannot be read now, which does not mean that it is missing."""

    why: str


FileContent = str | Unreadable | None
"""Current content of a file, as a SHA-256 digest; None if the file does not exist."""
ReadContent = Callable[[FileImage], FileContent]
"""Reads the current content of the file to which an image refers."""

ChangeKind = Literal["write", "remove", "conflict", "unreadable"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """The effect of a rewind on one file."""

    path: str
    kind: ChangeKind
    """What the rewind does to the file.

    `conflict`: the file is kept, because it was changed outside this session. `unreadable`: see `why`.
    """
    now: str | None
    target: str | None
    mode: int | None = None
    why: str = ""
    """Why the file is `unreadable`, or the cause of a `conflict` other than a later change from outside."""
    link: str | None = None
    """Target of a symbolic link, taken from the file's image."""
    by_others: bool = False
    """Whether the content to be restored was created outside this session."""

    @property
    def image(self) -> FileImage:
        """The change in the form in which a checkpoint records changes."""
        return FileImage(
            path=self.path,
            before=self.now,
            after=self.target,
            mode=self.mode,
            link=self.link,
            by_others=self.by_others,
        )


@dataclass(frozen=True, slots=True)
class PastContent:
    """The content of a file at an earlier point in the history."""

    content: str | None
    by_others: bool = False
    """Whether the content was created outside this session."""


def changes_to(
    images: Images,
    index: int,
    read: ReadContent,
    foreign: int = NEW,
    settled: int = sys.maxsize,
) -> list[FileChange]:
    """Return the changes that restore the files to their state at entry `index`.

    A file may be changed only if its content matches our last record of it.

    Args:
        read: reads the current content of a file.
        foreign: entries up to this index were written elsewhere, so we must not change the files that they
            record.
        settled: a change recorded after this entry was possibly not made, because of a crash.
    """
    changes = []
    for records in by_path(images).values():
        first = next(
            (
                image
                for at, image in records
                if at >= index and image.before != image.after
            ),
            None,
        )
        if first is not None:
            now = read(first)
            refusal = _refusal(records, now, foreign, settled)
            changes.append(_change(first, content_at(records, index), now, refusal))
    return [change for change in changes if change is not None]


def changes_back(images: Images, index: int, read: ReadContent) -> list[FileChange]:
    """Return the changes that undo the file changes of a rewind.

    Args:
        index: index of the checkpoint that contains the rewind's file changes.
    """
    changes = []
    for records in by_path(images).values():
        since = [image for at, image in records if at >= index]
        if (index, since[0]) in records:
            now = read(since[0])
            changes.append(
                _change(
                    since[0],
                    content_at(records, index),
                    now,
                    _refusal_since(since, now),
                )
            )
    return [change for change in changes if change is not None]


def by_path(images: Images) -> Mapping[str, Images]:
    """Group the records by file, keeping their order."""
    return grouped((image.path, (at, image)) for at, image in images)


def content_at(records: Images, index: int) -> PastContent:
    """Return the content of a file right before entry `index`.

    If that entry contains a record of the file, this is the content before the recorded change. Otherwise, it
    is the content after the last earlier change.
    """
    last: FileImage | None = None
    for at, image in records:
        if at < index:
            last = image
        elif last is None:
            return PastContent(image.before)
        elif at == index:
            return PastContent(
                image.before, last.by_others or image.before != last.after
            )
        else:
            break
    assert last is not None, "a file has records"
    return PastContent(last.after, last.by_others)


def settled_index(projection: Projection) -> int:
    """Return the index of the newest entry by which all earlier file changes are complete.

    This is the newest message or rewind. Returns `NEW` if there is none.
    """
    for outline in reversed(projection.entries.outlines):
        if isinstance(outline, MessageOutline | Revert):
            return outline.index
    return NEW


CHANGED_OUTSIDE = ""
"""The reason for the most common conflict, a change outside this session. Callers describe it."""
RECORDED_ELSEWHERE = "recorded by another session, not by this one"
WRITTEN_AGAIN = "changed again after the rewind"


def _refusal(
    records: Images, now: FileContent, foreign: int, settled: int
) -> str | None:
    """Return the reason why we must not change a file.

    Returns None if we may change it.
    """
    at, last = records[-1]
    if at > foreign and now == last.after and not last.by_others:
        return None
    if (
        at > max(foreign, settled)
        and now == last.before
        and not content_at(records, at).by_others
    ):
        return None
    recorded_elsewhere = {
        content
        for at, image in records
        if at <= foreign
        for content in (image.before, image.after)
    }
    return RECORDED_ELSEWHERE if now in recorded_elsewhere else CHANGED_OUTSIDE


def _refusal_since(since: Sequence[FileImage], now: FileContent) -> str | None:
    """Return the reason why a file no longer matches a rewind.

    Returns None if the file has not changed since the rewind.

    Args:
        since: records of the file, beginning with the rewind's own record.
    """
    rewound = since[0]
    last = since[-1]
    if now != last.after or any(
        later.before != earlier.after for earlier, later in pairwise(since)
    ):
        return CHANGED_OUTSIDE
    return None if last.after == rewound.after else WRITTEN_AGAIN


def _change(
    image: FileImage, target: PastContent, now: FileContent, refusal: str | None
) -> FileChange | None:
    if isinstance(now, Unreadable):
        return FileChange(image.path, "unreadable", None, target.content, why=now.why)
    if now == target.content:
        return None
    kind: ChangeKind = "remove" if target.content is None else "write"
    if refusal is not None:
        kind = "conflict"
    return FileChange(
        image.path,
        kind,
        now,
        target.content,
        image.mode,
        refusal or "",
        image.link,
        target.by_others,
    )


def restored_paths(images: Iterable[tuple[int, FileImage]]) -> frozenset[str]:
    """Return the files that have their original content again after all our changes."""
    originals: dict[str, str | None] = {}
    restored: set[str] = set()
    for _, image in images:
        path = image.path
        if image.after == originals.setdefault(path, image.before):
            restored.add(path)
        else:
            restored.discard(path)
    return frozenset(restored)
