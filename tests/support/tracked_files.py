"""The files of a session by one look at all its touches, to hold `FileLedger` against."""

from dataclasses import dataclass

from foldline.context.files import Presence, presence_of
from foldline.context.projection import Projection
from foldline.context.rewind_points import restored_paths
from foldline.protocol import FileTouch

_ORDER: tuple[Presence, ...] = ("none", "name", "part", "whole")


@dataclass(frozen=True, slots=True)
class TrackedFile:
    path: str
    modified: bool
    added: int
    removed: int
    presence: Presence
    touches: tuple[int, ...]
    """Indices of the tool results that touched it, oldest first."""


def tracked_files(projection: Projection) -> list[TrackedFile]:
    """Every file the tools touched, newest touch first; changes of files that were put back apart."""
    restored = restored_paths(projection.images)
    by_path: dict[str, list[tuple[int, FileTouch]]] = {}
    for index, touch in projection.touches:
        if touch.action == "read" or touch.path not in restored:
            by_path.setdefault(touch.path, []).append((index, touch))
    files = [_tracked(projection, path, touches) for path, touches in by_path.items()]
    return sorted(files, key=lambda file: file.touches[-1], reverse=True)


def _tracked(projection: Projection, path: str, touches: list[tuple[int, FileTouch]]) -> TrackedFile:
    changes = [touch for _, touch in touches if touch.action == "modified"]
    left = [presence_of(projection.fate(index).kind, touch) for index, touch in touches]
    return TrackedFile(
        path=path,
        modified=bool(changes),
        added=sum(touch.added for touch in changes),
        removed=sum(touch.removed for touch in changes),
        presence=max(left, key=_ORDER.index),
        touches=tuple(index for index, _ in touches),
    )
