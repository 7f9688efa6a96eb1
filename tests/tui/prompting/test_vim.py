"""Vim's keys on a text: each as Vim 9 does it, and what holds of all of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.tui.prompting.vim import ESC, REDO, Vim, press, selection

TEXT = 'one two, three.four\n  five six\n\nsay (a [b] {c}) "d e" end'


def after(keys: str, text: str = TEXT, at: int = 0) -> Vim:
    """Where keys lead from the normal mode; in insert mode letters are typed as by the editor."""
    return typed(Vim(text=text, at=at, mode="normal", seen=(text, at)), keys)


def typed(vim: Vim, keys: str) -> Vim:
    for key in keys:
        if vim.mode == "insert" and key != ESC:
            vim = replace(vim, text=vim.text[: vim.at] + key + vim.text[vim.at :], at=vim.at + len(key))
        else:
            vim = press(vim, key)
    return vim


def shown(vim: Vim) -> str:
    """The text with the cursor in it."""
    return f"{vim.text[: vim.at]}|{vim.text[vim.at :]}"


# Each was typed into Vim 9.0, too, and ended so there.
MOTIONS = [
    ("w", "one |two, three"),
    ("2w", "two|, three"),
    ("W", "one |two, three"),
    ("3W", "\n  |five"),
    ("e", "on|e two"),
    ("2E", "two|, three"),
    ("wb", "|one two"),
    ("5wB", "two, |three.four"),
    ("ll", "on|e"),
    ("3lh", "on|e"),
    ("$", "fou|r\n"),
    ("$0", "|one"),
    ("2$", "five si|x\n"),
    ("9$", "en|d"),
    ("G2$", "\n|say"),
    ("j^", "  |five"),
    ("j$", "si|x\n"),
    ("2j", "six\n|\nsay"),
    ("3jk", "six\n|\nsay"),
    ("$jk", "fou|r\n"),
    ("G", "\n\n|say"),
    ("2G", "\n  |five"),
    ("Ggg", "|one"),
    ("ft", "one |two"),
    ("f,", "two|, three"),
    ("t,", "tw|o, three"),
    ("ft;", "two, |three"),
    ("ft;,", "one |two"),
    ("$Fo", "three.f|our"),
    ("$To", "three.fo|ur"),
    ("tttt;", "two,| three"),
    ("fz", "|one"),
]
CHANGES = [
    ("x", "|ne two, three"),
    ("2x", "|e two"),
    ("wX", "one|two"),
    ("dw", "|two, three"),
    ("2dw", "|, three"),
    ("d2W", "|three.four"),
    ("wD", "one| \n  five"),
    ("wCnew" + ESC, "one ne|w\n  five"),
    ("cwsix" + ESC, "si|x two"),
    ("wcwsix" + ESC, "one si|x, three"),
    ("dd", "|five six"),
    ("2dd", "|\nsay"),
    ("ccall" + ESC, "al|l\n  five"),
    ("yyp", "four\n|one two, three.four\n  five"),
    ("yyjP", "four\n|one two, three.four\n  five"),
    ("ywP", "one| one two"),
    ("dwwP", "twoone| , three"),
    ("dj", "|\nsay"),
    ("jdk", "|\nsay"),
    ("dft", "|wo, three"),
    ("dtt", "|two, three"),
    ("2D", "|\nsay"),
    ("wd2$", "one| \n\nsay"),
    ("2Cnew" + ESC, "ne|w\n\nsay"),
    ("$dFt", "one two, |r\n"),
    ("d$", "|\n  five"),
    ("wd0", "|two, three"),
    ("dG", "|"),
    ("de", "| two"),
    ("wdiw", "one |, three"),
    ("wdaw", "one|, three"),
    ("daw", "|two, three"),
    ("d2aw", "|, three"),
    ("2diw", "|two, three"),
    ("v2iwd", "|two, three"),
    ("5daw", "|four"),
    ("G$d2aw", "en|d"),
    ("Gfb2di[", "say (a [|b] {c})"),
    ("Gfbd2i(", "say (a [|b] {c})"),
    ('Gdi"', '"|" end'),
    ('Gda"', ") |end"),
    ("G$F(di(", "say (|) "),
    ("Gfada(", "say | "),
    ("Gfbci[new" + ESC, "(a [ne|w] {c})"),
    ("Gfbda{", "say (a [b] |) "),
    ("rX", "|Xne two"),
    ("3rX", "XX|X two"),
    ("3~", "ONE| two"),
    ("onew" + ESC, "four\nne|w\n  five"),
    ("Onew" + ESC, "ne|w\none"),
    ("jInew" + ESC, "  ne|wfive"),
    ("Anew" + ESC, "fourne|w\n  five"),
    ("anew" + ESC, "one|wne two"),
    ("dw.", "|, three"),
    ("xj.", "four\n| five"),
    ("cwsix" + ESC + "w.", "six si|x, three"),
    ("Ax" + ESC + "j.", "six|x\n"),
    ("2x3.", "|wo, three"),
    ("vwd", "|wo, three"),
    ("vey", "|one two"),
    ("veyP", "on|eone two"),
    ("viwcsix" + ESC, "si|x two"),
    ("Vjd", "|\nsay"),
    ("Vyp", "four\n|one two, three.four\n  five"),
    ("vjy", "|one two"),
    ("vlxw.", "e |o, three"),
    ("dwu", "|one two"),
    ("dwxuu", "|one two"),
    ("dwxuu" + REDO, "|two, three"),
    ("cwsix" + ESC + "u", "|one two"),
]


@pytest.mark.parametrize(("keys", "part"), MOTIONS + CHANGES)
def test_keys_do_what_they_do_in_vim(keys: str, part: str) -> None:
    vim = after(keys)
    assert vim.mode == "normal" and not vim.keys
    assert part in (shown(vim) if "|" in part else vim.text)


@pytest.mark.parametrize(
    ("keys", "held"),
    [
        ("wve", "two"),
        ("$vb", "four"),
        ("jV", "  five six\n"),
        ("jjVk", "  five six\n\n"),
        ("wv$", "two, three.four\n"),
        ("Gwvi(", "a [b] {c}"),
    ],
)
def test_what_is_selected_is_what_the_next_key_takes(keys: str, held: str) -> None:
    vim = after(keys)
    low, high = selection(vim) or (0, 0)
    assert vim.text[low:high] == press(vim, "y").register == held
    assert press(vim, "d").text == vim.text[:low] + vim.text[high:]
    assert press(vim, "c").mode == "insert" and press(vim, ESC).text == vim.text


def test_a_command_that_was_begun_is_shown_and_dropped_by_escape_or_by_what_is_none() -> None:
    vim = after("2d3")
    assert vim.keys == "2d3" and press(vim, ESC).keys == ""
    assert press(vim, "z").keys == "" and press(vim, "z").text == TEXT


def test_no_count_makes_a_text_that_nobody_can_hold() -> None:
    assert len(after("yy99999999999999p", "0123456789").text) < 200_000
    assert len(after("yy99p" * 20, "0123456789").text) < 20 * 200_000


# --- what always holds ----------------------------------------------------------------------------------

KEYS = st.text(
    st.sampled_from(f"hjklwbeWBE0^$gGfFtT;,xXDCdcypPiaIAoOr~uvV.123\"'()[]{{}}ab \n{ESC}{REDO}"), max_size=40
)
TEXTS = st.text(st.sampled_from("ab.,(\"' )\n é漢"), max_size=60)


@given(TEXTS, KEYS)
def test_the_cursor_is_always_inside_the_text_and_on_a_character_in_normal_mode(text: str, keys: str) -> None:
    vim = after("", text)
    for key in keys:
        vim = typed(vim, key)
        assert 0 <= vim.at <= len(vim.text)
        if vim.mode != "insert" and vim.text[vim.at : vim.at + 1] in ("", "\n"):
            assert vim.at == 0 or vim.text[vim.at - 1] == "\n"
        low, high = selection(vim) or (vim.at, vim.at)
        assert 0 <= low <= high <= len(vim.text)


@given(TEXTS, KEYS)
def test_undo_returns_to_the_text_there_was_and_redo_to_the_one_that_came(text: str, keys: str) -> None:
    vim = typed(after("", text), keys.replace("u", "").replace(REDO, "") + ESC + ESC)
    back = typed(vim, "u" * (len(keys) + 1))
    assert back.text == text
    assert typed(back, REDO * (len(keys) + 1)).text == vim.text


@given(TEXTS, KEYS)
def test_what_only_moves_or_yanks_changes_nothing(text: str, keys: str) -> None:
    moving = "".join(key for key in keys if key in "hjklwbeWBE0^$gG;,yvV123(){}" or key == ESC)
    assert after(moving, text).text == text
