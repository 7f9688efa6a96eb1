"""The keys of the Sessions screen: one table, of which hints show what works now."""

from pathlib import Path

from foldline.tui.keys.table import Keymap, in_force, use
from foldline.tui.sessions.keys import KEYS, Facts, hints
from foldline.tui.sessions.state import Listing, Scope, SessionsState
from foldline.tui.sessions.words import empty, tabs
from support.sessions_screen import SessionsApp


def named(facts: Facts) -> dict[str, str]:
    return dict(hints(facts, "closes"))


def test_every_key_has_somebody_who_carries_it_out(tmp_path: Path) -> None:
    screen = SessionsApp(tmp_path).sessions
    assert set(screen._do) == {key.id for key in KEYS if not key.own}


def test_no_key_means_two_things() -> None:
    keys = [key for each in KEYS for key in each.keys]
    assert len(keys) == len(set(keys))


def test_hints_name_what_can_be_done_with_the_marked_session() -> None:
    ours = named(Facts(row=True))
    assert {"Enter": "resume", "f": "fork", "x": "archive", "D": "delete"}.items() <= ours.items()
    assert "i" not in ours
    assert named(Facts(row=True, archived=True))["x"] == "bring back"
    here = named(Facts(row=True, here=True))
    assert here["Enter"] == "back to it" and "D" not in here and "x" not in here
    foreign = named(Facts(row=True, ours=False))
    assert foreign["Enter"] == "read" and foreign["i"] == "import" and "f" not in foreign
    unreadable = named(Facts(row=True, readable=False))
    assert "Enter" not in unreadable and "D" in unreadable
    assert "Enter" not in named(Facts())


def test_the_last_hint_is_what_esc_does_in_every_mode() -> None:
    for mode in ("list", "field", "renaming", "asking"):
        assert hints(Facts(mode=mode), "closes")[-1] == ("Esc", "closes")


def test_sentences_name_the_keys_the_reader_chose() -> None:
    before = in_force()
    use(Keymap({("sessions", "scope-2"): ("b",), ("sessions", "archive"): ("A",)}))
    try:
        shown = "".join(text for text, _ in tabs("here"))
        assert shown == "1 This folder  b All folders  3 Archived  4 Other agents"
        assert "b shows those of all folders" in " ".join(empty(_without_any("here"))[0])
        assert "A puts a session away" in " ".join(empty(_without_any("archived"))[0])
    finally:
        use(before)


def _without_any(scope: Scope) -> SessionsState:
    return SessionsState(scope=scope, listing=Listing(rows=()))
