"""The executor: takes operations, runs one task at a time, reports events."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import assert_never

from foldline.llm import LLM
from foldline.protocol import (
    Clear,
    Edit,
    Entry,
    FoldlineError,
    ModelChange,
    Undo,
    events,
    operations,
)
from foldline.protocol.events import Event, TaskFinished
from foldline.protocol.operations import Operation

from .calls import Calls
from .desk import Desk
from .fold import fold
from .turn import Turn

Listener = Callable[[Event], None]


@dataclass(eq=False)
class _Job:
    """An operation that was asked for, and the promise of its end."""

    id: str
    operation: Operation
    end: asyncio.Future[TaskFinished] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    task: asyncio.Task[None] | None = None
    """None until its turn comes."""

    def cancel(self) -> None:
        """Once only: a second Esc must not break into what the first one has tidied up."""
        if self.task is not None and not self.task.cancelling():
            self.task.cancel()


class Executor:
    """Runs the operations of one session, in order, each as a task that can be cancelled and awaited.

    `Interrupt` and `Approve` act at once on the task that runs; a manual compaction aborts it first.
    """

    def __init__(self, desk: Desk, connect: Callable[[str], LLM]) -> None:
        self.desk = desk
        self._connect = connect
        self._calls = Calls(desk)
        self._listeners: list[Listener] = []
        self._running: _Job | None = None
        self._waiting: deque[_Job] = deque()
        self._ends: dict[str, asyncio.Future[TaskFinished]] = {}
        self._ids = count(1)
        desk.emit = self.emit
        desk.session.on_append.append(self._announce)

    # --- what interfaces call --------------------------------------------------------------------

    def submit(self, operation: Operation) -> str:
        """Ask for an operation; returns its id at once."""
        task_id = f"t{next(self._ids)}"
        match operation:
            case operations.Interrupt():
                self._cancel_running()
            case operations.Approve():
                self._calls.answer(operation.call_id, operation.answer)
            case _:
                if isinstance(operation, operations.CompactSession) and operation.reason == "manual":
                    self._cancel_running()
                job = _Job(task_id, operation)
                self._ends[task_id] = job.end
                self._waiting.append(job)
                self._start_next()
        return task_id

    async def wait_for(self, task_id: str) -> TaskFinished:
        """How the operation ended. Errors nobody foresaw are raised here.

        Operations that act at once have always ended.
        """
        end = self._ends.get(task_id)
        if end is None:
            return TaskFinished(task=task_id, operation="", outcome="done")
        return await asyncio.shield(end)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on, in order, on the event loop; returns the way to stop."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def events(self) -> AsyncIterator[Event]:
        """Every event from now on, until the iterator is closed."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        stop = self.subscribe(queue.put_nowait)

        async def follow() -> AsyncIterator[Event]:
            try:
                while True:
                    yield await queue.get()
            finally:
                stop()

        return follow()

    async def settle(self) -> None:
        """Wait until all that was asked for so far has ended."""
        open_ends = [end for end in self._ends.values() if not end.done()]
        if open_ends:
            await asyncio.wait(open_ends)

    @property
    def busy(self) -> bool:
        return self._running is not None

    async def aclose(self) -> None:
        """Cancel what runs and what waits, wait for it, close the model's connections and the session."""
        waiting, self._waiting = self._waiting, deque()
        self._cancel_running()
        await self.settle_running()
        for job in waiting:
            self._end(job, "cancelled")
        await self.desk.llm.aclose()
        self.desk.session.close()

    def emit(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    # --- running ---------------------------------------------------------------------------------
