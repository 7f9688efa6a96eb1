"""Times of single calls in seconds: median, 99th percentile, worst."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    seconds: tuple[float, ...]
    """Sorted, in seconds."""

    @classmethod
    def of(cls, seconds: list[float]) -> "Times":
        return cls(tuple(sorted(seconds)))

    @property
    def median(self) -> float:
        return self.seconds[len(self.seconds) // 2]

    @property
    def p99(self) -> float:
        return self.seconds[min(len(self.seconds) - 1, len(self.seconds) * 99 // 100)]

    @property
    def worst(self) -> float:
        return self.seconds[-1]


def times_of(
    work: Callable[[], object],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Times:
    """Time each round separately."""
    seconds = []
    for _ in range(rounds):
        began = clock()
        work()
        seconds.append(clock() - began)
    return Times.of(seconds)


def cpu_times_of(work: Callable[[], object], rounds: int) -> Times:
    """Return the CPU time of each round in this thread, nearly independent of other load."""
    return times_of(work, rounds, time.thread_time)


async def times_of_async(work: Callable[[], Awaitable[object]], rounds: int) -> Times:
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        seconds.append(time.perf_counter() - began)
    return Times.of(seconds)


def ms(seconds: float) -> str:
    """Format a duration for people: `0.012 ms`, `4.1 ms`, `310 ms`."""
    value = seconds * 1000
    if value < 1:
        return f"{value:.3f} ms"
    if value < 100:
        return f"{value:.1f} ms"
    return f"{value:,.0f} ms"
