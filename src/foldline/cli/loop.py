"""Runs a coroutine from the command line."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from foldline.termination import on_termination

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
    task = asyncio.current_task()

    def end(number: int) -> None:
        ended_by.append(number)
        if task is not None and not task.cancelling():  # once: a second one must not break into tidying up
            task.cancel()

    on_termination(asyncio.get_running_loop(), end)
