"""Finds self-executing files in the folders that commands can write to.

A file is self-executing if other programs may execute it because of its name. In a git repository, every file
counts as self-executing, except those that git writes in everyday use. Only these exceptions are listed, so
that files with unknown names are protected, or the user is asked about them (decision 44).
"""

import errno
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from foldline.data import real_path
from foldline.files import is_folder, is_there
from foldline.text.patterns import lazy_pattern

from .sandbox_policy import SHELL_FILES

# Files that git 2.39 was seen to write, and names in its path.c (`common_list`), path.h and program.
_WRITTEN = lazy_pattern(
    r"""(?: (?:FETCH_|ORIG_|MERGE_|CHERRY_PICK_|REVERT_|REBASE_|BISECT_)?HEAD | AUTO_MERGE
    | MERGE_(?:MODE|MSG|RR|AUTOSTASH) | SQUASH_MSG | (?:COMMIT|TAG|NOTES)_EDITMSG | EDIT_DESCRIPTION
    | BISECT_(?:ANCESTORS_OK|EXPECTED_REV|FIRST_PARENT|LOG|NAMES|RUN|START|TERMS)
    | NOTES_MERGE_(?:REF|PARTIAL|WORKTREE) | ADD_EDIT\.patch | addp-hunk-edit\.diff | rebased-patches
    | index | next-index-\d+ | index\.stash\.\d+ | sharedindex[._]\w+
    | packed-refs(?:\.new)? | shallow(?:_\w+)? | gc\.(?:pid|log)
    | objects | refs | logs | reftable | rr-cache | lfs
    )(?:\.lock)?""",
    re.VERBOSE,
)
"""Matches files that git writes at the top of a repository, directly or by renaming a lock file."""
_WRITTEN_IN_INFO = lazy_pattern(r"(?:packs|commit-graphs?)(?:_\w+|\.lock)?")
"""Matches files that git writes in `objects/info`."""
_SEARCHED = ("objects", "refs", "logs", "reftable")
"""Folders in which git follows links when it writes."""
_UNFINISHED = ("rebase-merge", "rebase-apply", "sequencer")
"""Folders with the state of interrupted git operations, including the programs to run when they continue."""
_PACKAGES = ("node_modules", "site-packages")
"""Folders with hundreds of files that look self-executing. Only the repositories in them count."""
_OF_SHELLS = tuple(f"/{name}" for name in SHELL_FILES if "/" in name)
"""Path endings of shells' start-up files in subfolders, such as `/.config/fish`."""
_MOST_FOLDERS = 20_000
"""Maximum number of folders to search, starting with the topmost.

Searching this many takes half a second. The others count as closed.
"""
CLOSED = "closed"
"""State of a folder that was not searched."""


class ActingEntry(NamedTuple):
    """A directory entry that is self-executing, or makes its folder a repository."""

    path: str
    folder: tuple[int, int]
    """Device and inode of the entry's folder.

    They are recorded because the path may later lead to a different folder.
    """
    leads_to: str = ""
    """Target, if the entry is a link."""
    state: object = None
    """A value that changes when the file is replaced.

    None for files that git replaces in everyday use.
    """
    is_held: bool = True
    """Whether the sandbox makes the entry read-only for commands.

    Links and files that git writes stay writable.
    """
    part_of: str = ""
    """Path of the repository or link that makes the entry self-executing.

    If that repository or link is new as well, the entry itself is not reported.
    """
    is_target: bool = False
    """Whether the entry is self-executing only because a link leads to it."""

    @property
    def key(self) -> tuple[object, ...]:
        return (*self.folder, os.path.basename(self.path), self.leads_to)  # noqa: PTH119

    @property
    def is_repository(self) -> bool:
        """Whether the entry is a `.git` folder."""
        return self.path.endswith("/.git") and not (self.is_held or self.leads_to)


class _SearchedFolder(NamedTuple):
    """A folder that will be searched."""

    path: str
    part_of: str = ""
    kind: Literal["tree", "packages", "objects", "info", "data"] = "tree"
    """Kind of folder.

    In `packages`, only repositories count. The last three kinds are folders in which git writes.
    """


def acting_in(
    roots: Sequence[str], acts: Callable[[str], bool]
) -> Iterator[ActingEntry]:
    """Find self-executing files below folders, without following links.

    Reads from disk.

    Args:
        acts: returns whether files with a given name are self-executing in any folder.
    """
    pending = deque(map(_SearchedFolder, roots))
    searched = set[str]()
    while pending:
        folder = pending.popleft()
        if folder.path in searched:
            continue
        searched.add(folder.path)
        if len(searched) > _MOST_FOLDERS and not folder.part_of:
            yield ActingEntry(roots[0], (0, 0), state=CLOSED, is_held=False)
            return
        for item in _items(folder, acts):
            if isinstance(item, ActingEntry):
                yield item
            elif item.part_of:
                pending.appendleft(item)
            else:
                pending.append(item)


def _items(
    folder: _SearchedFolder, acts: Callable[[str], bool]
) -> Iterator[ActingEntry | _SearchedFolder]:
    """Yield a folder's self-executing entries, and the folders to search next."""
    try:
        with os.scandir(folder.path) as listing:
            entries = list(listing)
        if folder.kind not in ("tree", "packages"):
            yield from _in_data(folder, entries)
        elif _is_repository(folder.path, entries):
            yield from _in_repository(folder, entries)
        else:
            yield from _in_tree(folder, entries, acts)
    except OSError as error:
        if error.errno not in (
            errno.ENOENT,
            errno.ENOTDIR,
        ):  # errors other than a folder that has been moved in the meantime
            is_held = error.errno == errno.EACCES
            yield acting_entry(folder.path, is_held=is_held)._replace(state=CLOSED)


def _is_repository(path: str, entries: Iterable["os.DirEntry[str]"]) -> bool:
    """Return whether git may treat a folder as a repository, like is_git_directory() in git's setup.c.

    A folder named `.git` counts even if it is not a valid repository now.
    """
    names = {entry.name.casefold() for entry in entries}
    is_bare = "head" in names and ({"objects", "refs"} <= names or "commondir" in names)
    return is_bare or path.endswith("/.git")


def _in_tree(
    folder: _SearchedFolder,
    entries: Iterable["os.DirEntry[str]"],
    acts: Callable[[str], bool],
) -> Iterator[ActingEntry | _SearchedFolder]:
    for entry in entries:
        is_git = entry.name.casefold() == ".git"
        if folder.kind == "tree" and (
            acts(entry.name) or entry.path.endswith(_OF_SHELLS)
        ):
            yield from _with_target(acting_entry(entry.path, folder.part_of))
        elif not entry.is_dir(follow_symlinks=False):
            if is_git:
                yield acting_entry(entry.path, folder.part_of)
        elif is_git:
            yield acting_entry(entry.path, folder.part_of, is_held=False)
            yield _SearchedFolder(entry.path, entry.path)
        else:
            kind = "packages" if entry.name in _PACKAGES else folder.kind
            yield folder._replace(path=entry.path, kind=kind)


def _in_repository(
    folder: _SearchedFolder, entries: Iterable["os.DirEntry[str]"]
) -> Iterator[ActingEntry | _SearchedFolder]:
    made_by = folder.path if folder.path.endswith("/.git") else f"{folder.path}/HEAD"
    for entry in sorted(
        entries, key=lambda entry: entry.name != "HEAD"
    ):  # first, because the other entries are part of it
        name = entry.name
        path = entry.path
        is_written = _WRITTEN.fullmatch(name)
        if name == "HEAD":
            yield acting_entry(path, folder.part_of, is_held=False, is_replaced=True)
        elif entry.is_symlink() and is_written:
            yield acting_entry(path, made_by)
        elif name in _SEARCHED:
            yield _SearchedFolder(
                path, made_by, "objects" if name == "objects" else "data"
            )
        elif name in ("modules", "worktrees") and entry.is_dir(follow_symlinks=False):
            yield _SearchedFolder(path, made_by, "packages")
        elif not is_written:
            yield from _with_target(
                acting_entry(path, made_by, is_held=name not in _UNFINISHED)
            )


def _in_data(
    folder: _SearchedFolder, entries: Iterable["os.DirEntry[str]"]
) -> Iterator[ActingEntry | _SearchedFolder]:
    for entry in entries:
        name = entry.name
        in_objects = folder.kind == "objects"
        is_unknown = folder.kind == "info" and not _WRITTEN_IN_INFO.fullmatch(name)
        if entry.is_symlink() or is_unknown:
            yield acting_entry(entry.path, folder.part_of)
        elif entry.is_dir() and (not in_objects or name in ("info", "pack")):
            is_info = in_objects and name == "info"
            yield _SearchedFolder(
                entry.path, folder.part_of, "info" if is_info else "data"
            )


def acting_entry(
    path: str, part_of: str = "", *, is_held: bool = True, is_replaced: bool = False
) -> ActingEntry:
    """Describe a directory entry.

    Args:
        is_replaced: whether git replaces the entry with a new file in everyday use.
    """
    leads_to = ""
    folder = (0, 0)
    state: object = None
    with suppress(OSError):  # the entry may disappear during the search
        folder = folder_identity(os.path.dirname(path))  # noqa: PTH120
        if os.path.islink(path):  # noqa: PTH114
            leads_to = os.readlink(path)  # noqa: PTH115
        elif not is_replaced:
            state = _state(path)
    return ActingEntry(path, folder, leads_to, state, is_held and not leads_to, part_of)


def _with_target(entry: ActingEntry) -> Iterator[ActingEntry]:
    yield entry
    if entry.leads_to and is_there(entry.path):
        yield acting_entry(real_path(entry.path), entry.path)._replace(is_target=True)


def folder_identity(path: str) -> tuple[int, int]:
    """Return the device and inode of a path."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _state(path: str) -> object:
    """Return a value that changes when the entry is replaced.

    For the folder of an interrupted git operation, the value also changes with the files in it, because
    commands may write to them.
    """
    state: list[object] = [folder_identity(path)]
    if os.path.basename(path) in _UNFINISHED and is_folder(path):  # noqa: PTH119
        with os.scandir(path) as listing:
            files = [
                (entry.name, entry.stat(follow_symlinks=False)) for entry in listing
            ]
        state += sorted(
            (name, file.st_ino, file.st_mtime_ns, file.st_ctime_ns)
            for name, file in files
        )
    return tuple(state)
