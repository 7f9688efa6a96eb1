"""The search across sessions finds what was said in any of them, whatever happens to files and index."""

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.cli.doctor_checks import _search_index, tidy
from foldline.context.text_search import casefolded, parse_query
from foldline.history import (
    Contents,
    Session,
    archive,
    list_sessions,
    search_index,
    session_dir,
    session_search,
    unarchive,
)
from foldline.history.log import dump_header
from foldline.history.search_index import entry_at, searchable_text
from foldline.history.session_search import IndexProgress, SessionSearch, SessionsFound
from foldline.protocol import Compaction, Entry, SessionHeader, Title, dump_entry
from support.history import History, call, history
from support.limits import examples

START = datetime(2026, 1, 2, tzinfo=UTC)
CWD = "/nowhere/shop"


def keep(
    home: Path, built: History | Sequence[Entry], name: str = "s1", *, cwd: str = CWD, days: float = 0
) -> Path:
    """A session on disk, begun so many days after START; its event file."""
    entries = built.entries if isinstance(built, History) else built
    begun = START + timedelta(days=days)
    timed = [entry.model_copy(update={"at": begun + timedelta(seconds=n)}) for n, entry in enumerate(entries)]
    path = session_dir(home, cwd, name) / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = dump_header(SessionHeader(id=name, created_at=begun, cwd=cwd))
    path.write_bytes(b"".join(line + b"\n" for line in [header, *map(dump_entry, timed)]))
    return path


def extend(path: Path, built: History, *, end: bytes = b"\n") -> None:
    with path.open("ab") as file:
        file.write(b"".join(dump_entry(entry) + b"\n" for entry in built.entries)[:-1] + end)


def continued(after: int) -> History:
    return history().gap(after)


def search(home: Path) -> SessionSearch:
    made = SessionSearch(home)
    assert made.refresh()
    return made


def find(home: Path, query: str, **options: object) -> dict[str, list[int]]:
    return told(search(home).find(query, **options))  # type: ignore[arg-type]


def told(found: SessionsFound) -> dict[str, list[int]]:
    return {session.id: [hit.index for hit in session.hits] for session in found.sessions}


# --- what is found ----------------------------------------------------------------------------------


@pytest.fixture(params=["trigrams", "none"])
def sqlite(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with what this SQLite can do, once as with one that is older than the trigrams."""
    if request.param == "none":
        monkeypatch.setattr("foldline.history.search_index.TRIGRAMS", "no_such_tokenizer")


@pytest.mark.usefixtures("sqlite")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("handler", {"en": [0]}),
        ("ndle", {"en": [0]}),
        ("AUTH.PY:42", {"en": [0]}),
        ("42", {"en": [0]}),
        ("2", {"en": [0]}),  # the last sign of an entry
        ("数据库", {"zh": [0]}),
        ("端口", {"zh": [0]}),  # two characters: below a trigram
        ("口", {"zh": [0]}),
        ("的", {"zh": [0]}),
        ("库的 5433", {"zh": [0]}),
        ("STRASSE", {"de": [0]}),
        ("cafe\u0301", {"de": [0]}),
        ("ＡＢＣ", {"de": [0]}),
        ('"the handler"', {"en": [0]}),
        ('"handler the"', {}),
        ("handler the", {"en": [0]}),
        ("handler 数据库", {}),  # in one entry
        ("handlers", {}),
        ("zq", {}),
        ("", {}),
        ("a\0b", {}),
        ("👩\u200d👧", {"de": [0]}),
        ("שלום", {"de": [0]}),
    ],
)
def test_what_is_found(tmp_path: Path, query: str, expected: dict[str, list[int]]) -> None:
    keep(tmp_path, history().user("change the handler in src/auth.py:42"), "en")
    keep(tmp_path, history().user("数据库的端口是 5433"), "zh")
    keep(tmp_path, history().user("Straße, café, abc, 👩\u200d👧, שלום."), "de")
    assert find(tmp_path, query) == expected


@pytest.mark.parametrize(
    "query", ['"', '"a" OR "b"', "NEAR(a b)", "a AND", "text:a", "a*", "(((", "'--", "^"]
)
def test_operators_of_fts5_are_text(tmp_path: Path, query: str) -> None:
    keep(tmp_path, history().user("a b ab text AND OR NEAR").user(f"so: {query}!"))
    assert 1 in find(tmp_path, query)["s1"]


def test_a_query_of_ten_thousand_characters_is_looked_for_whole(tmp_path: Path) -> None:
    long = " ".join(f"word{n}" for n in range(1500))
    keep(tmp_path, history().user(long).user(long.replace("word1499", "word")))
    assert find(tmp_path, f'"{long}"') == {"s1": [0]}
    assert find(tmp_path, long) == {"s1": [0]}


def test_prompts_answers_calls_results_and_titles_are_found_by_kind(tmp_path: Path) -> None:
    built = history().user("needle?").assistant("needle!", calls=[call("bash", command="grep 'needle'")])
    built = built.result("needle: 1").add(Title(title="The needle"))
    keep(tmp_path, built)
    [session] = search(tmp_path).find("needle").sessions
    assert {hit.kind for hit in session.hits} == {"user", "assistant", "tool_result", "title"}
    assert session.title == "The needle"
    assert find(tmp_path, "grep 'needle'") == {"s1": [1]}
    assert find(tmp_path, "needle", kind="tool_result") == {"s1": [2]}


def test_what_only_repeats_is_left_out(tmp_path: Path) -> None:
    built = history().user("the needle").add(Compaction(summary="a needle", first_kept_index=0))
    built = built.assistant(calls=[call("history_search", query="needle")]).result("0: the needle")
    keep(tmp_path, built)
    assert find(tmp_path, "needle") == {"s1": [0]}


def test_a_hit_says_where_it_is_and_what_of_it_matches(tmp_path: Path) -> None:
    keep(tmp_path, history().user("first prompt").assistant("one\ntwo\nthe Straße is [red]closed[/red]"))
    [session] = search(tmp_path).find("STRASSE closed").sessions
    [hit] = session.hits
    assert (hit.index, hit.kind, hit.line) == (1, "assistant", 3)
    assert [hit.excerpt[start:end] for start, end in hit.marks] == ["Straße", "closed"]
    assert (session.title, session.cwd, session.archived) == ("first prompt", CWD, False)
    assert session.updated_at == START + timedelta(seconds=1)
    assert session.path == session_dir(tmp_path, CWD, "s1") / "events.jsonl"


def test_of_a_giant_result_beginning_and_end_are_searched_and_it_is_said(tmp_path: Path) -> None:
    lines = [f"line {n}" for n in range(60_000)]
    keep(tmp_path, history().user("x").step("bash", "\n".join(lines)))
    found = search(tmp_path).find("59999")
    assert (found.sessions[0].hits[0].line, found.clipped) == (60_000, 1)
    assert find(tmp_path, "line 17") == {"s1": [2]}
    assert find(tmp_path, "30123") == {}


@settings(max_examples=examples(25))
@given(st.lists(st.text("ab cé端口\n\"'*", min_size=1, max_size=12), min_size=1, max_size=6), st.data())
def test_any_piece_of_any_text_is_found(texts: list[str], data: st.DataObject) -> None:
    from tempfile import TemporaryDirectory

    place = data.draw(st.integers(0, len(texts) - 1))
    begin = data.draw(st.integers(0, len(texts[place]) - 1))
    piece = texts[place][begin : data.draw(st.integers(begin + 1, len(texts[place])))]
    built = history()
    for text in texts:
        built.user(text)
    expected = [
        n
        for n, entry in enumerate(built.entries)
        if parse_query(piece).matches(casefolded(searchable_text(entry)[1]))
    ]
    with TemporaryDirectory() as home:
        keep(Path(home), built)
        [session] = search(Path(home)).find(piece).sessions
    assert place in expected
    assert session.total == len(expected)


# --- what comes first -------------------------------------------------------------------------------


def test_the_session_with_the_best_hit_comes_first(tmp_path: Path) -> None:
    keep(tmp_path, history().user("parser " + "and much else " * 300), "about-else", days=1)
    keep(tmp_path, history().user("the parser of the parser"), "about-it", days=1)
    keep(tmp_path, history().user("the parser of the parser"), "about-it-long-ago", days=-300)
    assert next(iter(find(tmp_path, "parser"))) == "about-it"
    assert {*find(tmp_path, "parser")} == {"about-it", "about-it-long-ago", "about-else"}


def test_the_query_as_it_was_written_comes_before_its_words_apart(tmp_path: Path) -> None:
    keep(tmp_path, history().user("open the file"), "as-written")
    keep(tmp_path, history().user("file the open, open, open file file"), "apart", days=5)
    assert [*find(tmp_path, "open the file")] == ["as-written", "apart"]


def test_one_talkative_session_does_not_hide_the_others(tmp_path: Path) -> None:
    talk = history()
    for n in range(400):
        talk.user(f"the {n}")
    keep(tmp_path, history().user("the one"), "old", days=-9)
    keep(tmp_path, talk, "talk")
    found = search(tmp_path).find("the")
    assert {*told(found)} == {"talk", "old"}
    [session] = [session for session in found.sessions if session.id == "talk"]
    assert (session.total, session.more) == (session_search._PER_SESSION, True)


def test_of_very_many_matches_few_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(30):
        built = history()
        for _ in range(30):
            built.user("the same")
        keep(tmp_path, built, f"s{n}", days=n)
    made = search(tmp_path)
    read: list[int] = []

    def noted(file: BinaryIO, offset: int) -> Entry | None:
        read.append(offset)
        return entry_at(file, offset)

    monkeypatch.setattr(search_index, "entry_at", noted)
    found = made.find("the", limit=3)
    assert [*told(found)] == ["s29", "s28", "s27"]
    assert not found.complete
    assert len(read) <= 4 * session_search._PER_SESSION


def test_only_sessions_of_the_folder_asked_for(tmp_path: Path) -> None:
    keep(tmp_path, history().user("needle"), "here")
    keep(tmp_path, history().user("needle"), "there", cwd="/nowhere/else")
    assert find(tmp_path, "needle", cwd=CWD) == {"here": [0]}


# --- up to date -------------------------------------------------------------------------------------


def test_only_what_was_appended_is_read_again(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("first " * 20_000))
    made = search(tmp_path)
    extend(path, continued(1).user("second"))
    seen: list[IndexProgress] = []
    assert made.refresh(seen.append)
    assert [(progress.done, progress.total) for progress in seen] == [(seen[0].total, seen[0].total)]
    assert seen[0].total < 1000
    assert told(made.find("first")) == {"s1": [0]}
    assert told(made.find("second")) == {"s1": [1]}


def test_all_of_what_was_appended_is_taken_in_however_much_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    path = keep(tmp_path, history().user("needle 0"))
    made = search(tmp_path)
    for n in range(1, 30):
        extend(path, continued(n).user(f"needle {n}"))
    assert made.refresh()
    assert told(made.find('"needle 29"')) == {"s1": [29]}


def test_nothing_is_done_where_nothing_was_appended(tmp_path: Path) -> None:
    keep(tmp_path, history().user("x"))
    search(tmp_path)
    seen: list[IndexProgress] = []
    assert SessionSearch(tmp_path).refresh(seen.append)
    assert seen == []


def test_a_torn_tail_is_taken_in_once_it_is_whole(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("whole"))
    extend(path, continued(1).user("torn needle"), end=b"")
    assert find(tmp_path, "needle") == {}
    with path.open("ab") as file:
        file.write(b"\n")
    assert find(tmp_path, "needle") == {"s1": [1]}


def test_damaged_records_are_left_out_as_in_the_history(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("first needle"))
    with path.open("ab") as file:
        file.write(b'{"type":"user","ind\n\0\0\0\n\xff\xfe needle\n[1]\n')
        file.write(dump_entry(history().user("needle again").entries[0]) + b"\n")  # index 0, once more
    extend(path, continued(2).user("last needle"))
    assert sorted(find(tmp_path, "needle")["s1"]) == [0, 2]


@pytest.mark.parametrize("change", ["shrunk", "other"])
def test_a_file_that_is_another_one_is_taken_in_anew(tmp_path: Path, change: str) -> None:
    keep(tmp_path, history().user("before").user("before, too"))
    made = search(tmp_path)
    after = history().user("after")
    if change == "other":
        after.user("much longer than it was before " * 9)
    keep(tmp_path, after)
    assert made.refresh()
    assert told(made.find("after")) == {"s1": [0]}
    assert told(made.find("before, too")) == {}


def test_a_deleted_session_is_forgotten_and_an_archived_one_is_marked(tmp_path: Path) -> None:
    deleted = keep(tmp_path, history().user("needle"), "deleted")
    archived = keep(tmp_path, history().user("needle"), "archived").parent
    made = search(tmp_path)
    shutil.rmtree(deleted.parent)
    goal = tmp_path / "archive" / archived.parent.name / archived.name
    goal.parent.mkdir(parents=True)
    archived.rename(goal)
    assert told(made.find("needle")) == {"archived": [0]}  # found before the index knows of it
    seen: list[IndexProgress] = []
    assert made.refresh(seen.append)
    [session] = made.find("needle").sessions
    assert (session.id, session.archived, session.path) == ("archived", True, goal / "events.jsonl")
    assert seen == []  # moved, not read again


def test_an_index_that_is_mostly_of_the_past_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "_DEAD_AT_LEAST", 3)
    for n in range(4):
        keep(tmp_path, history().user("gone").user("gone"), f"gone{n}")
    keep(tmp_path, history().user("stays"), "stays")
    made = search(tmp_path)
    for n in range(4):
        shutil.rmtree(session_dir(tmp_path, CWD, f"gone{n}"))
    assert made.refresh()
    assert told(made.find("stays")) == {"stays": [0]}
    with sqlite3.connect(tmp_path / "search.db") as database:
        assert database.execute("SELECT count(*) FROM blocks").fetchone() == (1,)


def test_clocks_that_jump_do_not_matter(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("future needle"), "future", days=365 * 200)
    keep(tmp_path, history().user("needle before the epoch"), "past", days=-365 * 100)
    os.utime(path, (2**33, 2**33))
    made = search(tmp_path)
    os.utime(path, (1, 1))
    extend(path, continued(1).user("needle, back"))
    assert made.refresh()
    found = told(made.find("needle"))
    assert (sorted(found["future"]), found["past"]) == ([0, 1], [0])


def test_files_that_are_no_sessions_are_no_trouble(tmp_path: Path) -> None:
    keep(tmp_path, history().user("needle"))
    for name, content in (
        ("a", b""),
        ("b", b"x" * 100_000),
        ("c", b'{"type":"session"}\n'),
        ("d", b"\0" * 99),
    ):
        keep(tmp_path, history(), name).write_bytes(content)
    keep(tmp_path, history(), "e").unlink()
    (tmp_path / "sessions" / "file").write_text("x")
    assert find(tmp_path, "needle") == {"s1": [0]}


def test_without_any_session_nothing_is_found_and_nothing_is_made(tmp_path: Path) -> None:
    home = tmp_path / "none"
    made = search(home)
    assert told(made.find("x")) == {}
    assert (made.trouble, home.exists()) == ("", False)
    keep(home, history().user("needle"))
    assert made.refresh()
    assert told(made.find("needle")) == {"s1": [0]}


def test_no_session_is_changed_by_a_search(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("needle"))
    extend(path, continued(1).user("torn"), end=b"")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert find(tmp_path, "needle") == {"s1": [0]}
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [item.name for item in path.parent.iterdir()] == ["events.jsonl"]


# --- stopping, and others at the same time ----------------------------------------------------------


def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_search, "_AT_A_TIME", 200)


def test_what_was_taken_in_before_a_stop_stays_and_the_rest_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    built = history()
    for n in range(50):
        built.user(f"needle {n}")
    keep(tmp_path, built)
    made = SessionSearch(tmp_path)
    seen: list[IndexProgress] = []
    assert not made.refresh(seen.append, stopped=lambda: len(seen) > 5)
    [session] = made.find("needle").sessions  # at once, on what there is
    assert 0 < session.total < session_search._PER_SESSION
    assert told(made.find('"needle 49"')) == {}
    assert made.refresh()
    assert told(made.find('"needle 49"')) == {"s1": [49]}
    assert entries_of(tmp_path) == [*range(50)]


def test_an_interrupt_leaves_a_usable_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch)
    built = history()
    for n in range(50):
        built.user(f"needle {n}")
    keep(tmp_path, built)

    def interrupt(progress: IndexProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SessionSearch(tmp_path).refresh(interrupt)
    assert find(tmp_path, '"needle 49"') == {"s1": [49]}
    assert entries_of(tmp_path) == [*range(50)]


def test_several_at_once_neither_lose_nor_repeat_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with connections of its own, as processes have them; and the session grows meanwhile."""
    small_batches(monkeypatch)
    path = keep(tmp_path, history().user("needle 0"))

    def work() -> None:
        made = SessionSearch(tmp_path)
        for _ in range(5):
            made.refresh()
            made.find("needle")

    with ThreadPoolExecutor(4) as threads:
        working = [threads.submit(work) for _ in range(4)]
        for n in range(1, 120):
            extend(path, continued(n).user(f"needle {n}"))
        for one in working:
            one.result()
    assert find(tmp_path, '"needle 119"') == {"s1": [119]}
    assert entries_of(tmp_path) == [*range(120)]


def entries_of(home: Path) -> list[int]:
    with sqlite3.connect(home / "search.db") as database:
        return [index for (index,) in database.execute("SELECT entry FROM entries ORDER BY entry")]


# --- the index can be thrown away -------------------------------------------------------------------


def _gone(index: Path) -> None:
    index.unlink()


def _empty(index: Path) -> None:
    index.write_bytes(b"")


def _halved(index: Path) -> None:
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])


def _garbage(index: Path) -> None:
    index.write_bytes(random.Random(1).randbytes(20_000))


def _scrambled(index: Path) -> None:
    """All pages but the first: what is in the trigrams is found broken only by a search."""
    data = index.read_bytes()
    index.write_bytes(data[:4096] + random.Random(2).randbytes(len(data) - 4096))


def _of_another_version(index: Path) -> None:
    with sqlite3.connect(index) as database:
        database.execute("PRAGMA user_version = 99")


def _without_a_table(index: Path) -> None:
    with sqlite3.connect(index) as database:
        database.execute("DROP TABLE blocks")


@pytest.mark.parametrize(
    "harm", [_gone, _empty, _halved, _garbage, _scrambled, _of_another_version, _without_a_table]
)
def test_an_index_of_no_use_is_made_anew(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    keep(tmp_path, history().user("the needle").assistant("other words " * 200))
    search(tmp_path)
    harm(tmp_path / "search.db")
    made = search(tmp_path)
    assert told(made.find("needle")) == {"s1": [0]}
    assert made.trouble == ""
    assert (tmp_path / "search.db").stat().st_size > 0


def test_an_index_that_breaks_between_refresh_and_search_is_made_anew(tmp_path: Path) -> None:
    keep(tmp_path, history().user("needle"))
    made = search(tmp_path)
    _garbage(tmp_path / "search.db")
    assert told(made.find("needle")) == {"s1": [0]}


_COLUMNS = {
    "sessions": "folder name cwd title updated taken mark last_index clipped size",
    "blocks": "session said",
    "entries": "entry kind offset",
}
_EVERY = [(table, column) for table, columns in _COLUMNS.items() for column in columns.split()]


@pytest.mark.parametrize(("table", "column"), _EVERY)
def test_one_that_holds_what_nobody_wrote_is_no_error_and_holds_nobody_up(
    tmp_path: Path, table: str, column: str
) -> None:
    keep(tmp_path, history().user("the needle"), "s1")
    for value in (-5, 2**62, 1.5, "x", "../../x/y", b"x", "sessions/../x"):
        index = tmp_path / "search.db"
        index.unlink(missing_ok=True)
        search(tmp_path)
        with sqlite3.connect(index) as database:
            database.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))  # noqa: S608
        database.close()
        for made in (SessionSearch(tmp_path), SessionSearch(tmp_path)):
            made.find("needle")
            made.refresh()
            made.find("needle", cwd=CWD)


def test_one_that_takes_nothing_in_is_made_anew(tmp_path: Path) -> None:
    """Its own index of folders is empty: a session is there, and not found by its name."""
    path = keep(tmp_path, history().user("the needle"))
    search(tmp_path)
    with sqlite3.connect(tmp_path / "search.db") as database:
        [page, size] = database.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size "
            "WHERE name LIKE '%auto%sessions%'"
        ).fetchone()
    database.close()
    with (tmp_path / "search.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x0a\0\0\0\0" + size.to_bytes(2, "big") + b"\0")  # a leaf without cells
    extend(path, continued(1).user("another needle"))
    assert told(search(tmp_path).find("needle")) == {"s1": [1, 0]}


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize(
    "put",
    [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("x")],
    ids=["pipe", "folder", "endless", "nowhere"],
)
def test_anything_in_its_place_holds_nobody_up(
    tmp_path: Path, put: Callable[[Path], None], suffix: str
) -> None:
    keep(tmp_path, history().user("needle"))
    put(tmp_path / f"search.db{suffix}")
    made = search(tmp_path)
    assert told(made.find("needle")) == {"s1": [0]}
    assert "is no file" in made.trouble
    assert [finding.mark for finding in _search_index(tmp_path)] in ([], ["warn"])
    tidy(tmp_path)
    assert suffix or not os.path.lexists(tmp_path / "search.db")


def test_the_index_is_for_its_owner_only(tmp_path: Path) -> None:
    keep(tmp_path, history().user("needle"))
    search(tmp_path)
    assert (tmp_path / "search.db").stat().st_mode & 0o777 == 0o600


def test_where_no_index_can_be_kept_it_is_made_in_memory_and_said(tmp_path: Path) -> None:
    keep(tmp_path, history().user("needle"))
    (tmp_path / "search.db").mkdir()
    made = search(tmp_path)
    assert told(made.find("needle")) == {"s1": [0]}
    assert "made in memory" in made.trouble
    assert (tmp_path / "search.db").is_dir()


def test_a_full_disk_is_no_reason_not_to_find(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of file sizes are a Unix thing")
    keep(tmp_path, history().user("needle").user("".join(map(chr, range(0x4E00, 0x9000)))))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        made = search(tmp_path)
        assert told(made.find("needle")) == {"s1": [0]}
        assert "made in memory" in made.trouble
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert search(tmp_path).trouble == ""
    assert find(tmp_path, "needle") == {"s1": [0]}


def test_numbers_that_no_database_holds_keep_nothing_else_from_being_found(tmp_path: Path) -> None:
    odd = keep(tmp_path, history().user("needle one").gap(10**30).user("needle two"), "odd")
    keep(tmp_path, history().user("needle three"), "sound")
    os.utime(odd, ns=(0, 13_569_465_600 * 10**9))  # in the year 2400
    assert find(tmp_path, "needle") == {"odd": [0], "sound": [0]}
    at_once = SessionSearch(tmp_path)
    seen: list[IndexProgress] = []
    assert at_once.refresh(seen.append) and seen == []


pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@pytest.fixture
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_to_all")
def test_everything_kept_of_sessions_is_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "data" / "foldline"
    session = Session.create(tmp_path, home=home)
    asyncio.run(session.append(Title(title="one")))
    assert session.path is not None
    Contents(session.path.parent).keep(b"said")
    session.save_meta()
    copy = asyncio.run(session.copy(home=home))
    found = {path.name for path in home.rglob("*")}
    assert {"holder.json", "lock", "meta.json", "contents", "events.jsonl"} <= found
    copy.close()
    session.close()
    SessionSearch(home).refresh()
    unarchive(home, archive(home, session.path))
    (session.path.with_name("meta.json")).unlink()
    list_sessions(home)
    modes = {path: path.stat().st_mode & 0o777 for path in (home.parent, home, *home.rglob("*"))}
    assert {path for path, mode in modes.items() if mode & 0o077} == set()
