"""The items of the list: their texts, and the positions of the letters that match."""

from datetime import timedelta
from pathlib import Path

from foldline.history.session_search import SessionHit
from foldline.text.search import parse_query
from foldline.tui.lists.rows import Ranked
from foldline.tui.overlays.sessions_list import ListRow, SessionRow
from foldline.tui.overlays.sessions_view import RowContext, ranked_item
from support.sessions_screen import NOON


def listed(title: str = "Idempotent orders", **changes: object) -> SessionRow:
    known: dict[str, object] = {
        "cwd": "/w/shop-api",
        "model": "moonshot/kimi-k2",
        "entries": 398,
        "tokens": 28_600,
        **changes,
    }
    path, at = Path("/s/one/events.jsonl"), NOON - timedelta(hours=3)
    return SessionRow(path, "one", at, title, **known)  # type: ignore[arg-type]


def letters(ranked: Ranked) -> str:
    """The underlined letters of the label."""
    return "".join(ranked.choice.label[at] for at in sorted(ranked.letters))


def test_a_session_shows_its_age_its_title_and_its_sizes() -> None:
    item = ranked_item(ListRow(listed()), RowContext("all", NOON)).choice
    assert item.label == "3 h ago      Idempotent orders"
    assert item.note == "/w/shop-api"
    assert item.right.split() == ["398", "28.6k"]


def test_the_query_is_marked_in_the_title() -> None:
    context = RowContext("here", NOON, parse_query("ORDERS"))
    assert letters(ranked_item(ListRow(listed()), context)) == "orders"


def test_a_match_is_visible_however_far_into_its_excerpt_it_is() -> None:
    excerpt = "so much before " * 8 + "needle" + " and after" * 9
    hit = SessionHit(352, "tool_result", 1, excerpt, [(120, 126)])
    ranked = ranked_item(ListRow(listed(), hit, 3), RowContext("here", NOON))
    assert letters(ranked) == "needle"
    assert ranked.choice.label.startswith("        352  result  …")
    assert ranked.choice.note == "+3 more"


def test_a_session_that_cannot_be_read_says_why_without_its_long_path() -> None:
    row = listed("", readable=False, note="/s/one/events.jsonl holds no session.")
    item = ranked_item(ListRow(row), RowContext("here", NOON)).choice
    assert "! the file holds no session." in item.label
