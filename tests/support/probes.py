"""Models for probes: one that answers by a function, and the question it was asked."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from foldline.evaluation.judge.answers import (
    REFUSAL,
    Absent,
    Ground,
    Place,
    Probe,
    Text,
)
from foldline.llm import Answer, Chunk, LLMError, ModelInfo, Request
from foldline.protocol import Usage
from support.llm import answer

GRADES = '{{"reason": "so", {}}}'.format(
    ", ".join(
        f'"{name}": 4'
        for name in ("accuracy", "context", "artifact", "completeness", "continuity", "instruction")
    )
)
"""A judge's answer: four of five throughout."""


class AnsweringLLM:
    """Answers each request by a function of it, whatever the order they come in; keeps them all."""

    dialect = "scripted"

    def __init__(
        self, reply: Callable[[Request], str | LLMError], *, name: str = "answering", window: int = 1_000_000
    ) -> None:
        self.info = ModelInfo(id=name, window=window)
        self.requests: list[Request] = []
        self.under_way = 0
        self.most_under_way = 0
        self._reply = reply

    async def prepare(self) -> ModelInfo:
        return self.info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0)
            reply = self._reply(request)
        finally:
            self.under_way -= 1
        if isinstance(reply, LLMError):
            raise reply
        yield Answer(answer(reply, usage=Usage(input=100, cached=60, output=10)))

    async def aclose(self) -> None:
        """Nothing is open."""


def asked_of(request: Request) -> str:
    """The question of a request, with its frame."""
    return request.messages[-1].text


def is_judging(request: Request) -> bool:
    return "You grade answers" in request.messages[0].text


def key_to(probes: list[Probe]) -> Callable[[Request], str | LLMError]:
    """Somebody who knows all the right answers."""

    def reply(request: Request) -> str:
        if is_judging(request):
            return GRADES
        return next(right_answer(probe) for probe in probes if probe.question in asked_of(request))

    return reply


def right_answer(probe: Probe) -> str:
    match probe.truth:
        case Text(text):
            return text
        case Place(path):
            return path
        case Ground():
            return probe.truth.text
        case Absent():
            return REFUSAL
