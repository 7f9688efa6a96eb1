"""Cancelling at every await: what runs is stopped at its nth one, and the test runs it for each n there is.

Real cancellation through the executor, at the place where the event loop would deliver it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing
from types import coroutine
from typing import Any, Literal

from foldline.agent import Agent
from foldline.llm import Chunk, Request, TextChunk
from foldline.protocol import operations
from support.agents import PlayedLLM

Moment = Literal["as it waits", "once it is ready"]
"""Right after the task began to wait; or when what it waits for has come, before the task knows."""


class Stopper:
    """Interrupts the operations of an agent at one of their awaits, counted over all of them from 1."""

    def __init__(
        self, agent: Agent, at: int, moment: Moment, interrupt: Callable[[], object] | None = None
    ) -> None:
        """`interrupt` is what the user does; left out, an `Interrupt` for the executor."""
        self._interrupt = interrupt or (lambda: agent.executor.submit(operations.Interrupt()))
        self._at = at
        self._moment = moment
        self._awaits = 0
        self.struck = False
        """Whether it came so far."""
        carry_out = agent.executor._carry_out

        async def watched(operation: operations.Operation) -> None:
            await _told_of_awaits(carry_out(operation), self._waits)

        agent.executor._carry_out = watched  # type: ignore[method-assign]

    def stop(self) -> None:
        """From now on, nothing is interrupted."""
        self._at = 0

    def _waits(self, awaited: asyncio.Future[Any] | None) -> None:
        self._awaits += 1
        if self._awaits != self._at:
            return
        if awaited is None or self._moment == "as it waits":
            asyncio.get_running_loop().call_soon(self._strike)
        else:
            awaited.add_done_callback(lambda _: self._strike())  # before the task's own, which wakes it

    def _strike(self) -> None:
        if not self._at:
            return
        self.struck = True
        self._interrupt()


@coroutine
def _told_of_awaits(
    work: Coroutine[Any, Any, None], waits: Callable[[asyncio.Future[Any] | None], None]
) -> Generator[Any, Any, None]:
    """Runs `work`, and says before each suspension what it waits for; None where only for the next round."""
    thrown: BaseException | None = None
    while True:
        try:
            awaited = work.send(None) if thrown is None else work.throw(thrown)
        except StopIteration:
            return
        waits(awaited)
        thrown = None
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is for `work`
            thrown = error


class TricklingLLM(PlayedLLM):
    """Plays its script word by word, with an await before each: no two chunks come at once."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        async with aclosing(super().stream(request)) as chunks:
            async for chunk in chunks:
                words = chunk.text.split(" ") if isinstance(chunk, TextChunk) else ()
                for nth, word in enumerate(words):
                    await asyncio.sleep(0)
                    yield TextChunk(f" {word}" if nth else word)
                if not words:
                    await asyncio.sleep(0)
                    yield chunk

    @property
    def open_streams(self) -> int:
        return len(self.requests) + len(self.summary_requests) - self.closed_streams
