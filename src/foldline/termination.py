"""Exits on SIGTERM and SIGHUP.

The exit is orderly if possible, and always happens within seconds. An event loop handles a signal only
between two callbacks, and the interpreter waits for all threads before it exits. Therefore, the first SIGTERM
or SIGHUP also starts a thread that waits neither for callbacks nor for other threads.
"""

import _thread
import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")

ORDERLY_SECONDS: Final = 1.5
"""Maximum duration of an orderly exit, in seconds.

After this time, the process exits at once. The history is safe in either case.
"""
_LAST_SECONDS: Final = 10.0
"""Seconds until the kernel kills the process with SIGALRM.

This works even if a C extension blocks the interpreter. The time is much longer than `ORDERLY_SECONDS`, so
that even a busy machine can finish an orderly exit with the right exit code.
"""
_is_ending = False


def on_termination(
    loop: asyncio.AbstractEventLoop,
    leave: Callable[[int], object],
    at_last: Callable[[], object] | None = None,
) -> None:
    """Handle SIGTERM and SIGHUP in the event loop.

    Outside the main thread, this does nothing. Signals that are ignored remain ignored, as with `nohup`.

    Args:
        leave: called in the loop with the number of each signal.
        at_last: called in another thread if the process has not exited in time.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        end_soon(number, at_last)

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, leave, number)
                # The loop's own handler would do nothing if the loop is blocked.
                signal.signal(number, on_signal)


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop.

    SIGTERM and SIGHUP cancel the coroutine, so that it can clean up.

    The coroutine's result is passed on in a list, not as the task's result. Otherwise, when `asyncio.run`
    restores the SIGINT handler, it would format the result twice, which takes a minute for a large result.

    Raises:
        SystemExit: a signal ended the coroutine. The exit code is 128 plus the signal's number, as in shells.
    """
    results: list[T] = []
    ended_by: list[int] = []

    async def keep() -> None:
        _cancel_on_signals(ended_by)
        results.append(await main)

    try:
        asyncio.run(keep())
    except asyncio.CancelledError:
        if ended_by:
            raise SystemExit(128 + ended_by[0]) from None
        raise
    return results[0]


def _cancel_on_signals(ended_by: list[int]) -> None:
    """Cancel the current task on SIGTERM and SIGHUP.

    Args:
        ended_by: list to which the signal's number is added.
    """
    task = asyncio.current_task()

    def end(number: int) -> None:
        ended_by.append(number)
        # Cancel once: a second signal must not interrupt the cleanup.
        if task is not None and not task.cancelling():
            task.cancel()

    on_termination(asyncio.get_running_loop(), end)


def end_soon(number: int, at_last: Callable[[], object] | None = None) -> None:
    """Exit with the code 128 + `number` in about two seconds.

    If a C extension holds the interpreter, SIGALRM ends the process after `_LAST_SECONDS`.
    """
    global _is_ending
    if not _is_ending:
        _is_ending = True
        # `threading` takes locks that the interrupted code may hold.
        _thread.start_new_thread(_end, (number, at_last))
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, _LAST_SECONDS)


def _end(number: int, at_last: Callable[[], object] | None) -> None:
    time.sleep(ORDERLY_SECONDS)
    try:
        _end_children()
        if at_last is not None:
            at_last()
    finally:
        os._exit(128 + number)


def _end_children() -> None:
    """Kill the process groups of Foldline's child programs. Needs /proc."""
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in listing.read_text().split():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(int(child), signal.SIGKILL)
