"""Making foreign text harmless for display."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.text.harmless import clean, clean_line, json_with_escapes, with_signs
from support.hostile import HOSTILE, MARKUP, acting


@given(st.text())
def test_no_terminal_control_remains(text: str) -> None:
    result = clean(text)
    assert not any(
        (ord(sign) < 0x20 and sign != "\n") or 0x7F <= ord(sign) <= 0x9F
        for sign in result
    )
    assert not any(
        "\u202a" <= sign <= "\u202e" or "\u2066" <= sign <= "\u2069" for sign in result
    )
    assert clean(result) == result


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
        ("const {x,\u3164} = y", "const {x,�} = y"),
        ("a\u034fb\u115fc\uffa0", "a�b�c�"),
        ("x\ufe01y 😀\ufe0f\ufe02\ufe01", "x�y 😀��\ufe01"),
        ("😀\U000e0154\U000e0155", "😀��"),
        ("1️⃣ #️⃣ ©️ ❤️ 葛\U000e0100 한글 ㄱ", "1️⃣ #️⃣ ©️ ❤️ 葛\U000e0100 한글 ㄱ"),
    ],
)
def test_controls_become_visible_signs_and_text_is_unchanged(
    text: str, shown: str
) -> None:
    assert clean(text) == shown


def test_a_line_remains_one_line() -> None:
    assert clean_line("a\nb") == "a⏎b"


@given(st.text())
def test_signs_replace_active_characters_one_for_one(text: str) -> None:
    shown = with_signs(text)
    assert acting(shown) == []
    assert len(shown) == len(text.replace("\r\n", "\n"))
    assert with_signs(shown) == shown


@given(
    st.recursive(
        st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_with_escapes_decodes_to_the_same_value(value: object) -> None:
    raw = json.dumps(value, ensure_ascii=False)
    shown = json_with_escapes(raw)
    assert json.loads(shown) == json.loads(raw)
    assert acting(shown) == []


@pytest.mark.parametrize("make", [clean, clean_line, with_signs, json_with_escapes])
def test_terminal_sequences_become_plain_text(make: Callable[[str], str]) -> None:
    text = (
        json.dumps(HOSTILE, ensure_ascii=False)
        if make is json_with_escapes
        else HOSTILE
    )
    assert acting(make(text)) == []
    assert MARKUP[:20] in make(text)
