"""The programs that Foldline starts: looked up on PATH once, outside of every folder that commands may write.

What the user names (`$EDITOR`, hooks, tool servers, `key_command`), and what a command of the model names, is
not looked up here: that goes by the PATH as it is.
"""

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from foldline.data import real_path

_MOST_LINKS = 40
"""Symbolic links in one path, as in Linux: path_resolution(7)."""
_FOLDER_LISTS = frozenset(
    ("PATH", "LD_LIBRARY_PATH", "GCONV_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
)
_LIBRARY_LISTS = frozenset(("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"))
"""Variables by which any program loads code: ld.so(8), dyld(1)."""
_BETWEEN_LIBRARIES = re.compile(r"[: ]+")
_SHELL_FILES = frozenset(("BASH_ENV", "ENV"))
_SHELL_FUNCTION = "BASH_FUNC_"
"""Variables by which a shell runs code at its start: bash(1)."""
_ISOLATED = (
    "import json, runpy, sys; paths = json.loads(sys.argv.pop(1)); "
    "sys.path += [path for path in paths if path not in sys.path]; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""Runs one of our modules. `-I` ignores PYTHONPATH, which may be what Foldline itself is imported by."""


_writable: set[str] = set()
"""Real paths of the folders that commands may write, or edits without a question."""


def keep_out(folders: Iterable[Path | str]) -> None:
    """Start no program from these folders from here on. Reads the disk."""
    _writable.update(map(real_path, folders))


def find_program(name: str) -> str | None:
    """The whole path of a program, or None if it counts as not installed."""
    return _located(name, _path(), _places())


def program(name: str) -> str:
    """The whole path of a program.

    Raises:
        FileNotFoundError: it counts as not installed; why, as a sentence.
    """
    path = find_program(name)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, why_missing(name))
    return path


def skipped_program(name: str) -> str | None:
    """The path of a program that PATH has only where commands may write it."""
    there = shutil.which(name)
    return there if find_program(name) is None else None


def why_missing(name: str) -> str:
    """Why a program counts as not installed, without the full stop."""
    skipped = skipped_program(name)
    if skipped is None:
        return f"{name} is not installed"
    return f"{name} is only at {skipped}, where commands may write, and is not started from there"


def shell() -> str:
    """The shell that runs commands."""
    return find_program("bash") or "/bin/sh"


def trusted_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for programs started here: they too look up programs and libraries by it."""
    trusted = {
        name: value
        for name, value in environ.items()
        if name not in _SHELL_FILES and not name.startswith(_SHELL_FUNCTION)
    }
    for name in _FOLDER_LISTS & trusted.keys():
        trusted[name] = _without_writable(trusted[name].split(os.pathsep))
    for name in _LIBRARY_LISTS & trusted.keys():
        trusted[name] = _without_writable(_BETWEEN_LIBRARIES.split(trusted[name]), names=True)
    return trusted


def own_places(folders: Sequence[str]) -> list[str]:
    """What lies in these folders of Foldline itself, and of the folders on PATH.

    Args:
        folders: real paths. A relative folder of PATH counts in each of them.
    """
    package = real_path(Path(__file__).parent)
    names = (package, sys.prefix, sys.base_prefix, *_path().split(os.pathsep))
    places = {real_path(os.path.join(folder, name)) for folder in folders for name in names}  # noqa: PTH118
    below = {place for place in places if any(place.startswith(f"{folder}/") for folder in folders)}
    within_package = {folder for folder in folders if Path(folder).is_relative_to(package)}
    return sorted(below | within_package)


def python_command(module: str, *words: str) -> list[str]:
    """The command that runs one of our modules in a process of its own, isolated from the working folder."""
    import json

    places = _places()
    folders = [path for path in sys.path if not is_writable(path, places)]
    paths = json.dumps([str(Path(__file__).parents[1]), *folders])
    return [sys.executable, "-I", "-X", "utf8", "-c", _ISOLATED, paths, module, *words]


# --- looking up --------------------------------------------------------------------------------------------


@lru_cache(256)
def _located(name: str, path: str, places: frozenset[str]) -> str | None:
    programs = (shutil.which(name, path=folder) for folder in path.split(os.pathsep))
    return next((program for program in programs if program and not is_writable(program, places)), None)


def is_writable(path: str, places: Iterable[str]) -> bool:
    """Return whether what a path leads to could be changed from within `places`. Reads the disk.

    That is so for a relative path, and if any link on the way lies there: it could be made to lead elsewhere.
    """
    folders = tuple(places)
    parts = path.split("/")[::-1]
    position, links = "", 0
    if not path.startswith("/"):
        return True
    while parts:
        part = parts.pop()
        if part == "..":
            position = position.rpartition("/")[0]
        if part in ("", ".", ".."):
            continue
        position = f"{position}/{part}"
        if any(position == folder or position.startswith(f"{folder}/") for folder in folders):
            return True
        if os.path.islink(position):  # noqa: PTH114 - `Path.is_symlink` raises if one may not look
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
    with suppress(OSError):  # the folder may be gone
        return frozenset((*_writable, real_path("")))
    return frozenset(_writable)


def _without_writable(paths: Iterable[str], *, names: bool = False) -> str:
    """Those of these paths that may be trusted; with `names`, also what has no folder."""
    places = _places()
    return os.pathsep.join(
        path for path in paths if (names and "/" not in path) or not is_writable(path, places)
    )
