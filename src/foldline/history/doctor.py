"""What `foldline doctor` finds in a session of ours: its file by lines, its history, what lies beside it."""

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from pydantic import ValidationError

from foldline.context.invariants import broken, dangling
from foldline.context.numbers import many
from foldline.context.outline import outline_of
from foldline.context.projection import Projection, project
from foldline.context.proof import recorded_requests, unproved
from foldline.data import EVENTS, real_path
from foldline.files import is_draft, is_file, opened, read_regular
from foldline.history.lines import LineReader, Progress
from foldline.protocol import (
    NEW,
    AssistantMessage,
    Checkpoint,
    Entry,
    FoldlineError,
    SessionHeader,
    ToolResultMessage,
    Unknown,
    parse_entry,
    system_words,
)

from .contents import CONTENTS, content_id
from .lock import Holder, holder_of
from .log import FORMAT_VERSION, read_log
from .meta import Meta, describe
from .paths import HOLDER, INDEX, META
from .session import Session

_BLANK = b" \t\r\n"
_NO_INDEX = "is no record with an index"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an event file, blank ones and what stands in place of the header apart."""

    number: int
    """The first line of the file is 1."""
    record: bytes
    """What it holds, without the NULs and blanks around it."""
    entry: Entry | None
    """The record, where it is whole and comes in order."""
    fault: str = ""
    """What is wrong with it, as the end of "line 3 …"; a record among NULs is whole all the same."""


@dataclass(frozen=True, slots=True)
class Scan:
    """All there is in an event file."""

    header: SessionHeader | None
    """The first line; None where it is not the header of a session of ours."""
    first: bytes
    """The first line as it stands, without its line end."""
    lines: tuple[Line, ...]
    taken: int
    """The highest index that is taken, records that are lost included; -1 where none is."""
    ends: bool
    """Whether the last line has a line end."""

    @property
    def entries(self) -> list[Entry]:
        return [line.entry for line in self.lines if line.entry is not None]

    @property
    def damaged(self) -> list[Line]:
        return [line for line in self.lines if line.fault]


def scan(data: bytes) -> Scan:
    """What an event file with this content holds."""
    file = io.BytesIO(data)
    first = file.readline()
    header = _header(first)
    if header is None and isinstance(_read(first.strip(b"\0" + _BLANK)), Entry):
        file.seek(0)  # the header is gone altogether
    behind = Progress(upto=file.tell(), lines=1 if file.tell() else 0)
    reader = LineReader(behind)
    lines = tuple(_lines(file, behind.lines, reader))
    return Scan(header, first.rstrip(b"\n"), lines, reader.progress.taken, data.endswith(b"\n"))


def _lines(file: Iterable[bytes], before: int, reader: LineReader) -> Iterator[Line]:
    last, seen = NEW, set[int]()
    for number, text in enumerate(file, start=before + 1):
        found = reader.take(text)
        content = text.strip(_BLANK)
        record = content.strip(b"\0" + _BLANK)
        if found is not None:
            last = found.entry.index
            seen.add(last)
            yield Line(number, record, found.entry, "stands among NULs" if len(record) < len(content) else "")
        elif not record:
            if content:
                yield Line(number, record, None, f"holds {len(content):,} NULs, nothing else")
        else:
            fault = "is cut off" if not text.endswith(b"\n") else _why(record, last, seen)
            yield Line(number, record, None, fault)


def _why(record: bytes, last: int, seen: set[int]) -> str:
    """Why a record behind the entry `last` was not taken."""
    match _read(record):
        case Entry(index=index) if index != NEW:
            return (
                f"holds entry {index}, which {'is there already' if index in seen else f'comes after {last}'}"
            )
        case str(fault):
            return fault
        case _:
            return _NO_INDEX


def _read(record: bytes) -> Entry | str:
    """The entry a record is, or why it is none."""
    try:
        return parse_entry(record)
    except (ValueError, RecursionError):
        pass
    try:
        json.loads(record.decode())
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except RecursionError:
        return "is nested too deep"
    except ValueError:
        return "is not whole JSON"
    return _NO_INDEX


def _header(line: bytes) -> SessionHeader | None:
    try:
        header = SessionHeader.model_validate_json(line.rstrip(b"\n"))
    except ValidationError:
        return None
    return header if header.version >= 1 else None


def gaps(entries: Iterable[Entry]) -> Iterator[tuple[int, int]]:
    """The indices below the newest that no entry has, as ranges with both ends included."""
    expected = 0
    for entry in entries:
        if entry.index > expected:
            yield expected, entry.index - 1
        expected = entry.index + 1


OUTPUTS = "outputs"
BEFORE_REPAIR = ".before-repair-"
"""Stands in the names of event files that a repair kept as they were."""


@dataclass(frozen=True, slots=True)
class InspectedSession:
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


def inspect_session(events: Path) -> InspectedSession:
    """The session whose event file this is, or that a link leads to. Raises FoldlineError where it cannot be
    read."""
    try:
        data = read_regular(events)
        events = Path(real_path(events))
    except OSError as error:
        raise FoldlineError(f"{events} cannot be read: {system_words(error)}.") from None
    found = scan(data)
    folder, in_folder = events.parent, events.name == EVENTS
    wrong, whole = _contents(folder) if in_folder else ((), frozenset())
    index = in_folder and (folder / INDEX).exists()
    return InspectedSession(
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
        kept=tuple(
            sorted(name for name in _names_in(folder) if name.startswith(events.name + BEFORE_REPAIR))
        ),
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


Mark = Literal["ok", "warn", "bad"]
SHOWN = 4
"""Of a list, how many are named in a sentence."""
REPAIR = "`--repair` sets it right"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check, and what came of it."""

    mark: Mark
    name: str
    """What was looked at, in a word or two."""
    found: str
    """What it is like, without an end stop."""
    advice: str = ""
    """What to do, where there is something."""
    details: tuple[str, ...] = ()
    """All of what `found` counts."""


def examine(patient: InspectedSession) -> list[Finding]:
    """Every check of a session, in the order they are told."""
    return [*_file(patient), *history_findings(patient.scan.entries), *_folder(patient)]


def is_newer(patient: InspectedSession) -> bool:
    """Whether a newer version wrote it, whose file is not ours to judge."""
    header = patient.scan.header
    return header is not None and header.version > FORMAT_VERSION


# --- the file -----------------------------------------------------------------------------------------


def _file(patient: InspectedSession) -> Iterator[Finding]:
    scan = patient.scan
    if scan.header is None:
        found = "the first line is not that of a session"
        yield Finding("bad", "header", found, f"{REPAIR}: it is made again from what is known")
    elif is_newer(patient):
        found = f"written by a newer Foldline (format {scan.header.version}, this one knows {FORMAT_VERSION})"
        yield Finding("bad", "header", found, "open it with that one")
    else:
        header = scan.header
        begun = f"{header.created_at.astimezone():%Y-%m-%d %H:%M}"
        yield Finding("ok", "header", f"session {header.id} of {header.cwd}, begun {begun}")
    entries, damaged = scan.entries, scan.damaged
    size = f"{len(entries):,} whole, {patient.size:,} bytes"
    if damaged:
        faults = tuple(f"line {line.number} {line.fault}" for line in damaged)
        found = f"{size}, {len(damaged):,} damaged: {_some(faults)}"
        yield Finding("bad", "records", found, f"{REPAIR}; the file is kept as it is beside it", faults)
    else:
        yield Finding("ok", "records", size)
    if patient.size and not scan.ends and not (damaged and damaged[-1] is scan.lines[-1]):
        yield Finding("ok", "end", "the last line has no line end: the next append gives it one")
    missing = tuple(_span(*gap) for gap in gaps(entries))
    if missing:
        yield Finding(
            "ok", "indices", f"no entry has {_some(missing)}: nothing is moved by that", "", missing
        )


# --- the history ---------------------------------------------------------------------------------------


def history_findings(entries: Sequence[Entry]) -> Iterator[Finding]:
    """The checks of a history, whoever wrote it."""
    projection = project(entries)
    unknown = Counter(entry.type for entry in entries if isinstance(entry, Unknown))
    if unknown:
        kinds = tuple(f"{count} {kind}" for kind, count in unknown.items())
        yield Finding("ok", "types", f"not known here, kept as they are: {_some(kinds)}", "", kinds)
    open_calls = _open_calls(entries)
    if open_calls:
        found = f"{many(len(open_calls), 'call')} without a result: the model is told that they broke off"
        yield Finding("ok", "calls", found, "", tuple(open_calls))
    yield _told("references", dangling(projection), "all lead somewhere", "warn")
    yield _told("view", broken(projection), _view_words(projection), "bad")
    sent = recorded_requests(entries)
    if sent:
        failures = [str(failure) for failure in unproved(entries)]
        proved = f"{len(sent) - len(failures):,} of {many(len(sent), 'request')} proved"
        yield _told("requests", failures, proved, "warn", before=f"{proved}; ")


def _view_words(projection: Projection) -> str:
    items = many(len(projection.view), "item")
    return f"valid: {items}, {many(len(projection.compactions()), 'fold')} in force"


def _told(name: str, faults: Sequence[str], fine: str, mark: Mark, before: str = "") -> Finding:
    if not faults:
        return Finding("ok", name, fine)
    advice = "what is missing cannot be brought back" if mark == "warn" else "please report it"
    return Finding(mark, name, before + _some(faults), advice, tuple(faults))


def _open_calls(entries: Iterable[Entry]) -> list[str]:
    calls: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, AssistantMessage):
            calls |= {call.call_id: f"{call.name} in entry {entry.index}" for call in entry.calls}
        elif isinstance(entry, ToolResultMessage):
            calls.pop(entry.call_id, None)
    return list(calls.values())


# --- what lies beside it ---------------------------------------------------------------------------------


def _folder(patient: InspectedSession) -> Iterator[Finding]:
    if patient.holder is not None:
        yield Finding("warn", "writer", f"{patient.holder} writes to it now", "nothing is repaired meanwhile")
    elif patient.has_note:
        yield Finding("warn", "writer", "a note says that somebody writes to it, and nobody does", REPAIR)
    else:
        yield Finding("ok", "writer", "nobody writes to it")
    if patient.kept:
        yield Finding("ok", "kept", f"as it was before a repair, yours to delete: {_some(patient.kept)}")
    if not patient.in_folder:
        return
    yield snapshot(patient)
    if patient.has_index:
        fault = patient.index_fault
        yield (Finding("bad", INDEX, fault, REPAIR) if fault else Finding("ok", INDEX, "says what is there"))
    yield from _kept_contents(patient)
    gone = tuple(_missing_outputs(patient))
    if gone:
        found = f"{many(len(gone), 'whole output')} no longer there: {_some(gone)}"
        yield Finding("warn", "outputs", found, "what the model saw of them is in the history", gone)
    if patient.drafts:
        names = tuple(path.name for path in patient.drafts)
        yield Finding("warn", "left over", f"never finished: {_some(names)}", REPAIR, names)
    if patient.open_to_others:
        names = tuple(f"{path.name} ({path.stat().st_mode & 0o777:o})" for path in patient.open_to_others)
        yield Finding("warn", "modes", f"others may look into {_some(names)}", REPAIR, names)


def snapshot(patient: InspectedSession) -> Finding:
    """Whether `meta.json` is of use."""
    meta, scan = patient.meta, patient.scan
    if not patient.has_meta:
        return Finding("ok", "meta.json", "not there: lists read the history")
    if meta is None:
        return Finding("warn", "meta.json", "cannot be read: lists read the history", REPAIR)
    if meta.size != patient.size:
        return Finding("warn", "meta.json", "describes an earlier state: lists read the history", REPAIR)
    if scan.header and (wrong := _differs(patient)):
        return Finding("bad", "meta.json", f"lists show a wrong {wrong}", REPAIR)
    return Finding("ok", "meta.json", "says what the history says")


def _differs(patient: InspectedSession) -> str:
    scan, meta = patient.scan, patient.meta
    assert scan.header is not None
    assert meta is not None
    fresh = describe(scan.header, scan.entries, patient.size)
    names = ("id", "cwd", "title", "first_prompt", "last_prompt", "model", "entries", "tokens")
    return next((name for name in names if getattr(fresh, name) != getattr(meta, name)), "")


def _kept_contents(patient: InspectedSession) -> Iterator[Finding]:
    """What was kept so that files can be put back."""
    wrong = tuple(path.name for path in patient.wrong_contents)
    needed = {
        name
        for entry in patient.scan.entries
        if isinstance(entry, Checkpoint)
        for image in entry.files
        for name in (image.before, image.after)
        if name is not None
    }
    if not (needed or wrong):
        return
    gone = tuple(sorted(needed - patient.contents))
    if gone or wrong:
        found = f"{len(gone):,} of {many(len(needed), 'file content')} kept for rewinds not there"
        found += f", {len(wrong):,} not what their names say" if wrong else ""
        yield Finding(
            "warn", "contents", found, "a rewind tells which files it leaves alone", (*gone, *wrong)
        )
    else:
        yield Finding("ok", "contents", f"{many(len(needed), 'file content')} kept for rewinds")


def _missing_outputs(patient: InspectedSession) -> Iterator[str]:
    for entry in patient.scan.entries:
        if isinstance(entry, ToolResultMessage) and entry.details.full_output:
            name = PurePath(entry.details.full_output).name
            if name not in patient.outputs:
                yield name


# --- words -----------------------------------------------------------------------------------------------


def _some(items: Sequence[str]) -> str:
    more = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"
