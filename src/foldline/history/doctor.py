"""Checks a session for `foldline doctor`.

The checks cover the lines of its log, its history, and its folder.
"""

import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Literal

from pydantic import ValidationError

from foldline.data import EVENTS, real_path
from foldline.files import is_draft, is_file, read_regular
from foldline.past.proof import recorded_requests, unproved
from foldline.protocol import (
    NEW,
    Checkpoint,
    Entry,
    FoldlineError,
    SessionHeader,
    Subagent,
    ToolResultMessage,
)
from foldline.text.numbers import many, some
from foldline.view.outline import outline_of
from foldline.view.projection import project
from foldline.view.rules import broken, dangling

from .catalog import read_header
from .children import children_of
from .contents import CONTENTS, OUTPUTS, content_id
from .lock import Holder, holder_of
from .log import (
    BLANK,
    FORMAT_VERSION,
    WHITE,
    LineReader,
    Progress,
    entry_in,
    our_header,
)
from .meta import Meta, describe
from .paths import HOLDER, INDEX, META, explained
from .session import Session

AMONG_NULS = "is surrounded by NUL bytes"
ONLY_NULS = "contains only NUL bytes ({count:,})"
CUT_OFF = "is incomplete"
REPEATED = "repeats entry {index}"
OUT_OF_ORDER = "contains entry {index} after entry {last}"
NOT_UTF8 = "is not UTF-8 text"
TOO_DEEP = "is nested too deeply"
NOT_JSON = "is not valid JSON"
NO_INDEX = "is not a record with an index"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an event file.

    The header and blank lines are not included.
    """

    number: int
    """Line number, counted from 1."""
    record: bytes
    """Content of the line, without surrounding NUL bytes and white space."""
    entry: Entry | None
    """Parsed record, if it is undamaged and in order."""
    fault: str = ""
    """Fault, as the predicate of a sentence: "line 3 …".

    Also set for an intact record that is surrounded by NUL bytes.
    """


@dataclass(frozen=True, slots=True)
class Scan:
    """The lines of an event file, including damaged ones."""

    header: SessionHeader | None
    """Parsed header.

    None if the first line is not a Foldline header.
    """
    first: bytes
    """First line without its line end."""
    lines: tuple[Line, ...]
    taken: int
    """Highest index in use, including those of lost records.

    -1 if there is none.
    """

    @property
    def entries(self) -> list[Entry]:
        return [line.entry for line in self.lines if line.entry is not None]

    @property
    def damaged(self) -> list[Line]:
        return [line for line in self.lines if line.fault]


def scan(data: bytes) -> Scan:
    """Scan the content of an event file."""
    file = io.BytesIO(data)
    first_line = file.readline()
    header = our_header(first_line)
    if header is None and entry_in(first_line.strip(BLANK)):
        file.seek(0)  # the header is lost, and the first line is an entry
    start = Progress(upto=file.tell(), lines=1 if file.tell() else 0)
    reader = LineReader(start)
    lines = tuple(_lines(file, start.lines + 1, reader))
    return Scan(
        header=header,
        first=first_line.rstrip(b"\n"),
        lines=lines,
        taken=reader.progress.taken,
    )


def _lines(
    file: Iterable[bytes], first_number: int, reader: LineReader
) -> Iterator[Line]:
    last = NEW
    indices = set[int]()
    for number, text in enumerate(file, start=first_number):
        located = reader.take(text)
        content = text.strip(WHITE)
        record = content.strip(BLANK)
        if located is not None:
            last = located.entry.index
            indices.add(last)
            fault = AMONG_NULS if len(record) < len(content) else ""
            yield Line(number, record, located.entry, fault)
        elif record:
            is_whole = text.endswith(b"\n")
            fault = _fault(record, last, indices) if is_whole else CUT_OFF
            yield Line(number, record, None, fault)
        elif content:
            yield Line(number, record, None, ONLY_NULS.format(count=len(content)))


def _fault(record: bytes, last: int, indices: set[int]) -> str:
    """Describe a record's fault.

    Args:
        last: index of the previous entry.
        indices: indices of all previous entries.
    """
    entry = entry_in(record)
    if entry is not None and entry.index != NEW:
        if entry.index in indices:
            return REPEATED.format(index=entry.index)
        return OUT_OF_ORDER.format(index=entry.index, last=last)
    try:
        json.loads(record.decode())
    except UnicodeDecodeError:
        return NOT_UTF8
    except RecursionError:
        return TOO_DEEP
    except ValueError:
        return NOT_JSON
    return NO_INDEX


# --- the folder -------------------------------------------------------------------------------------------

BEFORE_REPAIR = ".before-repair-"
"""Part of the names of original event files that repairs have kept."""


@dataclass(frozen=True)
class InspectedSession:
    """A session on disk.

    Files next to the session's log are read only when they are accessed.
    """

    events: Path
    scan: Scan
    size: int
    """Size of the event file, in bytes."""
    holder: Holder | None
    """Process that is writing to the session now, if any."""
    has_note: bool
    """Whether there is a note that names a lock holder. The note may be outdated."""

    @property
    def folder(self) -> Path:
        return self.events.parent

    @property
    def in_folder(self) -> bool:
        """Whether the event file is in a session folder.

        If not, the files next to it are unrelated to the session.
        """
        return self.events.name == EVENTS

    @property
    def has_meta(self) -> bool:
        return self.in_folder and os.path.lexists(self.folder / META)

    @cached_property
    def meta(self) -> Meta | None:
        """The snapshot for lists, if there is a readable one."""
        if not self.in_folder:
            return None
        try:
            return Meta.model_validate_json(read_regular(self.folder / META))
        except (OSError, ValidationError):
            return None

    @property
    def has_index(self) -> bool:
        return self.in_folder and (self.folder / INDEX).exists()

    @cached_property
    def index_fault(self) -> str:
        """A fault in the outline cache.

        Empty if there is no fault or no cache.
        """
        if not (self.has_index and self.scan.header):
            return ""
        entries = self.scan.entries
        try:
            opened_entries = Session.open(self.events).entries
        except FoldlineError as error:
            return str(error)
        if list(opened_entries) != entries:
            return "its entries differ from the log"
        if opened_entries.outlines != [outline_of(entry) for entry in entries]:
            return OTHER_OUTLINES
        return ""

    @cached_property
    def drafts(self) -> tuple[Path, ...]:
        """Unfinished files that were left behind by crashed processes."""
        return tuple(drafts_in(self.folder)) if self.in_folder else ()

    @cached_property
    def contents(self) -> dict[Path, bool]:
        """File contents kept for rewinds.

        For each file, states whether it is intact.
        """
        paths = _paths_in(self.folder / CONTENTS) if self.in_folder else []
        return {
            path: _has_its_digest(path) for path in paths if not is_draft(path.name)
        }

    @property
    def originals(self) -> tuple[str, ...]:
        """Names of original event files that repairs have kept."""
        prefix = self.events.name + BEFORE_REPAIR
        names = [path.name for path in _paths_in(self.folder)]
        return tuple(name for name in names if name.startswith(prefix))

    @cached_property
    def open_to_others(self) -> tuple[Path, ...]:
        """The session's folder and event file, if other users can read them."""
        if not self.in_folder:
            return ()
        paths = (self.folder, self.events)
        return tuple(path for path in paths if path.stat().st_mode & 0o077)

    @property
    def cwd_nearby(self) -> str:
        """The working folder of a sibling or parent session.

        It serves as a guess for this session.
        """
        siblings: list[Path] = []
        with suppress(OSError):
            siblings = sorted(self.folder.parent.iterdir())
        for other in (*siblings, self.folder.parent.parent):
            if other == self.folder or not is_file(other / EVENTS):
                continue
            with suppress(FoldlineError):
                return read_header(other / EVENTS).cwd
        return ""


def inspect_session(events: Path) -> InspectedSession:
    """Inspect the session with this event file, following links.

    Raises:
        FoldlineError: the file cannot be read.
    """
    with explained(f"{events} cannot be read"):
        data = read_regular(events)
        events = Path(real_path(events))
    has_note = events.name == EVENTS and events.with_name(HOLDER).exists()
    return InspectedSession(
        events=events,
        scan=scan(data),
        size=len(data),
        holder=holder_of(events.parent),
        has_note=has_note,
    )


def drafts_in(folder: Path) -> Iterator[Path]:
    """Yield the unfinished files in a session's folder."""
    for parent in (folder, folder / CONTENTS):
        for path in _paths_in(parent):
            if is_draft(path.name) and is_file(path):
                yield path


def _has_its_digest(content: Path) -> bool:
    try:
        return content_id(read_regular(content)) == content.name
    except OSError:
        return False


def _paths_in(folder: Path) -> list[Path]:
    """List the files in one of a session's folders.

    A link is treated as an empty folder, because its target is not part of the session.
    """
    with suppress(OSError):
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    return []


# --- the checks -------------------------------------------------------------------------------------------

Mark = Literal["ok", "warn", "bad"]
REPAIR = "`--repair` fixes this"
"""Advice for faults that a repair can fix."""
OTHER_OUTLINES = "does not match the log, which was changed in the middle"
SUBAGENTS_MISSING = "{sessions} missing: {names}"
NO_HEADER = "the first line is not a session header"
HEADER_REPAIR = f"{REPAIR}: the header is rebuilt from the remaining data"
NEWER_HEADER = "written by a newer version of Foldline (format {version}; this version supports {known})"
USE_NEWER = "open it with the newer version"
RECORDS_REPAIR = f"{REPAIR} and keeps a copy of the original file"
REPAIR_LATER = "it can be repaired once this process has finished"
ORIGINALS_KEPT = "from before a repair, which you can delete: {names}"
OUTPUTS_SHORTENED = "the history contains the parts that the model received"
CONTENTS_MISSING = "{missing:,} of {contents} for rewinds missing"
CONTENTS_ADVICE = "a rewind lists the files that it cannot restore"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    mark: Mark
    name: str
    """Subject of the check, named in one or two words."""
    found: str
    """Result, as a phrase without a full stop."""
    advice: str = ""
    """Advice for the user, if any."""
    details: tuple[str, ...] = ()
    """All items that are counted in `found`."""


Findings = Iterator[Finding]


def examine(session: InspectedSession) -> list[Finding]:
    """Run all checks of a session, and return the results in display order."""
    checks = (
        _log_findings(session),
        history_findings(session.scan.entries),
        _folder_findings(session),
        _subagent_findings(session),
    )
    return [finding for findings in checks for finding in findings]


def _subagent_findings(session: InspectedSession) -> Findings:
    """Check that each subagent's session exists.

    The subagents' sessions themselves are examined separately.
    """
    existing = {events.parent.name for events in children_of(session.events)}
    recorded = [
        entry.child for entry in session.scan.entries if isinstance(entry, Subagent)
    ]
    missing = [child for child in recorded if child not in existing]
    if missing:
        yield Finding(
            "warn",
            "subagents",
            SUBAGENTS_MISSING.format(
                sessions=many(len(missing), "session"), names=some(missing)
            ),
            "their answers are in this session",
        )
    elif existing:
        sessions = many(len(existing), "session")
        yield Finding("ok", "subagents", f"{sessions}, checked below")


def is_newer(session: InspectedSession) -> bool:
    """Return whether a newer version of Foldline wrote the session.

    Such a session cannot be checked.
    """
    header = session.scan.header
    return header is not None and header.version > FORMAT_VERSION


def _log_findings(session: InspectedSession) -> Findings:
    scanned = session.scan
    header = scanned.header
    if header is None:
        yield Finding("bad", "header", NO_HEADER, HEADER_REPAIR)
    elif is_newer(session):
        yield Finding(
            "bad",
            "header",
            NEWER_HEADER.format(version=header.version, known=FORMAT_VERSION),
            USE_NEWER,
        )
    else:
        created = f"{header.created_at.astimezone():%Y-%m-%d %H:%M}"
        yield Finding(
            "ok",
            "header",
            f"session {header.id} in {header.cwd}, created {created}",
        )
    damaged = scanned.damaged
    intact = f"{len(scanned.entries):,} intact, {session.size:,} bytes"
    if damaged:
        faults = tuple(f"line {line.number} {line.fault}" for line in damaged)
        yield Finding(
            "bad",
            "records",
            f"{intact}, {len(damaged):,} damaged: {some(faults)}",
            RECORDS_REPAIR,
            faults,
        )
    else:
        yield Finding("ok", "records", intact)


def history_findings(entries: Sequence[Entry]) -> Findings:
    """Run the checks of a history, which may be another agent's."""
    projection = project(entries)
    yield _checked("references", dangling(projection), "all resolve", "warn")
    items = many(len(projection.view), "item")
    compactions = many(len(projection.compactions()), "compaction")
    valid = f"valid: {items}, {compactions} in effect"
    yield _checked("view", broken(projection), valid, "bad")
    sent = recorded_requests(entries)
    if sent:
        failures = [str(failure) for failure in unproved(entries)]
        proved_count = len(sent) - len(failures)
        requests = many(len(sent), "request")
        proved = f"{proved_count:,} of {requests} proved"
        yield _checked("requests", failures, proved, "warn", before=f"{proved}; ")


def _checked(
    name: str, faults: Sequence[str], fine: str, mark: Mark, before: str = ""
) -> Finding:
    if not faults:
        return Finding("ok", name, fine)
    advice = (
        "the missing data cannot be restored"
        if mark == "warn"
        else "please report this"
    )
    return Finding(mark, name, before + some(faults), advice, tuple(faults))


def _folder_findings(session: InspectedSession) -> Findings:
    if session.holder is not None:
        held = f"{session.holder} is writing to the session"
        yield Finding("warn", "writer", held, REPAIR_LATER)
    elif session.has_note:
        yield Finding("warn", "writer", "the writer's note is outdated", REPAIR)
    else:
        yield Finding("ok", "writer", "no process is writing to the session")
    if session.originals:
        originals = ORIGINALS_KEPT.format(names=some(session.originals))
        yield Finding("ok", "kept", originals)
    if not session.in_folder:
        return
    yield snapshot(session)
    if session.has_index:
        fault = session.index_fault
        if fault:
            yield Finding("bad", INDEX, fault, REPAIR)
        else:
            yield Finding("ok", INDEX, "matches the log")
    yield from _kept_contents(session)
    results = [
        entry for entry in session.scan.entries if isinstance(entry, ToolResultMessage)
    ]
    outputs = [result.details.full_output for result in results]
    names = [PurePath(output).name for output in outputs if output]
    kept = {path.name for path in _paths_in(session.folder / OUTPUTS)}
    missing = tuple(name for name in names if name not in kept)
    if missing:
        yield Finding(
            "warn",
            "outputs",
            f"{many(len(missing), 'complete output')} missing: {some(missing)}",
            OUTPUTS_SHORTENED,
            missing,
        )
    if session.drafts:
        drafts = tuple(path.name for path in session.drafts)
        yield Finding(
            "warn", "left over", f"unfinished: {some(drafts)}", REPAIR, drafts
        )
    if session.open_to_others:
        open_names = tuple(path.name for path in session.open_to_others)
        yield Finding(
            "warn",
            "modes",
            f"other users can read {some(open_names)}",
            REPAIR,
            open_names,
        )


def snapshot(session: InspectedSession) -> Finding:
    """Check the snapshot used in lists."""
    meta, header = session.meta, session.scan.header
    if not session.has_meta:
        return Finding("ok", META, "missing: lists read the log instead")
    if meta is None:
        return Finding("warn", META, "unreadable: lists read the log instead", REPAIR)
    if meta.size != session.size:
        return Finding("warn", META, "outdated: lists read the log instead", REPAIR)
    if header is not None:
        expected = describe(header, session.scan.entries, session.size)
        for name in _LISTED:
            if getattr(expected, name) != getattr(meta, name):
                wrong = f"lists show a wrong {name}"
                return Finding("bad", META, wrong, REPAIR)
    return Finding("ok", META, "matches the history")


_LISTED = (
    "id", "cwd", "title", "first_prompt", "last_prompt", "model", "entries", "tokens",
)  # fmt: skip
"""Snapshot fields that are shown in lists."""


def _kept_contents(session: InspectedSession) -> Findings:
    """Check the file contents kept for rewinds."""
    all_names = {path.name for path in session.contents}
    stored = {path.name for path, is_intact in session.contents.items() if is_intact}
    damaged = tuple(sorted(all_names - stored))
    checkpoints = [
        entry for entry in session.scan.entries if isinstance(entry, Checkpoint)
    ]
    images = [image for checkpoint in checkpoints for image in checkpoint.files]
    changes = [image for image in images if image.before != image.after]
    names = {name for image in changes for name in (image.before, image.after)}
    needed = {name for name in names if name is not None}
    if not needed and not damaged:
        return
    count = many(len(needed), "file content")
    missing = tuple(sorted(needed - stored))
    if missing or damaged:
        problem = CONTENTS_MISSING.format(missing=len(missing), contents=count)
        if damaged:
            problem += f", {len(damaged):,} damaged"
        details = (*missing, *damaged)
        yield Finding("warn", "contents", problem, CONTENTS_ADVICE, details)
    else:
        yield Finding("ok", "contents", f"{count} for rewinds")
