"""Read any session file there is a reader for."""

import os
from pathlib import Path

from foldline.history import EVENTS, parse_log, typed_path
from foldline.protocol import FoldlineError, system_words

from .base import ForeignSession
from .check import checked
from .detect import Unreadable, detect
from .known import FOREIGN, FORMATS

_OF_FOLDERS = (EVENTS, "context.jsonl")
"""What a session is read by that is a folder."""
_ZIP = b"PK\x03\x04"
"""Begins a zip file: of all files that are read, only our sessions as one file are any."""


def read_foreign(path: Path | str, format: str | None = None) -> ForeignSession:
    """The session in a file, or in a session folder of ours, or in one of ours as one file. Only reads.

    `format` is one of `FORMATS` and overrides detection.

    Raises:
        FoldlineError: no such file, not a session, of a format without a reader, or one of many records in
            which the reader found no message.
    """
    path = typed_path(os.fspath(path))
    if format is not None and format not in FORMATS:
        raise FoldlineError(f"There is no format {format!r}: Foldline reads {_known()}.")
    path = session_file(path)
    data = _read(path)
    if data.startswith(_ZIP) and format in (None, "foldline"):
        from .bundle_members import read_bundled

        return read_bundled(data, path)
    name = format or detect(data)
    if isinstance(name, Unreadable):
        raise FoldlineError(f"{path} {name.what}: Foldline reads {_known()}.")
    for known in FOREIGN:
        if known.name == name:
            return checked(known.read(data, path), known.title, path)
    loaded = parse_log(data, path)
    notes = (f"{loaded.damage}.",) if loaded.damage else ()
    return ForeignSession("foldline", loaded.header, loaded.entries, loaded.damage, notes)


def session_file(path: Path) -> Path:
    """The file to read a session by, where this is the folder of one: of ours, of klaude-code or kimi-cli.

    Raises:
        FoldlineError: it is another folder.
    """
    if not path.is_dir():
        return path
    found = next((path / name for name in _OF_FOLDERS if (path / name).is_file()), None)
    if found is None:
        without = " or ".join(_OF_FOLDERS)
        raise FoldlineError(
            f"{path} is a folder without {without}: name a session file, or the folder of a session."
        )
    return found


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise FoldlineError(f"{path} is not a regular file.")
        return path.read_bytes()
    except FileNotFoundError:
        raise FoldlineError(f"There is no file {path}.") from None
    except OSError as error:
        raise FoldlineError(f"{path} cannot be read: {system_words(error)}.") from None


def _known() -> str:
    """What there are readers for, in words."""
    *others, last = (
        known.title if known.title == known.name else f"{known.title} ({known.name})" for known in FOREIGN
    )
    return f"its own sessions (foldline) and those of {', '.join(others)} and {last}"
