"""The cost of opening and reading a session, compared with reading its file; and its memory.

Times are CPU times, independent of other load.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.sessions import ENTRIES, write_large
from bench.tables import Table, table
from bench.timing import ms
from foldline.history import EVENTS
from foldline.history.paths import INDEX

Benchmark = Callable[..., object]

SIZES = (50_000_000, 250_000_000, 1_000_000_000)
SECONDS, MEGABYTES = 1.0, 300
"""The targets of docs/design/performance.md, with an index."""
EVERYWHERE, NOWHERE = "return self", "qxzqxz"
"""A query that matches nearly every entry, and one without matches."""

_DEEDS = """
import json, sys, time
from pathlib import Path

done = {}

def did(what, work):
    started = time.process_time()
    found = work()
    status = Path("/proc/self/status").read_text()  # getrusage would count what the parent took before exec
    megabytes = int(status.split("VmHWM:")[1].split()[0]) / 1024
    done[what] = time.process_time() - started, megabytes
    return found

from foldline.history import EntrySearch, Session
session = did("open", lambda: Session.open(sys.argv[1]))
entries = session.entries
assert len(entries) == int(sys.argv[2])
for what in sys.argv[3:]:
    if what == "one":
        did(what, lambda: [entries[len(entries) // 2 + nth] for nth in range(100)])
    elif what == "all":
        did(what, lambda: sum(1 for entry in entries))
    else:
        did(what, lambda: EntrySearch(entries).find(what, limit=20))
print(json.dumps(done))
"""

Done = dict[str, tuple[float, float]]
"""CPU seconds and peak megabytes of each action."""


def deeds(path: Path, *what: str) -> Done:
    """Open a session in a new process and run these actions."""
    command = [sys.executable, "-c", _DEEDS, str(path), str(ENTRIES), *what]
    done: Done = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return done


def read_through(path: Path) -> float:
    """Return the seconds of reading the file alone."""
    started = time.process_time()
    with path.open("rb") as file:
        while file.read(1024 * 1024):
            pass
    return time.process_time() - started


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size // 1_000_000} MB")
def test_opening_a_long_session_and_looking_into_it(
    benchmark: Benchmark, tmp_path: Path, size: int
) -> None:
    path = tmp_path / EVENTS
    write_large(path, entries=ENTRIES, size=size)
    read_through(path)
    floor = min(read_through(path) for _ in range(3))
    report = _table()

    def note(what: str, seconds: float, megabytes: float) -> None:
        ratio = f"{seconds / floor:.1f}"
        report.row(
            what,
            f"{size // 1_000_000}",
            ms(seconds),
            ms(floor),
            ratio,
            f"{megabytes:.0f}",
        )

    note("open, without an index", *deeds(path)["open"])
    assert path.with_name(INDEX).exists()
    measure: Callable[..., Done] = benchmark.pedantic  # type: ignore[attr-defined]
    first = measure(deeds, args=(path, "one", "all", NOWHERE, EVERYWHERE), rounds=1)
    seconds = min(first["open"][0], *(deeds(path)["open"][0] for _ in range(3)))
    note("open, with an index", seconds, first["open"][1])
    note("100 entries from the middle", *first["one"])
    note("all entries, one by one", *first["all"])
    note("search what is nowhere", *first[NOWHERE])
    note("search what is everywhere", *first[EVERYWHERE])
    assert max(megabytes for _, megabytes in first.values()) < MEGABYTES
    assert seconds < SECONDS or seconds < 20 * floor


def _table() -> Table:
    output = table(
        f"A session of {ENTRIES:,} entries",
        *("what", "MB", "time", "floor", "× floor", "most MB in memory"),
    )
    output.note(
        f"targets: with an index < {SECONDS:.0f} s; all < {MEGABYTES} MB; the floor reads the file's bytes"
    )
    return output
