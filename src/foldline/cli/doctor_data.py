"""What `foldline doctor` looks at where everything is kept: room, sessions, what was left over."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from foldline.data import archive_dir
from foldline.files import is_file, is_there
from foldline.history import SessionInfo, list_sessions, sessions_dir, short_id, utc_now
from foldline.history.doctor import Finding, drafts_in
from foldline.history.lock import holder_of
from foldline.history.paths import HOLDER
from foldline.history.repair import tidy_up
from foldline.history.search_index import BESIDE
from foldline.history.session_search import SEARCH
from foldline.protocol import FoldlineError, system_words

_LITTLE, _TOO_LITTLE = 500_000_000, 20_000_000
"""Bytes of free space: to be told of, and no place to work."""
_SHOWN = 4
_PATIENCE = 5.0
"""Seconds another process may keep the search index to itself."""
LEAVING = ".deleted"
"""Ends the name of a folder that `foldline delete` is taking away."""
_IN_USE = ("SQLITE_BUSY", "SQLITE_LOCKED")


def examine_data(home: Path) -> Iterator[Finding]:
    """Every check of the folder that everything is kept in."""
    yield _place(home)
    try:
        infos = list(_all_sessions(home))
    except FoldlineError as error:
        yield Finding("bad", "sessions", str(error).removesuffix("."))
        return
    yield from _sessions(infos)
    yield from _left_over(infos, _half_deleted(home))
    yield from _search_index(home)


def tidy(home: Path) -> tuple[str, ...]:
    """Take away what processes that died left behind, and a search index of no use; what was done."""
    done = []
    for info in _all_sessions(home):
        with suppress(FoldlineError):
            done += [f"{short_id(info.id)}: {step}" for step in tidy_up(info.path, utc_now())]
    for left in _half_deleted(home):
        shutil.rmtree(left)
        done.append(f"{left.name}: the rest of a deleted session is gone, too")
    if any(finding.mark != "ok" for finding in _search_index(home)):
        for left in (home.joinpath(SEARCH + ending) for ending in ("", *BESIDE)):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            left.unlink(missing_ok=True)
        done.append(f"{SEARCH} thrown away: it is made again by the next search")
    return tuple(done)


def _place(home: Path) -> Finding:
    nearest = next(folder for folder in (home, *home.parents) if is_there(folder))
    try:
        free = shutil.disk_usage(nearest).free
        _try_to_write(nearest)
    except OSError as error:
        why = system_words(error)
        advice = "nothing can be kept there: FOLDLINE_HOME names another folder"
        return Finding("bad", "data", f"{nearest} cannot be written to ({why})", advice)
    found = f"{home}, {free / 1e9:,.1f} GB free" + ("" if is_there(home) else ", not made yet")
    if free < _TOO_LITTLE:
        return Finding("bad", "data", found, "make room: sessions cannot be kept")
    if free < _LITTLE:
        return Finding("warn", "data", found, "make room soon")
    return Finding("ok", "data", found)


def _try_to_write(folder: Path) -> None:
    """Only trying tells: a medium may be read-only, or full, whatever the modes say."""
    import tempfile

    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"foldline doctor")
        file.flush()


def _all_sessions(home: Path) -> list[SessionInfo]:
    return [*list_sessions(home), *list_sessions(home, archived=True)]


def _sessions(infos: list[SessionInfo]) -> Iterator[Finding]:
    lost = [info for info in infos if not info.readable]
    hurt = [info for info in infos if info.readable and info.meta.note]
    counted = f"{len(infos):,} session{'' if len(infos) == 1 else 's'}"
    if not (lost or hurt):
        yield Finding("ok", "sessions", f"{counted}, all can be opened")
    if lost:
        names = tuple(short_id(info.id) for info in lost)
        advice = f"`foldline doctor {names[0]}` says more"
        yield Finding("bad", "sessions", f"of {counted}, not to be opened: {_some(names)}", advice, names)
    if hurt:
        names = tuple(short_id(info.id) for info in hurt)
        advice = f"`foldline doctor {names[0]} --repair` leaves it out"
        yield Finding("warn", "sessions", f"of {counted}, with damage: {_some(names)}", advice, names)


def _half_deleted(home: Path) -> list[Path]:
    """What is left of sessions whose deletion was cut short."""
    roots = (sessions_dir(home), archive_dir(home))
    return [left for root in roots for left in sorted(root.glob(f"*/.*{LEAVING}"))]


def _left_over(infos: list[SessionInfo], deleted: list[Path]) -> Iterator[Finding]:
    held, notes, drafts, open_ones = [], [], [], []
    for info in infos:
        folder, name = info.path.parent, short_id(info.id)
        holder = holder_of(folder)
        if holder is not None:
            held.append(f"{name} by {holder}")
            continue
        notes += [name] if is_there(folder / HOLDER) else []
        drafts += [name] if any(drafts_in(folder)) else []
        open_ones += [name] if os.name == "posix" and folder.stat().st_mode & 0o077 else []
    if held:
        yield Finding("ok", "writers", _some(held), "", tuple(held))
    for name, what, of in (
        ("writers", "a note of a writer that is gone", notes),
        ("left over", "files that were never finished", drafts),
        ("left over", "deleted in part", [path.name.strip(".").removesuffix(LEAVING) for path in deleted]),
        ("modes", "others may look into the folder", open_ones),
    ):
        if of:
            advice = "`foldline doctor --repair` sets it right"
            yield Finding("warn", name, f"{what}: {_some(of)}", advice, tuple(of))
    if not (notes or drafts or open_ones or deleted):
        yield Finding("ok", "left over", "nothing")


def _search_index(home: Path) -> Iterator[Finding]:
    file = home / SEARCH
    there = [file for ending in ("", *BESIDE) if os.path.lexists(file := home / f"{SEARCH}{ending}")]
    if not there:
        return
    advice = "`foldline doctor --repair` throws it away: it is made again by the next search"
    if odd := [each.name for each in there if each.is_symlink() or not is_file(each)]:
        yield Finding("warn", SEARCH, f"{odd[0]} is no file", advice)
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as database:
            [said] = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") in _IN_USE:
            yield Finding("ok", SEARCH, "in use")
            return
        yield Finding("warn", SEARCH, f"cannot be read ({error})", advice)
        return
    size = f"{file.stat().st_size / 1e6:,.1f} MB"
    yield Finding("ok", SEARCH, f"{size}, sound") if said == "ok" else Finding("warn", SEARCH, said, advice)


def _some(names: list[str] | tuple[str, ...]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
