"""The files that a session read and modified.

Also determines how much of each file is still in the view.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from foldline.protocol import CompactionDetails, FileTouch, Undo
from foldline.view.items import FateKind
from foldline.view.projection import Projection
from foldline.view.state import ViewMarker

from .rewind_points import restored_paths

Presence = Literal["whole", "part", "name", "none"]
"""How much of a file the view contains.

`whole`: the file's text; `part`: an edit or a clipped read; `name`: only the file name; `none`: nothing.
"""


def presence_of(fate: FateKind, touch: FileTouch) -> Presence:
    """Return how much of a file the view still contains because of one file access.

    Args:
        fate: the fate of the tool result.
    """
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
    """Return the file lists for a compaction. They cover the entire session.

    For an imported session, they include the lists from its own compactions.
    """
    earlier_lists = (compaction.details for compaction in projection.compactions())
    touches = (touch for _, touch in projection.touches)
    return lists_of(earlier_lists, touches, restored_paths(projection.images))


def lists_of(
    earlier_lists: Iterable[CompactionDetails],
    touches: Iterable[FileTouch],
    restored: Collection[str] = (),
) -> CompactionDetails:
    """Merge earlier file lists with file accesses.

    A modified file is not listed as read. A file in `restored` is not listed at all.
    """
    read: list[str] = []
    modified: list[str] = []
    for lists in earlier_lists:
        read += lists.read_files
        modified += lists.modified_files
    for touch in touches:
        paths = modified if touch.action == "modified" else read
        paths.append(touch.path)
    changed = dict.fromkeys(path for path in modified if path not in restored)
    return CompactionDetails(
        read_files=tuple(path for path in dict.fromkeys(read) if path not in changed),
        modified_files=tuple(changed),
    )


_RANKS: dict[Presence, int] = {"none": 0, "name": 1, "part": 2, "whole": 3}


@dataclass(frozen=True, slots=True)
class FileState:
    """The changes to one file, and how much of the file is in the view."""

    path: str
    modified: bool = False
    added: int = 0
    removed: int = 0
    presence: Presence = "none"


@dataclass(slots=True)
class _FileHistory:
    """All accesses to one file, regardless of the view.

    Positions refer to the list of all accesses. A position is -1 if there is no such access.
    """

    path: str
    touches: list[tuple[int, FileTouch]] = field(default_factory=list)

    first: int = -1
    last_read: int = -1
    last_change: int = -1
    added: int = 0
    removed: int = 0
    recorded: bool = False
    """Whether a checkpoint recorded a change to the file."""
    before: str | None = None
    """The file's content before the first recorded change."""
    after: str | None = None
    """The file's content after the last recorded change."""

    @property
    def restored(self) -> bool:
        """Whether the file has its original content again.

        In that case, our changes to the file do not count.
        """
        return self.recorded and self.before == self.after

    @property
    def modified(self) -> bool:
        return self.last_change >= 0 and not self.restored

    @property
    def newest(self) -> int:
        """Position of the newest access that counts; -1 without any."""
        return (
            max(self.last_read, self.last_change) if self.modified else self.last_read
        )

    def counts(self, touch: FileTouch) -> bool:
        return touch.action == "read" or not self.restored

    def add_touch(self, index: int, touch: FileTouch, position: int) -> None:
        if not self.touches:
            self.first = position
        self.touches.append((index, touch))
        if touch.action == "read":
            self.last_read = position
        else:
            self.last_change = position
            self.added += touch.added
            self.removed += touch.removed

    def add_image(self, before: str | None, after: str | None) -> None:
        if not self.recorded:
            self.before = before
            self.recorded = True
        self.after = after

    def state(self, presence: Presence) -> FileState:
        if not self.modified:
            return FileState(self.path, presence=presence)
        return FileState(self.path, True, self.added, self.removed, presence)


@dataclass(frozen=True, slots=True)
class NewestFiles:
    """The most recently accessed files, and the total number of files."""

    modified: tuple[FileState, ...] = ()
    read: tuple[FileState, ...] = ()
    all_modified: int = 0
    all_read: int = 0


class FileLedger:
    """The files of one projection, kept up to date as the projection grows.

    Adding an access takes constant time. The share of each file that the view contains is computed on demand,
    and cached until the view changes.
    """

    def __init__(self) -> None:
        self._files: dict[str, _FileHistory] = {}
        # The paths with an access that counts, newest access last: all, modified, and only read paths.
        self._paths: dict[str, None] = {}
        self._modified: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._states: dict[str, FileState] = {}
        """Cached states, by path."""
        self._touch_count = 0
        self._image_count = 0
        self._newest_change: ViewMarker | Undo | None = None
        self._all: tuple[FileState, ...] | None = None
        self._newest: NewestFiles | None = None

    def files(self, projection: Projection) -> Sequence[FileState]:
        """Return every file accessed by the tools, newest access first.

        The same tuple is returned until an access is added.
        """
        self._catch_up(projection)
        if self._all is None:
            self._all = tuple(
                self._state(projection, path) for path in reversed(self._paths)
            )
        return self._all

    def newest(self, projection: Projection, limit: int) -> NewestFiles:
        """Return the newest files, newest access first.

        Returns up to `limit` modified files, and up to `limit` files that were only read.
        """
        self._catch_up(projection)
        if self._newest is None:
            self._newest = NewestFiles(
                tuple(
                    self._state(projection, path)
                    for path in islice(reversed(self._modified), limit)
                ),
                tuple(
                    self._state(projection, path)
                    for path in islice(reversed(self._read), limit)
                ),
                len(self._modified),
                len(self._read),
            )
        return self._newest

    def restored(self, projection: Projection) -> list[str]:
        """Return the files that were changed but never read, and now have their original content.

        The most recently changed file comes first.
        """
        self._catch_up(projection)
        files = (
            file for file in self._files.values() if file.touches and file.newest < 0
        )
        return [
            file.path
            for file in sorted(files, key=lambda file: file.last_change, reverse=True)
        ]

    def touches(self, path: str) -> Sequence[tuple[int, FileTouch]]:
        """Return the accesses to a file, as of the last update.

        Each access has the index of its result. The oldest access comes first.
        """
        return self._files[path].touches

    def first(self, path: str) -> int:
        """Return the position of a file's first access in the list of all accesses."""
        return self._files[path].first

    def _file(self, path: str) -> _FileHistory:
        return self._files.setdefault(path, _FileHistory(path))

    def _state(self, projection: Projection, path: str) -> FileState:
        state = self._states.get(path)
        if state is None:
            file = self._files[path]
            state = file.state(self._presence(projection, file))
            self._states[path] = state
        return state

    def _presence(self, projection: Projection, file: _FileHistory) -> Presence:
        """Return how much of a file is in the view.

        The file's accesses are examined, newest first.
        """
        best: Presence = "none"
        possible: Presence = "whole" if file.last_read >= 0 else "part"
        is_restored = file.restored
        for index, touch in reversed(file.touches):
            if is_restored and touch.action == "modified":
                continue
            best = _better(best, presence_of(projection.fate(index).kind, touch))
            if best == possible:
                break
        return best

    def _catch_up(self, projection: Projection) -> None:
        touches = projection.touches
        images = projection.images
        is_changed = projection.newest_change is not self._newest_change
        if not is_changed and (len(touches), len(images)) == (
            self._touch_count,
            self._image_count,
        ):
            return
        self._all = None
        self._newest = None
        if is_changed:
            self._states.clear()
        switched = self._add_images(projection)
        touched: dict[str, None] = {}
        for position, (index, touch) in enumerate(
            touches[self._touch_count :], self._touch_count
        ):
            file = self._file(touch.path)
            file.add_touch(index, touch, position)
            if file.counts(touch):
                self._states.pop(touch.path, None)
                touched[touch.path] = None
        self._sort(switched, touched)
        self._newest_change = projection.newest_change
        self._touch_count = len(touches)
        self._image_count = len(images)

    def _add_images(self, projection: Projection) -> set[str]:
        """Process new file images.

        Returns the files that have just become restored, or have just stopped being restored.
        """
        switched: set[str] = set()
        for _, image in projection.images[self._image_count :]:
            file = self._file(image.path)
            was_restored = file.restored
            file.add_image(image.before, image.after)
            if was_restored != file.restored:
                switched ^= {image.path}
        return switched

    def _sort(self, switched: set[str], touched: Iterable[str]) -> None:
        """Move the accessed files to the end.

        If any file's changes have started or stopped counting, sorts all files.
        """
        for path in switched:
            self._states.pop(path, None)
        moved = {*self._paths, *switched, *touched} if switched else touched
        for file in sorted(
            (self._files[path] for path in moved), key=lambda file: file.newest
        ):
            for paths in (self._paths, self._modified, self._read):
                paths.pop(file.path, None)
            if file.newest >= 0:
                self._paths[file.path] = None
                paths_of_kind = self._modified if file.modified else self._read
                paths_of_kind[file.path] = None


def _better(one: Presence, other: Presence) -> Presence:
    return max(one, other, key=_RANKS.__getitem__)
