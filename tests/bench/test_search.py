"""What the search across sessions costs, beside reading all event files once, measured in the same run."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.tables import table
from bench.timing import Times, cpu_times_of, ms
from foldline.formats.reader import read_foreign
from foldline.history.log import dump_header, read_log
from foldline.history.paths import session_dir
from foldline.history.search_index import searchable_text
from foldline.history.session_search import SessionSearch
from foldline.protocol import (
    BaseMessage,
    Entry,
    SessionHeader,
    ToolResultMessage,
    UserMessage,
    dump_entry,
    text_parts,
)
from support.recorded import needs_recorded, readable

Benchmark = Callable[..., object]

SESSIONS, TURNS = 300, 30
START = datetime(2026, 1, 2, tzinfo=UTC)
INDEXING = 20.0
"""Times as long as reading and parsing everything once: what making the index may take."""
ADDING = 0.1
"""Of that same floor: what taking in one more entry of one session may take."""
QUERY = 0.5
"""Of that same floor: what any query may take."""
SIZE = 0.8
"""Bytes of the index for each byte of text in recorded sessions. Random words take twice that."""

_WORDS = ["".join(random.Random(n).choices("etaoinshrdlucmfwypvbgkjqxz", k=2 + n % 9)) for n in range(8000)]


def sentence(chance: random.Random, words: int) -> str:
    """Words as languages have them: few of them often, most of them rarely."""
    return " ".join(_WORDS[int(8000 ** chance.random()) - 1] for _ in range(words))


def entries(chance: random.Random, turns: int) -> list[Entry]:
    made: list[Entry] = []
    for _ in range(turns):
        at = len(made)
        made.append(UserMessage(index=at, at=START, parts=text_parts(sentence(chance, 20))))
        text = "\n".join(sentence(chance, 10) for _ in range(20))
        made.append(
            ToolResultMessage(index=at + 1, at=START, call_id=f"c{at}", name="read", parts=text_parts(text))
        )
    return made


def fill(home: Path) -> tuple[list[Path], int]:
    """Sessions on disk; their event files, and the bytes of text in them."""
    paths, text = [], 0
    for number in range(SESSIONS):
        made = entries(random.Random(number), TURNS)
        if number % 100 == 42:
            made.append(UserMessage(index=len(made), at=START, parts=text_parts("数据库的端口 and a needle")))
        text += sum(len(entry.text) for entry in made if isinstance(entry, UserMessage | ToolResultMessage))
        paths.append(keep(home, f"s{number}", made))
    return paths, text


def keep(home: Path, name: str, made: Sequence[Entry]) -> Path:
    path = session_dir(home, "/work", name) / "events.jsonl"
    path.parent.mkdir(parents=True)
    header = dump_header(SessionHeader(id=name, created_at=START, cwd="/work"))
    path.write_bytes(b"".join(line + b"\n" for line in (header, *map(dump_entry, made))))
    return path


def test_indexing_300_sessions_adding_to_them_and_searching_them(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    paths, text = fill(tmp_path)
    floor = cpu_times_of(lambda: [read_log(path) for path in paths], 3)
    report = table("search across 300 sessions", "what", "median", "worst", "of reading all once")

    def note(what: str, times: Times, most: float) -> None:
        share = times.median / floor.median
        report.row(what, ms(times.median), ms(times.worst), f"{share:.3f}")
        assert share < most, f"{what}: {share:.3f} of reading all once, at most {most}"

    search = SessionSearch(tmp_path)
    report.row("read all event files", ms(floor.median), ms(floor.worst), "1")
    note("make the index", cpu_times_of(search.refresh, 1), INDEXING)
    note("nothing is new", cpu_times_of(search.refresh, 20), ADDING)

    def one_more() -> None:
        last = read_log(paths[7]).last_index + 1
        with paths[7].open("ab") as file:
            file.write(dump_entry(UserMessage(index=last, at=START, parts=text_parts("one more"))) + b"\n")
        assert search.refresh()

    note("take in one more entry", cpu_times_of(one_more, 20), ADDING)
    queries = ("needle", "端口", "口", _WORDS[0], f"{_WORDS[3]} {_WORDS[400]}", "e", "is not there", "qxzqxz")
    for query in queries:
        note(f"search {query}", cpu_times_of(lambda: search.find(query), 9), QUERY)  # noqa: B023
    assert len(search.find("needle").sessions) == SESSIONS // 100
    report.note(f"index / text: {(tmp_path / 'search.db').stat().st_size / text:.2f} of random words")
    benchmark(search.find, "needle")


@needs_recorded
def test_the_index_is_smaller_than_what_it_is_of(benchmark: Benchmark, tmp_path: Path) -> None:
    text = 0
    for number, path in enumerate(readable()):
        made = [entry for entry in read_foreign(path).entries if isinstance(entry, BaseMessage)]
        text += sum(len(searchable_text(entry)[1].encode()) for entry in made)
        keep(tmp_path, f"s{number}", made)
    search = SessionSearch(tmp_path)
    assert search.refresh()
    size = (tmp_path / "search.db").stat().st_size / text
    table("search across 300 sessions").note(f"index / text: {size:.2f} of recorded sessions")
    assert size < SIZE
    benchmark(search.find, "compaction")
