"""Cancellation at every await of an operation.

The test runs the operation once for each await, and cancels it there through the executor, at the point where
the event loop would deliver the cancellation.
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
"""Either right after the task began to wait, or once its future is done but before the task resumes."""


class Stopper:
    """Interrupts an agent's operations at one await, counted over all operations from 1."""

    def __init__(
        self,
        agent: Agent,
        at: int,
        moment: Moment,
        interrupt: Callable[[], object] | None = None,
    ) -> None:
        """`interrupt` is the user's action; by default an `Interrupt` for the executor."""
        self._interrupt = interrupt or (
            lambda: agent.executor.submit(operations.Interrupt())
        )
        self._at = at
        self._moment = moment
        self._awaits = 0
        self.struck = False
        """Whether that await was reached."""
        carry_out = agent.executor._carry_out

        async def watched(operation: operations.Operation) -> None:
            await _report_awaits(carry_out(operation), self._waits)

        agent.executor._carry_out = watched  # type: ignore[method-assign]

    def stop(self) -> None:
        """Stop interrupting."""
        self._at = 0

    def _waits(self, awaited: asyncio.Future[Any] | None) -> None:
        self._awaits += 1
        if self._awaits != self._at:
            return
        if awaited is None or self._moment == "as it waits":
            asyncio.get_running_loop().call_soon(self._strike)
        else:
            awaited.add_done_callback(
                lambda _: self._strike()
            )  # before the task's own, which resumes it

    def _strike(self) -> None:
        if not self._at:
            return
        self.struck = True
        self._interrupt()


@coroutine
def _report_awaits(
    work: Coroutine[Any, Any, None], waits: Callable[[asyncio.Future[Any] | None], None]
) -> Generator[Any, Any, None]:
    """Run `work`, and report the awaited future before each suspension.

    The future is None if the task only yields to the event loop.
    """
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
        except BaseException as error:  # noqa: BLE001 - every exception belongs to `work`
            thrown = error


class TricklingLLM(PlayedLLM):
    """Scripted model that streams word by word, with an await before each chunk."""

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
