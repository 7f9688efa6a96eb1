"""Agents for tests: a scripted model, an event recorder, and sample files."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.history import Session
from foldline.llm import (
    Answer,
    Chunk,
    LLMError,
    ModelInfo,
    Request,
    TextChunk,
    spec_tokens,
)
from foldline.protocol import AssistantMessage, ToolCallPart, Usage, text_parts
from foldline.protocol.events import Event
from foldline.view.tokens import message_tokens

PATIENCE = 60.0
"""Seconds until a waiting test fails."""


@dataclass(frozen=True)
class Hang:
    """Script step: stream this text, then hang until cancelled."""

    text: str = ""


@dataclass(frozen=True)
class Gate:
    """Script step: answer once the test opens the gate."""

    open: asyncio.Event
    answer: "str | AssistantMessage" = "done"


Play = str | AssistantMessage | LLMError | Hang | Gate | Exception


class PlayedLLM:
    """Scripted model: one item of `script` per ordinary request.

    Requests without tools get items of `summaries`. Reported input equals the estimate, so calibration stays
    near 1.
    """

    dialect = "played"

    def __init__(
        self,
        *script: Play,
        window: int = 32_768,
        summaries: tuple[Play, ...] = (),
        always: Play = "done",
    ) -> None:
        self.info = ModelInfo(id="played", window=window)
        self.requests: list[Request] = []
        """Ordinary requests, without those for summaries."""
        self.summary_requests: list[Request] = []
        self.silent = asyncio.Event()
        """Set once a request hangs."""
        self.closed_streams = 0
        self.closed = 0
        self.script = deque(script)
        self._summaries = deque(summaries)
        self._always = always

    async def prepare(self) -> ModelInfo:
        return self.info

    async def aclose(self) -> None:
        self.closed += 1

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if request.tools:
            self.requests.append(request)
            play = self.script.popleft() if self.script else self._always
        else:
            self.summary_requests.append(request)
            number = len(self.summary_requests)
            play = (
                self._summaries.popleft()
                if self._summaries
                else f"## Goal\n- summary {number}"
            )
        try:
            match play:
                case Exception():
                    raise play
                case Hang():
                    if play.text:
                        yield TextChunk(play.text)
                    self.silent.set()
                    await asyncio.Event().wait()
                case Gate():
                    self.silent.set()
                    await play.open.wait()
                    answer = (
                        reply(play.answer)
                        if isinstance(play.answer, str)
                        else play.answer
                    )
                    yield self._answer(request, answer)
                case str():
                    yield TextChunk(play)
                    yield self._answer(request, reply(play))
                case AssistantMessage():
                    yield self._answer(request, play)
        finally:
            self.closed_streams += 1

    def _answer(self, request: Request, message: AssistantMessage) -> Answer:
        if message.usage is not None:
            return Answer(message)
        sent = sum(map(message_tokens, request.messages)) + sum(
            map(spec_tokens, request.tools)
        )
        usage = Usage(input=sent, output=message_tokens(message))
        return Answer(
            message.model_copy(update={"usage": usage, "model": self.info.id})
        )


def reply(text: str, **fields: object) -> AssistantMessage:
    return AssistantMessage.model_validate(
        {"parts": text_parts(text), "stop_reason": "stop", **fields}
    )


def tool_reply(
    *calls: tuple[str, dict[str, Any]], text: str = "", stem: str = "c"
) -> AssistantMessage:
    """Return an answer with tool calls: `calling(("read", {"path": "a.py"}))`."""
    parts = [
        ToolCallPart(
            call_id=f"{stem}{number}", name=name, arguments=json.dumps(arguments)
        )
        for number, (name, arguments) in enumerate(calls)
    ]
    return AssistantMessage(parts=(*text_parts(text), *parts), stop_reason="tool_calls")


class Watch:
    """Records every event of an agent, and waits for events."""

    def __init__(self, agent: Agent) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()
        agent.executor.subscribe(self)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    def of(self, kind: type[Event]) -> list[Any]:  # type: ignore[valid-type]
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def first(self, kind: type[Event], count: int = 1) -> Any:  # type: ignore[valid-type]
        """Wait for the `count`th event of this kind and return it."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if event.type == "notice"]

    @property
    def ends(self) -> list[tuple[str, str]]:
        """Operation and outcome of each finished task."""
        return [
            (event.operation, event.outcome)
            for event in self.events
            if event.type == "task_finished"
        ]


def agent_in(folder: Path, llm: Any, **options: Any) -> tuple[Agent, Watch]:
    """Return an agent with a new session in this folder, and its event recorder.

    Every tool call is allowed.
    """
    session = Session.create(folder, home=folder.parent / f"{folder.name}-home")
    agent = Agent(session, llm=llm, **{"approvals": "all", **options})
    return agent, Watch(agent)


def reload_session(agent: Agent) -> Session:
    """Load the agent's session from disk, as another process would."""
    assert agent.session.path is not None
    return Session.open(agent.session.path)


async def other_tasks_done() -> None:
    """Wait until only the test's own task is left; fail after a timeout."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(tasks) if tasks else None
    unfinished = [task for task in tasks if not task.done()]
    assert not unfinished, unfinished


def write_lines(
    path: Path, count: int, line: str = "value_{n} = compute({n}) + offset  # row {n}"
) -> str:
    text = "".join(line.format(n=number) + "\n" for number in range(count))
    path.write_text(text, encoding="utf-8")
    return text
