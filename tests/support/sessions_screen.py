"""The Sessions screen in a minimal app, over a data folder of sessions."""

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
from foldline.protocol import (
    AssistantMessage,
    Entry,
    Title,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.tui.app.session_commands import follow_session
from foldline.tui.base_app import BaseApp
from foldline.tui.lists.picker import Picker
from foldline.tui.overlays.sessions import SessionsScreen
from support.agents import PATIENCE
from support.chat_app import laid_out_text

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
SHOP, BLOG = Path("/w/shop-api"), Path("/w/blog")


def talk(
    *prompts: str, answer: str = "Done.", model: str = "kimi-k2", tokens: int = 28_600
) -> list[Entry]:
    """Return prompts and their answers."""
    entries: list[Entry] = []
    for prompt in prompts:
        entries.append(UserMessage(parts=text_parts(prompt)))
        entries.append(
            AssistantMessage(
                parts=text_parts(answer),
                model=model,
                usage=Usage(input=tokens),
                stop_reason="stop",
            )
        )
    return entries


class Shelf:
    """Stores sessions in a data folder, each dated some minutes before noon."""

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
        """Store a session; return its event file."""
        at = NOON - timedelta(minutes=minutes)
        name = f"{at:%Y%m%d-%H%M%S}-{len(list(self.home.glob('*/*/*'))):04}"
        session = Session.create(cwd, home=self.home, now=lambda: at, session_id=name)
        stored = list(entries) if entries is not None else talk(*prompts, **talked)
        await session.append(*stored, *([Title(title=title)] if title else []))
        session.save_meta()
        session.close()
        assert session.path is not None
        return session.path

    def titles(self, archived: bool = False) -> list[str]:
        from foldline.history import list_sessions

        return [info.meta.title for info in list_sessions(self.home, archived=archived)]


async def _no_title(title: Title) -> str:
    raise AssertionError(title)


class SessionsApp(BaseApp[None]):
    """Minimal app around the screen; its result is in `left`."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        home: Path,
        *,
        here: Path | None = None,
        query: str = "",
        others: Sequence[Path] = (),
        retitle: Callable[[Title], Awaitable[str]] | None = None,
    ) -> None:
        super().__init__()
        self.results: list[str | None] = []
        self.sessions = SessionsScreen(
            home=home,
            root=SHOP,
            here=here,
            now=lambda: NOON,
            query=query,
            open_files=others,
            read=lambda rows, index: follow_session(self, rows, index),
            retitle=retitle or _no_title,
        )

    async def on_mount(self) -> None:
        await self.push_screen(self.sessions, self.results.append)


class SessionsDriver:
    """A running screen, with queries and actions for tests."""

    def __init__(self, app: SessionsApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def rows(self) -> list[str]:
        return [line.rstrip() for line in laid_out_text(self.app)]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def status(self) -> str:
        return self.rows[-2].strip(" ┃")

    @property
    def listed(self) -> list[str]:
        """The rows of the list, without its heading."""
        return [self.rows[line][1:-1].rstrip() for line in self.app.sessions.seen]

    async def act(self, action: str) -> None:
        """Choose an action on the selected session."""
        await self.press("ctrl+o")
        await self.until(lambda: self.app.screen is not self.app.sessions)
        picker = self.app.screen
        assert isinstance(picker, Picker)
        picker.select(action)
        assert picker.marked == action, f"{action} is not offered"
        await self.press("enter")

    async def confirm(self) -> None:
        """Agree to the question in front."""
        await self.until(lambda: self.app.screen is not self.app.sessions)
        await self.press("down", "enter")

    async def scope(self, scope: str) -> None:
        """Go on to a list."""
        while self.app.sessions.state.scope != scope:
            await self.press("tab")
        await self.until(lambda: self.app.sessions.state.listing is not None)

    async def press(self, *keys: str) -> None:
        """Press keys, and wait for each key to be handled instead of for an idle process."""
        for key in keys:
            self.app.post_message(events.Key(key, key if len(key) == 1 else None))
            await self.settle()

    async def settle(self) -> None:
        for _ in range(3):  # a message, and the messages it causes
            await self.pilot.pause(0)

    async def type(self, text: str) -> None:
        """Paste into the focused field."""
        field = self.app.screen.focused
        assert isinstance(field, Input)
        field.insert_text_at_cursor(text)
        await self.settle()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await self.settle()

    async def shows(self, *words: str) -> None:
        """Wait until all of these words are on the screen."""
        try:
            await self.until(lambda: all(word in self.text for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} never came:\n{self.text}") from None

    async def searched(self) -> None:
        """Wait until the search is done."""
        state = lambda: self.app.sessions.state  # noqa: E731
        await self.until(
            lambda: state().matches is not None and not state().is_searching
        )

    async def result(self) -> Path | None:
        await self.until(lambda: self.app.results)
        path = self.app.results[0]
        return None if path is None else Path(path)


@asynccontextmanager
async def sessions_on(
    home: Path, size: tuple[int, int] = (120, 36), **options: Any
) -> AsyncIterator[SessionsDriver]:
    """Run the screen, and wait until its list is read."""
    app = SessionsApp(home, **options)
    async with app.run_test(size=size) as pilot:
        seen = SessionsDriver(app, pilot)
        await seen.until(lambda: app.sessions.state.listing is not None)
        yield seen
