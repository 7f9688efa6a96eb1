"""All sessions on this machine: listing them, and finding one by what people type."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from foldline.protocol import FoldlineError

from .log import read_log
from .meta import Meta, describe
from .paths import EVENTS, META, sessions_dir, workdir_key


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of a list of sessions."""

    path: Path
    """The session's event file."""
    meta: Meta

    @property
    def id(self) -> str:
        return self.meta.id

    @property
    def readable(self) -> bool:
        """Whether it can be opened; where not, `meta.note` says why."""
        return bool(self.meta.cwd)


def list_sessions(home: Path, cwd: Path | str | None = None) -> list[SessionInfo]:
    """The sessions of one working folder, or all, the one last written to first. Never writes.

    What is damaged is listed with a note, and fails nothing.
    """
    infos = [_info(folder) for folder in _folders(home, cwd)]
    return sorted(infos, key=lambda info: (info.meta.updated_at, info.id), reverse=True)


def latest(home: Path, cwd: Path | str) -> Path | None:
    """Event file of the session of this folder that was last written to; None where none can be opened."""
    return next((info.path for info in list_sessions(home, cwd) if info.readable), None)


def find_session(home: Path, ref: str) -> Path:
    """The event file of a session, by its id, the beginning or end of its id, or a path to it.

    Raises:
        FoldlineError: no session, or more than one, answers to that.
    """
    for path in (Path(ref).expanduser(), Path(ref).expanduser() / EVENTS):
        if ref and path.is_file():
            return path
    folders = [folder for folder in _folders(home, None) if _answers(folder.name, ref)]
    exact = [folder for folder in folders if folder.name == ref]
    match exact or folders:
        case [folder]:
            return folder / EVENTS
        case []:
            raise FoldlineError(f"There is no session {ref!r}: `foldline sessions --all` lists the ids.")
        case several:
            names = ", ".join(sorted(folder.name for folder in several)[:4])
            more = f" and {len(several) - 4} more" if len(several) > 4 else ""
            raise FoldlineError(
                f"{len(several)} sessions answer to {ref!r}: {names}{more}; say more of the id."
            )


def _answers(session_id: str, ref: str) -> bool:
    return bool(ref) and (session_id.startswith(ref) or session_id.endswith(ref))


def _folders(home: Path, cwd: Path | str | None) -> Iterator[Path]:
    root = sessions_dir(home)
    keys = [root / workdir_key(cwd)] if cwd is not None else _subfolders(root)
    for key in keys:
        for folder in _subfolders(key):
            if (folder / EVENTS).is_file():
                yield folder


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            return [Path(item.path) for item in found if item.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FoldlineError(f"The sessions in {folder} cannot be listed: {error.strerror}.") from None


def _info(folder: Path) -> SessionInfo:
    events = folder / EVENTS
    try:
        status = events.stat()
        meta = Meta.model_validate_json((folder / META).read_bytes())
        if meta.size == status.st_size and meta.id:
            return SessionInfo(events, meta)
    except (OSError, ValidationError):
        pass  # no snapshot, or a useless one: the history itself says it all
    return _read_info(events)


def _read_info(events: Path) -> SessionInfo:
    try:
        loaded = read_log(events)
    except FoldlineError as error:
        written = _modified(events)
        meta = Meta(id=events.parent.name, cwd="", created_at=written, updated_at=written, note=str(error))
        return SessionInfo(events, meta)
    return SessionInfo(events, describe(loaded.header, loaded.entries, loaded.size, str(loaded.damage)))


def _modified(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return datetime.fromtimestamp(0, UTC)
