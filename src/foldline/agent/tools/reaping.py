"""Ending a program and everybody it started, also those who left its group. Blocking: called in a thread.

On Linux each program is started with a mark in its environment, which whoever it starts inherits: `setsid`
and a double fork leave the group, not the mark. Who wipes the environment is still known by its session and
by its parents. What does all of this at once (`env -i setsid`, and its parents end) is not found. Where there
is no /proc, the group is all that is known.
"""

import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "FOLDLINE_CALL"
"""The variable with the marks of the calls a process belongs to: one Foldline may run within another."""

_PROC = Path("/proc")
_GRACE = 0.07
"""Seconds they have to end politely."""
_SWEEP = 0.07
"""Seconds those who go on are looked for and killed: a process may start others while it is being ended. Both
together stay below the 200 ms within which a cancel must be done."""
_LOOK_EVERY = 0.01


@dataclass(frozen=True, slots=True)
class Kin:
    """Whom a program started: what is needed to find them again."""

    group: int
    """The program's own number: of its group, and of its session."""
    mark: bytes
    output: int
    """The inode of the pipe that is its output."""


def new_mark() -> str:
    return secrets.token_hex(8)


def marked(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment with this mark beside those it has."""
    return {**environment, MARK: f"{environment.get(MARK, '')} {mark}".strip()}


def end_all(kin: Kin) -> None:
    """A polite signal for all of them, then one that cannot be refused."""
    _send_group(kin.group, signal.SIGTERM)
    _send(_everybody(kin), signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline and _everybody(kin):
        time.sleep(_LOOK_EVERY)
    _send_group(kin.group, signal.SIGKILL)
    deadline = time.monotonic() + _SWEEP
    while (left := _everybody(kin)) and time.monotonic() < deadline:
        _send(left, signal.SIGKILL)
        time.sleep(_LOOK_EVERY)


def end_holders(kin: Kin) -> None:
    """End the group, and who else still holds the output of a program that has finished. What it left running
    apart from both stays."""
    _send_group(kin.group, signal.SIGTERM)
    time.sleep(_LOOK_EVERY)
    _send_group(kin.group, signal.SIGKILL)
    _send({found.pid for found in _ours(kin) if _holds(found.pid, kin.output)}, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int
    is_marked: bool


def _everybody(kin: Kin) -> set[int]:
    """Their numbers, without those who have ended and only wait to be noticed."""
    return {found.pid for found in _ours(kin)}


def _ours(kin: Kin) -> list[_Process]:
    running = list(_running(kin.mark))
    ours = {found.pid for found in running if found.is_marked or kin.group in (found.group, found.session)}
    while True:
        born = {found.pid for found in running if found.parent in ours} - ours
        if not born:
            return [found for found in running if found.pid in ours]
        ours |= born


def _running(mark: bytes) -> Iterator[_Process]:
    """The processes of this machine that have not ended; those of others tell no environment."""
    if not (_PROC / "self" / "environ").exists():
        return
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError, ValueError):
            # After the name of the program, which stands in brackets and may hold anything: proc(5).
            told = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if told[0] not in (b"Z", b"X"):
                parent, group, session = map(int, told[1:4])
                yield _Process(int(folder.name), parent, group, session, _carries(folder, mark))


def _carries(folder: Path, mark: bytes) -> bool:
    with suppress(OSError):
        return mark in (folder / "environ").read_bytes()
    return False


def _holds(pid: int, output: int) -> bool:
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()) == f"pipe:[{output}]":
                    return True
    return False


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _send_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
