"""What the Sessions screen shows of what it knows: pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from foldline.history.session_search import SessionHit, SessionHits, SessionsFound
from foldline.tui.screens.sessions_list import Listed, Listing, SessionsState, list_rows
from foldline.tui.screens.sessions_view import count, empty, search_foot
from support.sessions_screen import NOON


def row(name: str, title: str, hours: int = 0) -> Listed:
    at = NOON - timedelta(hours=hours)
    return Listed(Path(f"/s/{name}/events.jsonl"), name, at, title)


def hits(name: str, *indices: int, kind: str = "user", total: int = 0) -> SessionHits:
    found = [SessionHit(index, kind, 1, "text", [(0, 4)]) for index in indices]
    path = Path(f"/s/{name}/events.jsonl")
    return SessionHits(path, name, "/w", "", NOON, False, found, total or len(found), False)


def found(*sessions: SessionHits, complete: bool = True) -> SessionsFound:
    return SessionsFound(sessions, complete)


ROWS = (row("a", "Idempotent orders"), row("b", "The proxy", 1), row("c", "Orders again", 2))
STATE = SessionsState(listing=Listing(ROWS))


def names(state: SessionsState) -> Sequence[str]:
    return [row.session.id for row in list_rows(state) if row.hit is None]


def test_without_a_query_all_are_shown() -> None:
    assert names(STATE) == ["a", "b", "c"]
    assert names(STATE.looking_for("   ")) == ["a", "b", "c"]


def test_titles_match_whatever_their_case_before_the_search_is_done() -> None:
    assert names(STATE.looking_for("ORDERS")) == ["a", "c"]
    assert names(STATE.looking_for("orders again")) == ["c"]


def test_what_the_search_finds_moves_no_session_that_is_shown_already() -> None:
    asked = STATE.looking_for("orders")
    answered = replace(asked, found=found(hits("b", 7), hits("c", 1)))
    assert names(answered) == ["a", "c", "b"]
    rows = [(row.session.id, row.hit and row.hit.index) for row in list_rows(answered)]
    assert rows == [("a", None), ("c", None), ("c", 1), ("b", None), ("b", 7)]


def test_sessions_of_another_scope_are_left_out_of_what_was_found() -> None:
    answered = replace(STATE.looking_for("x"), found=found(hits("elsewhere", 1), hits("b", 2)))
    assert names(answered) == ["b"]


def test_two_matches_are_shown_and_the_title_is_none_of_them() -> None:
    title = hits("b", 9, kind="title")
    several = replace(hits("b", 1, 2, 3, total=12), hits=[*title.hits, *hits("b", 1, 2, 3).hits])
    [_, *shown] = list_rows(replace(STATE.looking_for("x"), found=found(several)))
    assert [(row.hit and row.hit.index, row.more) for row in shown] == [(1, 0), (2, 10)]


def test_another_query_or_scope_forgets_what_was_found() -> None:
    answered = replace(STATE.looking_for("x"), found=found(hits("b", 1)))
    assert answered.looking_for("x ").found is answered.found
    assert answered.looking_for("xy").found is None
    assert answered.in_scope("all", STATE.listing).found is None


# --- words ------------------------------------------------------------------------------------------


def test_nothing_found_is_said_only_when_all_was_searched() -> None:
    asked = STATE.looking_for("nowhere at all")
    assert "is being searched" in empty(asked)[0]
    sentence, _ = empty(replace(asked, found=found()))
    assert sentence == "No session of this folder holds “nowhere at all” in one entry."


def test_the_frame_of_the_search_says_how_it_stands() -> None:
    asked = STATE.looking_for("x")
    ready = replace(asked, found=found())

    def said(state: SessionsState) -> str:
        return "".join(text for text, _ in search_foot(state))

    assert said(STATE) == ""
    assert said(asked) == "searching …"
    assert said(replace(ready, trouble="no room\x1b[2J")) == "no room␛"
    assert said(replace(asked, found=found(complete=False))).startswith("there may be more")
    assert "said" in said(ready)
    assert "titles and first prompts" in said(replace(asked, scope="others"))


def test_a_list_is_counted_whole_or_as_far_as_it_matches() -> None:
    many = SessionsState(listing=Listing(ROWS * 1000, more=True))
    assert count(many, 3_000) == "3,000+ sessions"
    assert count(STATE.looking_for("orders"), 2) == "2 of 3"
    assert count(SessionsState(listing=Listing(failure="no")), 0) == ""
