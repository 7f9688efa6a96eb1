"""Paths as the model gives them and as results name them."""

import difflib
import os
from itertools import islice
from pathlib import Path

from foldline.data import config_dir, real_path
from foldline.history import data_home

from .base import ToolContext
from .failure import ToolFailure
from .text import one_line
from .walk import files_below

_LOOKED_AT = 20_000
"""How many files are looked through for one of the same name before the search for a suggestion ends."""


def located(given: str, context: ToolContext) -> Path:
    """The absolute path the model means: relative to the working directory, `~` is the home folder.

    Raises:
        ToolFailure: no path at all.
    """
    if not given.strip() or "\x00" in given:
        raise ToolFailure("The path is empty or holds a NUL character; give the path of a file or folder.")
    try:
        path = Path(given).expanduser()
    except RuntimeError:
        raise ToolFailure(f"{given}: there is no such home folder; give the whole path.") from None
    return Path(os.path.normpath(context.cwd / path))


def named(path: Path | str, context: ToolContext) -> str:
    """A path as results name it: relative to the working directory where it is inside, on one line."""
    absolute = Path(path)
    if absolute.is_relative_to(context.cwd):
        absolute = absolute.relative_to(context.cwd)
    return one_line(os.fsencode(absolute).decode("utf-8", "replace")) or "."


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path lies in a folder after all symbolic links are followed. Where they cannot be, it does
    not."""
    try:
        return Path(real_path(path)).is_relative_to(real_path(folder))
    except OSError:
        return False


def is_open(path: Path, folder: Path) -> bool:
    """Whether a path lies in a folder, and not among what Foldline itself keeps in there: sessions of other
    projects, keys, settings. They are no part of what is worked on, also where that is the home folder."""
    return is_inside(path, folder) and not any(is_inside(path, Path(each)) for each in kept_in(folder))


def kept_in(folder: Path) -> tuple[str, ...]:
    """Our own folders that lie within this one."""
    real = real_path(folder)
    own = {real_path(data_home()), real_path(config_dir(os.environ))}
    return tuple(each for each in own if each != real and Path(each).is_relative_to(real))


def missing(path: Path, context: ToolContext) -> ToolFailure:
    """The failure for a path that does not exist, with the nearest names that do. Reads the disk."""
    near = [name for name in near_names(path, context) if name != named(path, context)]  # not in UTF-8
    hint = f" Did you mean {' or '.join(near)}?" if near else " Use `glob` or `ls` to find the right path."
    return ToolFailure(f"{named(path, context)} does not exist.{hint}", brief="not found ✗")


def near_names(path: Path, context: ToolContext) -> list[str]:
    """Up to three existing paths like this one: like-named neighbours, else the same name elsewhere."""
    try:
        neighbours = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        neighbours = []
    by_fold = {name.casefold(): name for name in neighbours}
    close = difflib.get_close_matches(path.name.casefold(), by_fold, n=3, cutoff=0.6)
    if close:
        return [named(path.parent / by_fold[name], context) for name in close]
    files = islice(files_below(context.cwd), _LOOKED_AT)
    return [named(found, context) for found in files if os.path.basename(found) == path.name][:3]  # noqa: PTH119
