"""The runner: sends prompts to the agent in order, folding first where the window is full. No Textual here.

It owns the queue. A prompt is `held` while a fold makes room for it; cancelled, it goes back to the editor.
"""

import asyncio
from contextlib import suppress
from collections.abc import Callable

from foldline.agent import Agent
from foldline.llm import LLMError
from foldline.protocol import events, operations, text_parts
from foldline.protocol.events import Event, TaskFinished


class Runner:
    """Drives one agent for an interface. `give_back(text)` returns a held prompt, or says it has no room."""

    def __init__(self, agent: Agent, emit: Callable[[Event], None], give_back: Callable[[str], bool]) -> None:
        self.agent = agent
        self._emit = emit
        self._give_back = give_back
        self._queue: list[str] = []
        self._held: str | None = None
        self._paused = False
        self._unfolded = False
        """Whether the next prompt goes without a fold: the user cancelled the one for it."""
        self._answered = True
        self._delivery: asyncio.Task[None] | None = None

    # --- what the interface calls ------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Send a prompt, or queue it behind what runs. Sending lifts a pause."""
        self._queue.append(text)
        self.set_paused(False)

    def set_paused(self, paused: bool) -> None:
        self._paused = paused
        self._announce()
        if not paused:
            self._go_on()

    def edit_queue(self, before: tuple[str, ...], after: tuple[str, ...], paused: bool) -> None:
        """Make the queue `after`, unless it has moved on since the reader saw `before`."""
        if tuple(self._queue) == before:
            self._queue = list(after)
        self.set_paused(paused)

    def cancel(self) -> None:
        """Cancel what runs. Prompts that wait stay, and wait for the user's next word."""
        if self._queue:
            self._paused = True
        self.agent.executor.submit(operations.Interrupt())

    def answer(self, call_id: str, answer: str) -> None:
        self.agent.executor.submit(operations.Approve.model_validate({"call_id": call_id, "answer": answer}))

    def submit(self, operation: operations.Operation) -> None:
        """Any other operation: a manual fold, an undo, a clear, a switch of models."""
        self.agent.executor.submit(operation)

    @property
    def waiting(self) -> int:
        """Prompts that were not sent."""
        return len(self._queue) + (self._held is not None)

    async def drained(self) -> bool:
        """Wait until nothing is being sent any more; whether all that was sent was answered."""
        while self._delivery is not None and not self._delivery.done():
            await asyncio.wait([self._delivery])
        return self._answered

    async def aclose(self) -> None:
        self._queue.clear()
        if self._delivery is not None:
            self._delivery.cancel()
        await self.agent.aclose()

    # --- delivery ----------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._delivery is None or self._delivery.done():
            self._delivery = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        """Each waiting prompt once, in order, until none is left, one fails, or the user pauses."""
        await self._idle()
        await self._learn_window()
        while self._queue and not self._paused:
            text = self._queue.pop(0)
            if not await self._make_room(text):
                continue
            self._announce()
            finished = await self._done(operations.RunAgent(parts=text_parts(text)))
            self._answered = finished.outcome == "done"
            if not self._answered and self._queue:
                self._paused = True
        self._announce()

    async def _learn_window(self) -> None:
        """Some windows only the server knows. Where it does not answer, the request itself will say why."""
        with suppress(LLMError):
            await self.agent.desk.llm.prepare()

    async def _idle(self) -> None:
        """Operations that were asked for by hand go first: a prompt typed during a fold waits for it."""
        while self.agent.executor.busy:
            await self.agent.executor.settle()

    async def _make_room(self, text: str) -> bool:
        """Fold first where this prompt would cross the threshold. False: it was given back."""
        unfolded, self._unfolded = self._unfolded, False
        if unfolded or not self.agent.must_fold(text_parts(text)):
            return True
        self._held = text
        self._announce()
        finished = await self._done(operations.CompactSession(reason="threshold"))
        self._held = None
        if finished.outcome == "done":
            return True
        if finished.outcome == "failed" and self.agent.fits(text_parts(text)):
            self._emit(events.Notice(level="warning", text=f"{finished.error} Sent without folding."))
            return True
        self._unfolded = self.agent.fits(text_parts(text))
        if self._queue or not self._give_back(text):
            self._queue.insert(0, text)
        self._paused = True
        self._answered = False
        return False

    async def _done(self, operation: operations.Operation) -> TaskFinished:
        executor = self.agent.executor
        return await executor.wait_for(executor.submit(operation))

    def _announce(self) -> None:
        self._emit(
            events.QueueChanged(
                held=self._held, queued=tuple(self._queue), paused=self._paused and bool(self._queue)
            )
        )
