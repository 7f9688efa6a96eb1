"""Runs a coroutine from the command line."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns, in an event loop of its own.

    `asyncio.run` gives the SIGINT handler back through `signal.signal`, which writes out the handler it
    replaces, its task, and the task's result twice: a minute for a large one. So this task has none.
    """
    results: list[T] = []

    async def keep() -> None:
        results.append(await main)

    asyncio.run(keep())
    return results[0]
