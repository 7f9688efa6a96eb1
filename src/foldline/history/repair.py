"""Repairs a session: plans the changes, and carries them out.

The event file is replaced atomically with a file that contains all undamaged records. These are unchanged, in
order, and keep their indices. The original file is kept next to the new one. Caches are deleted or rebuilt.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from foldline.files import put_private, read_regular, write_new
from foldline.protocol import (
    NEW,
    FoldlineError,
    NoticeRecord,
    SessionHeader,
    dump_entry,
)

from .archive import held
from .children import CHILDREN
from .doctor import (
    BEFORE_REPAIR,
    InspectedSession,
    Scan,
    inspect_session,
    is_newer,
    snapshot,
)
from .log import Damage, dump_header
from .origin import PARENT, SPAWNED, Parent, Spawned
from .paths import HOLDER, INDEX, META, new_session_id
from .session import Session

NEWER_VERSION = (
    "{events} was written by a newer version of Foldline, and was not changed."
)
HEADER_REBUILT = "header rebuilt: session {id} in {cwd}"
NULS_REMOVED = "NUL bytes around intact records removed"
ORIGINAL_KEPT = "original file kept as {original}"
DELETED = "{name} deleted"
CACHE_DELETED = "{name} deleted: it will be made again"
SNAPSHOT_RENEWED = f"{META} made again"
MADE_PRIVATE = "{name} made private"
REPAIR_NOTICE = "Repaired by `foldline doctor`: damaged records were left out. {original} contains them."
_ID_WITH_TIME = re.compile(r"(\d{8}-\d{6})-\w+")
"""Matches a Foldline session id, which contains the time."""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """A plan for a repair. It is empty if there is nothing to repair."""

    events: Path
    content: bytes | None = None
    """New content of the event file; None if it stays unchanged."""
    original: str = ""
    """File name under which the original event file is kept."""
    throw_away: tuple[Path, ...] = ()
    renew_meta: bool = False
    close_to_others: tuple[Path, ...] = ()
    steps: tuple[str, ...] = ()
    """The changes, each as a phrase with a past participle and without a full stop."""

    def __bool__(self) -> bool:
        return bool(self.steps)


def repair_plan(session: InspectedSession, now: datetime) -> RepairPlan:
    """Plan the repair of a session.

    Raises:
        FoldlineError: a newer version of Foldline wrote the session, so this version cannot repair it.
    """
    if is_newer(session):
        raise FoldlineError(NEWER_VERSION, events=session.events)
    plan = RepairPlan(session.events)
    if session.scan.header is None or session.scan.damaged:
        plan = _rewrite_plan(session, now)
    is_rewritten = plan.content is not None
    stale = list(session.drafts)
    if session.has_note and session.holder is None:
        stale.append(session.folder / HOLDER)
    if session.has_index and (is_rewritten or session.index_fault):
        stale.append(session.folder / INDEX)
    renew_meta = False
    if session.has_meta:
        renew_meta = is_rewritten or snapshot(session).mark != "ok"
    steps = list(plan.steps)
    for path in stale:
        step = CACHE_DELETED if path.name == INDEX else DELETED
        steps.append(step.format(name=path.name))
    if renew_meta:
        steps.append(SNAPSHOT_RENEWED)
    steps += [_closing_step(path) for path in session.open_to_others]
    return replace(
        plan,
        throw_away=tuple(stale),
        renew_meta=renew_meta,
        close_to_others=session.open_to_others,
        steps=tuple(steps),
    )


def _rewrite_plan(session: InspectedSession, now: datetime) -> RepairPlan:
    """Plan the replacement of the event file."""
    scan = session.scan
    original = f"{session.events.name}{BEFORE_REPAIR}{now:%Y%m%d-%H%M%S}"
    header = scan.header or rebuilt_header(session, now)
    steps: list[str] = []
    if scan.header is None:
        steps.append(HEADER_REBUILT.format(id=header.id, cwd=header.cwd))
    left_out = [line for line in scan.lines if line.entry is None]
    if left_out:
        steps.append(str(Damage(tuple(line.number for line in left_out))))
    if len(left_out) < len(scan.damaged):
        steps.append(NULS_REMOVED)
    steps.append(ORIGINAL_KEPT.format(original=original))
    content = _content(scan, header, bool(left_out), original, now)
    return RepairPlan(session.events, content, original, steps=tuple(steps))


def _closing_step(path: Path) -> str:
    return MADE_PRIVATE.format(name=path.name)


def repair(events: Path, now: datetime) -> RepairPlan:
    """Repair the session with this event file.

    Returns the plan that was carried out.

    Raises:
        FoldlineError: the repair failed. The event file is then either the original or the repaired one.
    """
    session = inspect_session(events)
    with held(session.folder, "repaired"):
        # We hold the lock now, so the note is our own, and has replaced an outdated one.
        had_old_note = session.has_note and session.holder is None
        session = replace(
            inspect_session(session.events), holder=None, has_note=had_old_note
        )
        plan = repair_plan(session, now)
        _carry_out(plan)
    return plan


def tidy_up(events: Path, now: datetime) -> tuple[str, ...]:
    """Delete a crashed process's files, and make the folder private.

    Returns the steps that were taken.

    Raises:
        FoldlineError: a file could not be deleted or changed.
    """
    session = inspect_session(events)
    plan = RepairPlan(
        events, throw_away=session.drafts, close_to_others=session.open_to_others
    )
    steps = [DELETED.format(name=path.name) for path in session.drafts]
    steps += [_closing_step(path) for path in session.open_to_others]
    if session.has_note:
        steps.append(DELETED.format(name=HOLDER))
    if session.holder is not None or not steps:
        return ()
    with held(session.folder, "tidied up"):
        _carry_out(plan)
    return tuple(steps)


def _carry_out(plan: RepairPlan) -> None:
    if plan.content is not None:
        original = plan.events.with_name(plan.original)
        _replace(plan.events, plan.content, original)
    for path in plan.throw_away:
        path.unlink(missing_ok=True)
    for path in plan.close_to_others:
        path.chmod(0o700 if path.is_dir() else 0o600)
    if plan.renew_meta:
        Session.open(plan.events).save_meta()


def _replace(events: Path, content: bytes, original: Path) -> None:
    """Replace an event file atomically, keeping the old one.

    The old file is first kept as a hard link, or copied if the file system has no hard links. A file at
    `original` is never overwritten.
    """
    try:
        os.link(events, original)
    except FileExistsError:
        raise
    except OSError:
        write_new(original, read_regular(events))
    try:
        put_private(events, content, durable=True)
    except BaseException:
        with suppress(OSError):
            original.unlink()
        raise
    with suppress(OSError):
        descriptor = os.open(events.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _content(
    scan: Scan, header: SessionHeader, lossy: bool, original: str, now: datetime
) -> bytes:
    first = scan.first.strip(b"\0 \t\r") if scan.header else dump_header(header)
    records = [line.record for line in scan.lines if line.entry is not None]
    if lossy:
        # This index is above those of lost records, so that they are not reused.
        text = REPAIR_NOTICE.format(original=original)
        notice = NoticeRecord(index=scan.taken + 1, at=now, text=text)
        records.append(dump_entry(notice))
    return b"".join(line + b"\n" for line in (first, *records))


# --- a lost header ----------------------------------------------------------------------------------------


def rebuilt_header(session: InspectedSession, now: datetime) -> SessionHeader:
    """Rebuild a lost header.

    Uses the snapshot, the folder and the entries.
    """
    meta = session.meta
    session_id = session.folder.name if session.in_folder else new_session_id(now)
    times = (entry.at for entry in session.scan.entries if entry.at)
    created = _time_in(session_id) or next(times, now)
    cwd = session.cwd_nearby or str(Path.home())
    if meta is not None:
        created = meta.created_at
        cwd = meta.cwd or cwd
    # The session may have been imported, so its entries are not trusted.
    parent = Parent(id=session_id, index=NEW, foreign=session.scan.taken)
    header = {
        "id": session_id,
        "created_at": created,
        "cwd": cwd,
        PARENT: parent.model_dump(),
    }
    above = session.folder.parent
    if above.name == CHILDREN:
        header[SPAWNED] = Spawned(
            session=above.parent.name, call="", agent=""
        ).model_dump()
    return SessionHeader.model_validate(header)


def _time_in(session_id: str) -> datetime | None:
    """Return the time in a session id, if it contains one."""
    match = _ID_WITH_TIME.fullmatch(session_id)
    if match is None:
        return None
    with suppress(ValueError):
        return datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    return None
