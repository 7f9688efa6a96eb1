"""The executor: takes operations, runs one task at a time, reports events."""

import asyncio
from collections.abc import AsyncIterator, Callable
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


class Executor:
    """Runs the operations of one session, in order, each as a task that can be cancelled and awaited.

    `Interrupt` and `Approve` act at once on the task that runs; a manual compaction aborts it first.
    """

    def __init__(self, desk: Desk, connect: Callable[[str], LLM]) -> None:
        self.desk = desk
        self._connect = connect
        self._calls = Calls(desk)
        self._listeners: list[Listener] = []
        self._tasks: dict[str, asyncio.Task[TaskFinished]] = {}
        self._order: list[str] = []
        self._ids = count(1)
        desk.emit = self.emit
        desk.session.on_append.append(self._announce)

    # --- what interfaces call --------------------------------------------------------------------

    def submit(self, operation: Operation) -> str:
        """Ask for an operation; returns its id at once."""
        task_id = f"t{next(self._ids)}"
        match operation:
            case operations.Interrupt():
                self._cancel_all()
            case operations.Approve():
                self._calls.answer(operation.call_id, operation.answer)
            case _:
                if isinstance(operation, operations.CompactSession) and operation.reason == "manual":
                    self._cancel_all()
                before = self._tasks[self._order[-1]] if self._order else None
                self._tasks[task_id] = asyncio.create_task(self._run(task_id, operation, before))
                self._order.append(task_id)
        return task_id

    async def wait_for(self, task_id: str) -> TaskFinished:
        """How the operation ended. Errors nobody foresaw are raised here."""
        task = self._tasks.get(task_id)
        if task is None:
            return TaskFinished(task=task_id, operation="", outcome="done")
        return await asyncio.shield(task)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on, in order, on the event loop; returns the way to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def events(self) -> AsyncIterator[Event]:
        """Every event from now on."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        stop = self.subscribe(queue.put_nowait)
        try:
            while True:
                yield await queue.get()
        finally:
            stop()

    async def settle(self) -> None:
        """Wait until all that was asked for so far has ended."""
        running = [task for task in self._tasks.values() if not task.done()]
        if running:
            await asyncio.wait(running)

    @property
    def busy(self) -> bool:
        return any(not task.done() for task in self._tasks.values())

    async def aclose(self) -> None:
        """Cancel what runs, wait for it, close the model's connections and the session."""
        self._cancel_all()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.desk.llm.aclose()
        self.desk.session.close()

    def emit(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    # --- running ---------------------------------------------------------------------------------

    def _cancel_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _announce(self, entry: Entry) -> None:
        self.emit(events.EntryAppended(entry=entry))

    async def _run(
        self, task_id: str, operation: Operation, before: "asyncio.Task[TaskFinished] | None"
    ) -> TaskFinished:
        finished = TaskFinished(task=task_id, operation=operation.type, outcome="done")
        try:
            if before is not None:
                await asyncio.wait([before])
            self.emit(events.TaskStarted(task=task_id, operation=operation.type))
            await self._carry_out(operation)
        except asyncio.CancelledError:
            finished = finished.model_copy(update={"outcome": "cancelled"})
        except FoldlineError as failure:
            finished = finished.model_copy(update={"outcome": "failed", "error": str(failure)})
        finally:
            self._order.remove(task_id)
            self.desk.session.save_meta()
        self.emit(finished)
        return finished

    async def _carry_out(self, operation: Operation) -> None:
        desk = self.desk
        match operation:
            case operations.RunAgent():
                await Turn(desk, self._calls).run(operation.parts)
            case operations.CompactSession():
                await fold(desk, operation.reason, focus=operation.focus, will_retry=operation.will_retry)
            case operations.UndoCompaction():
                await self._undo(operation.target)
            case operations.EditView():
                await desk.session.append(
                    Edit(target=operation.target, action=operation.action), durable=True
                )
            case operations.ClearView():
                await desk.session.append(Clear(), durable=True)
            case operations.SwitchModel():
                await self._switch(operation.model)
            case operations.Interrupt() | operations.Approve():
                pass
            case _:
                assert_never(operation)

    async def _undo(self, target: int | None) -> None:
        projection = self.desk.projection
        if target is None:
            folds = projection.compactions()
            if not folds:
                raise FoldlineError("There is no fold to undo.")
            target = folds[-1].index
        refusal = projection.undo_refusal(target)
        if refusal is not None:
            raise FoldlineError(refusal)
        await self.desk.session.append(Undo(target=target), durable=True)

    async def _switch(self, model: str) -> None:
        desk = self.desk
        llm = self._connect(model)
        await llm.prepare()
        old, desk.llm = desk.llm, llm
        await old.aclose()
        await desk.session.append(ModelChange(model=llm.info.id, provider=llm.info.provider), durable=True)
