"""The files of a session, as `tracked_files` tells them in full, kept up to date as it grows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from foldline.protocol import FileTouch

from .files import Presence, presence_of
from .projection import Projection

_RANKS: dict[Presence, int] = {"none": 0, "name": 1, "part": 2, "whole": 3}


@dataclass(frozen=True, slots=True)
class FileState:
    """One file, and how much of it the model still has."""

    path: str
    modified: bool = False
    added: int = 0
    removed: int = 0
    presence: Presence = "none"


@dataclass(slots=True)
class _File:
    touches: list[tuple[int, FileTouch]] = field(default_factory=list)
    before: str | None = None
    after: str | None = None
    recorded: bool = False
    """Whether a checkpoint recorded a change of it; then `before` is what it held first, `after` last."""

    @property
    def restored(self) -> bool:
        """Whether our changes left it as they found it: then they do not count."""
        return self.recorded and self.before == self.after


class FileLedger:
    """Follows one projection. A touch costs what it changes; a change of the view costs all touches."""

    def __init__(self) -> None:
        self.looked_at = 0
        """Touches that were looked at, all in all: what keeping this up to date has cost."""
        self._files: dict[str, _File] = {}
        self._states: dict[str, FileState] = {}
        """Files with a touch that counts, the newest touch last."""
        self._touches = self._images = 0
        self._change: object = None
        self._shown: tuple[FileState, ...] = ()

    def files(self, projection: Projection) -> Sequence[FileState]:
        """Every file the session's tools touched, newest touch first; the same tuple while nothing came."""
        touches, images = projection.touches, projection.images
        changed = projection.newest_change is not self._change
        if not changed and (len(touches), len(images)) == (self._touches, self._images):
            return self._shown
        turned = self._note_images(projection)
        if changed:
            self._states.clear()
            self._touches = 0
            for file in self._files.values():
                file.touches.clear()
        for index, touch in touches[self._touches :]:
            self._files.setdefault(touch.path, _File()).touches.append((index, touch))
            self._count(projection, index, touch)
        if turned and not changed:
            self._recount(projection, turned)
        self._change, self._touches, self._images = projection.newest_change, len(touches), len(images)
        self._shown = tuple(reversed(self._states.values()))
        return self._shown

    def _note_images(self, projection: Projection) -> set[str]:
        """Take in the changes that were recorded since; the files that are now restored, or no longer."""
        turned: set[str] = set()
        for _, image in projection.images[self._images :]:
            file = self._files.setdefault(image.path, _File())
            was = file.restored
            if not file.recorded:
                file.before, file.recorded = image.before, True
            file.after = image.after
            if was != file.restored:
                turned ^= {image.path}
        return turned

    def _count(self, projection: Projection, index: int, touch: FileTouch) -> None:
        """With one more touch, the newest."""
        self.looked_at += 1
        change = touch.action == "modified"
        if change and self._files[touch.path].restored:
            return
        state = self._states.pop(touch.path, FileState(touch.path))
        presence = presence_of(projection.fate(index).kind, touch)
        self._states[touch.path] = FileState(
            touch.path,
            state.modified or change,
            state.added + (touch.added if change else 0),
            state.removed + (touch.removed if change else 0),
            max(state.presence, presence, key=lambda each: _RANKS[each]),
        )

    def _recount(self, projection: Projection, paths: set[str]) -> None:
        """Files whose changes count no longer, or again; everything stays in the order of the touches."""
        newest: dict[str, int] = {}
        for path in paths:
            self._states.pop(path, None)
            for index, touch in self._files[path].touches:
                self._count(projection, index, touch)
        for path in self._states:
            file = self._files[path]
            counts = (index for index, touch in reversed(file.touches) if self._counts(file, touch))
            newest[path] = next(counts)
        self._states = {path: self._states[path] for path in sorted(newest, key=newest.__getitem__)}

    @staticmethod
    def _counts(file: _File, touch: FileTouch) -> bool:
        return touch.action == "read" or not file.restored
