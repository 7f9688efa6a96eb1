"""Finds the programs that Foldline starts.

Folders to which the model's commands may write are not searched. This does not apply to programs that the
user names (`$EDITOR`, hooks, tool servers, `key_command`), nor to programs in the model's commands, which are
searched for on the unchanged PATH.
"""

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from foldline.data import Environ, real_path

NOT_INSTALLED = "{name} is not installed"
SKIPPED = "{name} is not used from {path}, because commands may write there"

_MOST_LINKS = 40
"""Maximum number of symbolic links in one path, as in Linux (path_resolution(7)).

A path with more links is treated as writable.
"""
_FOLDER_LISTS = frozenset(
    (
        "PATH",
        "LD_LIBRARY_PATH",
        "GCONV_PATH",
        "DYLD_LIBRARY_PATH",
        "DYLD_FALLBACK_LIBRARY_PATH",
    )
)
_LIBRARY_LISTS = frozenset(("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"))
"""Variables that make every program load additional code.

See ld.so(8) and dyld(1).
"""
_BETWEEN_LIBRARIES = re.compile(r"[: ]+")
_SHELL_FILES = frozenset(("BASH_ENV", "ENV"))
_SHELL_FUNCTION = "BASH_FUNC_"
"""Prefix of variables that define functions in a shell.

The variables in `_SHELL_FILES` make a shell run code when it starts. See bash(1).
"""
_ISOLATED = (
    "import json, runpy, sys; paths = json.loads(sys.argv.pop(1)); "
    "sys.path += [path for path in paths if path not in sys.path]; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""Python code that runs one of Foldline's modules.

The import paths are passed as an argument, because `-I` ignores PYTHONPATH.
"""


_writable: set[str] = set()
"""Real paths of folders in which commands, or edits that need no approval, may write."""


def keep_out(folders: Iterable[Path | str]) -> None:
    """From now on, never start programs from these folders.

    This accesses the disk.
    """
    _writable.update(map(real_path, folders))


def find_program(name: str) -> str | None:
    """Return a program's absolute path.

    Returns None if the program is treated as not installed.
    """
    return _located(name, _path(), _places())


def program(name: str) -> str:
    """Return a program's absolute path.

    Raises:
        FileNotFoundError: the program is treated as not installed. The message is a sentence that states the
            reason.
    """
    path = find_program(name)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, why_missing(name))
    return path


def skipped_program(name: str) -> str | None:
    """Return the path of a program that commands could replace.

    Such a program is skipped. Returns None if the program is not skipped.
    """
    if find_program(name) is not None:
        return None
    return shutil.which(name)


def why_missing(name: str) -> str:
    """Explain why a program is treated as not installed.

    The explanation has no full stop.
    """
    skipped = skipped_program(name)
    if skipped is None:
        return NOT_INSTALLED.format(name=name)
    return SKIPPED.format(name=name, path=skipped)


def shell() -> str:
    """Return the path of the shell that runs commands."""
    return find_program("bash") or "/bin/sh"


def trusted_environment(environ: Environ) -> dict[str, str]:
    """Return an environment for programs.

    Startup files of shells and writable folders are removed from it.
    """
    trusted = {
        name: value
        for name, value in environ.items()
        if name not in _SHELL_FILES and not name.startswith(_SHELL_FUNCTION)
    }
    for name in _FOLDER_LISTS & trusted.keys():
        folders = trusted[name].split(os.pathsep)
        trusted[name] = _without_writable(folders)
    for name in _LIBRARY_LISTS & trusted.keys():
        libraries = _BETWEEN_LIBRARIES.split(trusted[name])
        trusted[name] = _without_writable(libraries, names=True)
    return trusted


def own_places(folders: Sequence[str]) -> list[str]:
    """Return the folders of Foldline, Python and PATH that are inside these folders.

    Args:
        folders: real paths. A relative folder in PATH is resolved relative to each of them.
    """
    package = real_path(Path(__file__).parent)
    path_folders = _path().split(os.pathsep)
    names = (package, sys.prefix, sys.base_prefix, *path_folders)
    places = {
        real_path(os.path.join(folder, name))  # noqa: PTH118
        for folder in folders
        for name in names
    }
    prefixes = tuple(f"{folder}/" for folder in folders)
    inner_places = {place for place in places if place.startswith(prefixes)}
    package_folders = {
        folder for folder in folders if Path(folder).is_relative_to(package)
    }
    return sorted(inner_places | package_folders)


def python_command(module: str, *words: str) -> list[str]:
    """Return the command that runs one of Foldline's modules.

    The module is isolated from the working folder.
    """
    import json

    places = _places()
    own_folder = str(Path(__file__).parents[1])
    folders = [path for path in sys.path if not is_writable(path, places)]
    paths = json.dumps([own_folder, *folders])
    return [sys.executable, "-I", "-X", "utf8", "-c", _ISOLATED, paths, module, *words]


# --- looking up --------------------------------------------------------------------------------------------


@lru_cache(256)
def _located(name: str, path: str, places: frozenset[str]) -> str | None:
    for folder in path.split(os.pathsep):
        candidate = shutil.which(name, path=folder)
        if candidate and not is_writable(candidate, places):
            return candidate
    return None


def is_writable(path: str, places: Iterable[str]) -> bool:
    """Return whether a program that can write in `places` could replace a file.

    This accesses the disk.

    The result is also true for a relative path, and if any link in the path is in `places`, because the link
    could be changed.
    """
    if not path.startswith("/"):
        return True
    folders = tuple(f"{place}/" for place in places)
    parts = path.split("/")[::-1]
    position = ""
    links = 0
    while parts:
        part = parts.pop()
        if part == "..":
            position = position.rpartition("/")[0]
        if part in ("", ".", ".."):
            continue
        position = f"{position}/{part}"
        if f"{position}/".startswith(folders):
            return True
        if os.path.islink(position):  # noqa: PTH114 - `Path.is_symlink` raises without permission
            links += 1
            if links > _MOST_LINKS:
                return True
            target = os.readlink(position)  # noqa: PTH115
            parts += target.split("/")[::-1]
            position = "" if target.startswith("/") else position.rpartition("/")[0]
    return False


def _path() -> str:
    return os.environ.get("PATH", os.defpath)


def _places() -> frozenset[str]:
    with suppress(OSError):  # the folder may no longer exist
        return frozenset((*_writable, real_path("")))
    return frozenset(_writable)


def _without_writable(paths: Iterable[str], *, names: bool = False) -> str:
    """Join the paths that commands cannot replace.

    Args:
        names: whether to include names of libraries without a folder.
    """
    places = _places()

    def is_trusted(path: str) -> bool:
        if names and "/" not in path:
            return True
        return not is_writable(path, places)

    return os.pathsep.join(filter(is_trusted, paths))
