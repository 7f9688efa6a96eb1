"""Help: whose keys it shows, in which order, how it is laid out and searched; over every screen."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from foldline.tui.blocks.cells import width_of
from foldline.tui.inspector.keys import KEYS
from foldline.tui.keys.commands import BY_ID, BY_SLASH
from foldline.tui.screens.help import HelpRow, HelpScreen, found, help_lines
from support.live import Live, live

ROWS = (
    HelpRow("", "Move", "↑ ↓", "Moves the cursor."),
    HelpRow("", "Move", "Tab", "To the next panel."),
    HelpRow("", "Edit", "p", "Pins it, for every later fold.", works=False),
    *(HelpRow("Slash commands", "", f"/{name}", "Does 幂等 things. " * 3) for name in "abcd"),
)


def text_of(rows: Sequence[HelpRow], width: int) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in help_lines(rows, width)]


@pytest.mark.parametrize("width", [12, 40, 76, 140, 172, 300])
def test_every_line_has_the_width_and_every_row_is_there(width: int) -> None:
    lines = help_lines(ROWS, width)
    assert {width_of(line) for line in lines} == {width}
    said = " ".join(text_of(ROWS, width)).split()
    assert all(word in said for row in ROWS for word in row.keys.split())


def test_what_does_nothing_now_says_so() -> None:
    (line,) = [line for line in text_of(ROWS, 76) if "Pins it" in line]
    assert line.endswith("Not now.")


@pytest.mark.parametrize(
    ("typed", "rows"),
    [("", 7), ("pin", 1), ("PANEL next", 1), ("move", 2), ("/b", 1), ("幂等", 4), ("nothing of that", 0)],
)
def test_what_holds_every_word_is_found(typed: str, rows: int) -> None:
    assert len(found(ROWS, typed)) == rows


async def helped(running: Live, *keys: str) -> str:
    """All lines of the help that these keys open."""
    await running.press(*keys)
    await running.until(lambda: isinstance(running.app.screen, HelpScreen))
    return running.text


async def test_the_screen_in_front_comes_first_then_what_works_everywhere_then_slash_commands(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", size=(120, 230)) as running:
        shown = await helped(running, "f1")
        assert shown.index("Help · Chat") < shown.index("On every screen") < shown.index("Slash commands")
        assert all(f"/{name}" in shown for name in BY_SLASH)
        await running.press("f1")
        await running.until(lambda: running.app.screen is running.app.chat)
        assert running.app.chat.prompt.editor.has_focus
        await running.press("f2")
        await running.until(lambda: "▸ Inspector" in running.screen[0])
        focused = running.app.focused
        shown = await helped(running, "question_mark")
        assert "Help · Inspector" in shown and BY_ID["send"].help not in shown
        words = " ".join(shown.replace("┃", " ").split())
        assert all(key.help.partition(" ")[0] in words for key in KEYS) and "/compact" in words
        await running.press("question_mark")
        await running.until(lambda: not isinstance(running.app.screen, HelpScreen))
        assert running.app.focused is focused


async def test_typing_finds_and_esc_gives_back_all_then_closes(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", size=(80, 24)) as running:
        everything = await helped(running, "f1")
        await running.press(*"strategy")
        await running.until(lambda: "/strategy [name]" in running.text)
        assert "Alt+↑" not in running.text and " of " in running.screen[-1]
        await running.press("escape")
        await running.until(lambda: running.text == everything)
        await running.press("end")
        await running.until(lambda: "more lines" not in running.screen[-1])
        assert "/undo" in running.text
        await running.press("escape")
        await running.until(lambda: running.app.screen is running.app.chat)
