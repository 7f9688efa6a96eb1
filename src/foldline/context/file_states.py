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
    """What puts every file back to what it held at entry `index`. Files that do already are left out.

    Entries up to `foreign` were not written here: that they name a content does not make it ours.
    """
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
    """By path, everything these images name."""
    found: dict[str, set[str | None]] = {}
    for image in images:
        found.setdefault(image.path, set()).update((image.before, image.after))
    return found


def _ours(images: Iterable[FileImage]) -> dict[str, set[str | None]]:
    """By path, what our hand found first or wrote. What somebody else put there in between stays theirs, also
    where it was overwritten since and put back again."""
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
