"""Runs a coroutine from the command line."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns, in an event loop of its own. Told to end by the system, it is cancelled and may
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
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def end(number: signal.Signals) -> None:
        ended_by.append(number)
        if task is not None and not task.cancelling():  # once: a second one must not break into tidying up
            task.cancel()

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):
        # What is ignored was meant to be: `nohup`. Outside the main thread nobody sends us signals.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, end, number)
