"""The executor: takes operations, runs one task at a time, reports events."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, assert_never

from foldline.compaction import load_strategy, strategy_name
from foldline.llm import LLM
from foldline.protocol import Clear, FoldlineError, events, operations
from foldline.protocol.events import Event, TaskFinished
from foldline.protocol.operations import Operation

from .approvals import permit
from .auto_compact import compact_between_turns, make_room
from .calls import Calls
from .commands import edit_view, switch_model, undo
from .compact import CompactionRequest, apply, compact
from .fallback import Fallbacks
from .instructions import job_end
from .proposals import Apply, Redraft
from .rewind import rewind
from .shell import run_shell
from .skill_loading import load_skill
from .state import AgentState
from .trust_question import take_back
from .turn import Turn

Listener = Callable[[Event], None]
_Change = (
    operations.UndoCompaction
    | operations.Rewind
    | operations.EditView
    | operations.LoadSkill
    | operations.ClearView
    | operations.SwitchModel
    | operations.SwitchStrategy
)


@dataclass(eq=False)
class _Job:
    """An operation that was asked for, and the promise of its end."""

    id: str
    operation: Operation
    end: asyncio.Future[TaskFinished]
    task: asyncio.Task[None] | None = None
    """None until its turn comes."""


class Executor:
    """Runs the operations of one session in order, each as a task that can be cancelled and awaited.
    Interrupts, answers and decisions about a proposal act at once; a compaction by hand or a rewind aborts
    the turn."""

    def __init__(self, state: AgentState, connect: Callable[[str], LLM]) -> None:
        self.state = state
        self._connect = connect
        self._calls = Calls(state)
        self._listeners: list[Listener] = []
        self._running: _Job | None = None
        self._waiting: deque[_Job] = deque()
        self._ends: dict[str, asyncio.Future[TaskFinished]] = {}
        self._ids = count(1)
        self._quick: set[asyncio.Task[None]] = set()
        state.emit = state.review.emit = state.choices.emit = state.draft.emit = self.emit
        state.draft.on_ready = self._compact_overdue
        state.jobs.on_end = lambda job: self.emit(events.Notice(text=job_end(job)))
        state.session.on_append.append(lambda entry: self.emit(events.EntryAppended(entry=entry)))

    # --- what interfaces call --------------------------------------------------------------------

    def submit(self, operation: Operation) -> str:
        """Ask for an operation; returns its id at once."""
        task_id = f"t{next(self._ids)}"
        match operation:
            case operations.Interrupt():
                self._interrupt()
            case operations.Approve() | operations.SendToBackground():
                self._calls.on_word(operation)
            case operations.Revoke() | operations.TakeBackTrust() | operations.SwitchApprovals():
                self._at_once(
                    take_back(self.state, operation.path)
                    if isinstance(operation, operations.TakeBackTrust)
                    else permit(self.state, operation)
                )
            case operations.Choose():
                self.state.choices.answer(operation.choice, operation.key)
            case operations.HoldCommit():
                self.state.review.held = self.state.review.drafting
            case operations.ReviseProposal() | operations.DiscardProposal():
                self._at_once(self._review(operation))
            case operations.ApplyProposal() | operations.RedraftProposal() if self.state.review.waits:
                self._at_once(self._review(operation))
            case _:
                if self._is_at_once(operation):
                    self._cancel(_is_long)
                end = self._ends[task_id] = asyncio.get_running_loop().create_future()
                self._waiting.append(_Job(task_id, operation, end))
                self._start_next()
        return task_id

    async def wait_for(self, task_id: str) -> TaskFinished:
        """How the operation ended; what acts at once has always ended. Errors nobody foresaw are raised."""
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

    def events(self) -> AsyncGenerator[Event, None]:
        """Every event from now on, until the generator is closed."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        stop = self.subscribe(queue.put_nowait)

        async def follow() -> AsyncGenerator[Event, None]:
            try:
                while True:
                    yield await queue.get()
            finally:
                stop()

        return follow()

    async def settle(self) -> None:
        """Wait until all that was asked for so far has ended."""
        asked: list[asyncio.Future[Any]] = [end for end in self._ends.values() if not end.done()]
        asked += self._quick
        if asked:
            await asyncio.wait(asked)

    @property
    def busy(self) -> bool:
        return self._running is not None

    async def aclose(self, *, lent: bool = False) -> None:
        """Cancel what runs and what waits, close the model's connections and the session. `lent`: the
        connections are another agent's, and stay."""
        self._cancel(lambda _: True)
        await self.settle()
        if self.state.subagents is not None:
            await self.state.subagents.aclose()
        await self.state.draft.aclose()
        await self.state.jobs.aclose()
        await self.state.sandbox.aclose()
        await asyncio.gather(*self._quick)
        self.state.session.close()
        if lent:
            return
        await self.state.llm.aclose()
        if self.state.servers is not None:
            await self.state.servers.aclose()
        if self.state.summary_llm is not None:
            await self.state.summary_llm.aclose()

    def emit(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    # --- the proposal that waits --------------------------------------------------------------------

    def _at_once(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._quick.add(task)
        task.add_done_callback(self._quick.discard)

    async def _review(self, operation: Operation) -> None:
        """Carry out the user's word on the proposal, beside a task that may wait for it."""
        review = self.state.review
        try:
            match operation:
                case operations.ReviseProposal():
                    await review.revise(operation)
                case operations.DiscardProposal():
                    review.demand(operation.proposal)
                    review.discard(self.state.projection)
                case operations.ApplyProposal():
                    review.decide(Apply(review.demand_current(operation.proposal)))
                case operations.RedraftProposal():
                    review.demand(operation.proposal)
                    options = review.options(operation.guidance, self.state.projection)
                    review.decide(Redraft(options, review.focus))
                case _:
                    pass
        except FoldlineError as refusal:
            self.emit(events.Notice(level="warning", text=str(refusal)))

    def _compact_overdue(self) -> None:
        """Compact with the overdue draft that is ready; a turn that runs commits it between two steps."""
        if self._running is None:
            self.submit(operations.CompactSession(reason="phase", cause=self.state.draft.cause))

    # --- running ---------------------------------------------------------------------------------

    def _start_next(self) -> None:
        if self._running is not None or not self._waiting:
            return
        job = self._running = self._waiting.popleft()
        job.task = asyncio.create_task(self._carry_out(job.operation))
        job.task.add_done_callback(partial(self._ended, job))
        self.emit(events.TaskStarted(task=job.id, operation=job.operation.type))

    def _interrupt(self) -> None:
        state = self.state
        if state.draft.drafting or state.review.drafting:
            state.draft.refuse(state.projection.newest_change)
        if self._running is None and state.subagents is not None:
            state.subagents.cancel()
        self._cancel(lambda _: True)

    def _cancel(self, meant: Callable[[Operation], bool]) -> None:
        """Cancel what runs and what waits, where it is meant. What waits ends without having started."""
        dropped = [job for job in self._waiting if meant(job.operation)]
        self._waiting = deque(job for job in self._waiting if not meant(job.operation))
        running = self._running
        # Once only: a second Esc must not break into what the first one is tidying up.
        if running and running.task and meant(running.operation) and not running.task.cancelling():
            running.task.cancel()
        for job in dropped:
            finished = TaskFinished(task=job.id, operation=job.operation.type, outcome="cancelled")
            job.end.set_result(finished)
            self.emit(finished)

    def _ended(self, job: _Job, task: asyncio.Task[None]) -> None:
        finished = TaskFinished(task=job.id, operation=job.operation.type, outcome="done")
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            finished = finished.model_copy(update={"outcome": "cancelled"})
        elif error is not None:
            foreseen = isinstance(error, FoldlineError)
            sentence = str(error) if foreseen else _unforeseen(error)
            finished = finished.model_copy(update={"outcome": "failed", "error": sentence})
        if error is None or isinstance(error, FoldlineError):
            job.end.set_result(finished)
        else:
            job.end.set_exception(error)
        self.state.session.save_meta()
        review, projection = self.state.review, self.state.projection
        review.let_go(projection)
        if review.proposal is not None:
            self._at_once(review.follow(projection, self.state.size()))
        try:
            self.emit(finished)
        finally:
            self._running = None
            self._start_next()

    def _turn(self) -> Turn:
        return Turn(self.state, self._calls, Fallbacks(self.state, self._connect))

    async def _carry_out(self, operation: Operation) -> None:
        state = self.state
        match operation:
            case operations.RunAgent():
                await self._turn().run(operation.parts, operation.max_steps)
            case operations.Retry():
                await self._turn().run(None)
            case operations.RunShell():
                await run_shell(state, operation.command, aside=operation.aside)
            case operations.CompactSession():
                try:
                    await self._compact(operation)
                except FoldlineError as failure:
                    await state.record_failure(failure)
                    raise
            case operations.ApplyProposal():
                await apply(state, operation.proposal)
            case operations.RedraftProposal():
                await self._redraft(operation)
            case (
                operations.Interrupt()
                | operations.Approve()
                | operations.Revoke()
                | operations.TakeBackTrust()
                | operations.SwitchApprovals()
                | operations.SendToBackground()
                | operations.Choose()
                | operations.HoldCommit()
                | operations.ReviseProposal()
                | operations.DiscardProposal()
            ):
                pass  # they act at once
            case _:
                await self._change(operation)

    async def _change(self, operation: _Change) -> None:
        """Change the view, the model or the strategy."""
        state = self.state
        match operation:
            case operations.UndoCompaction():
                await undo(state, operation.target)
            case operations.Rewind():
                await rewind(state, operation)
            case operations.EditView():
                await edit_view(state, operation)
            case operations.LoadSkill():
                await load_skill(state, operation.asked)
            case operations.ClearView():
                await state.session.append(Clear(), durable=True)
            case operations.SwitchModel():
                await switch_model(state, operation.model, self._connect)
            case operations.SwitchStrategy():
                state.strategy = load_strategy(operation.strategy, state.dependencies)
                name = strategy_name(state.strategy)
                self.emit(events.Notice(text=f"Compactions are made by {name} now."))
            case _:
                assert_never(operation)

    def _is_at_once(self, asked: Operation) -> bool:
        """Whether it ends what runs: a rewind, or a compaction by hand that is not only a preview."""
        if isinstance(asked, operations.CompactSession):
            return asked.reason == "manual" and not (asked.preview or self.state.mode == "ask")
        return isinstance(asked, operations.Rewind)

    async def _compact(self, asked: operations.CompactSession) -> None:
        state = self.state
        await state.learn_window()
        if asked.reason == "manual":
            preview = asked.preview or state.mode == "ask"
            await compact(state, CompactionRequest("manual", focus=asked.focus, preview=preview))
        elif asked.reason == "phase":
            await compact_between_turns(state, asked.cause)
        else:
            await make_room(state, asked.reason, pending=asked.pending)

    async def _redraft(self, asked: operations.RedraftProposal) -> None:
        review = self.state.review
        reason = review.demand(asked.proposal).entry.reason
        options = review.options(asked.guidance, self.state.projection)
        await compact(
            self.state, CompactionRequest(reason, focus=review.focus, preview=True, options=options)
        )


def _is_long(operation: Operation) -> bool:
    return isinstance(operation, operations.RunAgent | operations.Retry | operations.CompactSession)


def _unforeseen(error: BaseException) -> str:
    return (
        f"Something went wrong that Foldline did not foresee ({type(error).__name__}: {error}). "
        "The session is kept up to here: try again, and report it if it comes back."
    )
