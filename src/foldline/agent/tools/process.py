"""Running a program as a process group of its own: output as it comes, no input, and nobody left behind."""

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .reaping import Kin, Leash, LeftBehind, end_all, end_holders, marked, new_mark

_CHUNK = 64 * 1024
_REAPED = 0.03
"""Seconds until the end of a program that was killed is noticed."""
DRAIN = 0.3
"""Seconds a finished program's output is still read while others hold it open."""
_UNREAD = 4 * _CHUNK
"""Bytes a program may leave unread at its end: a full pipe, and what the reader has taken ahead of us."""
_ENDING = ThreadPoolExecutor(max_workers=16, thread_name_prefix="ending")
"""Threads of their own: a cancel must not wait behind slow work in the others."""


class Child:
    """A running group, its standard output and error as one stream."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, kin: Kin) -> None:
        self._process = process
        self._reader = reader
        self._kin = kin
        self.finished = False
        """The program ended by itself and its output was read to the end."""
        self._is_held = False
        """It ended by itself, and somebody still holds its output."""

    @property
    def pid(self) -> int:
        """Also the number of the group."""
        return self._process.pid

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

    @property
    def status(self) -> int | None:
        """The exit status, once the program has ended."""
        return self._process.returncode

    async def end(self) -> None:
        """End what is still there of it. Begun, this is done, also where nobody waits for it."""
        work = end_holders if self._is_held else end_all
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(_ENDING, work, self._kin))
        await _bounded(self._process.wait(), _REAPED)


@contextlib.asynccontextmanager
async def spawn(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, left: LeftBehind | None = None
) -> AsyncIterator[Child]:
    """A program in a new session, without input. On leaving, also by cancel or error, it is ended with all it
    started unless it finished; what a finished program deliberately left running in the background, detached
    from its output, stays, and goes to `left`.

    Raises:
        OSError: it could not be started.
    """
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
    kin = None
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env=marked(os.environ if env is None else env, mark),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                pass_fds=(leash.given,),
            )
        finally:
            os.close(writing)
            leash.handed_over()
        kin = Kin(process.pid, mark.encode(), output, leash.inode)
        child = Child(process, reader, kin)
        try:
            yield child
        finally:
            if not child.finished:
                await child.end()
    finally:
        transport.close()
        if left is not None and kin is not None:
            left.add(kin, leash)
        else:
            leash.close()


def ending(status: int | None) -> str:
    """How a program ended, in a word or two: `exit 3`, `SIGKILL`."""
    if status is None or status >= 0:
        return f"exit {status or 0}"
    return signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"


async def _bounded(waiting: Awaitable[int], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
