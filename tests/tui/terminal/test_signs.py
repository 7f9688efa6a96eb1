"""The ASCII set: something of the same width for every sign our screens are drawn with."""

import re
from itertools import chain
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

import foldline
from foldline.tui.terminal.signs import TABLE, AsciiFilter, charset_for

SOURCE = Path(foldline.__file__).parent
FOREIGN = re.compile("[\u2e80-\u9fff\uac00-\ud7a3\uff00-\uffef\U00020000-\U0003ffff]")
"""Punctuation and words of others, which our code knows and our screens are not drawn with."""


def signs() -> set[str]:
    """Every sign that stands in the code of the screens, or in what says a text's numbers and marks."""
    files = chain(
        (SOURCE / "tui").rglob("*.py"),
        (
            SOURCE / f"{name}.py"
            for name in ("text/numbers", "text/harmless", "past/approval_words")
        ),
    )
    found = set("".join(path.read_text("utf-8") for path in files))
    return {
        sign for sign in found if not sign.isascii() and not FOREIGN.match(sign)
    } - set("§©®")


@pytest.mark.parametrize("charset", ["marks", "ascii"])
def test_each_sign_of_ours_has_one_of_the_same_width(charset: str) -> None:
    text = "".join(sorted(signs()))
    assert len(text) > 60, "they are found"
    [painted] = AsciiFilter(strictly=charset == "ascii").apply(
        [Segment(text)], Color(0, 0, 0)
    )
    missing = [
        sign
        for sign, shown in zip(text, painted.text, strict=True)
        if not shown.isascii()
    ]
    assert not missing
    assert all(cell_len(sign) == 1 for sign in map(chr, TABLE))


def test_gutters_frames_and_meter_stay_apart() -> None:
    for signs_that_differ in ("┃╏┊", "┏━┃", "━─", "▓▒░█·┆┃◆", "▶▷", "▸▾", "▲▼"):
        shown = signs_that_differ.translate(TABLE)
        assert len(set(shown)) == len(shown), (signs_that_differ, shown)


@pytest.mark.parametrize(
    ("charset", "shown"),
    [("marks", "| 列出 a* 👩‍💻 é >"), ("ascii", "| ???? a* ?? ? >")],
)
def test_foreign_text_keeps_its_cells(charset: str, shown: str) -> None:
    [painted] = AsciiFilter(strictly=charset == "ascii").apply(
        [Segment("┃ 列出 a… 👩‍💻 é →")], Color(0, 0, 0)
    )
    assert painted.text == shown
    assert cell_len(painted.text) == cell_len("┃ 列出 a… 👩‍💻 é →")


@pytest.mark.parametrize(
    ("environ", "chosen", "charset"),
    [
        ({"TERM": "xterm-256color", "LANG": "de_DE.UTF-8"}, None, "unicode"),
        ({"TERM": "xterm-256color"}, "auto", "unicode"),
        ({"TERM": "xterm-256color", "LANG": "C"}, None, "unicode"),
        ({"TERM": "linux"}, None, "marks"),
        ({"TERM": "linux"}, "off", "unicode"),
        ({"TERM": "xterm"}, "on", "marks"),
        ({"LANG": "ja_JP.eucJP"}, "auto", "ascii"),
        ({"LANG": "C.utf8", "LC_ALL": "en_US.ISO-8859-1@euro"}, None, "ascii"),
        ({"LANG": "ja_JP.eucJP"}, "off", "unicode"),
    ],
)
def test_what_a_terminal_gets(
    environ: dict[str, str], chosen: str | None, charset: str
) -> None:
    assert charset_for(environ, chosen) == charset
