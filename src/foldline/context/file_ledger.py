"""The files of a session, as `tracked_files` tells them in full, kept up to date as it grows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from foldline.protocol import NEW, FileTouch, Undo

from .files import Presence, presence_of
from .outline import MessageOutline
from .projection import Projection
from .undoing import ViewMarker

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

    @property
    def counted(self) -> Iterable[tuple[int, FileTouch]]:
        """Its touches, the newest first."""
        touches = reversed(self.touches)
        return (each for each in touches if each[1].action == "read" or not self.restored)


@dataclass(frozen=True, slots=True)
class NewestFiles:
    """The files that were touched last, and how many there are."""

    modified: tuple[FileState, ...] = ()
    read: tuple[FileState, ...] = ()
    all_modified: int = 0
    all_read: int = 0


class FileLedger:
    """Follows one projection. A touch costs what it changes, an edit the touches of its files, any other
    change of the view all touches."""

    def __init__(self) -> None:
        self.looked_at = 0
        """Touches that were looked at, all in all: what keeping this up to date has cost."""
        self._files: dict[str, _File] = {}
        # Files with a touch that counts, the newest touch last; and the paths of each kind, likewise.
        self._states: dict[str, FileState] = {}
        self._modified: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._touches = self._images = 0
        self._change: ViewMarker | Undo | None = None
        self._all: tuple[FileState, ...] | None = None
        self._newest: NewestFiles | None = None

    def files(self, projection: Projection) -> Sequence[FileState]:
        """Every file the session's tools touched, newest touch first; the same tuple while nothing came."""
        self._catch_up(projection)
        if self._all is None:
            self._all = tuple(reversed(self._states.values()))
        return self._all

    def newest(self, projection: Projection, most: int) -> NewestFiles:
        """At most so many of the files the session's tools modified, and of those they only read, the newest
        touch first; the same value while nothing came."""
        self._catch_up(projection)
        if self._newest is None:
            self._newest = NewestFiles(
                tuple(self._states[path] for path in islice(reversed(self._modified), most)),
                tuple(self._states[path] for path in islice(reversed(self._read), most)),
                len(self._modified),
                len(self._read),
            )
        return self._newest

    def _catch_up(self, projection: Projection) -> None:
        touches, images = projection.touches, projection.images
        changed = projection.newest_change is not self._change
        if not changed and (len(touches), len(images)) == (self._touches, self._images):
            return
        self._all = self._newest = None
        edited = projection.edited_since(NEW if self._change is None else self._change.index)
        turned = self._note_images(projection)
        if edited is None:
            self._forget_touches()
        for index, touch in touches[self._touches :]:
            self._files.setdefault(touch.path, _File()).touches.append((index, touch))
            self._count(projection, index, touch)
        if edited is not None:
            self._recount(projection, turned)
            self._look_again(projection, {index for target in edited for index in projection.group(target)})
        self._change, self._touches, self._images = projection.newest_change, len(touches), len(images)

    def _forget_touches(self) -> None:
        """To count all of them anew."""
        for states in (self._states, self._modified, self._read):
            states.clear()
        for file in self._files.values():
            file.touches.clear()
        self._touches = 0

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
        state = self._states.get(touch.path, FileState(touch.path))
        presence = presence_of(projection.fate(index).kind, touch)
        self._take_out(touch.path)
        self._put_last(
            FileState(
                touch.path,
                state.modified or change,
                state.added + (touch.added if change else 0),
                state.removed + (touch.removed if change else 0),
                max(state.presence, presence, key=_RANKS.__getitem__),
            )
        )

    def _take_out(self, path: str) -> None:
        for states in (self._states, self._modified, self._read):
            states.pop(path, None)

    def _put_last(self, state: FileState) -> None:
        self._states[state.path] = state
        (self._modified if state.modified else self._read)[state.path] = None

    def _recount(self, projection: Projection, paths: set[str]) -> None:
        """Files whose changes count no longer, or again; all stay in the order of their newest touches."""
        if not paths:
            return
        for path in paths:
            self._take_out(path)
            for index, touch in self._files[path].touches:
                self._count(projection, index, touch)
        newest = {path: next(iter(self._files[path].counted))[0] for path in self._states}
        for state in sorted(self._states.values(), key=lambda state: newest[state.path]):
            self._take_out(state.path)
            self._put_last(state)

    def _look_again(self, projection: Projection, results: set[int]) -> None:
        """At the files that these entries touched: what an edit of the view changes is what the model has."""
        outlines = map(projection.outline, results)
        touches = (touch for each in outlines if isinstance(each, MessageOutline) for touch in each.touches)
        for path in {touch.path for touch in touches}:
            state = self._states.get(path)
            if state is not None:
                counted = [*self._files[path].counted]
                self.looked_at += len(counted)
                found = (presence_of(projection.fate(index).kind, touch) for index, touch in counted)
                self._states[path] = replace(state, presence=max(found, key=_RANKS.__getitem__))
