"""Repairing a session of ours: what would be done, and doing it, all or nothing, without losing a byte.

The event file is replaced in one step by one with its whole records, byte for byte, in their order; as it
was, it stays beside it. What can be made again is thrown away or made again. Indices stay as they are.
"""

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from foldline.context.numbers import many
from foldline.files import put_private, read_regular, write_new
from foldline.history.archive import PARENT, Parent
from foldline.protocol import NEW, FoldlineError, NoticeRecord, SessionHeader, dump_entry, system_words

from .doctor import BEFORE_REPAIR, InspectedSession, Scan, inspect_session, is_newer, snapshot
from .lock import WriterLock
from .log import dump_header
from .paths import HOLDER, INDEX, new_session_id
from .session import Session

_SAID = {name: re.compile(rf'"{name}":("(?:[^"\\]|\\.)*")'.encode()) for name in ("id", "created_at", "cwd")}
"""Fields of a header, readable although the rest of it is torn."""
_BEGUN = re.compile(r"(\d{8}-\d{6})-\w+")
"""An id of ours, which says when the session was begun."""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair does. Empty where there is nothing to repair."""

    events: Path
    content: bytes | None = None
    """Of the new event file; None where it stays as it is."""
    kept: str = ""
    """The name under which the event file stays as it was."""
    throw_away: tuple[Path, ...] = ()
    renew_meta: bool = False
    close_to_others: tuple[Path, ...] = ()
    steps: tuple[str, ...] = ()
    """All of it in sentences without an end stop, as done."""

    def __bool__(self) -> bool:
        return bool(self.steps)


def repair_plan(patient: InspectedSession, now: datetime) -> RepairPlan:
    """What is to be done for this session. Pure. Raises FoldlineError where it must be left as it is."""
    if is_newer(patient):
        raise FoldlineError(f"{patient.events} was written by a newer Foldline: it was left as it is.")
    steps: list[str] = []
    content, kept = None, ""
    left_out = [line for line in patient.scan.lines if line.entry is None]
    header = patient.scan.header
    if header is None or patient.scan.damaged:
        kept = f"{patient.events.name}{BEFORE_REPAIR}{now:%Y%m%d-%H%M%S}"
        made = header or rebuilt_header(patient, now)
        if header is None:
            steps.append(f"the header made again: session {made.id} of {made.cwd}")
        if left_out:
            steps.append(f"{many(len(left_out), 'damaged record')} left out ({_lines(patient.scan)})")
        if len(left_out) < len(patient.scan.damaged):
            steps.append("NULs around whole records taken away")
        steps.append(f"the file as it was kept as {kept}")
        content = _content(patient.scan, made, bool(left_out), kept, now)
    stale = _stale(patient, content is not None)
    steps += [
        f"{path.name} thrown away{': it will be made again' if path.name == INDEX else ''}" for path in stale
    ]
    renew = patient.in_folder and _meta_is_stale(patient, content is not None)
    steps += ["meta.json made again"] if renew else []
    steps += [f"{path.name}: for its owner only" for path in patient.open_to_others]
    return RepairPlan(
        events=patient.events,
        content=content,
        kept=kept,
        throw_away=tuple(stale),
        renew_meta=renew,
        close_to_others=patient.open_to_others,
        steps=tuple(steps),
    )


def repair(events: Path, now: datetime) -> RepairPlan:
    """Repair the session whose event file this is, as its one writer; gives what was done. Raises
    FoldlineError; the event file is the old one or the new one then."""
    first = inspect_session(events)
    events = first.events
    lock = WriterLock(events.parent)
    try:
        lock.acquire()
        # The note of who holds it is ours by now; what the one before said goes with it.
        left_note = first.has_note and first.holder is None
        done = repair_plan(replace(inspect_session(events), holder=None, has_note=left_note), now)
        _carry_out(done)
    except OSError as error:
        why = system_words(error)
        raise FoldlineError(f"{events} could not be repaired: {why}.") from None
    finally:
        lock.release()
    return done


def tidy_up(events: Path, now: datetime) -> tuple[str, ...]:
    """Take away what a process that died left behind, and close the folder to others; what was done. Raises
    FoldlineError."""
    patient = inspect_session(events)
    if patient.holder is not None:
        return ()
    lock = WriterLock(events.parent)
    drafts = RepairPlan(events, throw_away=patient.drafts, close_to_others=patient.open_to_others)
    steps = [f"{path.name} thrown away" for path in patient.drafts]
    steps += [f"{path.name}: for its owner only" for path in patient.open_to_others]
    steps += [f"{HOLDER} thrown away"] if patient.has_note else []
    if not steps:
        return ()
    try:
        lock.acquire()
        _carry_out(drafts)
    except OSError as error:
        why = system_words(error)
        raise FoldlineError(f"{events.parent} could not be tidied up: {why}.") from None
    finally:
        lock.release()
    return tuple(steps)


def _carry_out(done: RepairPlan) -> None:
    if done.content is not None:
        _replace(done.events, done.content, done.events.with_name(done.kept))
    for path in done.throw_away:
        path.unlink(missing_ok=True)
    for path in done.close_to_others:
        path.chmod(0o700 if path.is_dir() else 0o600)
    if done.renew_meta:
        Session.open(done.events).save_meta()


def _replace(events: Path, content: bytes, kept: Path) -> None:
    """Put `content` in the place of the event file in one step; as it was, it is `kept` before that."""
    _keep(events, kept)
    try:
        put_private(events, content, durable=True)
    except BaseException:
        with suppress(OSError):
            kept.unlink()
        raise
    _sync_folder(events.parent)


def _keep(events: Path, kept: Path) -> None:
    """Another name for the file as it is, or a copy; never in the place of something else."""
    try:
        os.link(events, kept)
    except FileExistsError:
        raise
    except OSError:
        write_new(kept, read_regular(events))


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# --- what is to be done ---------------------------------------------------------------------------------


def _content(scan: Scan, header: SessionHeader, lossy: bool, kept: str, now: datetime) -> bytes:
    first = scan.first.strip(b"\0 \t\r") if scan.header else dump_header(header)
    records = [line.record for line in scan.lines if line.entry is not None]
    if lossy:
        # Its index is above all that were ever used: what was lost is not used again.
        text = f"Repaired by `foldline doctor`: what was damaged is left out, and kept in {kept}."
        records.append(dump_entry(NoticeRecord(index=scan.taken + 1, at=now, text=text)))
    return b"".join(line + b"\n" for line in (first, *records))


def _stale(patient: InspectedSession, rewritten: bool) -> list[Path]:
    folder = patient.folder
    stale = list(patient.drafts)
    if patient.has_note and patient.holder is None:
        stale.append(folder / HOLDER)
    if patient.has_index and (rewritten or patient.index_fault):
        stale.append(folder / INDEX)
    return stale


def _meta_is_stale(patient: InspectedSession, rewritten: bool) -> bool:
    return patient.has_meta and (rewritten or snapshot(patient).mark != "ok")


def _lines(scan: Scan) -> str:
    numbers = [str(line.number) for line in scan.lines if line.entry is None]
    shown = ", ".join(numbers[:6]) + (", …" if len(numbers) > 6 else "")
    return f"line{'' if len(numbers) == 1 else 's'} {shown}"


# --- a lost header ----------------------------------------------------------------------------------------


def rebuilt_header(patient: InspectedSession, now: datetime) -> SessionHeader:
    """The header of a session that lost it, from its remains, the snapshot, the folder, the records."""
    meta, left = patient.meta, _left_of(patient.scan.first)
    folder_id = patient.folder.name if patient.in_folder else ""
    session_id = folder_id or left.get("id") or new_session_id(now)
    begun = next((entry.at for entry in patient.scan.entries if entry.at), None)
    created = _moment(left.get("created_at")) or (meta.created_at if meta else None)
    cwd = left.get("cwd") or (meta.cwd if meta else "") or patient.cwd_nearby
    # Whether it was imported is lost, too: what it holds so far grants nothing.
    parent = Parent(id=session_id, index=NEW, foreign=patient.scan.taken)
    return SessionHeader.model_validate(
        {
            "id": session_id,
            "created_at": created or _begun(session_id) or begun or now,
            "cwd": cwd or str(Path.home()),
            PARENT: parent.model_dump(),
        }
    )


def _left_of(line: bytes) -> dict[str, str]:
    found = {name: pattern.search(line) for name, pattern in _SAID.items()}
    said: dict[str, str] = {}
    for name, match in found.items():
        with suppress(ValueError):
            if match and line.startswith(b'{"type":"session"'):
                said[name] = json.loads(match[1])
    return said


def _moment(text: str | None) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text) if text else None
    return None


def _begun(session_id: str) -> datetime | None:
    match = _BEGUN.fullmatch(session_id)
    with suppress(ValueError):
        return datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC) if match else None
    return None
