"""The keys of the Sessions screen: one table, of which hints show what works now."""

from dataclasses import replace
from pathlib import Path

from foldline.tui.keys.table import Keymap, in_force, use
from foldline.tui.screens.sessions_list import Listed, Listing, ListRow, Scope, SessionsState
from foldline.tui.screens.sessions_view import empty, tabs
from support.sessions_screen import NOON, SessionsApp


def named(tmp_path: Path, **known: object) -> dict[str, str]:
    """The hints over a list of one session of which this is known; of none, with nothing."""
    screen = SessionsApp(tmp_path).sessions
    if known:
        listed = replace(Listed(Path("/s/one/events.jsonl"), "one", NOON), **known)  # type: ignore[arg-type]
        screen.rows = [ListRow(listed)]
    return dict(screen.hints())


def test_hints_name_what_can_be_done_with_the_marked_session(tmp_path: Path) -> None:
    ours = named(tmp_path, readable=True)
    assert {"Enter": "resume", "f": "fork", "x": "archive", "D": "delete"}.items() <= ours.items()
    assert "i" not in ours and ours["Esc"] == "to the chat"
    assert named(tmp_path, archived=True)["x"] == "bring back"
    foreign = named(tmp_path, agent="claude-code")
    assert foreign["Enter"] == "read" and foreign["i"] == "import" and "f" not in foreign
    unreadable = named(tmp_path, readable=False)
    assert "Enter" not in unreadable and "D" in unreadable
    assert "Enter" not in named(tmp_path)


def test_the_session_of_this_chat_is_neither_archived_nor_deleted(tmp_path: Path) -> None:
    path = Path("/s/one/events.jsonl")
    screen = SessionsApp(tmp_path, here=path).sessions
    screen.rows = [ListRow(Listed(path, "one", NOON))]
    here = dict(screen.hints())
    assert here["Enter"] == "back to it" and "D" not in here and "x" not in here


def test_the_last_hint_is_what_esc_does_in_every_mode(tmp_path: Path) -> None:
    screen = SessionsApp(tmp_path).sessions
    for mode in ("list", "field", "renaming"):
        screen.mode = mode
        assert screen.hints()[-1][0] == "Esc"


def test_sentences_name_the_keys_the_reader_chose() -> None:
    before = in_force()
    use(Keymap({("sessions", "scope-2"): ("b",), ("sessions", "archive"): ("A",)}))
    try:
        shown = "".join(text for text, _ in tabs("here"))
        assert shown == "1 This folder  b All folders  3 Archived  4 Other agents"
        assert "A puts a session away" in empty(_without_any("archived"))[0]
    finally:
        use(before)


def _without_any(scope: Scope) -> SessionsState:
    return SessionsState(scope=scope, listing=Listing(rows=()))
