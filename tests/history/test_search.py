"""The search index: what one can see in a message can be found, whatever script and signs it is made of."""

import sqlite3
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foldline.history import Found, SearchIndex
from foldline.protocol import Compaction, Entry, UserMessage, text_parts
from support.history import History, call, history


def find(built: History, query: str, **options: object) -> list[int]:
    return indices(SearchIndex(built.entries).find(query, **{"limit": 100, **options}))  # type: ignore[arg-type]


def indices(found: Found) -> list[int]:
    return [hit.entry.index for hit in found.hits]


def said(*texts: str) -> History:
    built = history()
    for text in texts:
        built.user(text)
    return built


@pytest.fixture(params=["trigrams", "scan"])
def sqlite(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with what this SQLite can do, once as with one that is older than the trigrams."""
    if request.param == "trigrams":
        return

    class Old:
        def execute(self, statement: str) -> None:
            raise sqlite3.OperationalError("no such tokenizer: trigram")

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: Old())


def test_this_sqlite_has_fts5_and_trigrams() -> None:
    index = SearchIndex(said("x").entries)
    index.find("x", limit=1)
    assert index._trigrams is not None


@pytest.mark.usefixtures("sqlite")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("handler", [0]),
        ("ndle", [0]),  # a piece of a word
        ("SRC/AUTH.PY", [0]),
        ("auth.py:42", [0]),
        ("42", [0]),
        ("4", [1, 0]),
        ("数据库", [1]),
        ("端口", [1]),  # two characters: below a trigram
        ("口", [1]),
        ("端口 5433", [1]),
        ("5433 端口", [1]),  # in any order
        ("C#", [2]),
        ("#", [2]),
        ("Straße", [3]),
        ("STRASSE", [3]),
        ("cafe\u0301", [3]),  # decomposed, as file names of macOS are
        ("abc123", [4]),  # full width in the text
        ("ＡＢＣ", [4]),  # and here in the query
        ("，", [4, 3]),
        ("handler 数据库", []),
        ("handler  port", []),
        ('"the handler in"', [0]),
        ('"handler the"', []),
        ("handler the", [0]),
        ("handlers", []),
        ("", []),
    ],
)
def test_what_is_found(query: str, expected: list[int]) -> None:
    built = said(
        "change the handler in src/auth.py:42",
        "数据库的端口是 5433",
        "port it to C#",
        "Straße, café",
        "编号ＡＢＣ１２３，完",
    )
    assert find(built, query) == expected


@pytest.mark.usefixtures("sqlite")
@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""',
        '"open',
        'a"b',
        '"a" OR "b"',
        "NEAR(a b, 2)",
        "a AND",
        "NOT a",
        "text:a",
        "{text}: a",
        "a*",
        "^abc",
        "-abc",
        "+abc",
        "abc'--",
        "%_",
        "(((",
        "\\",
        "?",
    ],
)
def test_operators_of_fts5_are_text(query: str) -> None:
    assert find(said("a b c", f"here: {query} and on"), query) == [1]


def test_a_query_of_thousands_of_words_is_no_error() -> None:
    words = [f"word{n}" for n in range(2_000)]
    long = "x" * 100_000
    built = said(" ".join(words), "word1", long)
    assert find(built, " ".join(reversed(words))) == [0]
    assert find(built, long) == [2]
    assert find(built, long + "y") == []


@given(st.text())
@example("\0")
@example("\ud800abc")
@example('"" ""')
@example("\u3000")
def test_no_query_is_an_error(query: str) -> None:
    SearchIndex(said("a text", "文本").entries).find(query, limit=10)


SEEN = st.characters(exclude_categories=["Cc"])


@given(data=st.data())
def test_every_piece_of_a_message_is_found(data: st.DataObject) -> None:
    text = data.draw(st.text(st.one_of(SEEN, st.sampled_from('aA "数据ñ한ﬁİ\u0301\u0323\0')), min_size=1))
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert find(said("before", text, "after"), text[start:end], seen={0, 2})[0] == 1


@given(st.lists(st.text(st.sampled_from("ab 数据\n"), min_size=1), min_size=1), st.data())
def test_an_index_that_grew_answers_like_one_that_is_new(texts: list[str], data: st.DataObject) -> None:
    grown: list[Entry] = []
    index = SearchIndex(grown)
    query = data.draw(st.text(st.sampled_from("ab 数据"), min_size=1))
    for number, text in enumerate(texts):
        grown.append(UserMessage(index=number, parts=text_parts(text)))
        found = index.find(query, limit=10)
        assert found == SearchIndex(tuple(grown)).find(query, limit=10)


def test_only_what_was_appended_is_taken_in() -> None:
    class Counting(list[Entry]):
        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            taken = super().__getitem__(place)
            read.extend(taken if isinstance(place, slice) else ())
            return taken

    read: list[Entry] = []
    entries = Counting(said("one", "two").entries)
    index = SearchIndex(entries)
    index.find("one", limit=1)
    assert len(read) == 2
    entries.append(UserMessage(index=7, parts=text_parts("three")))
    assert indices(index.find("three", limit=1)) == [7]
    assert [entry.index for entry in read] == [0, 1, 7]


def test_a_search_that_is_stopped_can_be_taken_up_again() -> None:
    built = said(*(f"needle {n}" for n in range(10)))
    index = SearchIndex(built.entries)
    looks = iter(range(100))
    index.find("needle", limit=10, stopped=lambda: next(looks) >= 4)
    assert index.find("needle", limit=10).total == 10


def test_threads_may_search_at_once() -> None:
    built = said(*(f"needle {n} " + "hay " * 50 for n in range(300)))
    index = SearchIndex(built.entries)
    totals: list[int] = []

    def search() -> None:
        totals.append(index.find("needle", limit=1).total)

    threads = [threading.Thread(target=search) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [300] * 8


def test_answers_and_their_calls_are_found_and_so_is_thinking() -> None:
    built = history().user("go")
    built.assistant("I look.", calls=[call("write", path="a.py", content="x = 'ü'\n")], thinking="The cache?")
    assert find(built, "I look") == find(built, "x = 'ü'") == find(built, "cache") == [1]


def test_tools_that_are_left_out_are_left_out() -> None:
    built = history().user("the needle")
    built.assistant("I look for it.", calls=[call("history_search", query="needle"), call("ls", path="hay")])
    built.result("0: the needle").result("needle.py")
    index = SearchIndex(built.entries, without_tools=("history_search",))
    assert sorted(indices(index.find("needle", limit=9))) == [0, 3]
    assert indices(index.find("look for", limit=9)) == indices(index.find("hay", limit=9)) == [1]


def test_the_newest_of_equals_comes_first_and_no_more_than_asked_for() -> None:
    found = SearchIndex(said(*["deploy it"] * 10).entries).find("deploy", limit=3)
    assert (indices(found), found.total) == ([9, 8, 7], 10)


def test_what_holds_the_words_together_comes_before_what_holds_them_apart() -> None:
    built = said(
        "the port is 5433", "is that a port? 5433 is the room", "no port, the answer is 5433 of 9000"
    )
    assert find(built, "port is 5433")[0] == 0


def test_a_message_about_it_comes_before_one_that_mentions_it_in_passing() -> None:
    built = said("the staging database moved", "staging " + "and much else, at length, " * 200, *["hm"] * 5)
    assert find(built, "staging") == [0, 1]


def test_what_is_seen_anyway_comes_last() -> None:
    assert find(said("port 1", "port 2", "port 3"), "port", seen={2}) == [1, 0, 2]


def test_a_kind_leaves_the_others_out() -> None:
    built = history().user("port").assistant("port").step("bash", "port")
    assert [find(built, "port", kind=kind) for kind in ("user", "assistant", "tool_result")] == [
        [0],
        [1],
        [3],
    ]


def test_words_are_counted_by_themselves_where_none_holds_them_all() -> None:
    index = SearchIndex(said("Staging", "port", "port").entries)
    found = index.find("staging port tunnel", limit=9)
    assert (found.total, found.apart) == (0, [("staging", 1), ("port", 2), ("tunnel", 0)])
    assert index.find("tunnel", limit=9).apart == ()
    assert index.find("port", limit=9).apart == ()


def test_the_snippet_is_the_text_around_the_rarest_word_on_one_line() -> None:
    lines = "".join(f"row {n} of the table\n" for n in range(300))
    [hit] = SearchIndex(said(lines).entries).find("table 150", limit=1).hits
    assert "row 150 of the table row 151" in hit.snippet
    assert (hit.snippet[0], hit.snippet[-1], hit.line) == ("…", "…", 151)
    assert len(hit.snippet) < 200


def test_the_snippet_is_in_the_words_of_the_text_where_folding_made_it_longer() -> None:
    [hit] = SearchIndex(said("ﬃ" * 500 + "\nDer Schlüssel: ＡＢＣ").entries).find("abc", limit=1).hits
    assert hit.snippet.endswith("Der Schlüssel: ＡＢＣ")
    assert hit.line == 2


def test_a_summary_is_not_found_but_what_it_stands_for_is() -> None:
    built = history().user("the needle").add(Compaction(summary="about a needle", first_kept_index=1))
    assert find(built, "needle") == [0]


@pytest.mark.usefixtures("sqlite")
def test_an_index_that_no_database_holds_keeps_nothing_else_from_being_found() -> None:
    assert find(history().user("needle").gap(10**30).user("needle"), "needle") == [0]
