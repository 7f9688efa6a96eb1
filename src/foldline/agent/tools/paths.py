"""Decides which paths are inside the working folder, and which files are self-executing.

Whether a shell command stays inside is guessed from the command's words. This is a hint for approvals, not a
security barrier, because a program can open any file. Unclear words count as outside.

A file is self-executing if other programs may run it, or follow instructions or settings in it, without the
user asking for that. An edit to such a file always needs approval. These files count as self-executing:
hidden files, except for a few that are known to be harmless; instructions for agents; and programs that git
and Foldline start. Files that run only when the user starts them, such as tests, builds and scripts, do not
count.
"""

import difflib
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path

from foldline.agent.permissions.acting_names import may_act, plain_name
from foldline.agent.permissions.sandbox_home import is_private, private_entries
from foldline.agent.project.discovery import up_to_top
from foldline.data import config_dir, real_path, typed_path
from foldline.files import is_folder, is_there, listed_at
from foldline.history import data_home
from foldline.programs import (
    find_program,
    own_places,
    skipped_program,
    trusted_environment,
)

from .base import ToolContext, ToolFailure, named
from .known_commands import leading_words
from .process import environment
from .shell_syntax import SimpleCommand, Word, read
from .tree import files_below

MISSING = "{path} does not exist.{hint}"
DID_YOU_MEAN = " Did you mean {paths}?"
_LOOKED_AT = 20_000
"""Maximum number of files to search for one with the same name, to suggest its path."""


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path is in a folder, after resolving links.

    Returns False if the links cannot be resolved.
    """
    try:
        return Path(real_path(path)).is_relative_to(real_path(folder))
    except OSError:
        return False


def is_open(real: Path, folder: Path) -> bool:
    """Return whether a resolved path is in a folder and not protected there."""
    return real.is_relative_to(real_path(folder)) and not protected_in(folder)(real)


def protected_in(folder: Path) -> Callable[[Path], bool]:
    """Return a predicate for resolved paths in a folder that tools must not open.

    These are Foldline's own data, and the private entries of a home folder.
    """
    real = Path(real_path(folder))
    home = Path(real_path(typed_path("~")))
    places: list[Path | str] = [data_home(), config_dir(os.environ)]
    has_home = home.is_relative_to(real)
    if has_home:
        places += filter(os.path.islink, private_entries(home))
    resolved = [Path(real_path(place)) for place in places]
    protected = [
        place for place in resolved if place != real and place.is_relative_to(real)
    ]
    return lambda path: (
        any(map(path.is_relative_to, protected))
        or (has_home and is_private(path, home))
    )


def missing(path: Path, context: ToolContext) -> ToolFailure:
    """Return the failure for a path that does not exist, with suggestions of similar names.

    Blocking, because it reads from disk.
    """
    shown = named(path, context)
    # A name that is not in UTF-8 may be shown in the same way.
    near = [name for name in near_names(path, context) if name != shown]
    hint = " Use `glob` or `ls` to find the right path."
    if near:
        hint = DID_YOU_MEAN.format(paths=" or ".join(near))
    return ToolFailure(MISSING, "not found ✗", path=shown, hint=hint)


def near_names(path: Path, context: ToolContext) -> list[str]:
    """Return up to three existing paths that are similar to this one.

    Similar names in the same folder come first, then files with the same name in the working folder.
    """
    try:
        with listed_at(context.real(path).parent) as folder:
            neighbours = sorted(os.listdir(folder))  # noqa: PTH208 - `Path` knows no descriptors
    except OSError:
        neighbours = []
    by_form = {name.casefold(): name for name in neighbours}
    close = difflib.get_close_matches(path.name.casefold(), by_form, n=3, cutoff=0.6)
    if close:
        return [named(path.parent / by_form[name], context) for name in close]
    files = islice(files_below(context.cwd), _LOOKED_AT)
    same_name = (file for file in files if os.path.basename(file) == path.name)  # noqa: PTH119
    return [named(file, context) for file in islice(same_name, 3)]


_UNCLEAR = re.compile(r"[$`{}]")
"""Matches characters with which a shell or program may insert unknown text."""
_PIECE = re.compile(r"[\w./+%~*?\[\]^-]+")
"""Matches a path within a word, such as `--out=a`, `a:b` or `open('a')`."""
_BETWEEN_PATHS = re.compile(r"[^\w./+%~*?\[\]^-]")
_MOST_PLACES = 1_000
"""Maximum number of positions in a word at which a path may begin.

A word with more positions is treated as a path outside the working folder.
"""
_ABOVE = re.compile(r"\.[*?\[]")
"""Matches the start of a file name pattern that may also match `..`, the parent folder."""
_MOVES = ("cd", "pushd", "popd")
_NOWHERE = "/dev/null"


def command_inside(command: str, cwd: Path) -> bool:
    """Return whether a command reads and writes only in a folder, judged by its words.

    Writing a self-executing file counts as outside. Links are resolved; words with `~` or variables count as
    outside. Blocking, because it may run git: do not call it on the event loop.
    """
    reading = read(command)
    return (
        reading is not None
        and all(_is_inside(simple_command, cwd) for simple_command in reading.commands)
        and all(
            _is_clear(word) and _word_inside(word.text, cwd) for word in reading.others
        )
        and all(may_be_changed(cwd / target, cwd) for target in reading.writes)
    )


def _is_inside(command: SimpleCommand, cwd: Path) -> bool:
    """Return whether all words of a command stay inside.

    In a known command, `$` is always literal.
    """
    texts = [word.text for word in command.words]
    for word, following in pairwise([*texts, "-"]):
        if word == "popd" or (word in _MOVES and following == "-"):
            return False  # changes to an unknown folder
    is_known = bool(leading_words(command))
    arguments = command.words[1:] if texts[0].startswith("/") else command.words
    return all(
        (is_known or _is_clear(word)) and _word_inside(word.text, cwd)
        for word in arguments
    )


def _is_clear(word: Word) -> bool:
    return word.kind in ("literal", "pattern") and not _UNCLEAR.search(word.text)


def _word_inside(word: str, cwd: Path) -> bool:
    is_bounded = len(_BETWEEN_PATHS.findall(word)) < _MOST_PLACES
    return is_bounded and all(_path_inside(path, cwd) for path in _paths_in(word))


def _paths_in(word: str) -> Iterator[str]:
    """Yield every part of a word that may be a path.

    These are the pieces between separators and, because a name may contain a separator, the rest of the word
    after each separator. The value of an option may directly follow its letter, as in `-I/usr`.
    """
    starts = [0, *(match.end() for match in _BETWEEN_PATHS.finditer(word))]
    for path in [*(word[start:] for start in starts), *_PIECE.findall(word)]:
        if path and path != _NOWHERE:
            yield path
            if path.startswith("-"):
                yield path[2:]


def _path_inside(path: str, cwd: Path) -> bool:
    if path.startswith("~") or any(_ABOVE.match(part) for part in path.split("/")):
        return False
    try:
        return is_open(Path(real_path(cwd / path)), cwd)
    except OSError:
        return False  # its target is not known


_BETWEEN_WORDS = re.compile(r"[\s;|&'\"()!=]+")
_PATIENCE = 5.0
"""Maximum time for git to list its settings, in seconds.

Git hangs if one of the settings files is a pipe.
"""
_MOST_SETTINGS = 256 * 1024
"""Maximum number of bytes of git settings that are checked. Real settings are smaller."""


def may_be_changed(path: Path, cwd: Path) -> bool:
    """Return whether a file is in the working folder and is not self-executing.

    Blocking, because it reads the disk and runs git: do not call it on the event loop.
    """
    try:
        return is_changeable(Path(real_path(path)), cwd)
    except OSError:
        return False  # its target is not known


def is_changeable(real: Path, cwd: Path) -> bool:
    """Return whether a file with a resolved path is in the working folder and is not self-executing."""
    folder = Path(real_path(cwd))
    return is_open(real, folder) and not (_acts(real, folder) or _is_named_by_git(real))


def _acts(path: Path, folder: Path) -> bool:
    parents = [parent for parent in path.parents if parent.is_relative_to(folder)]
    return (
        may_act(path.relative_to(folder).parts)
        or any(map(path.is_relative_to, own_places([str(folder)])))
        # A working folder within a `.git` is not a work tree.
        or ".git" in map(plain_name, folder.parts)
        # A folder with a `HEAD`, even as a dangling link, may be a repository.
        or any(os.path.lexists(parent / "HEAD") for parent in parents)
        or any(
            path.is_relative_to(target)
            for parent in parents
            for target in _link_targets(parent)
        )
    )


def _link_targets(folder: Path) -> Iterator[str]:
    """Yield the targets of links that may be self-executing, for example `AGENTS.md -> rules.md`."""
    try:
        with os.scandir(folder) as entries:
            links = [
                entry.path
                for entry in entries
                if entry.is_symlink() and may_act([entry.name])
            ]
        for link in links:
            yield real_path(link)
    except OSError:
        return


def _is_named_by_git(path: Path) -> bool:
    """Return whether git's settings name this file, or name a folder that contains it as the hooks folder.

    Runs git, because settings files can include other files.
    """
    folder = next(parent for parent in path.parents if is_folder(parent))
    top = up_to_top(folder)[-1]
    if not is_there(top / ".git"):
        return False
    git = find_program("git")
    if git is None:
        # If git is not installed at all, its settings have no effect.
        return skipped_program("git") is not None
    command = [git, "-C", str(top), "config", "--null", "--list"]
    try:
        listing = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            env=trusted_environment(environment()),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    if listing.returncode or len(listing.stdout) > _MOST_SETTINGS:
        return True
    settings = os.fsdecode(listing.stdout).split("\0")
    return any(_names_path(setting, path, top) for setting in settings)


def _names_path(setting: str, path: Path, top: Path) -> bool:
    """Return whether a git setting names a path, for example `core.fsmonitor = ./tools/watch`."""
    key, _, value = setting.partition("\n")
    is_hooks_path = key == "core.hookspath"
    words = [value]
    if not is_hooks_path:
        words = [word for word in _BETWEEN_WORDS.split(value) if "/" in word]
    for word in words:
        target = top / os.path.expanduser(word)  # noqa: PTH111 - `Path.expanduser` raises for an unknown user
        if is_inside(path, target) and (is_hooks_path or not is_folder(target)):
            return True
    return False
