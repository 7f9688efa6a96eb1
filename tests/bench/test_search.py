"""The cost of searching all sessions, compared with reading all event files in the same run."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.tables import table
from bench.timing import Times, cpu_times_of, ms
from foldline.history.log import dump_header, read_log
from foldline.history.paths import session_dir
from foldline.history.session_search import search_sessions, sessions_to_search
from foldline.protocol import (
    Entry,
    SessionHeader,
    ToolResultMessage,
    UserMessage,
    dump_entry,
    text_parts,
)

Benchmark = Callable[..., object]

SESSIONS, TURNS = 300, 30
START = datetime(2026, 1, 2, tzinfo=UTC)
QUERY = 0.5
"""Allowed time of a query relative to the floor."""
_WORDS = [
    "".join(random.Random(n).choices("etaoinshrdlucmfwypvbgkjqxz", k=2 + n % 9))
    for n in range(8000)
]


def sentence(chance: random.Random, words: int) -> str:
    """Return words with a natural frequency distribution."""
    return " ".join(_WORDS[int(8000 ** chance.random()) - 1] for _ in range(words))


def entries(chance: random.Random, turns: int) -> list[Entry]:
    result: list[Entry] = []
    for _ in range(turns):
        at = len(result)
        result.append(
            UserMessage(index=at, at=START, parts=text_parts(sentence(chance, 20)))
        )
        text = "\n".join(sentence(chance, 10) for _ in range(20))
        result.append(
            ToolResultMessage(
                index=at + 1,
                at=START,
                call_id=f"c{at}",
                name="read",
                parts=text_parts(text),
            )
        )
    return result


def fill(home: Path) -> list[Path]:
    """Write sessions to disk; return their event files."""
    paths = []
    for number in range(SESSIONS):
        session_entries = entries(random.Random(number), TURNS)
        if number % 100 == 42:
            session_entries.append(
                UserMessage(
                    index=len(session_entries),
                    at=START,
                    parts=text_parts("数据库的端口 and a needle"),
                )
            )
        paths.append(keep(home, f"s{number}", session_entries))
    return paths


def keep(home: Path, name: str, session_entries: Sequence[Entry]) -> Path:
    path = session_dir(home, "/work", name) / "events.jsonl"
    path.parent.mkdir(parents=True)
    header = dump_header(SessionHeader(id=name, created_at=START, cwd="/work"))
    path.write_bytes(
        b"".join(line + b"\n" for line in (header, *map(dump_entry, session_entries)))
    )
    return path


def test_searching_300_sessions(benchmark: Benchmark, tmp_path: Path) -> None:
    paths = fill(tmp_path)
    floor = cpu_times_of(lambda: [read_log(path) for path in paths], 3)
    report = table(
        "search across 300 sessions", "what", "median", "worst", "of reading all once"
    )

    def note(what: str, times: Times, most: float) -> None:
        share = times.median / floor.median
        report.row(what, ms(times.median), ms(times.worst), f"{share:.3f}")
        assert share < most, f"{what}: {share:.3f} of reading all once, at most {most}"

    report.row("read all event files", ms(floor.median), ms(floor.worst), "1")
    sessions = sessions_to_search(tmp_path)
    search = partial(search_sessions, sessions)
    queries = (
        "needle",
        "端口",
        "口",
        _WORDS[0],
        f"{_WORDS[3]} {_WORDS[400]}",
        "e",
        "is not there",
        "qxzqxz",
    )
    for query in queries:
        note(f"search {query}", cpu_times_of(lambda: search(query), 9), QUERY)  # noqa: B023
    assert len(search("needle").sessions) == SESSIONS // 100
    benchmark(search, "needle")
