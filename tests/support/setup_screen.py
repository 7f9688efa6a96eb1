"""The setup screen in a bare program, with servers that a test makes up."""

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
from foldline.tui.screens.setup import SetupScreen
from foldline.tui.screens.setup_servers import OFFLINE, OTHER, Choice, Secret, Source
from foldline.tui.themes import DEFAULT_THEME
from support.agents import PATIENCE
from support.chat_app import Clock, screen_text

KEY = "sk-planted-0123456789abcdef"
"""The key that must be seen nowhere."""

OPENAI = Source(
    "openai",
    "OpenAI",
    "https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    default_model="gpt-5-mini",
    key_page="https://platform.openai.com/api-keys",
    key="needed",
)
ANTHROPIC = Source(
    "anthropic",
    "Anthropic",
    "https://api.anthropic.com/v1",
    key_env="ANTHROPIC_API_KEY",
    key_in="ANTHROPIC_API_KEY",
    default_model="claude-sonnet-5-5",
    key="needed",
)
DEEPSEEK = Source(
    "deepseek",
    "DeepSeek",
    "https://api.deepseek.com/v1",
    key_env="DEEPSEEK_API_KEY",
    key_in="keys.toml",
    default_model="deepseek-v4-flash",
    key="needed",
)
OLLAMA = Source("ollama", "Ollama", "http://localhost:11434/v1")
SOURCES = (OFFLINE, OPENAI, ANTHROPIC, DEEPSEEK, OLLAMA, OTHER)


def offers(*ids: str) -> list[ListedModel]:
    return [ListedModel(name, 400_000) for name in ids]


class MadeUp:
    """Servers that answer what a test says: offers, an error, or nothing before `open` is set."""

    def __init__(self, *answers: Sequence[ListedModel] | LLMError) -> None:
        self.sources: Sequence[Source] = SOURCES
        self.trouble = ""
        self.script = list(answers)
        self.asked: list[tuple[Source, Secret | None]] = []
        self.kept: list[Choice] = []
        self.refuses: str = ""
        """Why nothing can be written down."""
        self.open = asyncio.Event()
        self.open.set()
        self.too_small: set[str] = set()
        self.known_offers: Sequence[ListedModel] = ()
        """What is known without asking."""

    async def models(self, source: Source, key: Secret | None) -> Sequence[ListedModel]:
        self.asked.append((source, key))
        await self.open.wait()
        answer = self.script.pop(0)
        if isinstance(answer, LLMError):
            raise answer
        return answer

    def known(self, source: Source, names: Sequence[str]) -> Sequence[ListedModel]:
        return self.known_offers or [ListedModel(name) for name in dict.fromkeys(names) if name]

    def other(self, address: str) -> Source:
        if not address.startswith("http"):
            raise FoldlineError("This is no http or https address.")
        return Source("own-server", "own-server", address, key="optional")

    def compacts_first(self, offer: ListedModel) -> bool:
        return offer.id in self.too_small

    async def keep(self, choice: Choice) -> None:
        if self.refuses:
            raise FoldlineError(self.refuses)
        self.kept.append(choice)


class SetupApp(BaseApp[None]):
    """The smallest program around the screen; what it gave back is in `left`."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, servers: MadeUp, theme: str = DEFAULT_THEME, **opened: Any) -> None:
        super().__init__(theme)
        self.left: list[Choice | None] = []
        self.clock = Clock()
        self.servers = servers
        self.setup = SetupScreen(servers, clock=self.clock, **opened)

    async def on_mount(self) -> None:
        await self.push_screen(self.setup, self.left.append)


class Seen:
    """A running screen and what a test asks of it."""

    def __init__(self, app: SetupApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def state(self) -> SetupScreen:
        return self.app.setup

    @property
    def rows(self) -> list[str]:
        return [line.rstrip() for line in screen_text(self.app)]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def paste(self, text: str) -> None:
        self.app.post_message(events.Paste(text))
        await self.pilot.pause()

    async def mark(self, source: Source) -> None:
        """Move to a source in the list."""
        await self.press("ctrl+home", *["down"] * self.state.sources.index(source))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await self.pilot.pause()

    async def says(self, *words: str) -> None:
        """Until all of this is on the screen."""
        try:
            await self.until(lambda: all(word in self.text for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} never came:\n{self.text}") from None


@asynccontextmanager
async def setup_on(
    servers: MadeUp, *, terminal: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[Seen]:
    app = SetupApp(servers, **options)
    async with app.run_test(size=terminal) as pilot:
        seen = Seen(app, pilot)
        await seen.until(lambda: app.setup.is_mounted and app.screen is app.setup)
        yield seen
