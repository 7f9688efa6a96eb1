"""The Settings screen in a minimal app, over a real settings file."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from foldline.agent.settings.edit import change, in_toml
from foldline.agent.settings.settings import load_settings
from foldline.tui.base_app import BaseApp
from foldline.tui.overlays.settings import (
    IN_EFFECT,
    UNFOLD,
    Setting,
    SettingsScreen,
    list_settings,
)
from support.agents import PATIENCE
from support.chat_app import screen_text

OWN = """# mine
theme = "dusk" # at night
provider = "deepseek"

[compaction]
mode = "ask" # I look at each
threshold = "70%"

[context]
window = 65536

[mcp.files]
command = "mcp-files"
env = { TOKEN = "planted-secret" }
"""


class SettingsFile:
    """Settings in a folder, without a session that listens to them."""

    file = "~/.config/foldline/config.toml"

    def __init__(
        self,
        folder: Path,
        own: str = OWN,
        environ: Mapping[str, str] | None = None,
        **options: object,
    ) -> None:
        self.cwd = folder / "work"
        self.cwd.mkdir(parents=True)
        self.path = folder / "config.toml"
        if own:
            self.path.write_text(own, "utf-8")
        self.environ = {"FOLDLINE_HOME": str(folder), **(environ or {})}
        self.now = load_settings(self.cwd, self.environ, options)
        self.opened_lists: list[str] = []
        self.answer: str | None = None
        """The choice made in a list."""

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    def read(self) -> tuple[Setting, ...]:
        self.now = self.now.again(self.cwd, self.environ)
        return list_settings(self.now, self.environ, themes=("auto", "dusk", "nord"))

    async def keep(self, key: str, text: str | None) -> str:
        value = None if text is None else in_toml(key, text)
        self.now = change(self.now, self.cwd, self.environ, key, value)
        return f"Saved. {IN_EFFECT}"

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        self.opened_lists.append(setting.key)
        chosen(self.answer)


class SettingsApp(BaseApp[None]):
    """Minimal app around the screen."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, settings_file: SettingsFile, theme: str = "foldline-dark"
    ) -> None:
        super().__init__(theme)
        self.screen_shown = SettingsScreen(settings_file)

    async def on_mount(self) -> None:
        await self.push_screen(self.screen_shown)


class SettingsDriver:
    """A running screen, with queries and actions for tests."""

    def __init__(
        self, app: SettingsApp, pilot: Pilot[None], settings_file: SettingsFile
    ) -> None:
        self.app = app
        self.pilot = pilot
        self.settings_file = settings_file

    @property
    def state(self) -> SettingsScreen:
        return self.app.screen_shown

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in screen_text(self.app))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await self.pilot.pause()

    async def mark(self, key: str) -> None:
        """Move the cursor to a setting, and unfold the advanced ones if necessary."""
        if not any(row.choice.id == key for row in self.state.rows):
            self.state.select(UNFOLD)
            await self.press("enter")
        self.state.select(key)
        self.state.update()
        await self.pilot.pause()
        assert self.state.marked == key


@asynccontextmanager
async def settings_on(
    settings_file: SettingsFile, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[SettingsDriver]:
    app = SettingsApp(settings_file, **options)
    async with app.run_test(size=size) as pilot:
        seen = SettingsDriver(app, pilot, settings_file)
        await seen.until(
            lambda: app.screen is app.screen_shown and app.screen_shown.rows
        )
        yield seen
