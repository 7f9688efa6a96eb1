import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from foldline.tui.blocks import ROLES, Styles, clean, clean_line, styles_from


@given(st.text())
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    result = clean(text)
    assert not any((ord(sign) < 0x20 and sign != "\n") or 0x7F <= ord(sign) <= 0x9F for sign in result)
    assert not any("\u202a" <= sign <= "\u202e" or "\u2066" <= sign <= "\u2069" for sign in result)
    assert clean(result) == result
    assert all(cell_len(line) >= 0 for line in result.split("\n"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛red␛"),
        ("\x1b]0;title\x07x", "␛x"),
        ("\x1b]8;;http://x\x1b\\link", "␛link"),
        ("a\x07b\x00c\x7f", "a␇b␀c␡"),
        ("\x9b31m", "�31m"),
        ("a\u202eb\u200bc\ufeff", "a�b�c�"),
        ("a\tb", "a       b"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("👨‍👩‍👧 é 你好", "👨‍👩‍👧 é 你好"),
        ("a\u200db", "a�b"),
    ],
)
def test_controls_become_visible_signs_and_text_stays(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_line_stays_one_line() -> None:
    assert clean_line("a\nb") == "a⏎b"


def test_roles_come_from_the_theme_and_fall_back() -> None:
    styles = styles_from(
        {"role-live": "#00ff00", "error": "#ff0000", "foreground": "#cccccc"}, no_color=False
    )
    assert styles["live bold"].color is not None
    assert styles["live bold"].color.name == "#00ff00"
    assert styles["live bold"].bold
    assert styles["alert"].color is not None
    assert styles["alert"].color.name == "#ff0000"


def test_without_colour_attributes_stay() -> None:
    styles = styles_from({f"role-{role}": "#00ff00" for role in ROLES}, no_color=True)
    assert all(styles[role].color is None for role in ROLES)
    assert styles["alert reverse bold"].reverse
    assert styles["alert reverse bold"].bold


def test_an_unknown_role_is_a_mistake_of_the_programmer() -> None:
    with pytest.raises(KeyError):
        Styles()["purple"]
