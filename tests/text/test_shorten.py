"""Shortened texts stay within their limit and mark the omission."""

import pytest

from foldline.text.shorten import clip, clip_cells, cut, first_line, one_line


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("short", 10, "short"),
        ("exactly 10", 10, "exactly 10"),
        ("one too many", 11, "one too ma…"),
        ("你好世界", 8, "你好世界"),
        ("你好世界", 7, "你好世…"),
        ("你好世界", 6, "你好…"),
        ("a\x1b]0;x\x07b\nc", 20, "a ]0;x b c"),
    ],
)
def test_titles_are_cut_by_cells_and_contain_no_control_characters(
    text: str, cells: int, shown: str
) -> None:
    assert clip_cells(text, cells) == shown


def test_a_line_is_clipped_at_a_blank_if_one_is_near() -> None:
    assert clip("run the tests", 40) == "run the tests"
    assert (
        clip("run the tests again and again, and then again", 40)
        == "run the tests again and again, and then…"
    )
    assert clip("x" * 50, 40) == "x" * 39 + "…"


def test_a_cut_text_has_exactly_its_limit() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


def test_the_first_line_is_the_first_line_that_is_not_blank() -> None:
    assert first_line("\n  \n  fix it \nnow") == "fix it"
    assert first_line(" \n") == ""


def test_white_space_becomes_single_blanks() -> None:
    assert one_line(" a\n\tb  c ") == "a b c"
