"""Diffs: numbers, signs, sides, colours, and that only what is looked at is coloured."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from foldline.agent.tools.diffs import unified_diff
from foldline.tui.blocks import diff
from foldline.tui.blocks.diff import (
    BESIDE,
    DiffBlock,
    DiffLine,
    DiffRows,
    changed_words,
    language_of,
    lines_of_diff,
    lines_of_our_diff,
    path_in,
)
from foldline.tui.look.cells import Span, text_of
from foldline.tui.look.styles import Styles

WIDE = 60
"""Cells from which these stand side by side."""


def diff_lines(
    before: Sequence[str], after: Sequence[str], first: int = 1
) -> tuple[DiffLine, ...]:
    texts = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
    found = lines_of_diff(unified_diff(*texts, "a").text)
    return tuple(
        replace(line, number=line.number + first - 1, before=line.before + first - 1)
        for line in found
    )


def rows(
    before: Sequence[str],
    after: Sequence[str],
    width: int = 40,
    language: str = "",
    first: int = 1,
) -> DiffRows:
    return DiffRows(diff_lines(before, after, first), width, language, WIDE)


def texts(found: DiffRows) -> list[str]:
    return [text_of(found[at]).rstrip() for at in range(len(found))]


def styled(found: DiffRows) -> list[Span]:
    return [span for at in range(len(found)) for span in found[at]]


def test_old_and_new_lines_stand_below_each_other_with_their_numbers() -> None:
    lines = diff_lines(["a", "b", "c"], ["a", "B", "c"], first=117)
    drawn = [strip.text for strip in DiffBlock((1, 0), lines).render(40, Styles())]
    assert drawn == ["117   a", "118 − b", "118 + B", "119   c"]


def test_where_there_is_room_old_and_new_lines_stand_side_by_side() -> None:
    found = rows(["a", "b", "x", "c"], ["a", "B", "c"], WIDE, first=8)
    assert texts(found) == [
        " 8   a                       │  8   a",
        " 9 − b                       │  9 + B",
        "10 − x                       │",
        "11   c                       │ 10   c",
    ]
    assert all(cell_len(text_of(found[at])) <= WIDE for at in range(len(found)))
    assert not rows(["b"], ["B"], WIDE - 1).is_beside


def test_what_is_only_new_takes_the_whole_width() -> None:
    assert texts(rows([], ["a", "b"], WIDE)) == ["1 + a", "2 + b"]


def test_a_line_stands_beside_the_one_it_became() -> None:
    """Where there are more of the one, they are counted from the end that is more alike."""
    found = texts(rows(["gone", "old = call(1)"], ["old = call(2)"], WIDE))
    assert found[1].startswith("2 − old = call(1)") and found[1].endswith(
        "1 + old = call(2)"
    )
    found = texts(rows(["old = call(1)", "gone"], ["old = call(2)"], WIDE))
    assert found[0].startswith("1 − old = call(1)") and found[0].endswith(
        "1 + old = call(2)"
    )


def test_the_changed_words_of_a_line_are_marked() -> None:
    found = rows(
        ["total = price + tax"], ["total = price * (1 + tax)"], language="python"
    )
    marked = [(text, style) for text, style in styled(found) if "underline" in style]
    assert marked == [("* (1 ", "live underline"), (")", "live underline")]
    assert changed_words("a = 1", "nothing alike at all") == ((), ())
    assert changed_words("x " * 500, "y " * 500) == ((), ())


def test_code_has_the_colours_of_its_language_and_what_stays_is_dim() -> None:
    found = styled(
        rows(
            ["def a():", "    return 1"],
            ["def a():", "    return None"],
            language="python",
        )
    )
    assert ("def", "accent dim") in found and ("return", "accent") in found
    plain = styled(rows(["def a():"], ["def b():"]))
    assert ("def ", "live") in plain and ("def ", "alert") in plain


def test_each_side_is_a_text_of_its_own() -> None:
    """What the old file opens, and the new one does not, colours nothing of the new one."""
    found = rows(['"""', "same = 1"], ["pass", "same = 1"], language="python")
    assert ("same", "text dim") in found[2]


def test_a_line_that_goes_on_says_so_and_leaves_nothing_out() -> None:
    found = texts(rows([], ["value = compute(first_one, second_argument)"], 31))
    assert found == ["1 + value = compute(first_one,", "  ↳ second_argument)"]
    assert texts(rows([], ["x" * 30], 20)) == ["1 + " + "x" * 16, "  ↳ " + "x" * 14]


lines = st.lists(st.text("ab (=你👩‍👩‍👧", max_size=60), min_size=1, max_size=6)


@given(lines, lines, st.integers(12, 100), st.sampled_from(["", "python"]))
def test_every_sign_is_drawn_at_any_width(
    before: list[str], after: list[str], width: int, code: str
) -> None:
    found = rows(before, after, width, code)
    assert all(
        cell_len(text_of(found[at])) <= max(width, 11) for at in range(len(found))
    )
    drawn = "".join(text for text, style in styled(found) if "deco" not in style)
    shown = diff_lines(before, after)
    if found.is_beside:
        twice = [
            line.content for line in shown for _ in range(1 + (line.kind == "same"))
        ]
        assert Counter(drawn) == Counter("".join(twice))
    else:
        assert drawn == "".join(line.content for line in shown)


def test_of_a_long_diff_only_the_lines_that_are_looked_at_are_coloured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    colored: list[int] = []

    def counted(code: Sequence[str], language: str) -> list[list[Span]]:
        colored.append(len(code))
        return [[(line, "text")] for line in code]

    monkeypatch.setattr(diff, "highlighted", counted)
    changed = tuple(
        DiffLine("new", number, f"line {number}") for number in range(1, 20_001)
    )
    strips = DiffBlock((1, 0), changed, "a.py").render(80, Styles())
    assert len(strips) == 20_000 and not colored
    assert strips[15_000].text == "15001 + line 15001"
    assert sum(colored) <= 40
    assert [strip.text for strip in strips[15_000:15_003]][2] == "15003 + line 15003"


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("src/a.py", "py"),
        ("Dockerfile", "dockerfile"),
        ("b/.github/x.YML", "yaml"),
        ("", ""),
        ("a/b.h", "c"),
    ],
)
def test_a_name_says_the_language(path: str, language: str) -> None:
    assert language_of(path) == language


def test_the_head_of_a_diff_names_its_file() -> None:
    assert path_in("--- /dev/null\n+++ src/a b.py\n@@ -0,0 +1 @@\n+x\n") == "src/a b.py"
    assert path_in("@@ -1 +1 @@\n+++ not a head\n") == ""


def test_a_number_at_the_start_of_a_line_is_only_a_number_where_no_hunk_says_it() -> (
    None
):
    assert [
        line.content for line in lines_of_diff("@@ -1 +1 @@\n-12 old\n+13 new\n")
    ] == ["12 old", "13 new"]
    assert [line.number for line in lines_of_diff("-12 old\n+13 new\n")] == [12, 13]


def test_both_numbers_of_a_line_that_stays_are_known() -> None:
    found = list(lines_of_diff("@@ -7,2 +9,2 @@\n same\n-old\n+new\n"))
    assert [(line.before, line.number) for line in found] == [(7, 9), (0, 8), (0, 10)]


def test_of_a_diff_to_be_approved_floods_of_blank_lines_are_counted() -> None:
    found = list(lines_of_our_diff("@@ -0,0 +1,6 @@\n+a\n+\n+ \n+\n+\n+b\n"))
    assert [(line.number, line.content) for line in found] == [
        (1, "a"),
        (2, "4 blank lines"),
        (6, "b"),
    ]
    assert [line.is_remark for line in found] == [False, True, False]


def test_side_by_side_needs_what_a_frame_leaves_of_140_columns() -> None:
    assert BESIDE == 140 - 4
