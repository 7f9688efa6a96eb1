"""The files a session read and modified, and how much of each the model still has."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from foldline.protocol import NEW, CompactionDetails, FileTouch, Undo

from .outline import MessageOutline
from .projection import Projection
from .rewind_points import restored_paths
from .view import FateKind
from .view_state import ViewMarker

Presence = Literal["whole", "part", "name", "none"]
"""`whole`: its text is in the view; `part`: an edit or a clipped read; `name`: only its name is."""


def presence_of(fate: FateKind, touch: FileTouch) -> Presence:
    """What one touch leaves of its file in the view, by the fate of its result."""
    match fate:
        case "live" if touch.action == "read":
            return "whole"
        case "live" | "clipped":
            return "part"
        case "summarised" | "hidden":
            return "name"
        case _:
            return "none"


def file_lists(projection: Projection) -> CompactionDetails:
    """The cumulative lists a compaction records, with those of an imported session's own compactions."""
    known = (each.details for each in projection.compactions())
    touches = (touch for _, touch in projection.touches)
    return lists_of(known, touches, restored_paths(projection.images))


def lists_of(
    known: Iterable[CompactionDetails], touches: Iterable[FileTouch], restored: Collection[str] = ()
) -> CompactionDetails:
    """These lists with these touches as one. A file that was modified is not listed as read."""
    read: list[str] = []
    modified: list[str] = []
    for each in known:
        read += each.read_files
        modified += each.modified_files
    for touch in touches:
        (modified if touch.action == "modified" else read).append(touch.path)
    changed = dict.fromkeys(path for path in modified if path not in restored)
    return CompactionDetails(
        read_files=tuple(path for path in dict.fromkeys(read) if path not in changed),
        modified_files=tuple(changed),
    )


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
    """What the tools did to one file, whatever the view. Places are among all touches; -1 for none."""

    path: str
    touches: list[tuple[int, FileTouch]] = field(default_factory=list)

    first: int = -1
    last_read: int = -1
    last_change: int = -1
    added: int = 0
    removed: int = 0
    recorded: bool = False
    """Whether a checkpoint recorded a change of it; then `before` is what it held first, `after` last."""
    before: str | None = None
    after: str | None = None

    @property
    def restored(self) -> bool:
        """Whether our changes left it as they found it: then they do not count."""
        return self.recorded and self.before == self.after

    @property
    def modified(self) -> bool:
        return self.last_change >= 0 and not self.restored

    @property
    def newest(self) -> int:
        """Place of its newest touch that counts; -1 where none does."""
        return max(self.last_read, self.last_change) if self.modified else self.last_read

    def counts(self, touch: FileTouch) -> bool:
        return touch.action == "read" or not self.restored

    def take(self, index: int, touch: FileTouch, place: int) -> None:
        if not self.touches:
            self.first = place
        self.touches.append((index, touch))
        if touch.action == "read":
            self.last_read = place
        else:
            self.last_change = place
            self.added += touch.added
            self.removed += touch.removed

    def state(self, presence: Presence) -> FileState:
        if not self.modified:
            return FileState(self.path, presence=presence)
        return FileState(self.path, True, self.added, self.removed, presence)


@dataclass(frozen=True, slots=True)
class NewestFiles:
    """The files that were touched last, and how many there are."""

    modified: tuple[FileState, ...] = ()
    read: tuple[FileState, ...] = ()
    all_modified: int = 0
    all_read: int = 0


class FileLedger:
    """The files of one projection, kept up to date as it grows. A touch costs what it changes. What the model
    still has of a file is looked up when it is asked for, and known until the view changes again."""

    def __init__(self) -> None:
        self.looked_at = 0
        """Touches that were looked at, all in all: what keeping this up to date has cost."""
        self._files: dict[str, _File] = {}
        # The paths of each kind that have a touch that counts, the newest touch last; and of both.
        self._paths: dict[str, None] = {}
        self._modified: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._known: dict[str, FileState] = {}
        """The states that were asked for, as long as they stand."""
        self._touches = self._images = 0
        self._change: ViewMarker | Undo | None = None
        self._all: tuple[FileState, ...] | None = None
        self._newest: NewestFiles | None = None

    def files(self, projection: Projection) -> Sequence[FileState]:
        """Every file the session's tools touched, newest touch first; the same tuple while nothing came."""
        self._catch_up(projection)
        if self._all is None:
            self._all = tuple(self._state(projection, path) for path in reversed(self._paths))
        return self._all

    def newest(self, projection: Projection, most: int) -> NewestFiles:
        """At most so many of the files modified, and of those only read, newest touch first."""
        self._catch_up(projection)
        if self._newest is None:
            self._newest = NewestFiles(
                tuple(self._state(projection, path) for path in islice(reversed(self._modified), most)),
                tuple(self._state(projection, path) for path in islice(reversed(self._read), most)),
                len(self._modified),
                len(self._read),
            )
        return self._newest

    def restored(self, projection: Projection) -> list[str]:
        """Files that were only changed, and hold again what they held before: the newest change first."""
        self._catch_up(projection)
        files = (file for file in self._files.values() if file.touches and file.newest < 0)
        return [file.path for file in sorted(files, key=lambda file: file.last_change, reverse=True)]

    def touches(self, path: str) -> Sequence[tuple[int, FileTouch]]:
        """Every touch of a file up to the last look, oldest first, with the index of its result."""
        return self._files[path].touches

    def first(self, path: str) -> int:
        """The place of a file's first touch among all touches of the session."""
        return self._files[path].first

    def _state(self, projection: Projection, path: str) -> FileState:
        state = self._known.get(path)
        if state is None:
            file = self._files[path]
            state = self._known[path] = file.state(self._presence(projection, file))
        return state

    def _presence(self, projection: Projection, file: _File) -> Presence:
        """How much of a file the model has, looked for from its newest touch back."""
        best: Presence = "none"
        most: Presence = "whole" if file.last_read >= 0 else "part"
        restored = file.restored
        for index, touch in reversed(file.touches):
            self.looked_at += 1
            if restored and touch.action == "modified":
                continue
            left = presence_of(projection.fate(index).kind, touch)
            if left != best:
                best = _more(best, left)
                if best == most:
                    break
        return best

    def _catch_up(self, projection: Projection) -> None:
        touches, images = projection.touches, projection.images
        changed = projection.newest_change is not self._change
        if not changed and (len(touches), len(images)) == (self._touches, self._images):
            return
        self._all = self._newest = None
        if changed:
            self._forget_changed(projection)
        turned = self._note_images(projection)
        touched: dict[str, None] = {}
        for place, (index, touch) in enumerate(touches[self._touches :], self._touches):
            if self._counts(projection, index, touch, place):
                touched[touch.path] = None
        self._put_in_order(turned, touched)
        self._change, self._touches, self._images = projection.newest_change, len(touches), len(images)

    def _forget_changed(self, projection: Projection) -> None:
        """Forgets the states of files whose results were edited; of all files after any other change."""
        edited = projection.edited_since(NEW if self._change is None else self._change.index)
        if edited is None:
            self._known.clear()
            return
        outlines = (projection.outline(index) for target in edited for index in projection.group(target))
        for outline in outlines:
            for touch in outline.touches if isinstance(outline, MessageOutline) else ():
                self._known.pop(touch.path, None)

    def _note_images(self, projection: Projection) -> set[str]:
        """Take in the changes recorded since; gives the files that are now restored, or no longer."""
        turned: set[str] = set()
        for _, image in projection.images[self._images :]:
            file = self._files.setdefault(image.path, _File(image.path))
            was = file.restored
            if not file.recorded:
                file.before, file.recorded = image.before, True
            file.after = image.after
            if was != file.restored:
                turned ^= {image.path}
        return turned

    def _counts(self, projection: Projection, index: int, touch: FileTouch, place: int) -> bool:
        """Adds the newest touch; whether it counts."""
        self.looked_at += 1
        file = self._files.setdefault(touch.path, _File(touch.path))
        file.take(index, touch, place)
        if not file.counts(touch):
            return False
        known = self._known.get(touch.path)
        if known is not None:
            left = presence_of(projection.fate(index).kind, touch)
            self._known[touch.path] = file.state(_more(known.presence, left))
        return True

    def _put_in_order(self, turned: set[str], touched: Iterable[str]) -> None:
        """Sorts the touched files by newest touch again, or all files where some began or ceased to count."""
        for path in turned:
            self._known.pop(path, None)
        moved = {*self._paths, *turned, *touched} if turned else touched
        for file in sorted((self._files[path] for path in moved), key=lambda file: file.newest):
            for paths in (self._paths, self._modified, self._read):
                paths.pop(file.path, None)
            if file.newest >= 0:
                self._paths[file.path] = None
                (self._modified if file.modified else self._read)[file.path] = None


def _more(one: Presence, other: Presence) -> Presence:
    return max(one, other, key=_RANKS.__getitem__)
