"""Runs a program in its own process group, streams its output, and ends all processes that it started.

On Linux, each program gets a mark in its environment, and a pipe that is never written to (its leash). Child
processes inherit both. A process can leave the group with `setsid` and a double fork, and lose the mark with
`env -i`, but it keeps the leash. Sessions and parents are checked, too. A process is missed only if it clears
its environment, closes all inherited files, leaves its session and outlives its parents. Without /proc, only
the processes of the group are known.
"""

import asyncio
import contextlib
import errno
import os
import secrets
import select
import signal
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from foldline.agent.permissions.confinement import CommandSandbox
from foldline.agent.settings.api_keys import secret_variables
from foldline.data import Environ

MARK = "FOLDLINE_CALL"
"""Variable with the marks of the calls to which a process belongs.

There may be several marks, because a command may run Foldline.
"""
STILL_RUNNING = (
    "one of its processes is still running (PID {pid}) and will end with Foldline"
)
SEVERAL_RUNNING = "{count} of its processes are still running (PIDs {pids}) and will end with Foldline"
NUL = "a NUL character cannot be passed to a program"
_QUIET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PYTHONUNBUFFERED": "1",
}
"""Environment variables for programs without a terminal: no pager, no prompts, no colours."""

_CHUNK = 64 * 1024
DRAIN = 0.3
"""Maximum time to read a finished program's output while other processes keep it open, in seconds."""
_UNREAD = 4 * _CHUNK
"""Maximum number of bytes that can be unread when a program ends: a full pipe plus the reader's buffer."""
_ENDING = ThreadPoolExecutor(max_workers=16, thread_name_prefix="ending")
"""Threads that end processes, so that a cancellation does not wait for slow work in shared threads."""

_PROC = Path("/proc")
_GRACE = 0.07
"""Time between SIGTERM and SIGKILL, in seconds."""
_SWEEP = 0.07
"""Time spent searching for survivors, in seconds.

A process may start others while it is being ended. `_GRACE` and `_SWEEP` together stay below the 200 ms that
a cancellation may take.
"""
_LOOK_EVERY = 0.01
_REAPED = 0.03
"""Maximum time to wait for the exit status of a killed program, in seconds."""


def environment() -> dict[str, str]:
    """Return the environment for commands, without API keys.

    A command could print the keys, and thereby write them into the session (decision 8).
    """
    secret = secret_variables()
    return {
        name: value for name, value in os.environ.items() if name not in secret
    } | _QUIET


def still_running(pids: Sequence[int]) -> str:
    """Return the note on processes that still run after their command has ended."""
    if len(pids) == 1:
        return STILL_RUNNING.format(pid=pids[0])
    return SEVERAL_RUNNING.format(count=len(pids), pids=", ".join(map(str, pids)))


def ending(status: int | None) -> str:
    """Describe an exit status, for example `exit 3` or `SIGKILL`."""
    if status is None or status >= 0:
        return f"exit {status or 0}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


# --- a running program ------------------------------------------------------------------------------


class ChildProcess:
    """A running process group.

    Its standard output and standard error are merged.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        family: "Family",
    ) -> None:
        self._process = process
        self._reader = reader
        self._family = family
        self.finished = False
        """Whether the program exited on its own and its output was read to the end."""
        self._is_held = False
        """Whether the program exited on its own while other processes keep its output open."""

    @property
    def pid(self) -> int:
        """PID of the program, which is also the id of its process group."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, once the program has ended."""
        return self._process.returncode

    async def follow(
        self, take: Callable[[bytes], Awaitable[bool]], *, drain: float | None = DRAIN
    ) -> int | None:
        """Pass the output to `take` as it arrives, until `take` returns False.

        Output that is unread when the program ends is still passed on.

        Args:
            drain: maximum time to keep reading after the program has ended, in seconds; None for no limit.

        Returns:
            The exit status, negative if a signal ended the program. None if `take` returned False, or if the
            program left processes running that keep the output open. The group ends when the context of
            `spawn` exits.
        """
        exited = asyncio.ensure_future(self._process.wait())
        reading: asyncio.Future[bytes] | None = None
        deadline: float | None = None
        unread = _UNREAD
        loop = asyncio.get_running_loop()
        try:
            while True:
                reading = reading or asyncio.ensure_future(self._reader.read(_CHUNK))
                if not exited.done():
                    both: set[asyncio.Future[bytes] | asyncio.Future[int]] = {
                        reading,
                        exited,
                    }
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                elif drain is None:
                    await asyncio.wait({reading})
                else:
                    deadline = deadline or loop.time() + drain
                    await asyncio.wait(
                        {reading}, timeout=max(0.0, deadline - loop.time())
                    )
                    if not reading.done() or (loop.time() > deadline and unread <= 0):
                        self._is_held = True
                        return None
                if reading.done():
                    chunk = reading.result()
                    reading = None
                    if exited.done():
                        unread -= len(chunk)
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
        """End all processes of the program.

        Completes even if the caller is cancelled.
        """
        work = end_holders if self._is_held else end_all
        await asyncio.shield(
            asyncio.get_running_loop().run_in_executor(_ENDING, work, self._family)
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAPED):
                await self._process.wait()


@contextlib.asynccontextmanager
async def spawn(
    argv: Sequence[str],
    cwd: Path,
    env: Environ | None = None,
    left: "LeftBehind | None" = None,
    box: CommandSandbox | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> AsyncIterator[ChildProcess]:
    """Run a program in a new session, by default without input.

    When the context exits, even through a cancellation or an error, the program and all processes that it
    started are ended, unless the program has finished. Processes that a finished program has detached from
    its output stay alive and are added to `left`.

    Args:
        left: collects processes that the program leaves running.
        box: sandbox in which the program runs. It ends with the program.

    Raises:
        OSError: the program could not be started.
    """
    variables: Environ = os.environ if env is None else env
    if box is None:
        async with _spawned(argv, cwd, variables, left, stdin) as child:
            yield child
        return
    async with (
        box.entering(argv, variables) as entered,
        _spawned(entered.argv, cwd, entered.env, left, stdin) as child,
    ):
        yield child


@contextlib.asynccontextmanager
async def _spawned(
    argv: Sequence[str],
    cwd: Path,
    env: Environ,
    left: "LeftBehind | None",
    stdin: int,
) -> AsyncIterator[ChildProcess]:
    if any("\x00" in word for word in argv):
        raise OSError(errno.EINVAL, NUL)
    # With asyncio's own pipe, waiting for the program would include others that keep its output open.
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(reading, "rb", buffering=0)
    output = os.fstat(reading).st_ino
    mark = new_mark()
    leash = Leash()
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
    except BaseException:
        os.close(writing)
        pipe.close()
        leash.close_writing_end()
        leash.close()
        raise
    family = None
    try:
        try:
            process, cancelled = await _completed(
                asyncio.create_subprocess_exec(
                    *argv,
                    cwd=cwd,
                    env=marked(env, mark),
                    stdin=stdin,
                    stdout=writing,
                    stderr=writing,
                    start_new_session=True,
                    pass_fds=(leash.descriptor,),
                )
            )
        finally:
            os.close(writing)
            leash.close_writing_end()
        family = Family(process.pid, mark.encode(), output, leash.inode)
        child = ChildProcess(process, reader, family)
        try:
            if cancelled is not None:
                raise cancelled
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


async def _completed(
    starting: Coroutine[None, None, asyncio.subprocess.Process],
) -> tuple[asyncio.subprocess.Process, asyncio.CancelledError | None]:
    """Wait until a program has started, even if the caller is cancelled.

    A cancelled start kills the program, but not the processes that it may have started by then.

    Returns:
        The process, and the last cancellation of the caller, which the caller raises later.

    Raises:
        OSError: the program could not be started.
    """
    task = asyncio.ensure_future(starting)
    cancelled = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    return task.result(), cancelled


# --- ending processes; blocking: called in a thread -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Family:
    """Identifies a program and all processes that it started."""

    group: int
    """Id of the program's process group and session."""
    mark: bytes
    output: int
    """Inode of the pipe for the program's output."""
    leash: int
    """Inode of the pipe that all processes of the program inherit."""


class Leash:
    """A pipe that a program and all its child processes hold open.

    Our reading end reports when the last of these processes has ended. The inode of the pipe is unique as
    long as the reading end is open.
    """

    def __init__(self) -> None:
        self._reading, self.descriptor = os.pipe()
        """`descriptor` is the write end of the pipe, which the program inherits."""
        self.inode = os.fstat(self._reading).st_ino

    def close_writing_end(self) -> None:
        """Close our copy of the writing end, once the program has started or failed to start."""
        os.close(self.descriptor)

    @property
    def is_held(self) -> bool:
        """Whether a process still holds the writing end open."""
        watch = select.poll()
        watch.register(self._reading, 0)
        return not watch.poll(0)

    def close(self) -> None:
        os.close(self._reading)


class LeftBehind:
    """Background processes of finished commands, which may run until the agent is closed."""

    def __init__(self) -> None:
        self._entries: list[tuple[Family, Leash]] = []

    def add(self, family: Family, leash: Leash) -> None:
        """Add the processes of a finished command.

        This object takes over the leash, and closes it later.
        """
        self._entries.append((family, leash))
        for entry in [entry for entry in self._entries if not entry[1].is_held]:
            self._entries.remove(entry)
            entry[1].close()

    def families(self, group: int) -> list[Family]:
        """Return the families with this group id that still have running processes."""
        return [
            family
            for family, leash in self._entries
            if family.group == group and leash.is_held
        ]

    async def running(self, group: int) -> list[int]:
        """Return the PIDs of the running processes of the command with this group id."""
        pids: set[int] = set()
        for family in self.families(group):
            pids |= await asyncio.to_thread(_members, family, {})
        return sorted(pids)

    def end(self) -> None:
        """End all processes that were left running."""
        while self._entries:
            family, leash = self._entries.pop()
            if leash.is_held:
                end_all(family)
            leash.close()


def new_mark() -> str:
    return secrets.token_hex(8)


def marked(environment: Environ, mark: str) -> dict[str, str]:
    """Return an environment to which a mark has been added."""
    return {**environment, MARK: f"{environment.get(MARK, '')} {mark}".strip()}


def end_all(family: Family) -> None:
    """Send SIGTERM to all processes, then SIGKILL to the survivors."""
    marks: _Marks = {}
    _send_group(family.group, signal.SIGTERM)
    _send(_members(family, marks), signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline and _members(family, marks):
        time.sleep(_LOOK_EVERY)
    _send_group(family.group, signal.SIGKILL)
    deadline = time.monotonic() + _SWEEP
    while survivors := _members(family, marks):
        _send(survivors, signal.SIGKILL)
        # Check the time last, so that SIGKILL is sent at least once even on a slow machine.
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_EVERY)


def end_holders(family: Family) -> None:
    """End the group of a finished program, and other processes that keep its output open."""
    _send_group(family.group, signal.SIGTERM)
    time.sleep(_LOOK_EVERY)
    _send_group(family.group, signal.SIGKILL)
    _send(
        {pid for pid in _members(family, {}) if _holds(pid, family.output)},
        signal.SIGKILL,
    )


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int
    is_marked: bool


_Marks = dict[tuple[int, int], bool]
"""Cache of whether each process has the mark or the leash, by PID and start time.

The values stay valid, because a process cannot acquire either of them later.
"""


def _members(family: Family, marks: _Marks) -> set[int]:
    """Return the PIDs of a family's running processes."""
    processes = list(_running(family, marks))
    members = set()
    for process in processes:
        if process.is_marked or family.group in (process.group, process.session):
            members.add(process.pid)
    while (
        children := {process.pid for process in processes if process.parent in members}
        - members
    ):
        members |= children
    return members


def _running(family: Family, marks: _Marks) -> Iterator[_Process]:
    """Yield all processes running on this machine.

    The marks of other users' processes cannot be read.
    """
    if not (_PROC / "self" / "environ").exists():
        return
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError, ValueError):
            # The fields follow the program's name, which is in parentheses and may contain any text: proc(5).
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                pid = int(folder.name)
                key = pid, int(fields[19])
                if key not in marks:
                    marks[key] = _carries(folder, family.mark) or _holds(
                        pid, family.leash
                    )
                parent, group, session = map(int, fields[1:4])
                yield _Process(pid, parent, group, session, marks[key])


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
