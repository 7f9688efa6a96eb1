"""Excerpts hold whole lines of their file, few of them, and those that matter."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.formats import session_list
from foldline.formats.session_list import excerpts


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("excerpts") / "session.jsonl"


@given(st.lists(st.text("abx", max_size=30), max_size=30), st.booleans())
def test_an_excerpt_is_whole_lines_in_order_and_none_twice(
    file: Path, texts: list[str], ends: bool
) -> None:
    """Also where a step or the tail begins in the middle of a line, or between two."""
    lines = [f"{place:02}{text}".encode() for place, text in enumerate(texts)]
    file.write_bytes(b"\n".join(lines) + (b"\n" if ends else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_list, "_STEPS", (40, 120, 300))
        patch.setattr(session_list, "_TAIL", 60)
        for made in excerpts(file):
            picked = [line for line in made.split(b"\n") if line]
            assert picked == [line for line in lines if line in picked]
            assert picked[-1:] in ([], lines[-1:]) or len(lines[-1]) > 58


def test_however_long_the_file_an_excerpt_is_its_beginning_and_its_end(
    file: Path,
) -> None:
    file.write_bytes(b"first\n" + (b"x" * 9_999 + b"\n") * 400 + b"last\n")
    sizes = [len(made) for made in excerpts(file)]
    assert [size < (32 + 24) * 1024 for size in sizes] == [True, False, False]
    assert max(sizes) < (1024 + 24) * 1024
    made = next(excerpts(file)).splitlines()
    assert (made[0], made[-1]) == (b"first", b"last")


def test_a_session_may_begin_in_another_file(file: Path) -> None:
    file.write_bytes(b"later\nlast\n")
    begun = file.with_name("begun.jsonl")
    begun.write_bytes(b"first\nsecond\n")
    assert next(excerpts(file, begun)).splitlines() == [
        b"first",
        b"second",
        b"later",
        b"last",
    ]


def test_an_empty_file_has_an_empty_excerpt(file: Path) -> None:
    file.write_bytes(b"")
    assert b"".join(excerpts(file)).strip() == b""
