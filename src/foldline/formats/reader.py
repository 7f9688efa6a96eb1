"""Read any session file there is a reader for."""

import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from foldline.files import is_file, is_folder, read_regular
from foldline.history import EVENTS, parse_log, typed_path
from foldline.protocol import FoldlineError, system_words

from .base import ForeignSession
from .check import checked
from .detect import Unreadable, detect
from .known import FOREIGN, FORMATS

_OF_FOLDERS = (EVENTS, "context.jsonl", "opencode.db")
"""What a session is read by that is a folder."""
_SQLITE = b"SQLite format 3\0"
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
    if format in (None, "opencode") and _begins(file_of(path), _SQLITE):
        return _read_database(path)
    data = as_utf8(_read(path))
    if data.startswith(_ZIP) and format in (None, "foldline"):
        from .bundle_members import read_bundled

        return read_bundled(data, path)
    name = format or detect(data)
    if isinstance(name, Unreadable):
        raise FoldlineError(f"{path} {name.what}: {name.instead or f'Foldline reads {_known()}'}.")
    for known in FOREIGN:
        if known.name == name:
            return checked(known.read(data, path), known.title, path)
    loaded = parse_log(data, path)
    notes = (f"{loaded.damage}.",) if loaded.damage else ()
    return ForeignSession("foldline", loaded.header, loaded.entries, loaded.damage, notes)


def session_file(path: Path) -> Path:
    """The file to read a session by, where this is the folder of one: of ours, of klaude-code or kimi-cli; of
    opencode's folder of sessions, the newest.

    Raises:
        FoldlineError: it is another folder.
    """
    if not is_folder(path):
        return path
    found = next((path / name for name in _OF_FOLDERS if is_file(path / name)), None)
    if found is None and (is_folder(path / "session") or is_folder(path / "storage")):
        found = _newest_stored(path)
    if found is None:
        *others, last = _OF_FOLDERS
        without = f"{', '.join(others)} or {last}"
        raise FoldlineError(
            f"{path} is a folder without {without}: name a session file, or the folder of a session."
        )
    return found


def file_of(path: Path) -> Path:
    """The file that a session is in. One of several in a database is named by its id, behind the file."""
    return path.parent if is_file(path.parent) else path


def as_utf8(data: bytes) -> bytes:
    """A text file as UTF-8, without a mark of its encoding. PowerShell's `>` writes UTF-16."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    for opening, encoding in _BARE_UTF16.items():
        if data.startswith(opening):
            return data.decode(encoding, "replace").encode()
    return data.removeprefix(BOM_UTF8)


_BARE_UTF16 = {b"{\0": "utf-16-le", b"[\0": "utf-16-le", b"\0{": "utf-16-be", b"\0[": "utf-16-be"}
"""How JSON in UTF-16 begins where no mark says so."""


def _begins(path: Path, magic: bytes) -> bool:
    try:
        return read_regular(path, len(magic)) == magic
    except OSError:
        return False


def _read_database(path: Path) -> ForeignSession:
    from .opencode import read_opencode_database
    from .opencode_store import is_opencode_database, tables_of
    from .refusals import refused_database

    file = file_of(path)
    tables = tables_of(file)
    if is_opencode_database(tables):
        read = read_opencode_database(file, path.name if file != path else "")
        return checked(read, "opencode", path)
    refusal = refused_database(tables)
    if refusal is None:
        raise FoldlineError(f"{file} is a database, but of no agent known here: Foldline reads {_known()}.")
    raise FoldlineError(f"{file} seems to be {refusal.name}, which cannot be read yet: {refusal.instead}.")


def _newest_stored(folder: Path) -> Path | None:
    from .opencode import newest_of
    from .opencode_store import is_store, stored_in_files

    store = next((place for place in (folder, folder / "storage") if is_store(place)), None)
    return newest_of(stored_in_files(store), folder).path if store else None


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
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
