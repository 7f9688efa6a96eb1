"""A data folder full of sessions, and the Sessions screen in a bare program over it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from foldline.history import Session
from foldline.protocol import AssistantMessage, Entry, Title, Usage, UserMessage, text_parts
from foldline.tui.base_app import BaseApp
from foldline.tui.screens.sessions import SessionsScreen
from foldline.tui.session_commands import read_along
from support.agents import PATIENCE
from support.chat_app import screen_text

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
SHOP, BLOG = Path("/w/shop-api"), Path("/w/blog")


def talk(*prompts: str, answer: str = "Done.", model: str = "kimi-k2", tokens: int = 28_600) -> list[Entry]:
    """Prompts and their answers."""
    entries: list[Entry] = []
    for prompt in prompts:
        entries.append(UserMessage(parts=text_parts(prompt)))
        entries.append(
            AssistantMessage(
                parts=text_parts(answer), model=model, usage=Usage(input=tokens), stop_reason="stop"
            )
        )
    return entries


class Shelf:
    """Puts sessions into a data folder, each a given time before noon."""

    def __init__(self, home: Path) -> None:
        self.home = home

    async def keep(
        self,
        *prompts: str,
        title: str = "",
        cwd: Path = SHOP,
        minutes: float = 0,
        entries: Sequence[Entry] | None = None,
        **talked: Any,
    ) -> Path:
        """A session of ours; its event file."""
        at = NOON - timedelta(minutes=minutes)
        name = f"{at:%Y%m%d-%H%M%S}-{len(list(self.home.glob('*/*/*'))):04}"
        session = Session.create(cwd, home=self.home, now=lambda: at, session_id=name)
        said = list(entries) if entries is not None else talk(*prompts, **talked)
        await session.append(*said, *([Title(title=title)] if title else []))
        session.save_meta()
        session.close()
        assert session.path is not None
        return session.path

    def titles(self, archived: bool = False) -> list[str]:
        from foldline.history import list_sessions

        return [info.meta.title for info in list_sessions(self.home, archived=archived)]


async def _no_title(title: str) -> str:
    raise AssertionError(title)


class SessionsApp(BaseApp[None]):
    """The smallest program around the screen; what it gave back is in `left`."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        home: Path,
        *,
        here: Path | None = None,
        query: str | None = None,
        beside: Sequence[Path] = (),
        retitle: Callable[[str], Awaitable[str]] | None = None,
    ) -> None:
        super().__init__()
        self.left: list[Path | None] = []
        self.sessions = SessionsScreen(
            "shop-api ▸ Idempotent orders",
            home=home,
            root=SHOP,
            here=here,
            now=lambda: NOON,
            query=query,
            beside=beside,
            read=lambda listed, index: read_along(self, listed, index),
            retitle=retitle or _no_title,
        )

    async def on_mount(self) -> None:
        await self.push_screen(self.sessions, self.left.append)


class Seen:
    """A running screen and what a test asks of it."""

    def __init__(self, app: SessionsApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def rows(self) -> list[str]:
        return [line.rstrip() for line in screen_text(self.app)]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def status(self) -> str:
        return self.rows[-2].strip(" ┃")

    @property
    def listed(self) -> list[str]:
        """What stands in the list, its heading left out."""
        top = next(at for at, row in enumerate(self.rows) if "1 This folder" in row)
        inside = self.rows[top + 2 :]
        end = next(at for at, row in enumerate(inside) if row[:1] in "┗┠")
        return [row[1:-1].rstrip() for row in inside[:end] if row[1:-1].strip()]

    async def later(self, key: str) -> None:
        """Press a key once a question has been there for long enough."""
        clock, self.app.sessions.clock = self.app.sessions.clock, lambda: clock() + 2
        await self.press(key)

    async def press(self, *keys: str) -> None:
        """As Pilot's, but a key is waited for until it is worked off, not until the process is idle."""
        for key in keys:
            self.app.post_message(events.Key(key, key if len(key) == 1 else None))
            await self.settle()

    async def settle(self) -> None:
        for _ in range(3):  # what a message sets off, and what that does
            await self.pilot.pause(0)

    async def type(self, text: str) -> None:
        """Into the field that has the focus, at once."""
        field = self.app.screen.focused
        assert isinstance(field, Input)
        field.insert_text_at_cursor(text)
        await self.settle()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await self.settle()

    async def says(self, *words: str) -> None:
        """Until all of this is on the screen."""
        try:
            await self.until(lambda: all(word in self.text for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} never came:\n{self.text}") from None

    async def searched(self) -> None:
        """Until the search is done."""
        state = lambda: self.app.sessions.state  # noqa: E731
        await self.until(lambda: state().found is not None and not state().searching)

    async def left_with(self) -> Path | None:
        await self.until(lambda: self.app.left)
        return self.app.left[0]


@asynccontextmanager
async def sessions_on(home: Path, size: tuple[int, int] = (120, 36), **options: Any) -> AsyncIterator[Seen]:
    """The screen with its list read."""
    app = SessionsApp(home, **options)
    async with app.run_test(size=size) as pilot:
        seen = Seen(app, pilot)
        await seen.until(lambda: app.sessions.state.listing is not None)
        yield seen
