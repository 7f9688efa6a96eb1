"""Finds what acts by itself in the folders that commands write.

Files and folders act by their names. In a git repository, all act except what git writes in daily work: a
list of what is allowed, so that an unforeseen name is held, or asked about (decision 44).
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

from .sandbox_policy import SHELL_FILES

# What git 2.39 was seen to write, and the names in its path.c (`common_list`), path.h and program.
_WRITTEN = re.compile(
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
"""What git writes at the top of a repository: a lock file, which it renames."""
_WRITTEN_IN_INFO = re.compile(r"(?:packs|commit-graphs?)(?:_\w+|\.lock)?")
"""What git writes in `objects/info`."""
_SEARCHED = ("objects", "refs", "logs", "reftable")
"""Git writes through a link in these, wherever it leads."""
_UNFINISHED = ("rebase-merge", "rebase-apply", "sequencer")
"""Operations of git that stopped half way, with the programs that run when they are continued."""
_PACKAGES = ("node_modules", "site-packages")
"""Packages bring such files by the hundred, and no editor or agent is opened there. Git might be."""
_OF_SHELLS = tuple(f"/{name}" for name in SHELL_FILES if "/" in name)
"""Ends of paths."""
_MOST_FOLDERS = 20_000
"""Folders looked into, the nearest first: half a second."""
CLOSED = "closed"
"""State of a folder that could not be looked into."""


class ActingEntry(NamedTuple):
    """A directory entry that acts by itself, or makes its folder a repository."""

    path: str
    folder: tuple[int, int]
    """Device and inode of its folder: the path may lead to another one later."""
    leads_to: str = ""
    """Target of a link."""
    state: object = None
    """Changes when another file takes its place; None for what git replaces in daily work."""
    is_held: bool = True
    """Whether commands get it read-only: not links, nor what git writes."""
    part_of: str = ""
    """Path of the repository's entry, or of the link, by which it acts: if that is new, this is no news."""
    is_target: bool = False
    """Whether it acts because a link leads to it: it may be anything."""

    @property
    def key(self) -> tuple[object, ...]:
        return (*self.folder, os.path.basename(self.path), self.leads_to)  # noqa: PTH119

    @property
    def is_repository(self) -> bool:
        """Whether it is a folder `.git`."""
        return self.path.endswith("/.git") and not (self.is_held or self.leads_to)


class _SearchedFolder(NamedTuple):
    """A folder to look into."""

    path: str
    part_of: str = ""
    kind: Literal["tree", "packages", "objects", "info", "data"] = "tree"
    """In `packages` repositories alone act. Git alone writes in the last three."""


def acting_in(roots: Sequence[str], acts: Callable[[str], bool]) -> Iterator[ActingEntry]:
    """Find what acts by itself in folders and below, not through links. `acts` judges a name by itself. Reads
    the disk."""
    waiting = deque(map(_SearchedFolder, roots))
    searched = set[str]()
    while waiting:
        folder = waiting.popleft()
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
                waiting.appendleft(item)
            else:
                waiting.append(item)


def _items(folder: _SearchedFolder, acts: Callable[[str], bool]) -> Iterator[ActingEntry | _SearchedFolder]:
    """What acts in one folder, and the folders to look into next."""
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
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):  # else it was moved away
            is_held = error.errno == errno.EACCES
            yield acting_entry(folder.path, is_held=is_held)._replace(state=CLOSED)


def _is_repository(path: str, entries: Iterable["os.DirEntry[str]"]) -> bool:
    """Whether git may take a folder for one: its is_git_directory(), setup.c. One named `.git` may be broken
    for now."""
    names = {entry.name.casefold() for entry in entries}
    is_bare = "head" in names and ({"objects", "refs"} <= names or "commondir" in names)
    return is_bare or path.endswith("/.git")


def _in_tree(
    folder: _SearchedFolder, entries: Iterable["os.DirEntry[str]"], acts: Callable[[str], bool]
) -> Iterator[ActingEntry | _SearchedFolder]:
    for entry in entries:
        is_git = entry.name.casefold() == ".git"
        if folder.kind == "tree" and (acts(entry.name) or entry.path.endswith(_OF_SHELLS)):
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
    for entry in sorted(entries, key=lambda entry: entry.name != "HEAD"):  # the others are part of it
        name, path = entry.name, entry.path
        is_written = _WRITTEN.fullmatch(name)
        if name == "HEAD":
            yield acting_entry(path, folder.part_of, is_held=False, is_replaced=True)
        elif entry.is_symlink() and is_written:
            yield acting_entry(path, made_by)
        elif name in _SEARCHED:
            yield _SearchedFolder(path, made_by, "objects" if name == "objects" else "data")
        elif name in ("modules", "worktrees") and entry.is_dir(follow_symlinks=False):
            yield _SearchedFolder(path, made_by, "packages")
        elif not is_written:
            yield from _with_target(acting_entry(path, made_by, is_held=name not in _UNFINISHED))


def _in_data(
    folder: _SearchedFolder, entries: Iterable["os.DirEntry[str]"]
) -> Iterator[ActingEntry | _SearchedFolder]:
    for entry in entries:
        name, in_objects = entry.name, folder.kind == "objects"
        is_strange = folder.kind == "info" and not _WRITTEN_IN_INFO.fullmatch(name)
        if entry.is_symlink() or is_strange:
            yield acting_entry(entry.path, folder.part_of)
        elif entry.is_dir() and (not in_objects or name in ("info", "pack")):
            is_info = in_objects and name == "info"
            yield _SearchedFolder(entry.path, folder.part_of, "info" if is_info else "data")


def acting_entry(
    path: str, part_of: str = "", *, is_held: bool = True, is_replaced: bool = False
) -> ActingEntry:
    """`is_replaced`: git writes it by a new file in its place."""
    leads_to = ""
    folder = (0, 0)
    state: object = None
    with suppress(OSError):  # what vanishes now must not end the search of its folder
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
    """Device and inode."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _state(path: str) -> object:
    """The inode; with an unfinished operation, which commands may write, all that is in it."""
    state: list[object] = [folder_identity(path)]
    if os.path.basename(path) in _UNFINISHED and is_folder(path):  # noqa: PTH119
        with os.scandir(path) as listing:
            files = [(entry.name, entry.stat(follow_symlinks=False)) for entry in listing]
        state += sorted((name, file.st_ino, file.st_mtime_ns, file.st_ctime_ns) for name, file in files)
    return tuple(state)
