"""Locations of Foldline's own folders (`prompts/`, `themes/`) and of the user's folders.

This module imports no other module of Foldline, because it is needed before the first paint.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

Environ = Mapping[str, str]
"""Environment variables by name."""

_PACKAGE = Path(__file__).parent
EVENTS = "events.jsonl"
"""Name of a session's log file, in the session's folder."""


def matches_id(id: str, ref: str) -> bool:
    """Return whether `ref` is the beginning or the end of an id."""
    return bool(ref) and (id.startswith(ref) or id.endswith(ref))


def data_dir(name: str) -> Path:
    """Return the folder `prompts` or `themes`.

    It is in the installed package, or at the top level of a checkout.
    """
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent.parent / name


def config_dir(environ: Environ) -> Path:
    """Return the user's folder for settings, prompts and themes.

    This is `FOLDLINE_HOME` if it is set, otherwise the platform's configuration folder.
    """
    home = environ.get("FOLDLINE_HOME")
    if home:
        return typed_path(home)
    from platformdirs import user_config_path

    return user_config_path("foldline", appauthor=False)


def data_home() -> Path:
    """Return the folder for everything that Foldline stores.

    This is `FOLDLINE_HOME` if it is set, otherwise the platform's data folder.
    """
    home = os.environ.get("FOLDLINE_HOME")
    if home:
        return typed_path(home)
    from platformdirs import user_data_path  # slow, and rarely needed

    return user_data_path("foldline", appauthor=False)


def sessions_dir(home: Path) -> Path:
    return home / "sessions"


def archive_dir(home: Path) -> Path:
    """Return the folder for archived sessions.

    It has the same structure as `sessions_dir`.
    """
    return home / "archive"


def is_kept(home: Path, events: Path) -> bool:
    """Return whether an event file belongs to a session in `home`.

    Links are resolved before the comparison.
    """
    path = real_path(events)
    folders = (sessions_dir(home), archive_dir(home))
    return any(path.startswith(real_path(folder) + os.sep) for folder in folders)


def typed_path(text: str) -> Path:
    """Expand `~` and `~user` in a typed path.

    If `name` is not a known user, `~name` is kept as a file name.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111 - `Path.expanduser` raises for an unknown user


def real_path(path: Path | str) -> str:
    """Return the absolute path with all links resolved.

    Raises:
        OSError: reading a link in the path, such as `/proc/1/root`, is not permitted, or the name is
            invalid.
    """
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL, or a lone surrogate
        raise OSError(
            errno.EINVAL, "no file can have this name", os.fspath(path)
        ) from None
