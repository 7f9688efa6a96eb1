"""What the terminal says of its background, between the keys: taken out of them, and followed."""

import os
import re
from pathlib import Path

import pytest
from textual import events

from foldline.tui.base_app import BaseApp
from foldline.tui.look.themes import AUTO
from foldline.tui.terminal.app import Control
from foldline.tui.terminal.driver import BackgroundReported, TerminalParser
from support.terminal import terminal

WHITE, BLACK = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;rgb:1e/1e/2e\x07"


def heard(*reads: str) -> list[object]:
    """What comes of what the terminal sent: keys by name, and whether it is dark."""
    parser = TerminalParser()
    found: list[object] = []
    for read in reads:
        for message in parser.feed(read):
            if isinstance(message, BackgroundReported):
                found.append(message.dark)
            elif isinstance(message, events.Key):
                found.append(message.key)
    return found


@pytest.mark.parametrize(
    ("reads", "says"),
    [
        ((WHITE,), [False]),
        ((BLACK,), [True]),
        (("\x1b]11;rgba:ffff/ffff/ffff/ffff\x07",), [False]),
        ((f"a{WHITE}b",), ["a", False, "b"]),
        (("x\x1b]11;rgb:ffff/ff", "ff/ffff\x1b", "\\y"), ["x", False, "y"]),
        (("\x1b[?997;1n\x1b[?997;2n",), [True, False]),
        (("\x1b[?99", "7;2nq"), [False, "q"]),
        (("\x1by\x1by", "\x1by", "\x1b[A"), ["alt+y", "alt+y", "alt+y", "up"]),
        (("\x1b[A", "]11;"), ["up", "right_square_bracket", "1", "1", "semicolon"]),
    ],
)
def test_replies_are_heard_and_keys_around_them_stay_keys(
    reads: tuple[str, ...], says: list[object]
) -> None:
    assert heard(*reads) == says


async def test_auto_changes_with_the_terminal_and_another_theme_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    app = BaseApp[None](AUTO)
    async with app.run_test() as pilot:
        app.post_message(BackgroundReported(dark=False))
        await pilot.pause()
        assert (
            app.theme_variables["role-accent"] == "#0860ca"
            and not app.current_theme.dark
        )
        app.post_message(BackgroundReported(dark=True))
        await pilot.pause()
        assert app.theme_variables["role-accent"] == "#6cb6ff"
        app.use_theme("gruvbox")
        await pilot.pause()
        app.post_message(BackgroundReported(dark=False))
        await pilot.pause()
        assert app.theme_variables["role-accent"] == "#83a598"


@pytest.mark.slow
def test_in_a_real_terminal_it_is_asked_once_heard_and_left_as_it_was(
    tmp_path: Path,
) -> None:
    with terminal(tmp_path / "work", COLORTERM="truecolor") as term:
        term.until(
            lambda t: (
                Control.BACKGROUND.value.encode() in t.raw
                and Control.REPORT.value.encode() in t.raw
            )
        )
        term.send(WHITE)
        term.until(lambda t: b"38;2;8;96;202" in t.raw)  # the accent of the light theme
        term.send("\x1b[?997;1n")
        term.until(
            lambda t: b"38;2;108;182;255" in t.raw[t.raw.rindex(b"38;2;8;96;202") :]
        )
        assert "rgb:" not in term.text and "997" not in term.text
        assert term.quit_by_keys() == 0
        assert Control.REPORT_NO_MORE.value.encode() in term.raw


COLOUR = re.compile(
    rb"\x1b\[(?:[0-9;:]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:[;:][0-9;:]*)?m"
)


@pytest.mark.slow
def test_no_colour_leaves_where_none_is_wanted_and_marks_and_reverse_do(
    tmp_path: Path,
) -> None:
    with terminal(tmp_path / "work", COLORTERM="truecolor", NO_COLOR="1") as term:
        term.ask("What is here?")
        term.send("/")
        term.until("▶")
        raw = term.between
    assert not COLOUR.findall(raw)
    assert Control.BACKGROUND.value.encode() not in raw
    assert re.search(rb"\x1b\[7[;m]", raw) and re.search(rb"\x1b\[1[;m]", raw)
    assert "\n ┃ " in term.text


def test_a_terminal_without_colours_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert BaseApp[None]().no_color


@pytest.mark.slow
def test_a_terminal_of_16_colours_gets_only_those(tmp_path: Path) -> None:
    with terminal(tmp_path / "work", TERM="xterm", COLORTERM="") as term:
        term.ask("What is here?")
        raw = term.between
    assert os.environ.get("COLORTERM") is None
    assert COLOUR.search(raw) and b"38;5" not in raw and b"38;2" not in raw
