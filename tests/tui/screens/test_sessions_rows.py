"""Rows of the list: never wider than the list, whatever is in them; what matters most stays longest."""

from datetime import timedelta
from pathlib import Path
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from foldline.context.harmless import clean
from foldline.context.text_search import parse_query
from foldline.history.session_search import SessionHit
from foldline.tui.blocks.cells import Span, width_of
from foldline.tui.screens.sessions_list import Listed, Scope
from foldline.tui.screens.sessions_view import MATCH, Look, heading, hit_row, session_row
from support.sessions_screen import NOON

NASTY = ["移动端重试仍然会产生两个订单" * 4, "👩‍💻" * 40, "\x1b[31mred\x1b[0m", "[/nope]", "e\u0301" * 80]
ANY = st.text(max_size=90) | st.sampled_from(NASTY)


def listed(title: str = "Idempotent orders", **changes: object) -> Listed:
    known: dict[str, object] = {
        "cwd": "/w/shop-api",
        "model": "moonshot/kimi-k2",
        "entries": 398,
        "tokens": 28_600,
        **changes,
    }
    path, at = Path("/s/one/events.jsonl"), NOON - timedelta(hours=3)
    return Listed(path, "one", at, title, **known)  # type: ignore[arg-type]


def drawn(spans: list[Span]) -> str:
    return "".join(text for text, _ in spans)


@given(ANY, ANY, ANY, st.integers(20, 220), st.sampled_from(get_args(Scope)), st.booleans())
def test_a_row_is_never_wider_than_the_list_and_always_clean(
    title: str, folder: str, model: str, width: int, scope: Scope, readable: bool
) -> None:
    row = listed(title, cwd=folder, model=model, last_prompt=model, note=folder, readable=readable)
    look = Look(scope, NOON, parse_query("re 重试"), row.path)
    spans = session_row(row, look, width)
    assert width_of(spans) <= width
    assert all(clean(text) == text and "\n" not in text for text, _ in spans)
    assert width_of(heading(width, scope)) == width_of(spans)


@given(ANY, st.integers(0, 90), st.integers(0, 9), st.integers(30, 200))
def test_a_match_is_never_wider_than_the_list_and_always_clean(
    text: str, start: int, length: int, width: int
) -> None:
    start = min(start, len(text))
    marks = [(start, min(start + length, len(text)))]
    spans = hit_row(SessionHit(352, "user", 1, text, marks), 12, width)
    assert width_of(spans) <= width
    assert all(clean(each) == each and "\n" not in each for each, _ in spans)


def test_a_match_stands_in_sight_however_far_into_its_excerpt_it_is() -> None:
    hit = SessionHit(352, "tool_result", 1, "so much before " * 8 + "needle" + " and after" * 9, [(120, 126)])
    spans = hit_row(hit, 3, 80)
    assert ("needle", MATCH) in spans
    assert drawn(spans).startswith("        352  result  …")
    assert drawn(spans).endswith("+3 more")


def test_a_narrow_list_gives_up_model_then_numbers_and_keeps_the_title() -> None:
    look = Look("all", NOON)
    assert "kimi-k2" in drawn(session_row(listed(), look, 118))
    row = drawn(session_row(listed(), look, 75))
    assert "Idempotent orders" in row and "/w/shop-api" in row and "kimi-k2" not in row
    assert drawn(session_row(listed(), look, 34)).strip() == "3 h ago      Idempotent orders"


def test_what_was_asked_for_is_marked_in_the_title() -> None:
    spans = session_row(listed(), Look("here", NOON, parse_query("ORDERS")), 100)
    assert ("orders", MATCH) in spans


def test_a_session_that_cannot_be_read_says_why_without_its_long_path() -> None:
    row = listed("", readable=False, note="/s/one/events.jsonl holds no session.")
    assert "! its file holds no session." in drawn(session_row(row, Look("here", NOON), 100))
