"""What opening a session costs, beside reading the bytes of its file; and what of it stays in memory.

Times are of the processor: a busy machine does not change what a session costs.
"""

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.sessions import write_large
from bench.tables import Table, table
from bench.timing import ms
from foldline.history import EVENTS
from foldline.history.paths import INDEX

Benchmark = Callable[..., object]

ENTRIES = 100_000
SIZES = (50_000_000, 250_000_000, 1_000_000_000)
SECONDS, MEGABYTES = 1.0, 300
"""The targets of DESIGN §11, with an index."""

_OPEN = """
import resource, sys, time
from foldline.history import Session
started = time.process_time()
session = Session.open(sys.argv[1])
taken = time.process_time() - started
assert len(session.entries) == int(sys.argv[2])
print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def opened(path: Path) -> tuple[float, float]:
    """Seconds, and megabytes at most, of a process that opens this."""
    command = [sys.executable, "-c", textwrap.dedent(_OPEN), str(path), str(ENTRIES)]
    seconds, megabytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(megabytes)


def read_through(path: Path) -> float:
    """Seconds of reading the file, and no more."""
    started = time.process_time()
    with path.open("rb") as file:
        while file.read(1024 * 1024):
            pass
    return time.process_time() - started


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size // 1_000_000} MB")
def test_opening_a_long_session(benchmark: Benchmark, tmp_path: Path, size: int) -> None:
    path = tmp_path / EVENTS
    write_large(path, entries=ENTRIES, size=size)
    read_through(path)
    floor = min(read_through(path) for _ in range(3))
    found: dict[str, tuple[float, float]] = {"without an index": opened(path)}
    assert path.with_name(INDEX).exists()
    again: Callable[..., tuple[float, float]] = benchmark.pedantic  # type: ignore[attr-defined]
    found["with an index"] = min(again(opened, args=(path,), rounds=1), opened(path), opened(path))
    for how, (seconds, megabytes) in found.items():
        ratio = f"{seconds / floor:.1f}"
        _table().row(how, f"{size // 1_000_000}", ms(seconds), ms(floor), ratio, f"{megabytes:.0f}")
    seconds, megabytes = found["with an index"]
    assert megabytes < MEGABYTES
    assert seconds < SECONDS or seconds < 20 * floor


def _table() -> Table:
    shown = table(
        f"Opening a session of {ENTRIES:,} entries",
        *("what", "MB", "time", "floor", "× floor", "most MB in memory"),
    )
    shown.note(
        f"targets: with an index < {SECONDS:.0f} s, < {MEGABYTES} MB; the floor reads the file's bytes"
    )
    return shown
