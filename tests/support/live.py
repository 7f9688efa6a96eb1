"""The running program in tests: a real agent behind it, a scripted model, and ways to wait for a state."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from foldline.agent import Agent
from foldline.context.budget import BudgetSettings
from foldline.history import Session
from foldline.llm import Chunk, Request, RetryChunk, TextChunk, ThinkingChunk
from foldline.protocol import AssistantMessage, Entry
from foldline.tui.app import FoldlineApp
from foldline.tui.blocks.block import Block
from support.agents import PATIENCE, PlayedLLM, said
from support.chat_app import Clock, screen_text

AT_THE_THRESHOLD = BudgetSettings(soft_ratio=1)
"""No fold at the end of a turn: a test says itself when one is due."""
NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
FULL = "All there is to know about it, again and again. " * 152
"""A prompt of about 2,000 tokens."""


@dataclass(frozen=True)
class Spoken:
    """An answer the test speaks itself: words as it puts them, `end()` when it has said all, or with
    another message than its words."""

    pieces: asyncio.Queue[Chunk | AssistantMessage | None] = field(default_factory=asyncio.Queue)

    def say(self, text: str) -> None:
        self.pieces.put_nowait(TextChunk(text))

    def think(self, text: str) -> None:
        self.pieces.put_nowait(ThinkingChunk(text))

    def again(self, sentence: str, seconds: float = 1.0, attempt: int = 1) -> None:
        """The request failed, and is sent once more after so many seconds."""
        self.pieces.put_nowait(RetryChunk(sentence, seconds, attempt, 3))

    def end(self, message: AssistantMessage | None = None) -> None:
        self.pieces.put_nowait(message)


class SpeakingLLM(PlayedLLM):
    """Plays `Spoken` answers, too."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        plays = self.script if request.tools else self._summaries
        if not plays or not isinstance(plays[0], Spoken):
            async for chunk in super().stream(request):
                yield chunk
            return
        (self.requests if request.tools else self.summary_requests).append(request)
        spoken, text = plays.popleft(), ""
        self.silent.set()
        while (piece := await spoken.pieces.get()) is not None:
            if isinstance(piece, AssistantMessage):
                yield self._answer(request, piece)
                return
            if isinstance(piece, TextChunk):
                text += piece.text
            elif isinstance(piece, RetryChunk):
                text = ""
            yield piece
        yield self._answer(request, said(text))


class Live:
    """A running program and what a test asks of it."""

    def __init__(self, app: FoldlineApp, pilot: Pilot[None], llm: PlayedLLM, agent: Agent) -> None:
        self.app = app
        self.pilot = pilot
        self.llm = llm
        self.agent = agent

    @property
    def entries(self) -> list[Entry]:
        return self.agent.session.entries

    @property
    def screen(self) -> list[str]:
        return screen_text(self.app)

    @property
    def text(self) -> str:
        """The whole screen, right ends stripped."""
        return "\n".join(line.rstrip() for line in self.screen)

    @property
    def blocks(self) -> list[Block]:
        view = self.app.chat.transcript
        return [view.block_at(at) for at in range(view.count)]

    @property
    def shown(self) -> list[tuple[tuple[int, int], int, str]]:
        """Key, gap and text of every block of the transcript."""
        return [(block.key, block.gap, block.text()) for block in self.blocks]

    @property
    def editor_text(self) -> str:
        return self.app.chat.prompt.editor.text

    def transcript_rows(self) -> list[str]:
        """The rows of the transcript, without rails, scroll bar and side list."""
        view = self.app.chat.transcript
        width, region = view.size.width - 1, view.region
        return [line[3:width].rstrip() for line in self.screen[region.y : region.bottom]]

    def rails(self) -> str:
        """The signs of the rail, from the top row to the last."""
        region = self.app.chat.transcript.region
        return "".join(line[1] for line in self.screen[region.y : region.bottom])

    async def until(self, condition: Callable[[], object]) -> None:
        """Until something is so; what has been drawn by then is on the screen."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await self.pilot.pause()

    async def drawn(self) -> None:
        """Until nothing is left to be drawn."""
        await self.until(lambda: self.app.chat.presenter.settled)

    async def at_rest(self) -> None:
        """Until nothing runs, no prompt is under way, and all is drawn."""
        runner = self.app.runner
        assert runner is not None
        await self.until(
            lambda: (
                not self.agent.executor.busy
                and (runner._delivery is None or runner._delivery.done())
                and self.app.chat.presenter.settled
            )
        )

    async def type(self, text: str) -> None:
        self.app.chat.prompt.editor.insert(text)
        await self.pilot.pause()

    async def enter(self, text: str) -> None:
        """Type this and press Enter."""
        await self.type(text)
        await self.pilot.press("enter")

    async def ask(self, text: str) -> None:
        """Send a prompt and wait until all it sets off has ended."""
        count = len(self.entries)
        await self.enter(text)
        await self.until(lambda: len(self.entries) > count)
        await self.at_rest()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


def session_in(folder: Path, session_id: str = "20260314-120000-abcd") -> Session:
    """A new session whose entries were all written at noon."""
    folder.mkdir(exist_ok=True, parents=True)
    home = folder.parent / f"{folder.name}-home"
    return Session.create(folder, home=home, now=lambda: NOON, session_id=session_id)


def _claimed(session: Session) -> Session:
    session.claim()
    return session


@asynccontextmanager
async def live(
    folder: Path,
    *script: Any,
    size: tuple[int, int] = (120, 36),
    window: int = 32_768,
    summaries: tuple[Any, ...] = (),
    session: Session | None = None,
    clock: Clock | None = None,
    llm: PlayedLLM | None = None,
    **options: Any,
) -> AsyncIterator[Live]:
    """The program with its session open, at rest."""
    model = llm or SpeakingLLM(*script, window=window, summaries=summaries)
    given = {
        "approvals": "all",
        "budget": AT_THE_THRESHOLD,
        "interactive": True,
        "compaction": "summary",  # its drafts take time, and can be looked at
        **options,
    }
    agent = Agent(session or session_in(folder), llm=model, **given)

    def another(file: str, here: Path, ask: Callable[[str], bool]) -> tuple[Callable[[], Agent], Path]:
        beside = (
            Session.open(Path(file), cwd=here)
            if file
            else session_in(folder, f"20260314-1201{next(numbers):02}-more")
        )
        return lambda: Agent(_claimed(beside), llm=model, **given), here

    numbers = count()
    app = FoldlineApp(lambda: agent, root=folder, clock=clock or Clock(), another=another)
    async with app.run_test(size=size) as pilot:
        running = Live(app, pilot, model, agent)
        await running.until(lambda: app.runner is not None)
        await running.drawn()
        yield running
