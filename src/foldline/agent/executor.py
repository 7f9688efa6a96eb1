"""Runs operations one at a time, as tasks, and emits events."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from foldline.agent.session.auto_compact import compact_between_turns, make_room
from foldline.agent.session.commands import edit_view, switch_model, undo
from foldline.agent.session.compact import CompactionRequest, apply, compact
from foldline.agent.session.instructions import job_end
from foldline.agent.session.permission_changes import permit
from foldline.agent.session.plan import review_plan, set_goal
from foldline.agent.session.proposals import Redraft
from foldline.agent.session.rewind import rewind
from foldline.agent.session.skill_loading import load_skill
from foldline.agent.session.state import AgentState
from foldline.agent.session.trust_question import revoke_trust
from foldline.agent.turn.calls import Calls
from foldline.agent.turn.fallback import Fallbacks
from foldline.agent.turn.shell import run_shell
from foldline.agent.turn.turn import Turn
from foldline.compaction import load_strategy, strategy_name
from foldline.llm import LLM
from foldline.protocol import Clear, FoldlineError, events, operations
from foldline.protocol.events import Event, TaskFinished
from foldline.protocol.operations import Operation

STRATEGY_CHANGED = "Compactions now use the strategy {name}."
UNEXPECTED = (
    "Foldline had an unexpected error ({type}: {error}). The session is saved up to this point. Try again, "
    "and report the error if it happens again."
)

Listener = Callable[[Event], None]


@dataclass(eq=False)
class _QueuedOperation:
    """A waiting or running operation."""

    id: str
    operation: Operation
    end: asyncio.Future[TaskFinished]
    task: asyncio.Task[None] | None = None
    """The running task; None while the operation is waiting."""

    def finished(self) -> TaskFinished:
        return TaskFinished(task=self.id, operation=self.operation.type, outcome="done")


class Executor:
    """Runs the operations of one session in order.

    Each operation is a task that can be cancelled and awaited. Interrupts, answers and decisions about a
    proposal are not queued. Manual compactions and rewinds abort the running turn.
    """

    def __init__(self, state: AgentState, connect: Callable[[str], LLM]) -> None:
        self.state = state
        self._connect = connect
        self._calls = Calls(state)
        self._listeners: list[Listener] = []
        self._running: _QueuedOperation | None = None
        self._waiting: deque[_QueuedOperation] = deque()
        self._ends: dict[str, asyncio.Future[TaskFinished]] = {}
        self._ids = count(1)
        self._immediate: set[asyncio.Task[None]] = set()
        """Running tasks of operations that are not queued."""
        state.emit = self.emit
        state.review.emit = self.emit
        state.choices.emit = self.emit
        state.draft.emit = self.emit
        state.draft.on_ready = self._compact_overdue
        state.jobs.on_end = lambda job: self.emit(events.Notice(text=job_end(job)))
        state.session.on_append.append(
            lambda entry: self.emit(events.EntryAppended(entry=entry))
        )

    # --- interface -------------------------------------------------------------------------------

    def submit(self, operation: Operation) -> str:
        """Queue an operation, or start it if it takes effect immediately.

        Returns:
            The id of the operation.
        """
        task_id = f"t{next(self._ids)}"
        if self._start_immediately(operation):
            return task_id
        if self._aborts_turn(operation):
            self._cancel(_is_long)
        end = asyncio.get_running_loop().create_future()
        self._ends[task_id] = end
        self._waiting.append(_QueuedOperation(task_id, operation, end))
        self._start_next()
        return task_id

    async def wait_for(self, task_id: str) -> TaskFinished:
        """Wait for the end of an operation.

        Immediate operations count as finished.

        Raises:
            Exception: the operation raised an unexpected error.
        """
        end = self._ends.get(task_id)
        if end is None:
            return TaskFinished(task=task_id, operation="", outcome="done")
        return await asyncio.shield(end)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with every event from now on, in order.

        Returns:
            A function that ends the subscription.
        """
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    async def settle(self) -> None:
        """Wait for the end of all operations submitted so far."""
        pending: list[asyncio.Future[Any]] = [
            end for end in self._ends.values() if not end.done()
        ]
        pending += self._immediate
        if pending:
            await asyncio.wait(pending)

    @property
    def busy(self) -> bool:
        return self._running is not None

    async def aclose(self, *, lent: bool = False) -> None:
        """Cancel everything, and close the model's connections and the session.

        Args:
            lent: whether the connections belong to another agent. They are then left open.
        """
        state = self.state
        self._cancel(lambda _: True)
        await self.settle()
        if state.subagents is not None:
            await state.subagents.aclose()
        await state.draft.aclose()
        await state.jobs.aclose()
        await state.sandbox.aclose()
        await asyncio.gather(*self._immediate)
        state.session.close()
        if lent:
            return
        await state.llm.aclose()
        if state.servers is not None:
            await state.servers.aclose()
        if state.summary_llm is not None:
            await state.summary_llm.aclose()

    def emit(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    # --- immediate operations --------------------------------------------------------------------

    def _start_immediately(self, operation: Operation) -> bool:
        """Carry out an operation that is not queued.

        Returns:
            False if the operation has to be queued instead; it has then not been started.
        """
        state = self.state
        match operation:
            case operations.Interrupt():
                self._interrupt()
            case operations.Approve() | operations.SendToBackground():
                self._calls.on_answer(operation)
            case operations.TakeBackTrust():
                self._run_beside(revoke_trust(state, operation.path))
            case operations.Revoke() | operations.SwitchApprovals():
                self._run_beside(permit(state, operation))
            case operations.Choose():
                state.choices.answer(operation)
            case operations.HoldCommit():
                state.review.held = state.review.drafting
            case operations.ReviseProposal() | operations.DiscardProposal():
                self._run_beside(self._review(operation))
            case operations.ApplyProposal() | operations.RedraftProposal() if (
                state.review.waits
            ):
                self._run_beside(self._review(operation))
            case _:
                return False
        return True

    def _run_beside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._immediate.add(task)
        task.add_done_callback(self._immediate.discard)

    async def _review(self, operation: Operation) -> None:
        """Carry out a decision about the proposal."""
        review = self.state.review
        try:
            match operation:
                case operations.ReviseProposal():
                    await review.revise(operation)
                case operations.DiscardProposal():
                    review.demand(operation.proposal)
                    review.discard(self.state.projection)
                case operations.ApplyProposal():
                    review.decide(review.demand_current(operation.proposal))
                case operations.RedraftProposal():
                    review.demand(operation.proposal)
                    options = review.options(operation.guidance, self.state.projection)
                    review.decide(Redraft(options, review.focus))
                case _:
                    pass
        except FoldlineError as refusal:
            self.emit(events.Notice(level="warning", text=str(refusal)))

    def _interrupt(self) -> None:
        state = self.state
        if state.draft.drafting or state.review.drafting:
            state.draft.refuse(state.projection.newest_change)
        if self._running is None and state.subagents is not None:
            state.subagents.cancel()
        self._cancel(lambda _: True)

    def _compact_overdue(self) -> None:
        """Submit a compaction that uses the draft that is now ready.

        Does nothing during a turn, because the turn itself commits the draft between two steps.
        """
        if self._running is None:
            self.submit(operations.CompactSession(reason="phase"))

    # --- queue -----------------------------------------------------------------------------------

    def _start_next(self) -> None:
        if self._running is not None or not self._waiting:
            return
        queued = self._waiting.popleft()
        self._running = queued
        queued.task = asyncio.create_task(self._carry_out(queued.operation))
        queued.task.add_done_callback(partial(self._on_end, queued))
        self.emit(events.TaskStarted(task=queued.id, operation=queued.operation.type))

    def _cancel(self, is_meant: Callable[[Operation], bool]) -> None:
        """Cancel the matching operations. Those still waiting are never started."""
        dropped = [queued for queued in self._waiting if is_meant(queued.operation)]
        self._waiting = deque(
            queued for queued in self._waiting if queued not in dropped
        )
        running = self._running
        if running is not None and is_meant(running.operation):
            _cancel_once(running.task)
        for queued in dropped:
            finished = queued.finished().model_copy(update={"outcome": "cancelled"})
            queued.end.set_result(finished)
            self.emit(finished)

    def _on_end(self, queued: _QueuedOperation, task: asyncio.Task[None]) -> None:
        finished = queued.finished()
        error = None if task.cancelled() else task.exception()
        is_expected = error is None or isinstance(error, FoldlineError)
        if task.cancelled():
            finished = finished.model_copy(update={"outcome": "cancelled"})
        elif error is not None:
            sentence = str(error) if is_expected else _unexpected(error)
            finished = finished.model_copy(
                update={
                    "outcome": "failed",
                    "error": sentence,
                }
            )
        if error is None or is_expected:
            queued.end.set_result(finished)
        else:
            queued.end.set_exception(error)
        self.state.session.save_snapshot()
        write_cache = self.state.session.prepare_cache()
        if write_cache is not None:
            self._run_beside(asyncio.to_thread(write_cache))
        self._update_proposal()
        try:
            self.emit(finished)
        finally:
            self._running = None
            self._start_next()

    def _update_proposal(self) -> None:
        """Adapt the waiting proposal to the new view after an operation."""
        review = self.state.review
        projection = self.state.projection
        review.drop_outdated(projection)
        if review.proposal is not None:
            self._run_beside(review.follow(projection, self.state.size()))

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
            case operations.SwitchModel():
                await switch_model(state, operation.model, self._connect)
            case _:
                await self._change_view(operation)

    async def _change_view(self, operation: Operation) -> None:
        """Carry out an operation that changes the view or the strategy."""
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
            case operations.ReviewPlan():
                await review_plan(state)
            case operations.SetGoal():
                await set_goal(state, operation.text)
            case operations.ClearView():
                await state.session.append(Clear(), durable=True)
            case operations.SwitchStrategy():
                state.strategy = load_strategy(operation.strategy, state.dependencies)
                name = strategy_name(state.strategy)
                state.notify(STRATEGY_CHANGED.format(name=name))
            case _:
                raise AssertionError(f"{operation.type} is never queued")

    def _aborts_turn(self, operation: Operation) -> bool:
        """Return whether an operation aborts the running turn.

        Rewinds do, and so do manual compactions without a preview.
        """
        if isinstance(operation, operations.CompactSession):
            return operation.reason == "manual" and not self._is_preview(operation)
        return isinstance(operation, operations.Rewind)

    def _is_preview(self, operation: operations.CompactSession) -> bool:
        return operation.preview or self.state.mode == "ask"

    async def _compact(self, operation: operations.CompactSession) -> None:
        state = self.state
        await state.learn_window()
        if operation.reason == "manual":
            request = CompactionRequest(
                "manual",
                focus=operation.focus,
                preview=self._is_preview(operation),
            )
            await compact(state, request)
        elif operation.reason == "phase":
            await compact_between_turns(state)
        else:
            await make_room(state, operation.reason, pending=operation.pending)

    async def _redraft(self, operation: operations.RedraftProposal) -> None:
        review = self.state.review
        request = CompactionRequest(
            review.demand(operation.proposal).entry.reason,
            focus=review.focus,
            preview=True,
            options=review.options(operation.guidance, self.state.projection),
        )
        await compact(self.state, request)


def _cancel_once(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, unless it is already being cancelled.

    A second Esc must not interrupt the task's clean-up.
    """
    if task is not None and not task.cancelling():
        task.cancel()


def _is_long(operation: Operation) -> bool:
    return isinstance(
        operation, operations.RunAgent | operations.Retry | operations.CompactSession
    )


def _unexpected(error: BaseException) -> str:
    return UNEXPECTED.format(type=type(error).__name__, error=error)
