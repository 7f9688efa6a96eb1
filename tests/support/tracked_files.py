"""The files of a session from all its touches, a reference for `FileLedger`."""

from dataclasses import dataclass

from foldline.past.files import Presence, presence_of
from foldline.past.rewind_points import restored_paths
from foldline.protocol import FileTouch
from foldline.view.projection import Projection

_ORDER: tuple[Presence, ...] = ("none", "name", "part", "whole")


@dataclass(frozen=True, slots=True)
class TrackedFile:
    path: str
    modified: bool
    added: int
    removed: int
    presence: Presence
    touches: tuple[int, ...]
    """Indices of the tool results that touched the file, oldest first."""


def tracked_files(projection: Projection) -> list[TrackedFile]:
    """Return every touched file, newest touch first.

    Reverted changes are listed separately.
    """
    restored = restored_paths(projection.images)
    by_path: dict[str, list[tuple[int, FileTouch]]] = {}
    for index, touch in projection.touches:
        if touch.action == "read" or touch.path not in restored:
            by_path.setdefault(touch.path, []).append((index, touch))
    files = [_tracked(projection, path, touches) for path, touches in by_path.items()]
    return sorted(files, key=lambda file: file.touches[-1], reverse=True)


def _tracked(
    projection: Projection, path: str, touches: list[tuple[int, FileTouch]]
) -> TrackedFile:
    changes = [touch for _, touch in touches if touch.action == "modified"]
    presences = [
        presence_of(projection.fate(index).kind, touch) for index, touch in touches
    ]
    return TrackedFile(
        path=path,
        modified=bool(changes),
        added=sum(touch.added for touch in changes),
        removed=sum(touch.removed for touch in changes),
        presence=max(presences, key=_ORDER.index),
        touches=tuple(index for index, _ in touches),
    )
