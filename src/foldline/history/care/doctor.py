"""What `foldline doctor` finds in a session of ours: pure checks over what was read of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from foldline.context.invariants import broken, dangling
from foldline.context.numbers import many
from foldline.context.projection import Projection, project
from foldline.context.proof import requests, unproved
from foldline.protocol import AssistantMessage, Checkpoint, Entry, ToolResultMessage, Unknown

from ..log import FORMAT_VERSION
from ..meta import describe
from ..paths import INDEX
from .patient import Patient
from .scan import gaps

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


def examine(patient: Patient) -> list[Finding]:
    """Every check of a session, in the order they are told."""
    return [*_file(patient), *history_findings(patient.scan.entries), *_folder(patient)]


def is_newer(patient: Patient) -> bool:
    """Whether a newer version wrote it, whose file is not ours to judge."""
    header = patient.scan.header
    return header is not None and header.version > FORMAT_VERSION


# --- the file -----------------------------------------------------------------------------------------


def _file(patient: Patient) -> Iterator[Finding]:
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
    sent = requests(entries)
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


def _folder(patient: Patient) -> Iterator[Finding]:
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


def snapshot(patient: Patient) -> Finding:
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


def _differs(patient: Patient) -> str:
    """What of the snapshot is not what the history says."""
    scan, meta = patient.scan, patient.meta
    assert scan.header is not None
    assert meta is not None
    fresh = describe(scan.header, scan.entries, patient.size)
    names = ("id", "cwd", "title", "first_prompt", "last_prompt", "model", "entries", "tokens")
    return next((name for name in names if getattr(fresh, name) != getattr(meta, name)), "")


def _kept_contents(patient: Patient) -> Iterator[Finding]:
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


def _missing_outputs(patient: Patient) -> Iterator[str]:
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
