"""Whatever is done in a session of 100,000 entries and 1 GB, nothing holds up the event loop for long."""

from collections.abc import Callable
from pathlib import Path

from bench.pauses import TARGET, Pauses, shown, told, walked
from bench.sessions import copied, events_of
from bench.tables import add

Benchmark = Callable[..., object]

_ALLOWED = 2.0
"""Times the target before the benchmark fails: `ours` is of the processor, but its caches are shared."""


def test_no_action_holds_up_the_loop(benchmark: Benchmark, large: Path) -> None:
    with copied(events_of(large)) as folder:
        marks: list[Pauses] = benchmark.pedantic(walked, (folder,), rounds=1)  # type: ignore[attr-defined]
    table = add(shown(marks, "Longest pauses of the event loop, 100,000 entries and 1 GB"))
    for mark in marks:
        if mark.ours > TARGET:
            for line in told(mark, TARGET, most=1, deep=1):
                table.note(line)
    table.note("where everything was: python -m bench.pauses")
    worst = max(marks, key=lambda mark: mark.ours)
    assert worst.ours < TARGET * _ALLOWED, f"{worst.name}: {worst.ours:.3f} s"
