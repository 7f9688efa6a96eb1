"""Running a program as a process group of its own: output as it comes, no input, and nobody left behind."""

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

_CHUNK = 64 * 1024
_GRACE = 0.08
"""Seconds a group has to end politely."""
_REAPED = 0.08
"""Seconds its end is waited for. Both together stay below the 200 ms within which a cancel must be done."""
_DRAIN = 0.3
"""Seconds a finished program's output is still read while others hold it open."""


class Child:
    """A running group, its standard output and error as one stream."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader) -> None:
        self._process = process
        self._reader = reader
        self.finished = False
        """The program ended by itself and its output was read to the end."""

    @property
    def pid(self) -> int:
        """Also the number of the group."""
        return self._process.pid

    async def follow(self, take: Callable[[bytes], bool]) -> int | None:
        """Hand out the output as it comes; `take` says whether it wants more.

        Returns the exit status (negative: the signal that ended it). None where `take` had enough, or
        where the program ended and left processes behind that hold the output open: what is left of the group
        is ended on leaving `spawn`.
        """
        exited = asyncio.ensure_future(self._process.wait())
        reading: asyncio.Future[bytes] | None = None
        deadline: float | None = None
        loop = asyncio.get_running_loop()
        try:
            while True:
                reading = reading or asyncio.ensure_future(self._reader.read(_CHUNK))
                if not exited.done():
                    both: set[asyncio.Future[bytes] | asyncio.Future[int]] = {reading, exited}
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                else:
                    deadline = deadline or loop.time() + _DRAIN
                    await asyncio.wait({reading}, timeout=max(0.0, deadline - loop.time()))
                    if not reading.done() or loop.time() > deadline:
                        return None
                if reading.done():
                    chunk, reading = reading.result(), None
                    if not chunk:
                        status = await exited
                        self.finished = True
                        return status
                    if not take(chunk):
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
        """End what is left of the group: a polite signal, then one that cannot be refused."""
        try:
            _signal(self.pid, signal.SIGTERM)
            await _bounded(self._process.wait(), _GRACE)
        finally:
            _signal(self.pid, signal.SIGKILL)
        await _bounded(self._process.wait(), _REAPED)


@contextlib.asynccontextmanager
async def spawn(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> AsyncIterator[Child]:
    """A program in a new session, without input. On leaving, also by cancel or error, its group is ended
    unless it finished; what a finished program deliberately left running in the background, detached from its
    output, stays.

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
    try:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    except BaseException:
        os.close(writing)
        pipe.close()
        raise
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        finally:
            os.close(writing)
        child = Child(process, reader)
        try:
            yield child
        finally:
            if not child.finished:
                await child.end()
    finally:
        transport.close()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _bounded(waiting: Awaitable[int], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
