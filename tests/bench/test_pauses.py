"""No action in a session of 100,000 entries and 1 GB blocks the event loop for long."""

from collections.abc import Callable
from pathlib import Path

from bench.pauses import TARGET, Pauses, pause_lines, pause_table, walk_session
from bench.sessions import events_of, session_copy
from bench.tables import add

Benchmark = Callable[..., object]

_ALLOWED = 2.0
"""Allowed multiple of the target: `ours` is CPU time, but CPU caches are shared."""


def test_no_action_holds_up_the_loop(benchmark: Benchmark, large: Path) -> None:
    with session_copy(events_of(large)) as folder:
        marks: list[Pauses] = benchmark.pedantic(walk_session, (folder,), rounds=1)  # type: ignore[attr-defined]
    table = add(
        pause_table(marks, "Longest pauses of the event loop, 100,000 entries and 1 GB")
    )
    for mark in marks:
        if mark.ours > TARGET:
            for line in pause_lines(mark, TARGET, most=1, deep=1):
                table.note(line)
    table.note("where everything was: python -m bench.pauses")
    worst = max(marks, key=lambda mark: mark.ours)
    assert worst.ours < TARGET * _ALLOWED, f"{worst.name}: {worst.ours:.3f} s"
