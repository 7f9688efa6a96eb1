"""The Settings screen in a bare program, over a real file of settings and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from foldline.agent.settings import load_settings
from foldline.agent.settings_edit import change, in_toml
from foldline.tui.base_app import BaseApp
from foldline.tui.screens.settings import Setting, SettingsScreen, list_settings
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


class Kept:
    """Settings in a folder, as a keeper that no session listens to."""

    file = "~/.config/foldline/config.toml"

    def __init__(
        self, folder: Path, own: str = OWN, environ: Mapping[str, str] | None = None, **options: object
    ) -> None:
        self.cwd = folder / "work"
        self.cwd.mkdir(parents=True)
        self.path = folder / "config.toml"
        if own:
            self.path.write_text(own, "utf-8")
        self.environ = {"FOLDLINE_HOME": str(folder), **(environ or {})}
        self.now = load_settings(self.cwd, self.environ, options)
        self.asked: list[str] = []
        self.answer: str | None = None
        """What the reader chooses from a list."""

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    def read(self) -> tuple[Setting, ...]:
        self.now = self.now.again(self.cwd, self.environ)
        return list_settings(self.now, self.environ, themes=("auto", "dusk", "nord"))

    async def keep(self, key: str, text: str | None) -> str:
        value = None if text is None else in_toml(key, text)
        self.now = change(self.now, self.cwd, self.environ, key, value)
        return "Kept. It counts now."

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        self.asked.append(setting.key)
        chosen(self.answer)


class SettingsApp(BaseApp[None]):
    """The smallest program around the screen."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, kept: Kept, theme: str = "foldline-dark") -> None:
        super().__init__(theme)
        self.screen_shown = SettingsScreen(kept)

    async def on_mount(self) -> None:
        await self.push_screen(self.screen_shown)


class Seen:
    """A running screen and what a test asks of it."""

    def __init__(self, app: SettingsApp, pilot: Pilot[None], kept: Kept) -> None:
        self.app = app
        self.pilot = pilot
        self.kept = kept

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
        """Move to a setting."""
        keys = [each.key for each in self.state.rows]
        await self.press("ctrl+home", *["down"] * keys.index(key))
        assert self.state.row is not None and self.state.row.key == key


@asynccontextmanager
async def settings_on(kept: Kept, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Seen]:
    app = SettingsApp(kept, **options)
    async with app.run_test(size=size) as pilot:
        seen = Seen(app, pilot, kept)
        await seen.until(lambda: app.screen_shown.is_mounted and app.screen is app.screen_shown)
        yield seen
