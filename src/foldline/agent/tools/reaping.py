"""Ending a program and everybody it started, also those who left its group. Blocking: called in a thread.

On Linux each program is started with a mark in its environment and with a pipe that nobody writes to (its
leash). Whoever it starts inherits both: `setsid` and a double fork leave the group, `env -i` leaves the mark,
and the leash stays. Its session and its parents tell, too. What wipes its environment, closes every file it
was given, leaves its session and outlives its parents is not found. Where there is no /proc, the group is all
that is known.
"""

import os
import secrets
import select
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
    leash: int
    """The inode of the pipe that all of them hold."""


class Leash:
    """A pipe that a program and all it starts hold open. The reading end is ours: it tells when the last of
    them has ended, and as long as it is open, no other pipe has its inode."""

    def __init__(self) -> None:
        self._reading, self.given = os.pipe()
        """`given` is the descriptor the program inherits."""
        self.inode = os.fstat(self._reading).st_ino

    def handed_over(self) -> None:
        """The program has it, or was not started: our copy of its end is closed."""
        os.close(self.given)

    @property
    def is_held(self) -> bool:
        """Whether one of them is still there."""
        watch = select.poll()
        watch.register(self._reading, 0)
        return not watch.poll(0)

    def close(self) -> None:
        os.close(self._reading)


class LeftBehind:
    """What commands that have finished left running, detached from their output: it may stay until the agent
    ends, and no longer."""

    def __init__(self) -> None:
        self._held: list[tuple[Kin, Leash]] = []

    def add(self, kin: Kin, leash: Leash) -> None:
        """Remember whom this command left behind, if anybody; the leash is ours from here on."""
        self._held.append((kin, leash))
        for left in [left for left in self._held if not left[1].is_held]:
            self._held.remove(left)
            left[1].close()

    def end(self) -> None:
        """End all of them. Blocking."""
        while self._held:
            kin, leash = self._held.pop()
            if leash.is_held:
                end_all(kin)
            leash.close()


def new_mark() -> str:
    return secrets.token_hex(8)


def marked(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment with this mark beside those it has."""
    return {**environment, MARK: f"{environment.get(MARK, '')} {mark}".strip()}


def end_all(kin: Kin) -> None:
    """A polite signal for all of them, then one that cannot be refused."""
    known: _Known = {}
    _send_group(kin.group, signal.SIGTERM)
    _send(_everybody(kin, known), signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline and _everybody(kin, known):
        time.sleep(_LOOK_EVERY)
    _send_group(kin.group, signal.SIGKILL)
    deadline = time.monotonic() + _SWEEP
    while left := _everybody(kin, known):
        _send(left, signal.SIGKILL)
        if time.monotonic() > deadline:  # asked last: on a busy machine one look may take longer
            break
        time.sleep(_LOOK_EVERY)


def end_holders(kin: Kin) -> None:
    """End the group, and who else still holds the output of a program that has finished. What it left running
    apart from both stays."""
    _send_group(kin.group, signal.SIGTERM)
    time.sleep(_LOOK_EVERY)
    _send_group(kin.group, signal.SIGKILL)
    _send({found.pid for found in _ours(kin, {}) if _holds(found.pid, kin.output)}, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int
    is_marked: bool


_Known = dict[tuple[int, int], bool]
"""Who carries the mark or the leash, by number and start time: who was born without them never gets them."""


def _everybody(kin: Kin, known: _Known) -> set[int]:
    """Their numbers, without those who have ended and only wait to be noticed."""
    return {found.pid for found in _ours(kin, known)}


def _ours(kin: Kin, known: _Known) -> list[_Process]:
    running = list(_running(kin, known))
    ours = {found.pid for found in running if found.is_marked or kin.group in (found.group, found.session)}
    while True:
        born = {found.pid for found in running if found.parent in ours} - ours
        if not born:
            return [found for found in running if found.pid in ours]
        ours |= born


def _running(kin: Kin, known: _Known) -> Iterator[_Process]:
    """The processes of this machine that have not ended; those of others tell no environment."""
    if not (_PROC / "self" / "environ").exists():
        return
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError, ValueError):
            # After the name of the program, which stands in brackets and may hold anything: proc(5).
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                pid, started = int(folder.name), int(fields[19])
                if (pid, started) not in known:
                    known[pid, started] = _carries(folder, kin.mark) or _holds(pid, kin.leash)
                parent, group, session = map(int, fields[1:4])
                yield _Process(pid, parent, group, session, known[pid, started])


def _carries(folder: Path, mark: bytes) -> bool:
    with suppress(OSError):
        return mark in (folder / "environ").read_bytes()
    return False


def _holds(pid: int, pipe: int) -> bool:
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()) == f"pipe:[{pipe}]":
                    return True
    return False


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _send_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
