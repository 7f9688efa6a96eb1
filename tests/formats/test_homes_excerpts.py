"""Excerpts hold whole lines of their file, few of them, and those that matter."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.formats import homes
from foldline.formats.homes import Marks, excerpts

MARKS = Marks(prompts=(b"P",), beside=(b"B",), answers=(b"A",), no_prompts=(b"N",), settles=b"S")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("excerpts") / "session.jsonl"


def _last(path: Path) -> list[bytes]:
    return list(excerpts(path, MARKS))[-1].splitlines()


@given(st.lists(st.text("PBANSx", max_size=30), max_size=30), st.booleans())
def test_an_excerpt_is_whole_lines_in_order_and_none_twice(file: Path, texts: list[str], ends: bool) -> None:
    """Also where a step or the tail begins in the middle of a line, or between two."""
    lines = [f"{place:02}{text}".encode() for place, text in enumerate(texts)]
    file.write_bytes(b"\n".join(lines) + (b"\n" if ends else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(homes, "_STEPS", ((40, 2), (120, 3), (300, 3)))
        patch.setattr(homes, "_TAIL", 60)
        for made in excerpts(file, MARKS):
            picked = made.splitlines()
            assert picked == [line for line in lines if line in picked]
            assert picked[-1:] in ([], lines[-1:]) or len(lines[-1]) > 58


def test_the_first_line_the_last_and_the_newest_answer_are_picked(file: Path) -> None:
    file.write_bytes(b"first\nx\nA1\nx\nA2\nx\nlast")
    assert _last(file) == [b"first", b"A2", b"last"]


def test_lines_that_look_like_prompts_and_are_none_are_not_picked(file: Path) -> None:
    file.write_bytes(b"first\nP1\nPN\nP2 S\nP3\nB\nlast")
    assert _last(file) == [b"first", b"P1", b"P2 S", b"B", b"last"]


def test_however_long_the_file_an_excerpt_is_short(file: Path) -> None:
    file.write_bytes(b"first\nP\n" + (b"x" * 99_999 + b"\n") * 40 + b"B\nlast\n")
    assert next(excerpts(file, MARKS)).splitlines() == [b"first", b"P", b"B", b"last"]


def test_a_session_may_begin_in_another_file(file: Path) -> None:
    file.write_bytes(b"later\nP2\nA\n")
    begun = file.with_name("begun.jsonl")
    begun.write_bytes(b"first\nP1\nlast of it\n")
    assert next(excerpts(file, MARKS, begun)).splitlines() == [b"first", b"P1", b"A"]


def test_an_empty_file_has_an_empty_excerpt(file: Path) -> None:
    file.write_bytes(b"")
    assert list(excerpts(file, MARKS)) == [b""]
