"""Listing sessions, compared with reading the same number of small files in the same run."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.tables import Table, table
from bench.timing import Times, ms, times_of
from foldline.history import find_session, list_sessions, workdir_key
from foldline.history.meta import Meta

Benchmark = Callable[..., object]

SESSIONS, FOLDERS = 3_000, 30
SECONDS = 0.5
"""The target of docs/design/performance.md."""
TIMES_FLOOR = 12
ROUNDS = 5
START = datetime(2026, 1, 1, tzinfo=UTC)


def keep_sessions(home: Path) -> None:
    for number in range(SESSIONS):
        cwd, at = (
            f"/nowhere/project-{number % FOLDERS}",
            START + timedelta(minutes=number),
        )
        session_id = f"{at:%Y%m%d-%H%M%S}-{number:06d}"
        folder = home / "sessions" / workdir_key(cwd) / session_id
        folder.mkdir(parents=True)
        stamp = at.isoformat()
        events = (
            f'{{"type":"session","version":1,"id":"{session_id}","created_at":"{stamp}","cwd":"{cwd}"}}\n'
            f'{{"type":"user","index":0,"at":"{stamp}","parts":[{{"type":"text","text":"fix it"}}]}}\n'
        )
        (folder / "events.jsonl").write_text(events)
        meta = Meta(
            id=session_id,
            cwd=cwd,
            title=f"Mend the login of shop {number}",
            first_prompt="fix it",
            last_prompt="and run the tests once more",
            model="vendor/model",
            entries=412,
            tokens=45_123,
            size=len(events),
            created_at=at,
            updated_at=at,
        )
        (folder / "meta.json").write_text(meta.model_dump_json())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    keep_sessions(folder)
    return folder


@pytest.fixture(scope="module")
def floor(home: Path) -> Times:
    snapshots = list(home.glob("sessions/*/*/meta.json"))
    return times_of(lambda: [path.read_bytes() for path in snapshots], ROUNDS)


def test_listing_all_sessions(benchmark: Benchmark, home: Path, floor: Times) -> None:
    assert len(list_sessions(home)) == SESSIONS
    _measure(benchmark, "list all", lambda: list_sessions(home), floor)


def test_listing_those_of_one_folder_looks_for_moved_ones_in_all(
    benchmark: Benchmark, home: Path, floor: Times
) -> None:
    cwd = "/nowhere/project-7"
    assert len(list_sessions(home, cwd)) == SESSIONS // FOLDERS
    _measure(benchmark, "list one folder", lambda: list_sessions(home, cwd), floor)


def test_finding_one_by_its_short_id(
    benchmark: Benchmark, home: Path, floor: Times
) -> None:
    _measure(benchmark, "find one by id", lambda: find_session(home, "002999"), floor)


def test_listing_where_every_snapshot_is_missing(
    benchmark: Benchmark, home: Path, floor: Times
) -> None:
    def forget_and_list() -> None:
        for snapshot in home.glob("sessions/*/*/meta.json"):
            snapshot.unlink()
        list_sessions(home)

    times = times_of(forget_and_list, 1)
    benchmark.pedantic(lambda: list_sessions(home), rounds=1)  # type: ignore[attr-defined]
    _note("list all, snapshots made anew", times, floor)


def _measure(
    benchmark: Benchmark, what: str, work: Callable[[], object], floor: Times
) -> None:
    times = times_of(work, ROUNDS)
    benchmark.pedantic(work, rounds=1)  # type: ignore[attr-defined]
    _note(what, times, floor)
    slow_machine = times.median <= TIMES_FLOOR * floor.median
    assert times.median <= SECONDS or slow_machine, f"{what}: {ms(times.median)}"


def _note(what: str, times: Times, floor: Times) -> None:
    _table().row(
        what,
        ms(times.median),
        ms(times.worst),
        ms(floor.median),
        f"{times.median / floor.median:.1f}",
    )


def _table() -> Table:
    output = table(
        f"{SESSIONS:,} sessions", *("what", "median", "worst", "floor", "× floor")
    )
    output.note(
        "target: all listed in < 500 ms; floor: reading their snapshots, and nothing else"
    )
    return output
