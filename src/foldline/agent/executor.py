"""Runs operations one at a time, as tasks, and emits events."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Literal

from foldline.agent.session.auto_compact import compact_between_turns, make_room
from foldline.agent.session.commands import edit_view, switch_model, undo
from foldline.agent.session.compact import CompactionRequest, apply, compact
from foldline.agent.session.event_stream import record_failure
from foldline.agent.session.instructions import job_end
from foldline.agent.session.plan import review_plan, set_goal
from foldline.agent.session.proposals import Redraft
from foldline.agent.session.rewind import rewind
from foldline.agent.session.skill_loading import load_skill
from foldline.agent.session.state import AgentState
from foldline.agent.session.trust_question import revoke_trust
from foldline.agent.turn.calls import Calls
from foldline.agent.turn.reminders import Reminders
from foldline.agent.turn.shell import run_shell
from foldline.agent.turn.turn import Turn
from foldline.compaction import strategy_name
from foldline.protocol import Clear, FoldlineError
from foldline.protocol.events import EntryAppended, TaskFinished, TaskStarted
from foldline.protocol.operations import (
    ApplyProposal,
    Approve,
    Choose,
    ClearView,
    CompactSession,
    DiscardProposal,
    EditView,
    HoldCommit,
    Interrupt,
    LoadSkill,
    Operation,
    RedraftProposal,
    Retry,
    ReviewPlan,
    ReviseProposal,
    Revoke,
    Rewind,
    RunAgent,
    RunShell,
    SendToBackground,
    SetGoal,
    SwitchApprovals,
    SwitchModel,
    SwitchStrategy,
    TakeBackTrust,
    UndoCompaction,
)

Outcome = Literal["done", "cancelled", "failed"]
STRATEGY_CHANGED = "Compactions now use the strategy {name}."
UNEXPECTED = (
    "Foldline had an unexpected error ({type}: {error}). The session is saved up to this point. Try again, "
    "and report the error if it happens again."
)


@dataclass(eq=False)
class _QueuedOperation:
    """A waiting or running operation."""

    id: str
    operation: Operation
    end: asyncio.Future[TaskFinished]
    task: asyncio.Task[None] | None = None
    """The running task; None while the operation is waiting."""

    def finished(self, outcome: Outcome, error: str | None = None) -> TaskFinished:
        return TaskFinished(
            task=self.id, operation=self.operation.type, outcome=outcome, error=error
        )


class Executor:
    """Runs the operations of one session in order.

    Each operation is a task that can be cancelled and awaited. Interrupts, answers and decisions about a
    proposal are not queued. Manual compactions and rewinds abort the running turn.
    """

    def __init__(self, state: AgentState) -> None:
        self.state = state
        self.subscribe = state.events.subscribe
        self._emit = state.events.emit
        self._calls = Calls(state)
        self._reminders = Reminders(state)
        self._running: _QueuedOperation | None = None
        self._waiting: deque[_QueuedOperation] = deque()
        self._ends: dict[str, asyncio.Future[TaskFinished]] = {}
        self._ids = count(1)
        self._immediate: set[asyncio.Task[None]] = set()
        """Running tasks of operations that are not queued."""
        state.compaction.draft.on_ready = self._compact_overdue
        state.tools.jobs.on_end = lambda job: state.events.notify(job_end(job))
        state.session.on_append.append(
            lambda entry: self._emit(EntryAppended(entry=entry))
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
        await state.compaction.draft.aclose()
        await state.tools.jobs.aclose()
        await state.permissions.sandbox.aclose()
        await asyncio.gather(*self._immediate)
        state.session.close()
        if lent:
            return
        await state.models.llm.aclose()
        if state.tools.servers is not None:
            await state.tools.servers.aclose()
        if state.models.summary_llm is not None:
            await state.models.summary_llm.aclose()

    # --- immediate operations --------------------------------------------------------------------

    def _start_immediately(self, operation: Operation) -> bool:
        """Carry out an operation that is not queued.

        Returns:
            False if the operation has to be queued instead; it has then not been started.
        """
        state = self.state
        match operation:
            case Interrupt():
                self._interrupt()
            case Approve() | SendToBackground():
                self._calls.on_answer(operation)
            case TakeBackTrust():
                self._run_beside(revoke_trust(state.permissions, operation.path))
            case Revoke() | SwitchApprovals():
                self._run_beside(state.permissions.permit(operation))
            case Choose():
                state.permissions.choices.answer(operation)
            case HoldCommit():
                state.compaction.review.held = state.compaction.review.drafting
            case ReviseProposal() | DiscardProposal():
                self._run_beside(self._review(operation))
            case ApplyProposal() | RedraftProposal() if state.compaction.review.waits:
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
        review = self.state.compaction.review
        try:
            match operation:
                case ReviseProposal():
                    await review.revise(operation)
                case DiscardProposal():
                    review.demand(operation.proposal)
                    review.discard(self.state.projection)
                case ApplyProposal():
                    review.decide(review.demand_current(operation.proposal))
                case RedraftProposal():
                    review.demand(operation.proposal)
                    options = review.options(operation.guidance, self.state.projection)
                    review.decide(Redraft(options, review.focus))
                case _:
                    pass
        except FoldlineError as refusal:
            self.state.events.warn(str(refusal))

    def _interrupt(self) -> None:
        state = self.state
        if state.compaction.draft.drafting or state.compaction.review.drafting:
            state.compaction.draft.refuse(state.projection.newest_change)
        if self._running is None and state.subagents is not None:
            state.subagents.cancel()
        self._cancel(lambda _: True)

    def _compact_overdue(self) -> None:
        """Submit a compaction that uses the draft that is now ready.

        Does nothing during a turn, because the turn itself commits the draft between two steps.
        """
        if self._running is None:
            self.submit(CompactSession(reason="phase"))

    # --- queue -----------------------------------------------------------------------------------

    def _start_next(self) -> None:
        if self._running is not None or not self._waiting:
            return
        queued = self._waiting.popleft()
        self._running = queued
        queued.task = asyncio.create_task(self._carry_out(queued.operation))
        queued.task.add_done_callback(partial(self._on_end, queued))
        self._emit(TaskStarted(task=queued.id, operation=queued.operation.type))

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
            finished = queued.finished("cancelled")
            queued.end.set_result(finished)
            self._emit(finished)

    def _on_end(self, queued: _QueuedOperation, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        is_expected = error is None or isinstance(error, FoldlineError)
        if task.cancelled():
            finished = queued.finished("cancelled")
        elif error is not None:
            sentence = str(error) if is_expected else _unexpected(error)
            finished = queued.finished("failed", sentence)
        else:
            finished = queued.finished("done")
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
            self._emit(finished)
        finally:
            self._running = None
            self._start_next()

    def _update_proposal(self) -> None:
        """Adapt the waiting proposal to the new view after an operation."""
        review = self.state.compaction.review
        projection = self.state.projection
        review.drop_outdated(projection)
        if review.proposal is not None:
            self._run_beside(review.follow(projection, self.state.budget.size()))

    async def _carry_out(self, operation: Operation) -> None:
        state = self.state
        match operation:
            case RunAgent():
                turn = Turn(state, self._calls, self._reminders)
                await turn.run(operation.parts, operation.max_steps)
            case Retry():
                await Turn(state, self._calls, self._reminders).run(None)
            case RunShell():
                await run_shell(state, operation.command, aside=operation.aside)
            case CompactSession():
                try:
                    await self._compact(operation)
                except FoldlineError as failure:
                    await record_failure(state.session, failure)
                    raise
            case ApplyProposal():
                await apply(state.compaction, operation.proposal)
            case RedraftProposal():
                await self._redraft(operation)
            case SwitchModel():
                await switch_model(state, operation.model)
            case _:
                await self._change_view(operation)

    async def _change_view(self, operation: Operation) -> None:
        """Carry out an operation that changes the view or the strategy."""
        state = self.state
        match operation:
            case UndoCompaction():
                await undo(state, operation.target)
            case Rewind():
                await rewind(state.tools, operation)
            case EditView():
                await edit_view(state.tools, operation)
            case LoadSkill():
                await load_skill(state, operation.asked)
            case ReviewPlan():
                await review_plan(state)
            case SetGoal():
                await set_goal(state, operation.text)
            case ClearView():
                await state.session.append(Clear(), durable=True)
            case SwitchStrategy():
                state.compaction.strategy = state.compaction.load(operation.strategy)
                name = strategy_name(state.compaction.strategy)
                state.events.notify(STRATEGY_CHANGED, name=name)
            case _:
                raise AssertionError(f"{operation.type} is never queued")

    def _aborts_turn(self, operation: Operation) -> bool:
        """Return whether an operation aborts the running turn.

        Rewinds do, and so do manual compactions without a preview.
        """
        if isinstance(operation, CompactSession):
            return operation.reason == "manual" and not self._is_preview(operation)
        return isinstance(operation, Rewind)

    def _is_preview(self, operation: CompactSession) -> bool:
        return operation.preview or self.state.compaction.mode == "ask"

    async def _compact(self, operation: CompactSession) -> None:
        state = self.state
        await state.models.learn_window()
        if operation.reason == "manual":
            request = CompactionRequest(
                "manual",
                focus=operation.focus,
                preview=self._is_preview(operation),
            )
            await compact(state.compaction, request)
        elif operation.reason == "phase":
            await compact_between_turns(state.compaction)
        else:
            await make_room(
                state.compaction, operation.reason, pending=operation.pending
            )

    async def _redraft(self, operation: RedraftProposal) -> None:
        review = self.state.compaction.review
        request = CompactionRequest(
            review.demand(operation.proposal).entry.reason,
            focus=review.focus,
            preview=True,
            options=review.options(operation.guidance, self.state.projection),
        )
        await compact(self.state.compaction, request)


def _cancel_once(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, unless it is already being cancelled.

    A second Esc must not interrupt the task's clean-up.
    """
    if task is not None and not task.cancelling():
        task.cancel()


def _is_long(operation: Operation) -> bool:
    return isinstance(operation, RunAgent | Retry | CompactSession)


def _unexpected(error: BaseException) -> str:
    return UNEXPECTED.format(type=type(error).__name__, error=error)
