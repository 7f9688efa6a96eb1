"""Replays the recorded session, and continues with the offline model."""

from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Final

from foldline.agent import Agent
from foldline.agent.tools import default_tools
from foldline.agent.tools.base import ReplayTool
from foldline.agent.tools.history import recall_tools
from foldline.history import Session, read_log
from foldline.llm import Answer, Chunk, Request
from foldline.llm.offline import OfflineLLM
from foldline.llm.offline.model import PACE, chunks_of
from foldline.llm.offline.reply import Reply
from foldline.protocol import AssistantMessage, ToolResultMessage, UserMessage

RECORDING: Final = Path(__file__).parent / "recording.jsonl"
WINDOW: Final = 10_240
"""Context window of the recorded session, in tokens.

The recorded session fills the window more than once.
"""


class ReplayLLM(OfflineLLM):
    """Returns the recorded responses in order, at typing speed.

    After the last one, it behaves like the offline model. Requests without tools come from a compaction; the
    offline model answers them.
    """

    def __init__(
        self, answers: Iterable[AssistantMessage], window: int, *, pace: float
    ) -> None:
        super().__init__(window, pace=pace)
        self._answers = deque(answers)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if not (request.tools and self._answers):
            async with aclosing(super().stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        answer = self._answers.popleft()
        for chunk in chunks_of(Reply(answer.text)):
            yield chunk
            await self._sleep(self._pace)
        yield Answer(answer.model_copy(update={"index": -1, "at": None}))


def recorded_prompts() -> list[str]:
    """Return the recorded prompts, in order."""
    entries = read_log(RECORDING).entries
    return [entry.text for entry in entries if isinstance(entry, UserMessage)]


def replaying_agent(root: Path, home: Path, pace: float = PACE) -> Agent:
    """Create an agent that replays the recording.

    Its session is stored below `home`. `pace` is the time per word of the responses, in seconds. With the
    default, the recording takes about a minute.
    """
    entries = read_log(RECORDING).entries
    answers = [entry for entry in entries if isinstance(entry, AssistantMessage)]
    results = [entry for entry in entries if isinstance(entry, ToolResultMessage)]
    session = Session.create(root, home=home)
    return Agent(
        session,
        llm=ReplayLLM(answers, WINDOW, pace=pace),
        tools=(
            *(ReplayTool(tool, results) for tool in default_tools()),
            *recall_tools(session),
        ),
        compaction="summary",  # as recorded
        approvals="all",
        interactive=True,
        draft_ahead=False,  # so that compactions happen where they were recorded, at any replay speed
    )
