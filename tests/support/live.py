"""The running program with a scripted model, and helpers to wait for states."""

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
from foldline.history import Session
from foldline.llm import Chunk, Request, RetryChunk, TextChunk, ThinkingChunk
from foldline.protocol import AssistantMessage, Entry
from foldline.tui.app.app import FoldlineApp
from foldline.tui.blocks.block import Block
from foldline.view.budget import BudgetSettings
from support.agents import PATIENCE, PlayedLLM, reply
from support.chat_app import Clock, laid_out_text

AT_THE_THRESHOLD = BudgetSettings(soft_ratio=1)
"""Never compacts at the end of a turn; tests start compactions themselves."""
NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
FULL = "All there is to know about it, again and again. " * 152
"""A prompt of about 2,000 tokens."""


@dataclass(frozen=True)
class StreamedAnswer:
    """An answer streamed by the test.

    `say` and `think` add words; `end()` completes the answer, or replaces it with another message.
    """

    pieces: asyncio.Queue[Chunk | AssistantMessage | None] = field(
        default_factory=asyncio.Queue
    )

    def say(self, text: str) -> None:
        self.pieces.put_nowait(TextChunk(text))

    def think(self, text: str) -> None:
        self.pieces.put_nowait(ThinkingChunk(text))

    def retry(self, sentence: str, seconds: float = 1.0, attempt: int = 1) -> None:
        """Report that the request failed and is retried in `seconds`."""
        self.pieces.put_nowait(RetryChunk(sentence, seconds, attempt, 3))

    def end(self, message: AssistantMessage | None = None) -> None:
        self.pieces.put_nowait(message)


class StreamingLLM(PlayedLLM):
    """Scripted model that also plays `Spoken` answers."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        plays = self.script if request.tools else self._summaries
        if not plays or not isinstance(plays[0], StreamedAnswer):
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
        yield self._answer(request, reply(text))


class Live:
    """A running program, with queries and actions for tests."""

    def __init__(
        self, app: FoldlineApp, pilot: Pilot[None], llm: PlayedLLM, agent: Agent
    ) -> None:
        self.app = app
        self.pilot = pilot
        self.llm = llm
        self.agent = agent

    @property
    def entries(self) -> list[Entry]:
        return self.agent.session.entries

    @property
    def screen(self) -> list[str]:
        """The rows of the screen; empty if it has just been opened and has no layout yet."""
        return laid_out_text(self.app)

    @property
    def text(self) -> str:
        """The whole screen, without trailing blanks."""
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
        """The rows of the transcript, without gutters, scroll bar and sidebar."""
        view = self.app.chat.transcript
        width, region = view.size.width - 1, view.region
        return [
            line[3:width].rstrip() for line in self.screen[region.y : region.bottom]
        ]

    def gutters(self) -> str:
        """The gutter's characters, from the top row to the last."""
        region = self.app.chat.transcript.region
        return "".join(line[1] for line in self.screen[region.y : region.bottom])

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds and is drawn."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await self.pilot.pause()

    async def drawn(self) -> None:
        """Wait until everything is drawn."""
        await self.until(lambda: self.app.chat.presenter.settled)

    async def at_rest(self) -> None:
        """Wait until no task and no prompt is pending, and everything is drawn."""
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
        """Send a prompt and wait until its turn and all it triggers have ended."""
        count = len(self.entries)
        await self.enter(text)
        await self.until(lambda: len(self.entries) > count)
        await self.at_rest()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


def session_in(folder: Path, session_id: str = "20260314-120000-abcd") -> Session:
    """Create a session with all entries dated noon."""
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
    """Start the program with its session open, and wait until it is idle."""
    model = llm or StreamingLLM(*script, window=window, summaries=summaries)
    settings = {
        "approvals": "all",
        "budget": AT_THE_THRESHOLD,
        "interactive": True,
        "compaction": "summary",  # its drafts take time, so that tests can look at them
        **options,
    }
    agent = Agent(session or session_in(folder), llm=model, **settings)

    def another(
        file: str, here: Path, ask: Callable[[str], bool]
    ) -> tuple[Callable[[], Agent], Path]:
        sibling = (
            Session.open(Path(file), cwd=here)
            if file
            else session_in(folder, f"20260314-1201{next(numbers):02}-more")
        )
        return lambda: Agent(_claimed(sibling), llm=model, **settings), here

    numbers = count()
    app = FoldlineApp(
        lambda: agent, root=folder, clock=clock or Clock(), another=another
    )
    async with app.run_test(size=size) as pilot:
        running = Live(app, pilot, model, agent)
        await running.until(lambda: app.runner is not None)
        await running.drawn()
        yield running
