"""Ends the program on SIGTERM and SIGHUP: in order where possible, and soon in any case.

An event loop hears of a signal only between two callbacks, and the interpreter waits for every thread before
it ends. So the first SIGTERM or SIGHUP also starts a thread that waits for neither.
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
"""What tidying up may take; then the program ends as it is. The history stands that at any moment."""
_LAST_SECONDS: Final = 10.0
"""When the system itself ends the program (SIGALRM), even one whose code holds the interpreter.

Far beyond `ORDERLY_SECONDS`: on a busy machine the orderly end takes longer, and has the right exit code.
"""
_begun = False


def on_termination(
    loop: asyncio.AbstractEventLoop,
    leave: Callable[[int], object],
    at_last: Callable[[], object] | None = None,
) -> None:
    """Have the loop call `leave` with the number of each signal that wants the program to end.

    `at_last` is called, in another thread, where the program did not end in order. What is ignored was meant
    to be (`nohup`); outside the main thread nobody sends us signals.
    """

    def heard(number: int, _: FrameType | None) -> None:
        end_soon(number, at_last)

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, leave, number)
                signal.signal(number, heard)  # beside the loop's own way, which needs a loop that turns


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns, in an event loop of its own. Ended by the system, it is cancelled and may
    tidy up: nothing that it started stays behind.

    `asyncio.run` gives the SIGINT handler back through `signal.signal`, which writes out the handler it
    replaces, its task, and the task's result twice: a minute for a large one. So this task has none.

    Raises:
        SystemExit: with 128 and the number of the signal that ended it, as shells have it.
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
    """Cancel the task that runs now where the system wants the program to end."""
    task = asyncio.current_task()

    def end(number: int) -> None:
        ended_by.append(number)
        if task is not None and not task.cancelling():  # once: a second one must not break into tidying up
            task.cancel()

    on_termination(asyncio.get_running_loop(), end)


def end_soon(number: int, at_last: Callable[[], object] | None = None) -> None:
    """End the program with 128 + `number` in about two seconds, whatever it does by then.

    Code that holds the interpreter is ended by the system, by SIGALRM after `_LAST_SECONDS`.
    """
    global _begun
    if not _begun:
        _begun = True
        # `threading` takes locks, which the code this signal interrupted may hold.
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
    """Kill the groups of the programs we started; nobody else would. Known where there is a /proc."""
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in listing.read_text().split():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(int(child), signal.SIGKILL)
