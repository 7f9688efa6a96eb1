"""What the Sessions screen shows of what it knows: pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from foldline.history.session_search import SessionHit, SessionHits, SessionsFound
from foldline.tui.overlays.sessions_list import (
    SessionListing,
    SessionRow,
    SessionsState,
    list_rows,
)
from foldline.tui.overlays.sessions_view import (
    IN_ONE_ENTRY,
    MORE_MATCHES,
    NO_MATCH,
    NO_MATCH_YET,
    SEARCHED,
    SEARCHING,
    empty,
    search_state,
)
from support.sessions_screen import NOON


def row(name: str, title: str, hours: int = 0) -> SessionRow:
    at = NOON - timedelta(hours=hours)
    return SessionRow(Path(f"/s/{name}/events.jsonl"), name, at, title)


def hits(name: str, *indices: int, kind: str = "user", total: int = 0) -> SessionHits:
    found = [SessionHit(index, kind, 1, "text", [(0, 4)]) for index in indices]
    path = Path(f"/s/{name}/events.jsonl")
    return SessionHits(
        path, name, "/w", "", NOON, False, found, total or len(found), False
    )


def found(*sessions: SessionHits, complete: bool = True) -> SessionsFound:
    return SessionsFound(sessions, complete)


ROWS = (
    row("a", "Idempotent orders"),
    row("b", "The proxy", 1),
    row("c", "Orders again", 2),
)
STATE = SessionsState(listing=SessionListing(ROWS))


def names(state: SessionsState) -> Sequence[str]:
    return [row.session.id for row in list_rows(state) if row.hit is None]


def test_without_a_query_all_are_shown() -> None:
    assert names(STATE) == ["a", "b", "c"]
    assert names(STATE.with_query("   ")) == ["a", "b", "c"]


def test_titles_match_whatever_their_case_before_the_search_is_done() -> None:
    assert names(STATE.with_query("ORDERS")) == ["a", "c"]
    assert names(STATE.with_query("orders again")) == ["c"]


def test_what_the_search_finds_moves_no_session_that_is_shown_already() -> None:
    asked = STATE.with_query("orders")
    answered = replace(asked, matches=found(hits("b", 7), hits("c", 1)))
    assert names(answered) == ["a", "c", "b"]
    rows = [(row.session.id, row.hit and row.hit.index) for row in list_rows(answered)]
    assert rows == [("a", None), ("c", None), ("c", 1), ("b", None), ("b", 7)]


def test_sessions_of_another_scope_are_left_out_of_what_was_found() -> None:
    answered = replace(
        STATE.with_query("x"), matches=found(hits("elsewhere", 1), hits("b", 2))
    )
    assert names(answered) == ["b"]


def test_two_matches_are_shown_and_the_title_is_none_of_them() -> None:
    title = hits("b", 9, kind="title")
    several = replace(
        hits("b", 1, 2, 3, total=12), hits=[*title.hits, *hits("b", 1, 2, 3).hits]
    )
    [_, *shown] = list_rows(replace(STATE.with_query("x"), matches=found(several)))
    assert [(row.hit and row.hit.index, row.more) for row in shown] == [(1, 0), (2, 10)]


def test_another_query_or_scope_forgets_what_was_found() -> None:
    answered = replace(STATE.with_query("x"), matches=found(hits("b", 1)))
    assert answered.with_query("x ").matches is answered.matches
    assert answered.with_query("xy").matches is None
    assert answered.with_scope("all", STATE.listing).matches is None


# --- words ------------------------------------------------------------------------------------------


def test_nothing_found_is_said_only_when_all_was_searched() -> None:
    asked = STATE.with_query("nowhere at all")
    assert empty(asked) == NO_MATCH_YET.format(query="nowhere at all")
    sentence = empty(replace(asked, matches=found()))
    assert (
        sentence == NO_MATCH["here"].format(query="nowhere at all") + IN_ONE_ENTRY + "."
    )


def test_the_frame_of_the_search_says_how_it_stands() -> None:
    asked = STATE.with_query("x")
    ready = replace(asked, matches=found())

    said = search_state
    assert said(STATE) == ""
    assert said(asked) == SEARCHING
    assert said(replace(ready, search_error="no room\x1b[2J")) == "no room\x1b[2J"
    assert said(replace(asked, matches=found(complete=False))) == MORE_MATCHES
    assert said(ready) == SEARCHED
    assert "titles and first prompts" in said(replace(asked, scope="others"))
