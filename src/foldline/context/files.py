"""The files a session read and modified, and how much of each the model still has."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from foldline.protocol import Compaction, FileTouch, FoldDetails, Kept

from .file_states import restored_paths
from .outline import FoldOutline
from .projection import Projection
from .view import FateKind

Presence = Literal["whole", "part", "name", "none"]
"""`whole`: its text is in the view; `part`: an edit or a clipped read; `name`: in a summary or stub only."""


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
    """Every file the session's tools touched, newest touch first. Linear in the number of touches."""
    by_path: dict[str, list[tuple[int, FileTouch]]] = {}
    for index, touch in _standing_touches(projection):
        by_path.setdefault(touch.path, []).append((index, touch))
    files = [_tracked(projection, path, touches) for path, touches in by_path.items()]
    return sorted(files, key=lambda file: file.touches[-1], reverse=True)


def _tracked(projection: Projection, path: str, touches: list[tuple[int, FileTouch]]) -> TrackedFile:
    changes = [touch for _, touch in touches if touch.action == "modified"]
    return TrackedFile(
        path=path,
        modified=bool(changes),
        added=sum(touch.added for touch in changes),
        removed=sum(touch.removed for touch in changes),
        presence=_presence(projection, touches),
        touches=tuple(index for index, _ in touches),
    )


def _presence(projection: Projection, touches: Iterable[tuple[int, FileTouch]]) -> Presence:
    best: Presence = "none"
    for index, touch in touches:
        match presence_of(projection.fate(index).kind, touch):
            case "whole":
                return "whole"
            case "part":
                best = "part"
            case "name" if best == "none":
                best = "name"
            case _:
                pass
    return best


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


def _standing_touches(projection: Projection) -> Iterator[tuple[int, FileTouch]]:
    """All touches but the changes of files whose content was put back."""
    restored = restored_paths(projection.images)
    for index, touch in projection.touches:
        if touch.action == "read" or touch.path not in restored:
            yield index, touch


def file_lists(projection: Projection) -> FoldDetails:
    """The cumulative lists a compaction records. A file that was modified is not listed as read.

    Lists of an imported session's own compactions, whose tool calls may be missing, come along.
    """
    read = [path for fold in projection.compactions() for path in fold.details.read_files]
    modified = [path for fold in projection.compactions() for path in fold.details.modified_files]
    for _, touch in _standing_touches(projection):
        (modified if touch.action == "modified" else read).append(touch.path)
    restored = restored_paths(projection.images)
    changed = dict.fromkeys(path for path in modified if path not in restored)
    return FoldDetails(
        read_files=tuple(path for path in dict.fromkeys(read) if path not in changed),
        modified_files=tuple(changed),
    )


def folded_count(projection: Projection, fold: Compaction | FoldOutline) -> int:
    """The entries a compaction compacted: the messages it found in the view whose place its summaries take.
    Earlier summaries that go into them are no entries of it, nor is what had left the view before. All
    screens and commands count so; of a proposal, `Proposal.folded` does.
    """
    return projection.compacted(fold.index, [span for piece in fold.written for span in piece.covers])


def fold_words(projection: Projection, fold: Compaction | FoldOutline) -> str:
    """What a compaction did, in a few words: `16 entries folded`, `12 results hidden`.

    Entries that were altered in place are named where no new text was written, for then they are all it did,
    or all that can be counted.
    """
    if fold.written:
        return f"{_counted(folded_count(projection, fold), 'entry', 'entries')} folded"
    fates = [piece.fate for piece in (*fold.head, *fold.replaced) if isinstance(piece, Kept) and piece.fate]
    done = [
        f"{_counted(fates.count(fate), 'result', 'results')} {fate}"
        for fate in ("hidden", "clipped")
        if fate in fates
    ]
    return ", ".join(done) or "older entries left out"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
