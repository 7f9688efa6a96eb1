"""The setup screen in a minimal app, with made-up servers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual import events
from textual.pilot import Pilot

from foldline.llm import LLMError
from foldline.llm.listing import ListedModel
from foldline.protocol import FoldlineError
from foldline.tui.base_app import BaseApp
from foldline.tui.lists.picker import Picker
from foldline.tui.look.themes import DEFAULT_THEME
from foldline.tui.overlays.setup import ModelDialog
from foldline.tui.overlays.setup_servers import (
    OFFLINE,
    OTHER,
    ModelServer,
    Secret,
    SetupResult,
)
from support.agents import PATIENCE
from support.chat_app import Clock, laid_out_text

KEY = "sk-planted-0123456789abcdef"
"""The key that must never be shown."""

OPENAI = ModelServer(
    "openai",
    "OpenAI",
    "https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    default_model="gpt-5-mini",
    key_page="https://platform.openai.com/api-keys",
    key="needed",
)
ANTHROPIC = ModelServer(
    "anthropic",
    "Anthropic",
    "https://api.anthropic.com/v1",
    key_env="ANTHROPIC_API_KEY",
    key_in="ANTHROPIC_API_KEY",
    default_model="claude-sonnet-5-5",
    key="needed",
)
DEEPSEEK = ModelServer(
    "deepseek",
    "DeepSeek",
    "https://api.deepseek.com/v1",
    key_env="DEEPSEEK_API_KEY",
    key_in="keys.toml",
    default_model="deepseek-v4-flash",
    key="needed",
)
OLLAMA = ModelServer("ollama", "Ollama", "http://localhost:11434/v1")
SOURCES = (OFFLINE, OPENAI, ANTHROPIC, DEEPSEEK, OLLAMA, OTHER)


def offers(*ids: str) -> list[ListedModel]:
    return [ListedModel(name, 400_000) for name in ids]


class FakeServers:
    """Made-up servers.

    They answer with models, an error, or nothing before `open` is set.
    """

    def __init__(self, *answers: Sequence[ListedModel] | LLMError) -> None:
        self.sources: Sequence[ModelServer] = SOURCES
        self.trouble = ""
        self.script = list(answers)
        self.requests: list[tuple[ModelServer, Secret | None]] = []
        self.choices: list[SetupResult] = []
        self.refuses: str = ""
        """Why settings cannot be written."""
        self.open = asyncio.Event()
        self.open.set()
        self.too_small: set[str] = set()
        self.known_offers: Sequence[ListedModel] = ()
        """Models known without a request."""

    async def models(
        self, source: ModelServer, key: Secret | None
    ) -> Sequence[ListedModel]:
        self.requests.append((source, key))
        await self.open.wait()
        answer = self.script.pop(0)
        if isinstance(answer, LLMError):
            raise answer
        return answer

    def known(self, source: ModelServer, names: Sequence[str]) -> Sequence[ListedModel]:
        return self.known_offers or [
            ListedModel(name) for name in dict.fromkeys(names) if name
        ]

    def other(self, address: str) -> ModelServer:
        if not address.startswith("http"):
            raise FoldlineError("This is no http or https address.")
        return ModelServer("own-server", "own-server", address, key="optional")

    def compacts_first(self, offer: ListedModel) -> bool:
        return offer.id in self.too_small

    async def keep(self, choice: SetupResult) -> None:
        if self.refuses:
            raise FoldlineError(self.refuses)
        self.choices.append(choice)


class SetupApp(BaseApp[None]):
    """Minimal app around the dialog; its results are in `results`."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, servers: FakeServers, theme: str = DEFAULT_THEME, **options: Any
    ) -> None:
        super().__init__(theme)
        self.results: list[SetupResult | None] = []
        self.clock = Clock()
        self.servers = servers
        self.at_models = options.pop("step", "provider") == "model"
        self.dialog = ModelDialog(self, servers, **options)  # type: ignore[arg-type]

    async def on_mount(self) -> None:
        self.run_worker(self._choose())

    async def _choose(self) -> None:
        self.results.append(await self.dialog.choose(at_models=self.at_models))


class SetupDriver:
    """A running screen, with queries and actions for tests."""

    def __init__(self, app: SetupApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def picker(self) -> Picker:
        """The list in front."""
        assert isinstance(self.app.screen, Picker)
        return self.app.screen

    @property
    def rows(self) -> list[str]:
        return [line.rstrip() for line in laid_out_text(self.app)]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def paste(self, text: str) -> None:
        self.app.post_message(events.Paste(text))
        await self.pilot.pause()

    async def mark(self, source: ModelServer) -> None:
        """Move the cursor to a source in the list."""
        self.picker.select(source.name)
        self.picker.update()
        await self.pilot.pause()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await self.pilot.pause()

    async def shows(self, *words: str) -> None:
        """Wait until all of these words are on the screen."""
        try:
            await self.until(lambda: all(word in self.text for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} never came:\n{self.text}") from None


@asynccontextmanager
async def setup_on(
    servers: FakeServers, *, terminal: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[SetupDriver]:
    app = SetupApp(servers, **options)
    async with app.run_test(size=terminal) as pilot:
        seen = SetupDriver(app, pilot)
        await seen.until(lambda: isinstance(app.screen, Picker))
        yield seen
