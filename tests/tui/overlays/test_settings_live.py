"""/settings in the running program: what is changed holds in the session where it can, and says where not."""

import os
from pathlib import Path

import pytest

from foldline.agent.settings.schema import LABELS
from foldline.agent.settings.settings import load_settings
from foldline.compaction import DigestCompaction
from foldline.tui.overlays.settings import (
    AFTER_TURN,
    CHANGED,
    IN_EFFECT,
    NO_THEME,
    SettingsScreen,
)
from support.agents import Hang
from support.live import Live, live


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "w-home"
    monkeypatch.setenv("FOLDLINE_HOME", str(folder))
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return folder / "config.toml"


async def opened(running: Live, query: str) -> SettingsScreen:
    """The screen with the mark at what was searched for, by what is said after the command."""
    running.agent.settings = load_settings(running.agent.state.cwd, os.environ)
    await running.enter(f"/settings {query}")
    await running.until(lambda: isinstance(running.app.screen, SettingsScreen))
    screen = running.app.screen
    assert isinstance(screen, SettingsScreen)
    await running.until(lambda: screen.marked is not None)
    return screen


async def chosen(running: Live, screen: SettingsScreen, value: str) -> None:
    """Takes this value from the list of a setting."""
    await running.press("enter")
    await running.until(lambda: running.app.screen is not screen)
    await running.press(*value, "enter")
    await running.until(lambda: running.app.screen is screen)


async def test_mode_strategy_and_threshold_hold_in_the_session_at_once(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "w", "Done.") as running:
        state = running.agent.state
        screen = await opened(running, "compaction.mode")
        await chosen(running, screen, "ask")
        await running.until(
            lambda: state.compaction.mode == "ask" and IN_EFFECT in screen.box.message
        )
        assert (
            running.app.state.compaction_mode == "ask"
            and 'mode = "ask"' in home.read_text()
        )
        screen.field.value = "strategy"
        await running.until(lambda: screen.marked == "compaction.strategy")
        await chosen(running, screen, "digest")
        await running.until(
            lambda: isinstance(state.compaction.strategy, DigestCompaction)
        )
        screen.field.value = "compaction.threshold"
        await running.until(lambda: screen.marked == "compaction.threshold")
        await running.press("enter", "ctrl+u", *"60%", "enter")
        await running.until(lambda: state.budget.limits.threshold == 32_768 * 60 // 100)
        shown = {
            each.key: (each.in_force, each.source) for each in screen.settings.values()
        }
        assert shown["compaction.threshold"] == ("60% = 19.7k", "config.toml")
        assert shown["compaction.keep_recent_tokens"] == ("4.1k", "from the window")
        assert shown["context.window"] == ("32.8k", f"from {state.models.llm.info.id}")


@pytest.mark.slow
async def test_while_a_turn_runs_it_holds_from_the_next_one_on(tmp_path: Path) -> None:
    async with live(tmp_path / "w", Hang("…")) as running:
        await running.enter("go")
        await running.until(lambda: running.agent.executor.busy)
        screen = await opened(running, "compaction.mode")
        await chosen(running, screen, "ask")
        await running.until(lambda: AFTER_TURN in screen.box.message)
        assert running.agent.state.compaction.mode == "auto"
        running.app.runner.cancel()  # type: ignore[union-attr]
        await running.until(lambda: running.agent.state.compaction.mode == "ask")


@pytest.mark.slow
async def test_a_theme_is_tried_on_in_the_list_and_worn_when_it_is_taken(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "w") as running:
        screen = await opened(running, "theme")
        await running.until(lambda: screen.marked == "theme")
        await running.press("enter")
        await running.until(lambda: running.app.screen is not screen)
        await running.press("down")
        tried = running.app.theme
        await running.press("escape")
        assert running.app.theme == "foldline-dark" != tried
        await running.press("enter", *"gruvbox", "enter")
        await running.until(lambda: running.app.theme == "gruvbox")
        await running.until(lambda: 'theme = "gruvbox"' in home.read_text())


async def test_a_theme_by_its_command_is_kept_and_a_broken_file_says_why(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "w") as running:
        running.app.themes_dir = tmp_path / "themes"
        running.app.themes_dir.mkdir()
        (running.app.themes_dir / "mine.toml").write_text("dark = [")
        await running.enter("/theme mine")
        await running.until(
            lambda: "mine.toml cannot be read" in running.app.chat.remarked
        )
        await running.enter("/theme nord-of-me")
        await running.until(
            lambda: (
                NO_THEME.partition(".")[0].format(name="nord-of-me")
                in running.app.chat.remarked
            )
        )
        await running.enter("/theme dusk")
        await running.until(
            lambda: (
                CHANGED.partition(" {saved}")[0].format(
                    setting=LABELS["theme"], value="dusk"
                )
                in running.app.chat.remarked
            )
        )
        assert home.read_text() == 'theme = "dusk"\n'
