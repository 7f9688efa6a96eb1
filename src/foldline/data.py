"""Where files lie: those that travel with the program, `prompts/` and `themes/`, and the user's own.

Needs no other module of ours: a start looks here before anything is painted.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).parent
EVENTS = "events.jsonl"
"""The name of a session's history, in a folder of its own."""


def data_dir(name: str) -> Path:
    """The folder `prompts` or `themes`: inside an installed wheel, or at the top of a checkout."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent.parent / name


def config_dir(environ: Mapping[str, str]) -> Path:
    """The user's own folder of settings, prompts and themes: `FOLDLINE_HOME`, else that of this platform."""
    home = environ.get("FOLDLINE_HOME")
    if home:
        return Path(home).expanduser()
    from platformdirs import user_config_path

    return user_config_path("foldline", appauthor=False)


def data_home() -> Path:
    """The folder of everything Foldline stores: `FOLDLINE_HOME`, else the data folder of this platform."""
    home = os.environ.get("FOLDLINE_HOME")
    if home:
        return typed_path(home)
    from platformdirs import user_data_path  # costs time only where it is needed

    return user_data_path("foldline", appauthor=False)


def sessions_dir(home: Path) -> Path:
    return home / "sessions"


def archive_dir(home: Path) -> Path:
    """Where sessions lie that lists leave out unless asked, laid out as those in `sessions_dir`."""
    return home / "archive"


def is_kept(home: Path, events: Path) -> bool:
    """Whether an event file lies among our sessions, whatever links led to it."""
    path = real_path(events)
    return any(
        path.startswith(real_path(folder) + os.sep) for folder in (sessions_dir(home), archive_dir(home))
    )


def typed_path(text: str) -> Path:
    """A path as people type it: `~` is the home folder; `~name` of nobody here is a file of that name."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - `Path.expanduser` raises for nobody


def real_path(path: Path | str) -> str:
    """The path that names a file or folder, whatever links or relative path led to it.

    Raises:
        OSError: a link on the way may not be looked into, as `/proc/1/root`, or no file can have this name.
    """
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL, or half a character
        raise OSError(errno.EINVAL, "no file can have this name", os.fspath(path)) from None
