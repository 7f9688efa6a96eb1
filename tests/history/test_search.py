"""Search in a session finds any visible text, in any script."""

import json
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foldline.history import EVENTS, EntrySearch, SearchResult
from foldline.history.loader import open_file
from foldline.past.moments import entry_text
from foldline.protocol import Compaction, Entry, UserMessage, text_parts
from support.history import History, call, history
from support.reopened_sessions import write_events


def find(built: History, query: str, **options: object) -> list[int]:
    return indices(EntrySearch(built.entries).find(query, **{"limit": 100, **options}))  # type: ignore[arg-type]


def indices(found: SearchResult) -> list[int]:
    return [hit.entry.index for hit in found.hits]


def user_messages(*texts: str) -> History:
    built = history()
    for text in texts:
        built.user(text)
    return built


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
def test_a_query_finds_the_matching_entries(query: str, expected: list[int]) -> None:
    built = user_messages(
        "change the handler in src/auth.py:42",
        "数据库的端口是 5433",
        "port it to C#",
        "Straße, café",
        "编号ＡＢＣ１２３，完",
    )
    assert find(built, query) == expected


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
def test_punctuation_is_never_an_operator(query: str) -> None:
    assert find(user_messages("a b c", f"here: {query} and on"), query) == [1]


def test_a_query_of_thousands_of_words_raises_no_error() -> None:
    words = [f"word{n}" for n in range(2_000)]
    long = "x" * 100_000
    built = user_messages(" ".join(words), "word1", long)
    assert find(built, " ".join(reversed(words))) == [0]
    assert find(built, long) == [2]
    assert find(built, long + "y") == []


@given(st.text())
@example("\0")
@example("\ud800abc")
@example('"" ""')
@example("\u3000")
def test_no_query_raises_an_error(query: str) -> None:
    EntrySearch(user_messages("a text", "文本").entries).find(query, limit=10)


UNUSUAL_CHARACTERS = 'aAeE1 "\\/\n数据，ñÉßﬁ한Ａ\u0301\u0345\x1b'
TEXTS = st.text(
    st.one_of(
        st.sampled_from(UNUSUAL_CHARACTERS), st.characters(exclude_categories=["Cs"])
    )
)


@given(st.lists(TEXTS, min_size=1), st.data())
def test_entries_on_disk_are_searched_like_those_in_memory(
    said: list[str], data: st.DataObject
) -> None:
    """Records are excluded by their bytes, but never matching ones."""
    built = history()
    for nth, text in enumerate(said):
        calls = (
            [call("write", content=text, number=nth, nested={text: [text]})]
            if nth % 3 == 1
            else []
        )
        built.assistant(text, calls=calls, thinking=text) if nth % 3 else built.user(
            text
        )
        for _ in calls:
            built.result(text)
    start = data.draw(st.integers(0, max(0, len(said[0]) - 1)))
    pieces = [said[0][start : start + 4], "answer", "thinking", "[call write]"]
    query = data.draw(st.sampled_from(pieces))
    with TemporaryDirectory() as folder:
        write_events(Path(folder) / EVENTS, built.entries)
        stored = open_file(Path(folder) / EVENTS).entries
        assert EntrySearch(stored).find(query, limit=99) == EntrySearch(
            built.entries
        ).find(query, limit=99)


NUMBERS = [
    "1e5",
    "1.5E-7",
    "0.00001",
    "1.50",
    "-0",
    "1e999",
    "123456789012345678901234567890.0",
    "7",
]
JSON_VALUES = st.recursive(
    st.sampled_from(
        [
            *NUMBERS,
            '"a\\nb"',
            '"a\\u000ab"',
            '"\\u4e2d\\u6587"',
            '"\\u001b[1m"',
            '"caf\\u00e9"',
            '"\\/x"',
        ]
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
)
"""JSON with the same values as ours in different bytes."""


@given(JSON_VALUES, st.booleans(), st.integers(0), st.integers(1, 6))
def test_differently_escaped_records_are_searched_alike(
    raw: str, bare: bool, start: int, length: int
) -> None:
    arguments = json.dumps(f'{{"key": {raw}}}', ensure_ascii=bare)
    parts = f'[{{"type":"tool_call","call_id":"c","name":"w","arguments":{arguments}}}]'
    with TemporaryDirectory() as folder:
        write_events(Path(folder) / EVENTS, [])
        with (Path(folder) / EVENTS).open("a") as file:
            file.write(f'{{"type":"assistant","index":0,"parts":{parts}}}\n')
        stored = open_file(Path(folder) / EVENTS).entries
        [entry] = stored
        text = entry_text(entry) or ""
        query = text[start % len(text) :][:length]
        assert EntrySearch(stored).find(query, limit=1) == EntrySearch([entry]).find(
            query, limit=1
        )


def test_a_search_on_disk_can_be_stopped_without_any_match(tmp_path: Path) -> None:
    write_events(tmp_path / EVENTS, user_messages(*["hay " * 400_000] * 9).entries)
    looks = iter(range(100))
    search = EntrySearch(open_file(tmp_path / EVENTS).entries)
    assert search.find("needle", limit=1, stopped=lambda: next(looks) >= 2).total == 0
    assert next(looks) == 3


VISIBLE_CHARACTERS = st.characters(exclude_categories=["Cc"])


@given(data=st.data())
def test_every_part_of_a_message_is_found(data: st.DataObject) -> None:
    text = data.draw(
        st.text(
            st.one_of(
                VISIBLE_CHARACTERS, st.sampled_from('aA "数据ñ한ﬁİ\u0301\u0323\0')
            ),
            min_size=1,
        )
    )
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert (
        find(user_messages("before", text, "after"), text[start:end], seen={0, 2})[0]
        == 1
    )


@given(
    st.lists(st.text(st.sampled_from("ab 数据\n"), min_size=1), min_size=1), st.data()
)
def test_a_growing_list_is_searched_like_a_new_one(
    texts: list[str], data: st.DataObject
) -> None:
    grown: list[Entry] = []
    search = EntrySearch(grown)
    query = data.draw(st.text(st.sampled_from("ab 数据"), min_size=1))
    for number, text in enumerate(texts):
        grown.append(UserMessage(index=number, parts=text_parts(text)))
        found = search.find(query, limit=10)
        assert found == EntrySearch(tuple(grown)).find(query, limit=10)


def test_a_stopped_search_can_be_resumed() -> None:
    built = user_messages(*(f"needle {n}" for n in range(10)))
    search = EntrySearch(built.entries)
    looks = iter(range(100))
    search.find("needle", limit=10, stopped=lambda: next(looks) >= 4)
    assert search.find("needle", limit=10).total == 10


def test_threads_can_search_concurrently() -> None:
    built = user_messages(*(f"needle {n} " + "hay " * 50 for n in range(300)))
    search = EntrySearch(built.entries)
    totals: list[int] = []

    def count() -> None:
        totals.append(search.find("needle", limit=1).total)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [300] * 8


def test_answers_calls_and_thinking_are_found() -> None:
    built = history().user("go")
    built.assistant(
        "I look.",
        calls=[call("write", path="a.py", content="x = 'ü'\n")],
        thinking="The cache?",
    )
    assert (
        find(built, "I look") == find(built, "x = 'ü'") == find(built, "cache") == [1]
    )


def test_results_of_excluded_tools_are_not_found() -> None:
    built = history().user("the needle")
    built.assistant(
        "I look for it.",
        calls=[call("history_search", query="needle"), call("ls", path="hay")],
    )
    built.result("0: the needle").result("needle.py")
    search = EntrySearch(built.entries, without_tools=("history_search",))
    assert sorted(indices(search.find("needle", limit=9))) == [0, 3]
    assert (
        indices(search.find("look for", limit=9))
        == indices(search.find("hay", limit=9))
        == [1]
    )


def test_equal_hits_are_sorted_newest_first_up_to_the_limit() -> None:
    found = EntrySearch(user_messages(*["deploy it"] * 10).entries).find(
        "deploy", limit=3
    )
    assert (indices(found), found.total) == ([9, 8, 7], 10)


def test_adjacent_words_rank_before_scattered_words() -> None:
    built = user_messages(
        "the port is 5433",
        "is that a port? 5433 is the room",
        "no port, the answer is 5433 of 9000",
    )
    assert find(built, "port is 5433")[0] == 0


def test_a_message_about_the_topic_ranks_before_a_passing_mention() -> None:
    built = user_messages(
        "the staging database moved",
        "staging " + "and much else, at length, " * 200,
        *["hm"] * 5,
    )
    assert find(built, "staging") == [0, 1]


def test_hits_already_in_the_view_come_last() -> None:
    assert find(user_messages("port 1", "port 2", "port 3"), "port", seen={2}) == [
        1,
        0,
        2,
    ]


def test_a_kind_filter_excludes_other_kinds() -> None:
    built = history().user("port").assistant("port").step("bash", "port")
    assert [
        find(built, "port", kind=kind) for kind in ("user", "assistant", "tool_result")
    ] == [
        [0],
        [1],
        [3],
    ]


def test_words_are_counted_separately_if_no_entry_has_them_all() -> None:
    search = EntrySearch(user_messages("Staging", "port", "port").entries)
    found = search.find("staging port tunnel", limit=9)
    assert (found.total, found.apart) == (
        0,
        [("staging", 1), ("port", 2), ("tunnel", 0)],
    )
    assert search.find("tunnel", limit=9).apart == ()
    assert search.find("port", limit=9).apart == ()


def test_the_snippet_is_the_text_around_the_rarest_word_on_one_line() -> None:
    lines = "".join(f"row {n} of the table\n" for n in range(300))
    [hit] = EntrySearch(user_messages(lines).entries).find("table 150", limit=1).hits
    assert "row 150 of the table row 151" in hit.snippet
    assert (hit.snippet[0], hit.snippet[-1], hit.line) == ("…", "…", 151)
    assert len(hit.snippet) < 200


def test_the_snippet_is_original_text_even_if_casefolding_lengthens_it() -> None:
    [hit] = (
        EntrySearch(user_messages("ﬃ" * 500 + "\nDer Schlüssel: ＡＢＣ").entries)
        .find("abc", limit=1)
        .hits
    )
    assert hit.snippet.endswith("Der Schlüssel: ＡＢＣ")
    assert hit.line == 2


def test_a_search_finds_summarised_entries_instead_of_their_summary() -> None:
    built = (
        history()
        .user("the needle")
        .add(Compaction(summary="about a needle", first_kept_index=1))
    )
    assert find(built, "needle") == [0]


def test_a_huge_index_is_searched_like_any_other() -> None:
    assert find(history().user("needle").gap(10**30).user("needle"), "needle") == [
        10**30 + 1,
        0,
    ]
