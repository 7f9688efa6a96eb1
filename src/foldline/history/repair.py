"""Repairing a session of ours: what would be done, and doing it, all or nothing, without losing a byte.

The event file is replaced in one step by one with its whole records, byte for byte, in their order; as it
was, it stays beside it. What can be made again is thrown away or made again. Indices stay as they are.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from foldline.context.numbers import many
from foldline.files import put_private, read_regular, write_new
from foldline.protocol import NEW, FoldlineError, NoticeRecord, SessionHeader, dump_entry

from .children import CHILDREN
from .doctor import BEFORE_REPAIR, InspectedSession, Scan, inspect_session, is_newer, snapshot
from .lock import WriterLock
from .log import dump_header
from .origin import PARENT, SPAWNED, Parent, Spawned
from .paths import HOLDER, INDEX, explained, new_session_id
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


def repair_plan(session: InspectedSession, now: datetime) -> RepairPlan:
    """What is to be done for this session. Raises FoldlineError where it must be left as it is."""
    if is_newer(session):
        raise FoldlineError(f"{session.events} was written by a newer Foldline: it was left as it is.")
    steps: list[str] = []
    content, kept = None, ""
    scan, header = session.scan, session.scan.header
    left_out = [line for line in scan.lines if line.entry is None]
    if header is None or scan.damaged:
        kept = f"{session.events.name}{BEFORE_REPAIR}{now:%Y%m%d-%H%M%S}"
        made = header or rebuilt_header(session, now)
        if header is None:
            steps.append(f"the header made again: session {made.id} of {made.cwd}")
        if left_out:
            numbers = [str(line.number) for line in left_out]
            shown = ", ".join(numbers[:6]) + (", …" if len(numbers) > 6 else "")
            lines = f"line{'' if len(numbers) == 1 else 's'} {shown}"
            steps.append(f"{many(len(left_out), 'damaged record')} left out ({lines})")
        if len(left_out) < len(scan.damaged):
            steps.append("NULs around whole records taken away")
        steps.append(f"the file as it was kept as {kept}")
        content = _content(scan, made, bool(left_out), kept, now)
    rewritten = content is not None
    stale = list(session.drafts)
    stale += [session.folder / HOLDER] if session.has_note and session.holder is None else []
    stale += [session.folder / INDEX] if session.has_index and (rewritten or session.index_fault) else []
    renew = session.has_meta and (rewritten or snapshot(session).mark != "ok")
    steps += [
        f"{path.name} thrown away{': it will be made again' if path.name == INDEX else ''}" for path in stale
    ]
    steps += ["meta.json made again"] if renew else []
    steps += [f"{path.name}: for its owner only" for path in session.open_to_others]
    return RepairPlan(
        session.events, content, kept, tuple(stale), renew, session.open_to_others, tuple(steps)
    )


def repair(events: Path, now: datetime) -> RepairPlan:
    """Repair the session whose event file this is, as its one writer; gives what was done. Raises
    FoldlineError; the event file is the old one or the new one then."""
    first = inspect_session(events)
    with _held(first.events, f"{first.events} could not be repaired"):
        # The note of who holds it is ours by now; what the one before said goes with it.
        left_note = first.has_note and first.holder is None
        done = repair_plan(replace(inspect_session(first.events), holder=None, has_note=left_note), now)
        _carry_out(done)
    return done


def tidy_up(events: Path, now: datetime) -> tuple[str, ...]:
    """Take away what a process that died left behind, and close the folder to others; what was done. Raises
    FoldlineError."""
    session = inspect_session(events)
    plan = RepairPlan(events, throw_away=session.drafts, close_to_others=session.open_to_others)
    steps = [f"{path.name} thrown away" for path in session.drafts]
    steps += [f"{path.name}: for its owner only" for path in session.open_to_others]
    steps += [f"{HOLDER} thrown away"] if session.has_note else []
    if session.holder is not None or not steps:
        return ()
    with _held(events, f"{events.parent} could not be tidied up"):
        _carry_out(plan)
    return tuple(steps)


@contextmanager
def _held(events: Path, failed: str) -> Iterator[None]:
    """As the one writer of this session; `failed` begins the sentence where the disk refuses."""
    lock = WriterLock(events.parent)
    try:
        with explained(failed):
            lock.acquire()
            yield
    finally:
        lock.release()


def _carry_out(plan: RepairPlan) -> None:
    if plan.content is not None:
        _replace(plan.events, plan.content, plan.events.with_name(plan.kept))
    for path in plan.throw_away:
        path.unlink(missing_ok=True)
    for path in plan.close_to_others:
        path.chmod(0o700 if path.is_dir() else 0o600)
    if plan.renew_meta:
        Session.open(plan.events).save_meta()


def _replace(events: Path, content: bytes, kept: Path) -> None:
    """Put `content` in the place of the event file in one step; as it was, it is `kept` before that: by
    another name, or as a copy where there are no second names. Never in the place of something else."""
    try:
        os.link(events, kept)
    except FileExistsError:
        raise
    except OSError:
        write_new(kept, read_regular(events))
    try:
        put_private(events, content, durable=True)
    except BaseException:
        with suppress(OSError):
            kept.unlink()
        raise
    with suppress(OSError):
        descriptor = os.open(events.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _content(scan: Scan, header: SessionHeader, lossy: bool, kept: str, now: datetime) -> bytes:
    first = scan.first.strip(b"\0 \t\r") if scan.header else dump_header(header)
    records = [line.record for line in scan.lines if line.entry is not None]
    if lossy:
        # Its index is above all that were ever used: what was lost is not used again.
        text = f"Repaired by `foldline doctor`: what was damaged is left out, and kept in {kept}."
        records.append(dump_entry(NoticeRecord(index=scan.taken + 1, at=now, text=text)))
    return b"".join(line + b"\n" for line in (first, *records))


# --- a lost header ----------------------------------------------------------------------------------------


def rebuilt_header(session: InspectedSession, now: datetime) -> SessionHeader:
    """The header of a session that lost it, from its remains, the snapshot, the folder, the records."""
    meta, left = session.meta, _left_of(session.scan.first)
    session_id = (session.folder.name if session.in_folder else "") or left.get("id") or new_session_id(now)
    begun = next((entry.at for entry in session.scan.entries if entry.at), None)
    created = _moment(left.get("created_at", "")) or (meta.created_at if meta else None)
    cwd = left.get("cwd") or (meta.cwd if meta else "") or session.cwd_nearby
    above = session.folder.parent
    is_child = above.name == CHILDREN
    # Whether it was imported is lost, too: what it holds so far grants nothing.
    parent = Parent(id=session_id, index=NEW, foreign=session.scan.taken)
    return SessionHeader.model_validate(
        {
            "id": session_id,
            "created_at": created or _begun(session_id) or begun or now,
            "cwd": cwd or str(Path.home()),
            PARENT: parent.model_dump(),
        }
        | ({SPAWNED: Spawned(session=above.parent.name, call="", agent="").model_dump()} if is_child else {})
    )


def _left_of(line: bytes) -> dict[str, str]:
    said: dict[str, str] = {}
    for name, pattern in _SAID.items():
        match = pattern.search(line) if line.startswith(b'{"type":"session"') else None
        with suppress(ValueError):
            said |= {name: json.loads(match[1])} if match else {}
    return said


def _moment(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    return None


def _begun(session_id: str) -> datetime | None:
    """When a session was begun, by its id."""
    match = _BEGUN.fullmatch(session_id)
    with suppress(ValueError):
        return datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC) if match else None
    return None
