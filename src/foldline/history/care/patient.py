"""What lies in a session folder, read once for `doctor`: nothing is judged here, and nothing written."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from foldline.context.outline import outline_of
from foldline.data import EVENTS, real_path
from foldline.files import is_draft, is_file, opened, read_regular
from foldline.protocol import Entry, FoldlineError, SessionHeader, system_words

from ..contents import CONTENTS, content_id
from ..holder import Holder, holder_of
from ..log import read_log
from ..meta import Meta
from ..paths import HOLDER, INDEX, META
from ..session import Session
from .scan import Scan, scan

OUTPUTS = "outputs"
KEPT = ".before-repair-"
"""Stands in the names of event files that a repair kept as they were."""


@dataclass(frozen=True, slots=True)
class Patient:
    """A session of ours as it lies on disk."""

    events: Path
    scan: Scan
    size: int
    """Bytes of the event file."""
    in_folder: bool
    """Whether it has a session folder of its own; a loose file has none of what follows."""
    meta: Meta | None
    """The snapshot for lists, where there is a readable one."""
    has_meta: bool
    has_index: bool
    index_fault: str
    """What opening with the index gets wrong; empty where nothing, or where there is none."""
    holder: Holder | None
    """Who writes to it just now."""
    has_note: bool
    """Whether a note says that somebody does."""
    drafts: tuple[Path, ...]
    """Files that were never finished."""
    contents: frozenset[str]
    """Names of the file contents kept for rewinds that are what their names say."""
    wrong_contents: tuple[Path, ...]
    kept: tuple[str, ...]
    """Names of event files as they were before a repair."""
    outputs: frozenset[str]
    """Names of the whole outputs of which the model got a piece."""
    open_to_others: tuple[Path, ...]
    """What others than its owner may look into: the folder, the event file."""
    cwd_nearby: str
    """Working folder of another session in the same place; empty where there is none."""

    @property
    def folder(self) -> Path:
        return self.events.parent


def patient_at(events: Path) -> Patient:
    """The session whose event file this is, or that a link leads to.

    Raises:
        FoldlineError: it cannot be read.
    """
    try:
        data = read_regular(events)
        events = Path(real_path(events))
    except OSError as error:
        raise FoldlineError(f"{events} cannot be read: {system_words(error)}.") from None
    found = scan(data)
    folder, in_folder = events.parent, events.name == EVENTS
    wrong, whole = _contents(folder) if in_folder else ((), frozenset())
    index = in_folder and (folder / INDEX).exists()
    return Patient(
        events=events,
        scan=found,
        size=len(data),
        in_folder=in_folder,
        meta=_meta(folder) if in_folder else None,
        has_meta=in_folder and os.path.lexists(folder / META),
        has_index=index,
        index_fault=_index_fault(events, found.entries) if index and found.header else "",
        holder=holder_of(folder),
        has_note=in_folder and (folder / HOLDER).exists(),
        drafts=tuple(drafts_in(folder)) if in_folder else (),
        contents=whole,
        wrong_contents=wrong,
        kept=tuple(sorted(name for name in _names_in(folder) if name.startswith(events.name + KEPT))),
        outputs=frozenset(_names_in(folder / OUTPUTS)) if in_folder else frozenset(),
        open_to_others=tuple(path for path in (folder, events) if in_folder and _is_open(path)),
        cwd_nearby="" if found.header else _cwd_nearby(folder),
    )


def drafts_in(folder: Path) -> Iterator[Path]:
    """Files of ours that were begun and never finished."""
    for place in (folder, folder / CONTENTS):
        yield from (path for path in _paths_in(place) if is_draft(path.name) and is_file(path))


def _meta(folder: Path) -> Meta | None:
    try:
        return Meta.model_validate_json(read_regular(folder / META))
    except (OSError, ValidationError):
        return None


def _index_fault(events: Path, entries: list[Entry]) -> str:
    """Whether the session opens to the same entries as its file holds, and to what is to be known of them."""
    try:
        opened = Session.open(events).entries
    except FoldlineError as error:
        return str(error)
    if list(opened) != entries:
        return "the session opens to other entries than its file holds"
    if opened.outlines != [outline_of(entry) for entry in entries]:
        return "it says other things of entries than the file does, which was changed in its middle"
    return ""


def _contents(folder: Path) -> tuple[tuple[Path, ...], frozenset[str]]:
    wrong: list[Path] = []
    whole: set[str] = set()
    for path in _paths_in(folder / CONTENTS):
        if is_draft(path.name):
            continue
        right = False
        with suppress(OSError):
            right = content_id(read_regular(path)) == path.name
        whole |= {path.name} if right else set()
        wrong += [] if right else [path]
    return tuple(wrong), frozenset(whole)


def _paths_in(folder: Path) -> list[Path]:
    """What lies in a folder of a session. None where a link leads to it: that is not the session's."""
    with suppress(OSError):
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    return []


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in _paths_in(folder)]


def _is_open(path: Path) -> bool:
    return os.name == "posix" and bool(path.stat().st_mode & 0o077)


def _cwd_nearby(folder: Path) -> str:
    """Sessions of one working folder lie side by side."""
    with suppress(OSError):
        for other in sorted(folder.parent.iterdir()):
            with suppress(FoldlineError, OSError):
                if other != folder and is_file(other / EVENTS):
                    return _header_of(other / EVENTS).cwd
    return ""


def _header_of(events: Path) -> SessionHeader:
    with opened(events) as file:
        first = file.readline(65_536)
    try:
        return SessionHeader.model_validate_json(first)
    except ValidationError:
        return read_log(events).header
