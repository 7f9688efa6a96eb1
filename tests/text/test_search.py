"""Search: casefolded text and queries of words and phrases."""

import sys
from unicodedata import decomposition

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.text.search import casefolded, excerpt, marks, parse_query


@given(st.text(), st.text())
def test_texts_are_casefolded_character_by_character(one: str, other: str) -> None:
    assert casefolded(one + other) == casefolded(one) + casefolded(other)
    assert len(casefolded(one)) >= len(one)
    casefolded(one).encode()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Port", "pORT"),
        ("ＡＢＣ（１）", "abc(1)"),
        ("é", "e\u0301"),
        ("Straße", "STRASSE"),
        ("한", "\u1112\u1161\u11ab"),
    ],
)
def test_characters_that_look_alike_are_equal(one: str, other: str) -> None:
    assert casefolded(one) == casefolded(other)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Port  5433", ("port", "5433")),
        ("a　b", ("a", "b")),  # an ideographic space
        ("port port", ("port",)),
        ('the "exit code" 1', ("the", "exit code", "1")),
        ('"exit code": 1', ('"exit', 'code":', "1")),
        ('say"hi there"', ('say"hi', 'there"')),
        ('5" disk', ('5"', "disk")),
        ('""', ('""',)),
        ("  ", ("  ",)),
        ("", ()),
    ],
)
def test_a_query_is_words_and_quoted_phrases(
    query: str, terms: tuple[str, ...]
) -> None:
    assert parse_query(query).terms == terms


def test_a_hit_is_the_full_query_or_else_its_rarest_word() -> None:
    text = "row 15 of rows, row 1, row 2, row 1"
    assert parse_query("row 1,").place_in(text) == text.index("row 1,")
    assert parse_query("row 2").place_in(text) == text.index("row 2")
    assert parse_query("rows row").place_in(text) == text.index("rows")


@given(st.text(st.sampled_from("aß ﬃ\n端"), min_size=1), st.data())
def test_an_excerpt_contains_the_position_of_its_hit(
    text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    shown = excerpt(text, casefolded(text), len(casefolded(text[:at])))
    assert shown.line == text[:at].count("\n") + 1
    assert text[at] in shown.text or text[at].isspace()


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("the Port of the port", "port", ["Port", "port"]),
        ("open the file", "file open", ["open", "file"]),
        ("open file, and file", "open file", ["open file"]),  # as it was written
        ("aaaa", "aa a", ["aaaa"]),
        ("…é Straße ﬁn", "strasse e\u0301 fi", ["é", "Straße", "ﬁ"]),
        ("数据库的端口", "端口 库", ["库", "端口"]),
        ("nothing of it", "port", []),
        ("nothing", "", []),
    ],
)
def test_marks_cover_the_words_of_the_query(
    text: str, query: str, marked: list[str]
) -> None:
    assert [text[start:end] for start, end in marks(text, parse_query(query))] == marked


@given(st.text("ab ﬁé"), st.text("ab ﬁé"))
def test_marks_are_in_order_and_do_not_overlap(text: str, query: str) -> None:
    places = [place for span in marks(text, parse_query(query)) for place in span]
    assert places == sorted(set(places))
    assert all(0 <= place <= len(text) for place in places)


def test_casefolding_twice_changes_nothing() -> None:
    """`casefolded` replaces one kind of character after the other, in any order."""
    every = map(chr, range(sys.maxunicode + 1))
    changed = [char for char in every if char.casefold() != char or decomposition(char)]
    compacted = casefolded("".join([*changed, "한글"]))
    assert casefolded(compacted) == compacted


def test_many_different_characters_are_casefolded_like_a_few() -> None:
    many = "ÀÉÎÕÜßﬁÇÑØÅŁŽŠČŘĎŤŇĚŮÝŐŰŹŻĆŚĄĘ，ＡｂＣ文件 İ Kelvin"
    assert casefolded(many) == "".join(map(casefolded, many))
