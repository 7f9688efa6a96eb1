"""Help: the keys that it lists, in their order, over every screen."""

from pathlib import Path

from foldline.frontend.commands import BY_ID, BY_SLASH
from foldline.tui.browser.keys import KEYS
from foldline.tui.overlays.help import EVERYWHERE, SLASH, HelpScreen
from support.live import Live, live


async def helped(running: Live, *keys: str) -> HelpScreen:
    """The help that these keys open."""
    await running.press(*keys)
    await running.until(lambda: isinstance(running.app.screen, HelpScreen))
    screen = running.app.screen
    assert isinstance(screen, HelpScreen)
    return screen


async def test_the_screen_in_front_comes_first_then_what_works_everywhere_then_slash_commands(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", size=(120, 230)) as running:
        help = await helped(running, "f1")
        assert "Help · Chat" in running.text
        assert (
            running.text.index(BY_ID["send"].name)
            < running.text.index(EVERYWHERE)
            < running.text.index(SLASH)
        )
        slash = {f"/{command.slash}" for command in BY_SLASH.values()}
        assert slash <= {row.choice.id for row in help.rows}
        await running.press("f1")
        await running.until(lambda: running.app.screen is running.app.chat)
        assert running.app.chat.prompt.editor.has_focus
        await running.press("f2")
        await running.until(lambda: "▸ Inspector" in running.screen[0])
        focused = running.app.focused
        help = await helped(running, "question_mark")
        notes = [row.choice.note for row in help.rows]
        assert "Help · Inspector" in running.text and BY_ID["send"].help not in notes
        assert all(key.help_text in notes for key in KEYS)
        assert "/compact" in running.text
        await running.press("question_mark")
        await running.until(lambda: not isinstance(running.app.screen, HelpScreen))
        assert running.app.focused is focused


async def test_typing_finds_and_esc_closes(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", size=(80, 24)) as running:
        await helped(running, "f1")
        await running.press(*"strategy")
        await running.until(lambda: "/strategy [name]" in running.text)
        assert "Alt+↑" not in running.text
        await running.press("escape")
        await running.until(lambda: running.app.screen is running.app.chat)
