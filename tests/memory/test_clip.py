"""Clipping long texts to head, failure lines and tail within a budget."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foldline.memory.clip import clip_to_tokens, kept_spans
from foldline.view.tokens import estimate_tokens

BUDGET = 800


def log(lines: int, **special: str) -> str:
    """Build a log with some lines replaced: `line_1500="ERROR ..."`."""
    usual = (
        f"2026-11-28 12:00:{n % 60:02d} INFO worker {n} took 12 ms"
        for n in range(lines)
    )
    return "\n".join(special.get(f"line_{n}", line) for n, line in enumerate(usual))


SCRIPTS = st.sampled_from(
    ["a", "word ", "7", "{}", "\n", "漢字", "かな", "한글", "🚀", "、。"]
)


@example([("7", 12), ("漢字", 114), ("7", 11), ("漢字", 66), ("a", 34)], 305)
@given(
    st.lists(st.tuples(SCRIPTS, st.integers(1, 400)), max_size=8), st.integers(60, 400)
)
def test_a_clipped_text_of_any_script_fits_the_budget(
    pieces: list, budget: int
) -> None:
    text = "".join(piece * times for piece, times in pieces)
    clipped = clip_to_tokens(text, budget, 12)
    assert estimate_tokens(clipped) <= budget
    assert (clipped == text) == (estimate_tokens(text) <= budget)


def test_a_clipped_text_keeps_head_and_tail_and_explains_how_to_read_the_rest() -> None:
    clipped = clip_to_tokens("first line\n" + "middle\n" * 2_000 + "last line", 200, 12)
    assert clipped.startswith("first line\n")
    assert clipped.endswith("last line")
    assert "history_read(12)" in clipped


def test_a_single_error_in_a_log_is_kept_with_two_lines_around_it() -> None:
    clipped = clip_to_tokens(
        log(3_000, line_1500="ERROR cannot connect to db-7"), BUDGET, 12
    )
    assert estimate_tokens(clipped) <= BUDGET
    shown = clipped.splitlines()
    at = shown.index("ERROR cannot connect to db-7")
    assert [line.split()[4] for line in shown[at - 2 : at]] == ["1498", "1499"]
    assert [line.split()[4] for line in shown[at + 1 : at + 3]] == ["1501", "1502"]
    assert "worker 0 " in shown[0]
    assert "worker 2999 " in shown[-1]


def test_head_and_tail_get_the_whole_budget_without_failures() -> None:
    clipped = clip_to_tokens(log(3_000), BUDGET, 12)
    assert 0.9 * BUDGET < estimate_tokens(clipped) <= BUDGET
    assert clipped.count("[") == 1


def test_the_first_and_last_of_many_errors_are_kept() -> None:
    errors = {f"line_{n}": f"ERROR number {n}" for n in range(500, 2_500)}
    clipped = clip_to_tokens(log(3_000, **errors), BUDGET, 12)
    assert estimate_tokens(clipped) <= BUDGET
    assert "ERROR number 500\n" in clipped
    assert "ERROR number 2499\n" in clipped
    assert "worker 2999 " in clipped


def test_a_repeated_error_is_kept_once() -> None:
    errors = {f"line_{n}": "ERROR again" for n in range(500, 2_500, 2)}
    clipped = clip_to_tokens(
        log(3_000, **errors, line_2001="FATAL: panic: out of memory"), BUDGET, 12
    )
    assert "panic: out of memory" in clipped
    assert clipped.count("ERROR again") < 10


def test_code_about_errors_is_not_a_failure() -> None:
    clipped = clip_to_tokens(
        log(3_000, line_1500="    raise ValueError: of no use"), BUDGET, 12
    )
    assert "ValueError" not in clipped


@pytest.mark.parametrize("times", [1, 3_000])
def test_a_very_long_line_is_cut_around_its_failure(times: int) -> None:
    text = "{x: 1}," * 200_000 + "fatal: disk full;" * times + "{y: 2}," * 200_000
    clipped = clip_to_tokens(text, BUDGET, 12)
    assert "fatal: disk full" in clipped
    assert estimate_tokens(clipped) <= BUDGET


@given(
    st.lists(
        st.sampled_from(["ERROR at 7\n", "plain\n", "x" * 900, "\n", "漢字 失败\n"])
    ),
    st.integers(-9, 90),
)
def test_kept_lines_are_in_order_without_repeats(pieces: list[str], room: int) -> None:
    text = "".join(pieces)
    spans = kept_spans(text, room)
    places = [place for span in spans for place in span]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, len(text))


def test_the_same_text_is_clipped_to_the_same_bytes() -> None:
    text = log(3_000, line_700="ERROR one", line_1500="ERROR two")
    assert clip_to_tokens(text, BUDGET, 12) == clip_to_tokens(str(text), BUDGET, 12)
