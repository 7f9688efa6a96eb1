"""Search across sessions finds text in all of them, also while files change."""

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.history import (
    Contents,
    Session,
    SessionInfo,
    archive,
    list_sessions,
    session_dir,
    session_search,
    unarchive,
)
from foldline.history.log import dump_header
from foldline.history.session_search import (
    SessionsFound,
    search_sessions,
    searchable_text,
    sessions_to_search,
)
from foldline.protocol import Compaction, Entry, SessionHeader, Title, dump_entry
from foldline.text.search import casefolded, parse_query
from support.history import History, call, history
from support.limits import examples

START = datetime(2026, 1, 2, tzinfo=UTC)
CWD = "/nowhere/shop"


def keep(
    home: Path,
    built: History | Sequence[Entry],
    name: str = "s1",
    *,
    cwd: str = CWD,
    days: float = 0,
) -> Path:
    """Write a session that began some days after START, and return its event file."""
    entries = built.entries if isinstance(built, History) else built
    begun = START + timedelta(days=days)
    timed = [
        entry.model_copy(update={"at": begun + timedelta(seconds=n)})
        for n, entry in enumerate(entries)
    ]
    path = session_dir(home, cwd, name) / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = dump_header(SessionHeader(id=name, created_at=begun, cwd=cwd))
    path.write_bytes(
        b"".join(line + b"\n" for line in [header, *map(dump_entry, timed)])
    )
    return path


def extend(path: Path, built: History, *, end: bytes = b"\n") -> None:
    with path.open("ab") as file:
        file.write(
            b"".join(dump_entry(entry) + b"\n" for entry in built.entries)[:-1] + end
        )


def longer_session(after: int) -> History:
    return history().gap(after)


def search(
    home: Path, query: str, cwd: str | None = None, **options: Any
) -> SessionsFound:
    return search_sessions(sessions_to_search(home, cwd), query, **options)


def find(home: Path, query: str, **options: Any) -> dict[str, list[int]]:
    return indices_by_session(search(home, query, **options))


def indices_by_session(found: SessionsFound) -> dict[str, list[int]]:
    return {
        session.id: [hit.index for hit in session.hits] for session in found.sessions
    }


# --- matches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("handler", {"en": [0]}),
        ("ndle", {"en": [0]}),
        ("AUTH.PY:42", {"en": [0]}),
        ("42", {"en": [0]}),
        ("2", {"en": [0]}),  # the last character of an entry
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
def test_a_query_finds_matching_sessions(
    tmp_path: Path, query: str, expected: dict[str, list[int]]
) -> None:
    keep(tmp_path, history().user("change the handler in src/auth.py:42"), "en")
    keep(tmp_path, history().user("数据库的端口是 5433"), "zh")
    keep(tmp_path, history().user("Straße, café, abc, 👩\u200d👧, שלום."), "de")
    assert find(tmp_path, query) == expected


@pytest.mark.parametrize(
    "query",
    ['"', '"a" OR "b"', "NEAR(a b)", "a AND", "text:a", "a*", "(((", "'--", "^"],
)
def test_operator_characters_are_plain_text(tmp_path: Path, query: str) -> None:
    keep(tmp_path, history().user("a b ab text AND OR NEAR").user(f"so: {query}!"))
    assert 1 in find(tmp_path, query)["s1"]


def test_a_query_of_ten_thousand_characters_is_searched_in_full(tmp_path: Path) -> None:
    long = " ".join(f"word{n}" for n in range(1500))
    keep(tmp_path, history().user(long).user(long.replace("word1499", "word")))
    assert find(tmp_path, f'"{long}"') == {"s1": [0]}
    assert find(tmp_path, long) == {"s1": [0]}


def test_prompts_answers_calls_results_and_titles_are_found_by_kind(
    tmp_path: Path,
) -> None:
    built = (
        history()
        .user("needle?")
        .assistant("needle!", calls=[call("bash", command="grep 'needle'")])
    )
    built = built.result("needle: 1").add(Title(title="The needle"))
    keep(tmp_path, built)
    [session] = search(tmp_path, "needle").sessions
    assert {hit.kind for hit in session.hits} == {
        "user",
        "assistant",
        "tool_result",
        "title",
    }
    assert session.title == "The needle"
    assert find(tmp_path, "grep 'needle'") == {"s1": [1]}
    assert find(tmp_path, "needle", kind="tool_result") == {"s1": [2]}


def test_repeated_text_is_excluded(tmp_path: Path) -> None:
    built = (
        history()
        .user("the needle")
        .add(Compaction(summary="a needle", first_kept_index=0))
    )
    built = built.assistant(calls=[call("history_search", query="needle")]).result(
        "0: the needle"
    )
    keep(tmp_path, built)
    assert find(tmp_path, "needle") == {"s1": [0]}


def test_a_hit_has_its_position_and_the_matching_text(tmp_path: Path) -> None:
    keep(
        tmp_path,
        history()
        .user("first prompt")
        .assistant("one\ntwo\nthe Straße is [red]closed[/red]"),
    )
    [session] = search(tmp_path, "STRASSE closed").sessions
    [hit] = session.hits
    assert (hit.index, hit.kind, hit.line) == (1, "assistant", 3)
    assert [hit.excerpt[start:end] for start, end in hit.marks] == ["Straße", "closed"]
    assert (session.title, session.cwd, session.archived) == (
        "first prompt",
        CWD,
        False,
    )
    assert session.updated_at == START + timedelta(seconds=1)
    assert session.path == session_dir(tmp_path, CWD, "s1") / "events.jsonl"


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.text("ab cé端口\n\"'*", min_size=1, max_size=12), min_size=1, max_size=6
    ),
    st.data(),
)
def test_any_part_of_any_text_is_found(texts: list[str], data: st.DataObject) -> None:
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
        if parse_query(piece).matches(casefolded(searchable_text(entry)))
    ]
    with TemporaryDirectory() as home:
        keep(Path(home), built)
        [session] = search(Path(home), piece).sessions
    assert place in expected
    assert session.total == len(expected)


# --- ranking -------------------------------------------------------------------------------------------


def test_the_session_with_the_best_hit_comes_first(tmp_path: Path) -> None:
    keep(
        tmp_path,
        history().user("parser " + "and much else " * 300),
        "about-else",
        days=1,
    )
    keep(tmp_path, history().user("the parser of the parser"), "about-it", days=1)
    keep(
        tmp_path,
        history().user("the parser of the parser"),
        "about-it-long-ago",
        days=-300,
    )
    assert next(iter(find(tmp_path, "parser"))) == "about-it"
    assert {*find(tmp_path, "parser")} == {
        "about-it",
        "about-it-long-ago",
        "about-else",
    }


def test_the_exact_query_ranks_before_its_scattered_words(tmp_path: Path) -> None:
    keep(tmp_path, history().user("open the file"), "as-written")
    keep(
        tmp_path, history().user("file the open, open, open file file"), "apart", days=5
    )
    assert [*find(tmp_path, "open the file")] == ["as-written", "apart"]


def test_one_talkative_session_does_not_hide_the_others(tmp_path: Path) -> None:
    talk = history()
    for n in range(400):
        talk.user(f"the {n}")
    keep(tmp_path, history().user("the one"), "old", days=-9)
    keep(tmp_path, talk, "talk")
    found = search(tmp_path, "the")
    assert {*indices_by_session(found)} == {"talk", "old"}
    [session] = [session for session in found.sessions if session.id == "talk"]
    assert (session.total, session.more) == (session_search._PER_SESSION, True)


def test_only_the_newest_of_very_many_matches_are_ranked(tmp_path: Path) -> None:
    for n in range(30):
        built = history()
        for _ in range(30):
            built.user("the same")
        keep(tmp_path, built, f"s{n}", days=n)
    searched: list[SessionInfo] = []
    found = search(tmp_path, "the", limit=3, on_session=searched.append)
    assert [*indices_by_session(found)] == ["s29", "s28", "s27"]
    assert (found.complete, len(searched)) == (False, 3)


def test_an_abandoned_search_stops(tmp_path: Path) -> None:
    for n in range(30):
        keep(tmp_path, history().user("hay"), f"s{n}")
    searched: list[SessionInfo] = []
    assert not search(
        tmp_path,
        "needle",
        on_session=searched.append,
        stopped=lambda: len(searched) > 2,
    ).complete
    assert len(searched) == 3


def test_a_subagents_text_is_found_with_its_name_and_its_parents(
    tmp_path: Path,
) -> None:
    path = keep(tmp_path, history().user("needle"), "parent")
    child = keep(tmp_path / "aside", history().user("a needle"), "child")
    (path.parent / "children").mkdir()
    child.parent.rename(path.parent / "children" / "child")
    for _ in range(2):  # once more with a torn header
        found = search(tmp_path, "needle").sessions
        assert {session.id: session.root for session in found} == {
            "parent": path,
            "parent/child": path,
        }
        events = path.parent / "children" / "child" / "events.jsonl"
        events.write_bytes(events.read_bytes()[9:])


def test_only_sessions_of_the_given_folder_are_found(tmp_path: Path) -> None:
    keep(tmp_path, history().user("needle"), "here")
    keep(tmp_path, history().user("needle"), "there", cwd="/nowhere/else")
    assert find(tmp_path, "needle", cwd=CWD) == {"here": [0]}


# --- damaged and unusual files -------------------------------------------------------------------------


def test_damaged_records_are_skipped_as_in_the_history(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("first needle"))
    with path.open("ab") as file:
        file.write(b'{"type":"user","ind\n\0\0\0\n\xff\xfe needle\n[1]\n')
        file.write(
            dump_entry(history().user("needle again").entries[0]) + b"\n"
        )  # index 0, once more
    extend(path, longer_session(2).user("last needle"))
    assert sorted(find(tmp_path, "needle")["s1"]) == [0, 2]


def test_text_before_a_block_boundary_is_found_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = history()
    for n in range(30):
        built.user(f"needle {n} " + "hay " * n)
    keep(tmp_path, built)
    for size in (1, 7, 100, 1000):
        monkeypatch.setattr(session_search, "_BLOCK_BYTES", size)
        for n in (0, 17, 29):
            assert find(tmp_path, f'"needle {n} "')["s1"] == [n]


def test_a_deleted_session_is_not_found_and_an_archived_one_is_marked(
    tmp_path: Path,
) -> None:
    deleted = keep(tmp_path, history().user("needle"), "deleted")
    archived = keep(tmp_path, history().user("needle"), "archived")
    shutil.rmtree(deleted.parent)
    goal = archive(tmp_path, archived)
    [session] = search(tmp_path, "needle").sessions
    assert (session.id, session.archived, session.path) == ("archived", True, goal)


def test_clock_changes_do_not_affect_a_search(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("future needle"), "future", days=365 * 200)
    keep(tmp_path, history().user("needle before the epoch"), "past", days=-365 * 100)
    os.utime(path, (2**33, 2**33))
    extend(path, longer_session(1).user("needle, back"))
    found = find(tmp_path, "needle")
    assert (sorted(found["future"]), found["past"]) == ([0, 1], [0])


def test_files_that_are_not_sessions_are_ignored(tmp_path: Path) -> None:
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


def test_a_search_without_sessions_finds_and_creates_nothing(tmp_path: Path) -> None:
    home = tmp_path / "none"
    assert find(home, "x") == {}
    assert not home.exists()


def test_a_search_changes_no_session(tmp_path: Path) -> None:
    path = keep(tmp_path, history().user("needle"))
    extend(path, longer_session(1).user("torn"), end=b"")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert find(tmp_path, "needle") == {"s1": [0]}
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@pytest.fixture
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_to_all")
def test_all_session_files_are_readable_only_by_their_owner(tmp_path: Path) -> None:
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
    unarchive(home, archive(home, session.path))
    (session.path.with_name("meta.json")).unlink()
    list_sessions(home)
    modes = {
        path: path.stat().st_mode & 0o777
        for path in (home.parent, home, *home.rglob("*"))
    }
    assert {path for path, mode in modes.items() if mode & 0o077} == set()
