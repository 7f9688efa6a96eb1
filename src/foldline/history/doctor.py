"""What `foldline doctor` finds in a session of ours: its file by lines, its history, what lies beside it."""

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Literal

from pydantic import ValidationError

from foldline.context.invariants import broken, dangling
from foldline.context.numbers import many, some
from foldline.context.outline import outline_of
from foldline.context.projection import project
from foldline.context.proof import recorded_requests, unproved
from foldline.data import EVENTS, real_path
from foldline.files import is_draft, is_file, read_regular
from foldline.protocol import (
    NEW,
    AssistantMessage,
    Checkpoint,
    Entry,
    FoldlineError,
    SessionHeader,
    Subagent,
    ToolResultMessage,
    Unknown,
)

from .catalog import read_header
from .children import children_of
from .contents import CONTENTS, OUTPUTS, content_id
from .lock import Holder, holder_of
from .log import BLANK, FORMAT_VERSION, WHITE, LineReader, Progress, entry_in, our_header
from .meta import Meta, describe
from .paths import HOLDER, INDEX, META, explained
from .session import Session


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
    header = our_header(first)
    if header is None and entry_in(first.strip(BLANK)):
        file.seek(0)  # the header is gone altogether
    behind = Progress(upto=file.tell(), lines=1 if file.tell() else 0)
    reader = LineReader(behind)
    lines = tuple(_lines(file, behind.lines, reader))
    return Scan(header, first.rstrip(b"\n"), lines, reader.progress.taken, data.endswith(b"\n"))


def _lines(file: Iterable[bytes], before: int, reader: LineReader) -> Iterator[Line]:
    last, seen = NEW, set[int]()
    for number, text in enumerate(file, start=before + 1):
        found = reader.take(text)
        content = text.strip(WHITE)
        record = content.strip(BLANK)
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
    entry = entry_in(record)
    if entry is not None and entry.index != NEW:
        place = "is there already" if entry.index in seen else f"comes after {last}"
        return f"holds entry {entry.index}, which {place}"
    try:
        json.loads(record.decode())
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except RecursionError:
        return "is nested too deep"
    except ValueError:
        return "is not whole JSON"
    return "is no record with an index"


def gaps(entries: Iterable[Entry]) -> Iterator[tuple[int, int]]:
    """The indices below the newest that no entry has, as ranges with both ends included."""
    expected = 0
    for entry in entries:
        if entry.index > expected:
            yield expected, entry.index - 1
        expected = entry.index + 1


# --- what lies in the folder ------------------------------------------------------------------------------

BEFORE_REPAIR = ".before-repair-"
"""Stands in the names of event files that a repair kept as they were."""


@dataclass(frozen=True)
class InspectedSession:
    """A session of ours as it lies on disk; what lies beside its event file is looked at when asked for."""

    events: Path
    scan: Scan
    size: int
    """Bytes of the event file."""
    holder: Holder | None
    """Who writes to it just now."""
    has_note: bool
    """Whether a note says that somebody does."""

    @property
    def folder(self) -> Path:
        return self.events.parent

    @property
    def in_folder(self) -> bool:
        """Whether it has a session folder of its own; a loose file has nothing beside it."""
        return self.events.name == EVENTS

    @property
    def has_meta(self) -> bool:
        return self.in_folder and os.path.lexists(self.folder / META)

    @cached_property
    def meta(self) -> Meta | None:
        """The snapshot for lists, where there is a readable one."""
        try:
            return Meta.model_validate_json(read_regular(self.folder / META)) if self.in_folder else None
        except (OSError, ValidationError):
            return None

    @property
    def has_index(self) -> bool:
        return self.in_folder and (self.folder / INDEX).exists()

    @cached_property
    def index_fault(self) -> str:
        """What opening with the index gets wrong; empty where nothing, or where there is none."""
        if not (self.has_index and self.scan.header):
            return ""
        entries = self.scan.entries
        try:
            opened = Session.open(self.events).entries
        except FoldlineError as error:
            return str(error)
        if list(opened) != entries:
            return "the session opens to other entries than its file holds"
        if opened.outlines != [outline_of(entry) for entry in entries]:
            return "it says other things of entries than the file does, which was changed in its middle"
        return ""

    @cached_property
    def drafts(self) -> tuple[Path, ...]:
        """Files that were never finished."""
        return tuple(drafts_in(self.folder)) if self.in_folder else ()

    @cached_property
    def contents(self) -> dict[Path, bool]:
        """The file contents kept for rewinds, and whether each is what its name says."""
        found = _paths_in(self.folder / CONTENTS) if self.in_folder else []
        return {path: _is_what_it_says(path) for path in found if not is_draft(path.name)}

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of event files as they were before a repair."""
        prefix = self.events.name + BEFORE_REPAIR
        return tuple(path.name for path in _paths_in(self.folder) if path.name.startswith(prefix))

    @cached_property
    def outputs(self) -> frozenset[str]:
        """Names of the whole outputs of which the model got a piece."""
        return frozenset(path.name for path in _paths_in(self.folder / OUTPUTS) if self.in_folder)

    @cached_property
    def open_to_others(self) -> tuple[Path, ...]:
        """What others than its owner may look into: the folder, the event file."""
        if not self.in_folder:
            return ()
        return tuple(path for path in (self.folder, self.events) if path.stat().st_mode & 0o077)

    @property
    def cwd_nearby(self) -> str:
        """Working folder of another session in the same place, as those of one folder lie together; of a
        subagent's, that of its parent."""
        with suppress(OSError):
            for other in (*sorted(self.folder.parent.iterdir()), self.folder.parent.parent):
                with suppress(FoldlineError):
                    if other != self.folder and is_file(other / EVENTS):
                        return read_header(other / EVENTS).cwd
        return ""


def inspect_session(events: Path) -> InspectedSession:
    """The session whose event file this is, or that a link leads to. Raises FoldlineError."""
    with explained(f"{events} cannot be read"):
        data = read_regular(events)
        events = Path(real_path(events))
    has_note = events.name == EVENTS and events.with_name(HOLDER).exists()
    return InspectedSession(events, scan(data), len(data), holder_of(events.parent), has_note)


def drafts_in(folder: Path) -> Iterator[Path]:
    """Files of ours that were begun and never finished."""
    for place in (folder, folder / CONTENTS):
        yield from (path for path in _paths_in(place) if is_draft(path.name) and is_file(path))


def _is_what_it_says(content: Path) -> bool:
    try:
        return content_id(read_regular(content)) == content.name
    except OSError:
        return False


def _paths_in(folder: Path) -> list[Path]:
    """What lies in a folder of a session. None where a link leads to it: that is not the session's."""
    with suppress(OSError):
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    return []


# --- the checks -------------------------------------------------------------------------------------------

Mark = Literal["ok", "warn", "bad"]
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


Findings = Iterator[Finding]


def examine(session: InspectedSession) -> list[Finding]:
    """Every check of a session, in the order they are shown."""
    return [*_file(session), *history_findings(session.scan.entries), *_folder(session), *_subagents(session)]


def _subagents(session: InspectedSession) -> Findings:
    """Whether the session of each subagent is there; what is in it is looked at by itself."""
    marked = {entry.child: None for entry in session.scan.entries if isinstance(entry, Subagent)}
    there = {events.parent.name for events in children_of(session.events)}
    if gone := [child for child in marked if child not in there]:
        yield Finding(
            "warn",
            "subagents",
            f"{many(len(gone), 'session')} of subagents not there: {some(gone)}",
            "what they answered is in this session all the same",
        )
    elif there:
        yield Finding("ok", "subagents", f"{many(len(there), 'session')}, looked at below")


def is_newer(session: InspectedSession) -> bool:
    """Whether a newer version wrote it, whose file is not ours to judge."""
    header = session.scan.header
    return header is not None and header.version > FORMAT_VERSION


def _file(session: InspectedSession) -> Findings:
    scanned, header = session.scan, session.scan.header
    if header is None:
        yield Finding(
            "bad",
            "header",
            "the first line is not that of a session",
            f"{REPAIR}: it is made again from what is known",
        )
    elif is_newer(session):
        yield Finding(
            "bad",
            "header",
            f"written by a newer Foldline (format {header.version}, this one knows {FORMAT_VERSION})",
            "open it with that one",
        )
    else:
        begun = f"{header.created_at.astimezone():%Y-%m-%d %H:%M}"
        yield Finding("ok", "header", f"session {header.id} of {header.cwd}, begun {begun}")
    damaged = scanned.damaged
    size = f"{len(scanned.entries):,} whole, {session.size:,} bytes"
    if damaged:
        faults = tuple(f"line {line.number} {line.fault}" for line in damaged)
        yield Finding(
            "bad",
            "records",
            f"{size}, {len(damaged):,} damaged: {some(faults)}",
            f"{REPAIR}; the file is kept as it is beside it",
            faults,
        )
    else:
        yield Finding("ok", "records", size)
    if session.size and not scanned.ends and not (damaged and damaged[-1] is scanned.lines[-1]):
        yield Finding("ok", "end", "the last line has no line end: the next append gives it one")
    missing = tuple(str(a) if a == b else f"{a}–{b}" for a, b in gaps(scanned.entries))
    if missing:
        yield Finding("ok", "indices", f"no entry has {some(missing)}: nothing is moved by that", "", missing)


def history_findings(entries: Sequence[Entry]) -> Findings:
    """The checks of a history, whoever wrote it."""
    projection = project(entries)
    unknown = Counter(entry.type for entry in entries if isinstance(entry, Unknown))
    if unknown:
        kinds = tuple(f"{count} {kind}" for kind, count in unknown.items())
        yield Finding("ok", "types", f"not known here, kept as they are: {some(kinds)}", "", kinds)
    open_calls = _open_calls(entries)
    if open_calls:
        yield Finding(
            "ok",
            "calls",
            f"{many(len(open_calls), 'call')} without a result: the model sees that they were interrupted",
            "",
            tuple(open_calls),
        )
    yield _checked("references", dangling(projection), "all lead somewhere", "warn")
    in_force = many(len(projection.compactions()), "compaction")
    yield _checked(
        "view", broken(projection), f"valid: {many(len(projection.view), 'item')}, {in_force} in force", "bad"
    )
    sent = recorded_requests(entries)
    if sent:
        failures = [str(failure) for failure in unproved(entries)]
        proved = f"{len(sent) - len(failures):,} of {many(len(sent), 'request')} proved"
        yield _checked("requests", failures, proved, "warn", before=f"{proved}; ")


def _checked(name: str, faults: Sequence[str], fine: str, mark: Mark, before: str = "") -> Finding:
    if not faults:
        return Finding("ok", name, fine)
    advice = "what is missing cannot be brought back" if mark == "warn" else "please report it"
    return Finding(mark, name, before + some(faults), advice, tuple(faults))


def _open_calls(entries: Iterable[Entry]) -> list[str]:
    calls: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, AssistantMessage):
            calls |= {call.call_id: f"{call.name} in entry {entry.index}" for call in entry.calls}
        elif isinstance(entry, ToolResultMessage):
            calls.pop(entry.call_id, None)
    return list(calls.values())


def _folder(session: InspectedSession) -> Findings:
    if session.holder is not None:
        yield Finding("warn", "writer", f"{session.holder} writes to it now", "nothing is repaired now")
    elif session.has_note:
        yield Finding("warn", "writer", "a note says that somebody writes to it, and nobody does", REPAIR)
    else:
        yield Finding("ok", "writer", "nobody writes to it")
    if session.kept:
        yield Finding("ok", "kept", f"as it was before a repair, yours to delete: {some(session.kept)}")
    if not session.in_folder:
        return
    yield snapshot(session)
    if session.has_index:
        fault = session.index_fault
        yield (Finding("bad", INDEX, fault, REPAIR) if fault else Finding("ok", INDEX, "says what is there"))
    yield from _kept_contents(session)
    outputs = (e.details.full_output for e in session.scan.entries if isinstance(e, ToolResultMessage))
    named = (PurePath(output).name for output in outputs if output)
    gone = tuple(name for name in named if name not in session.outputs)
    if gone:
        yield Finding(
            "warn",
            "outputs",
            f"{many(len(gone), 'whole output')} no longer there: {some(gone)}",
            "what the model saw of them is in the history",
            gone,
        )
    if session.drafts:
        names = tuple(path.name for path in session.drafts)
        yield Finding("warn", "left over", f"never finished: {some(names)}", REPAIR, names)
    if session.open_to_others:
        names = tuple(f"{path.name} ({path.stat().st_mode & 0o777:o})" for path in session.open_to_others)
        yield Finding("warn", "modes", f"others may look into {some(names)}", REPAIR, names)


def snapshot(session: InspectedSession) -> Finding:
    """Whether `meta.json` is of use."""
    meta, header = session.meta, session.scan.header
    if not session.has_meta:
        return Finding("ok", "meta.json", "not there: lists read the history")
    if meta is None:
        return Finding("warn", "meta.json", "cannot be read: lists read the history", REPAIR)
    if meta.size != session.size:
        return Finding("warn", "meta.json", "describes an earlier state: lists read the history", REPAIR)
    if header is not None:
        fresh = describe(header, session.scan.entries, session.size)
        for name in ("id", "cwd", "title", "first_prompt", "last_prompt", "model", "entries", "tokens"):
            if getattr(fresh, name) != getattr(meta, name):
                return Finding("bad", "meta.json", f"lists show a wrong {name}", REPAIR)
    return Finding("ok", "meta.json", "says what the history says")


def _kept_contents(session: InspectedSession) -> Findings:
    """What was kept so that files can be put back."""
    wrong = tuple(path.name for path, right in session.contents.items() if not right)
    images = [image for e in session.scan.entries if isinstance(e, Checkpoint) for image in e.files]
    changes = [image for image in images if image.before != image.after]
    needed = {name for image in changes for name in (image.before, image.after) if name is not None}
    if not (needed or wrong):
        return
    gone = tuple(sorted(needed - {path.name for path, right in session.contents.items() if right}))
    if gone or wrong:
        found = f"{len(gone):,} of {many(len(needed), 'file content')} kept for rewinds not there"
        found += f", {len(wrong):,} not what their names say" if wrong else ""
        yield Finding("warn", "contents", found, "a rewind lists the files it leaves alone", (*gone, *wrong))
    else:
        yield Finding("ok", "contents", f"{many(len(needed), 'file content')} kept for rewinds")
