"""Running a program as a process group of its own: output as it comes, no input, and nobody left behind.

On Linux each program is started with a mark in its environment and with a pipe that nobody writes to (its
leash). Whoever it starts inherits both: `setsid` and a double fork leave the group, `env -i` leaves the mark,
and the leash stays. Its session and its parents tell, too. What wipes its environment, closes every file it
was given, leaves its session and outlives its parents is not found. Where there is no /proc, the group is all
that is known.
"""

import asyncio
import contextlib
import errno
import os
import secrets
import select
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..api_keys import secret_variables

if TYPE_CHECKING:
    from ..sandbox import Sandbox

MARK = "FOLDLINE_CALL"
"""The variable with the marks of the calls a process belongs to: one Foldline may run within another."""
_QUIET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PYTHONUNBUFFERED": "1",
}
"""Nobody is there to page, to answer a question or to look at colours."""

_CHUNK = 64 * 1024
DRAIN = 0.3
"""Seconds a finished program's output is still read while others hold it open."""
_UNREAD = 4 * _CHUNK
"""Bytes a program may leave unread at its end: a full pipe, and what the reader has taken ahead of us."""
_ENDING = ThreadPoolExecutor(max_workers=16, thread_name_prefix="ending")
"""Threads of their own: a cancel must not wait behind slow work in the others."""

_PROC = Path("/proc")
_GRACE = 0.07
"""Seconds they have to end politely."""
_SWEEP = 0.07
"""Seconds that survivors are looked for and killed: a process may start others while it is being ended. Both
together stay below the 200 ms within which a cancel must be done."""
_LOOK_EVERY = 0.01
_REAPED = 0.03
"""Seconds until the end of a program that was killed is noticed."""


def environment() -> dict[str, str]:
    """What a command gets. A key in it would be put into the session by whoever prints it (decision 8)."""
    secret = secret_variables()
    return {name: value for name, value in os.environ.items() if name not in secret} | _QUIET


def still_running(pids: Sequence[int]) -> str:
    """What a command that has ended left running, in words."""
    if len(pids) == 1:
        return f"a process of it still runs (PID {pids[0]}): it ends with Foldline"
    return f"{len(pids)} processes of it still run (PIDs {', '.join(map(str, pids))}): they end with Foldline"


def ending(status: int | None) -> str:
    """How a program ended, in a word or two: `exit 3`, `SIGKILL`."""
    if status is None or status >= 0:
        return f"exit {status or 0}"
    return signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"


# --- a running program ------------------------------------------------------------------------------


class Child:
    """A running group, its standard output and error as one stream."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, family: "Family"
    ) -> None:
        self._process = process
        self._reader = reader
        self._family = family
        self.finished = False
        """The program ended by itself and its output was read to the end."""
        self._is_held = False
        """It ended by itself, and somebody still holds its output."""

    @property
    def pid(self) -> int:
        """Also the number of the group."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status, once the program has ended."""
        return self._process.returncode

    async def follow(
        self, take: Callable[[bytes], Awaitable[bool]], *, drain: float | None = DRAIN
    ) -> int | None:
        """Hand out the output as it comes; `take` says whether it wants more. Once the program has ended, all
        it had written is read, however late we come to it; what others write who hold the output, for `drain`
        seconds more; None: as long as they do.

        Returns the exit status (negative: the signal that ended it). None where `take` had enough, or
        where the program ended and left processes behind that hold the output open: what is left of the group
        is ended on leaving `spawn`.
        """
        exited = asyncio.ensure_future(self._process.wait())
        reading: asyncio.Future[bytes] | None = None
        deadline: float | None = None
        left = _UNREAD
        loop = asyncio.get_running_loop()
        try:
            while True:
                reading = reading or asyncio.ensure_future(self._reader.read(_CHUNK))
                if not exited.done():
                    both: set[asyncio.Future[bytes] | asyncio.Future[int]] = {reading, exited}
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                elif drain is None:
                    await asyncio.wait({reading})
                else:
                    deadline = deadline or loop.time() + drain
                    await asyncio.wait({reading}, timeout=max(0.0, deadline - loop.time()))
                    if not reading.done() or (loop.time() > deadline and left <= 0):
                        self._is_held = True
                        return None
                if reading.done():
                    chunk, reading = reading.result(), None
                    left -= len(chunk) if exited.done() else 0
                    if not chunk:
                        status = await exited
                        self.finished = True
                        return status
                    if not await take(chunk):
                        return None
        finally:
            exited.cancel()
            if reading is not None:
                reading.cancel()

    async def end(self) -> None:
        """End what is still there of it. Begun, this is done, also where nobody waits for it."""
        work = end_holders if self._is_held else end_all
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(_ENDING, work, self._family))
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAPED):
                await self._process.wait()


@contextlib.asynccontextmanager
async def spawn(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    left: "LeftBehind | None" = None,
    box: "Sandbox | None" = None,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> AsyncIterator[Child]:
    """A program in a new session, by default without input; in a sandbox, where there is one. On leaving,
    also by cancel or error, it is ended with all it started unless it finished; what a finished program
    deliberately left running in the background, detached from its output, stays, and goes to `left`. A
    sandbox ends with it.

    Raises:
        OSError: it could not be started.
    """
    given: Mapping[str, str] = os.environ if env is None else env
    if box is None:
        async with _spawned(argv, cwd, given, left, stdin) as child:
            yield child
        return
    async with (
        box.entering(argv, given) as entered,
        _spawned(entered.argv, cwd, entered.env, left, stdin) as child,
    ):
        yield child


@contextlib.asynccontextmanager
async def _spawned(
    argv: Sequence[str], cwd: Path, given: Mapping[str, str], left: "LeftBehind | None", stdin: int
) -> AsyncIterator[Child]:
    if any("\x00" in word for word in argv):
        raise OSError(errno.EINVAL, "a NUL character cannot be passed to a program")
    # A pipe of our own, so that waiting for the program does not also wait for whoever else holds its output.
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(reading, "rb", buffering=0)
    output, mark, leash = os.fstat(reading).st_ino, new_mark(), Leash()
    try:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    except BaseException:
        os.close(writing)
        pipe.close()
        leash.handed_over()
        leash.close()
        raise
    family = None
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env=marked(given, mark),
                stdin=stdin,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                pass_fds=(leash.given,),
            )
        finally:
            os.close(writing)
            leash.handed_over()
        family = Family(process.pid, mark.encode(), output, leash.inode)
        child = Child(process, reader, family)
        try:
            yield child
        finally:
            if not child.finished:
                await child.end()
    finally:
        transport.close()
        if left is not None and family is not None:
            left.add(family, leash)
        else:
            leash.close()


# --- whom it started, and how they are ended; blocking: called in a thread --------------------------


@dataclass(frozen=True, slots=True)
class Family:
    """A program and whom it started: what is needed to find them again."""

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
        self._held: list[tuple[Family, Leash]] = []

    def add(self, family: Family, leash: Leash) -> None:
        """Remember whom this command left behind, if anybody; the leash is ours from here on."""
        self._held.append((family, leash))
        for left in [left for left in self._held if not left[1].is_held]:
            self._held.remove(left)
            left[1].close()

    def families(self, group: int) -> list[Family]:
        """What the command of this group left, and still runs."""
        return [family for family, leash in self._held if family.group == group and leash.is_held]

    async def running(self, group: int) -> list[int]:
        """Numbers of the processes that the command of this group left running."""
        families = self.families(group)
        pids: set[int] = set()
        for family in families:
            pids |= await asyncio.to_thread(_everybody, family, {})
        return sorted(pids)

    def end(self) -> None:
        """End all of them."""
        while self._held:
            family, leash = self._held.pop()
            if leash.is_held:
                end_all(family)
            leash.close()


def new_mark() -> str:
    return secrets.token_hex(8)


def marked(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment with this mark beside those it has."""
    return {**environment, MARK: f"{environment.get(MARK, '')} {mark}".strip()}


def end_all(family: Family) -> None:
    """A polite signal for all of them, then one that cannot be refused."""
    known: _Known = {}
    _send_group(family.group, signal.SIGTERM)
    _send(_everybody(family, known), signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline and _everybody(family, known):
        time.sleep(_LOOK_EVERY)
    _send_group(family.group, signal.SIGKILL)
    deadline = time.monotonic() + _SWEEP
    while left := _everybody(family, known):
        _send(left, signal.SIGKILL)
        if time.monotonic() > deadline:  # asked last: on a busy machine one look may take longer
            break
        time.sleep(_LOOK_EVERY)


def end_holders(family: Family) -> None:
    """End the group, and who else still holds the output of a program that has finished. What it left running
    apart from both stays."""
    _send_group(family.group, signal.SIGTERM)
    time.sleep(_LOOK_EVERY)
    _send_group(family.group, signal.SIGKILL)
    _send({pid for pid in _everybody(family, {}) if _holds(pid, family.output)}, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int
    is_marked: bool


_Known = dict[tuple[int, int], bool]
"""Who carries the mark or the leash, by number and start time: who was born without them never gets them."""


def _everybody(family: Family, known: _Known) -> set[int]:
    """Their numbers, without those who have ended and only wait to be noticed."""
    running = list(_running(family, known))
    theirs = {
        found.pid for found in running if found.is_marked or family.group in (found.group, found.session)
    }
    while born := {found.pid for found in running if found.parent in theirs} - theirs:
        theirs |= born
    return theirs


def _running(family: Family, known: _Known) -> Iterator[_Process]:
    """The processes of this machine that have not ended; those of other users hide their environment."""
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
                    known[pid, started] = _carries(folder, family.mark) or _holds(pid, family.leash)
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
