"""Keys by name: what people write, what Textual calls it, what is shown; and which keys never arrive."""

import string

import pytest
from textual.keys import Keys, _character_to_key

from foldline.frontend.key_names import joined, key_name, spelled


@pytest.mark.parametrize(
    ("written", "name", "shown"),
    [
        ("F2", "f2", "F2"),
        ("Ctrl+E", "ctrl+e", "Ctrl+E"),
        ("control+e", "ctrl+e", "Ctrl+E"),
        ("p", "p", "p"),
        ("N", "N", "N"),
        ("shift+n", "N", "N"),
        ("?", "question_mark", "?"),
        ("ctrl+]", "ctrl+right_square_bracket", "Ctrl+]"),
        ("ctrl++", "ctrl+plus", "Ctrl++"),
        ("+", "plus", "+"),
        (",", "comma", ","),
        (" ", "space", "Space"),
        ("PgUp", "pageup", "PgUp"),
        ("page_down", "pagedown", "PgDn"),
        ("Esc", "escape", "Esc"),
        ("Return", "enter", "Enter"),
        ("shift+ctrl+Up", "ctrl+shift+up", "Ctrl+Shift+↑"),
        ("Alt+↑", "alt+up", "Alt+↑"),
        ("é", "é", "é"),
    ],
)
def test_a_key_may_be_written_as_people_know_it(
    written: str, name: str, shown: str
) -> None:
    assert spelled(written) == name
    assert key_name(name) == shown
    assert spelled(shown) == name


@pytest.mark.parametrize(
    "written",
    ["", "f0", "f25", "hyper+x", "ctrl+", "ctrl+nope", "nope", "pp", "shift+1", "\n"],
)
def test_what_is_no_key_is_none(written: str) -> None:
    assert spelled(written) is None


def test_signs_are_called_as_textual_calls_them() -> None:
    assert [spelled(sign) for sign in string.punctuation] == [
        _character_to_key(sign) for sign in string.punctuation
    ]


def test_every_name_is_one_that_textual_knows() -> None:
    known = {key.value for key in Keys}
    named = {
        spelled(name)
        for name in ("esc", "del", "ins", "home", "pgdn", "backspace", "f24", "ctrl+f5")
    }
    assert named <= {*known, "backspace"}


def test_keys_that_share_a_place_are_shown_as_one() -> None:
    assert joined(["Alt+↑", "Alt+↓"]) == "Alt+↑↓"
    assert joined(["[", "]"]) == "[ ]"
    assert joined(["PgUp", "PgDn"]) == "PgUp"
