"""What our tools did to files, as the checkpoints recorded it: what each file held, and what going back is.

Contents are named by their SHA-256; None stands for "there is no such file". Pure: what is on disk now comes
in as an argument.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from foldline.protocol import NEW, FileImage

Images = Sequence[tuple[int, FileImage]]
"""Changes of files in order, each with the index of the checkpoint that recorded it."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why it cannot be told what a file holds now: no reason to take it for missing."""

    why: str


Look = Callable[[str], "str | Unreadable | None"]
"""What a path holds now."""

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


def changes_to(images: Images, index: int, look: Look, foreign: int = NEW) -> list[FileChange]:
    """What puts every file back to what it held at entry `index`. Files that do already are left out.

    Entries up to `foreign` were not written here: that they name a content does not make it ours.
    """
    recorded, ours = _held(images), _held((at, image) for at, image in images if at > foreign)
    changes = []
    for path, image in first_since(images, index).items():
        change = _change(path, image, look(path), ours.get(path, set()), recorded[path])
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


def _held(images: Iterable[tuple[int, FileImage]]) -> dict[str, set[str | None]]:
    """By path, everything a file is known to have held."""
    found: dict[str, set[str | None]] = {}
    for _, image in images:
        found.setdefault(image.path, set()).update((image.before, image.after))
    return found


def _change(
    path: str,
    image: FileImage,
    now: "str | Unreadable | None",
    ours: set[str | None],
    recorded: set[str | None],
) -> FileChange | None:
    target = image.before
    if isinstance(now, Unreadable):
        return FileChange(path, "unreadable", None, target, why=now.why)
    if now == target:
        return None
    if now not in ours:
        why = "recorded elsewhere, not here" if now in recorded else ""
        return FileChange(path, "conflict", now, target, image.mode, why)
    return FileChange(path, "remove" if target is None else "write", now, target, image.mode)


def restored_paths(images: Iterable[tuple[int, FileImage]]) -> frozenset[str]:
    """The files that our changes left as they found them, all in all."""
    first: dict[str, str | None] = {}
    last: dict[str, str | None] = {}
    for _, image in images:
        first.setdefault(image.path, image.before)
        last[image.path] = image.after
    return frozenset(path for path, content in last.items() if content == first[path])
