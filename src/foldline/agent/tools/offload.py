"""Blocking work in a thread that learns when nobody waits for it any more."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """`work(stop)` in a thread. `stop()` becomes true when the waiting task is cancelled."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    finally:
        stopped.set()
