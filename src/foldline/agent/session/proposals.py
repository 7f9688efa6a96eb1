"""The proposal that waits for the user's decision, and the background draft of the next compaction."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import is_
from typing import Literal, NamedTuple

from foldline.compaction import (
    CompactionFailed,
    CompactionStrategy,
    Progress,
    Proposal,
    RedraftOptions,
)
from foldline.llm import LLM
from foldline.protocol import FoldlineError, events, operations
from foldline.protocol.events import Event
from foldline.view.projection import Projection

NOT_WAITING = "This proposal has been replaced or closed. Look at the current one."
STALE = "The draft was made for a different cut or focus. Draft it again first."
NOT_DRAFTED = (
    "The next compaction could not be prepared. {failure} "
    "It will be drafted when the window is full."
)


@dataclass(frozen=True, slots=True)
class Redraft:
    """Draft the proposal again."""

    options: RedraftOptions
    focus: str | None


Decision = Proposal | Redraft | None
"""The user's decision: the proposal to commit, as the user saw it, or another draft.

None discards the proposal.
"""


class PendingProposal:
    """The proposal that waits for the user's decision, if there is one.

    Revising the proposal calls no model and commits nothing.
    """

    def __init__(self) -> None:
        self.emit: Callable[[Event], None] = lambda _: None
        self.proposal: Proposal | None = None
        self.focus: str | None = None
        """Topic that the next draft should focus on, if any."""
        self.drafting = False
        """Whether a compaction is being drafted or waits for a decision."""
        self.held = False
        """Whether the current draft needs a decision before it is committed, because the user is viewing it.
        """
        self.declined: object = False
        """The newest change to the view when the user last discarded an automatic draft.

        False before that."""
        self._decision: asyncio.Future[Decision] | None = None

    @property
    def waits(self) -> bool:
        """Whether a running task is waiting for the decision."""
        return self._decision is not None and not self._decision.done()

    def keep(self, proposal: Proposal, focus: str | None) -> None:
        """Show a proposal until it is applied, discarded or replaced."""
        self.focus = focus
        self._set(proposal)

    def usable(self, projection: Projection) -> Proposal | None:
        """Return the proposal if it can be applied without changes."""
        proposal = self.proposal
        if (
            proposal is None
            or proposal.state == "stale"
            or not proposal.fits(projection)
        ):
            return None
        return proposal

    async def decision(self, proposal: Proposal, focus: str | None) -> Decision:
        """Show a proposal and wait for the user's decision.

        If the wait is cancelled, the proposal is kept.
        """
        self._decision = asyncio.get_running_loop().create_future()
        self.keep(proposal, focus)
        try:
            return await self._decision
        finally:
            self._decision = None

    def decide(self, decision: Decision) -> bool:
        """Deliver a decision to the task that waits for it.

        Returns:
            Whether a task was waiting for the decision.
        """
        future = self._decision
        if future is None or future.done():
            return False
        future.set_result(decision)
        return True

    def discard(self, projection: Projection) -> None:
        """Discard the proposal, even if no task waits for the decision."""
        if (
            not self.decide(None)
            and self.proposal
            and self.proposal.entry.reason != "manual"
        ):
            self.declined = projection.newest_change
        self.close(applied=False)

    def close(self, *, applied: bool) -> None:
        """Remove the proposal after it has been committed or discarded."""
        if self.proposal is not None:
            identity = self.proposal.id
            self.proposal = None
            self.emit(events.ProposalClosed(proposal=identity, applied=applied))

    def drop_outdated(self, projection: Projection) -> None:
        """Discard the proposal if it was made for another view."""
        if (
            self.proposal is not None
            and not self.waits
            and not self.proposal.fits(projection)
        ):
            self.close(applied=False)

    async def follow(self, projection: Projection, size: int) -> None:
        """Adapt the proposal to a view that has grown.

        Args:
            size: size of the next request, in tokens.
        """
        proposal = self.proposal
        if proposal is None or self.waits or len(proposal.view) == len(projection.view):
            return
        adapted = None
        with suppress(CompactionFailed):
            adapted = await asyncio.to_thread(
                proposal.grown, projection, proposal.entry.reason, size
            )
        if self.proposal is not proposal or self.drafting:
            return  # the user has decided in the meantime
        if adapted is None or not adapted.fits(projection):
            self.close(applied=False)
        else:
            # To the user, it is still the same proposal.
            self._set(replace(adapted, id=proposal.id))

    def demand(self, identity: str) -> Proposal:
        """Return the proposal with this id.

        Raises:
            FoldlineError: no proposal with this id is waiting.
        """
        if self.proposal is None or self.proposal.id != identity:
            raise FoldlineError(NOT_WAITING)
        return self.proposal

    def demand_current(self, identity: str) -> Proposal:
        """Return the proposal with this id, ready to be applied.

        Raises:
            FoldlineError: no proposal with this id is waiting, or its cut or focus has changed since it was
                drafted.
        """
        proposal = self.demand(identity)
        if proposal.state == "stale":
            raise CompactionFailed(STALE)
        return proposal

    async def revise(self, revision: operations.ReviseProposal) -> None:
        """Change the proposal's text, pins, cut or focus.

        Raises:
            FoldlineError: the change is not possible.
        """
        proposal = self.demand(revision.proposal)
        if revision.notes is not None or revision.pins is not None or revision.ledger:
            proposal = await asyncio.to_thread(
                proposal.revised,
                notes=revision.notes,
                pins=None if revision.pins is None else frozenset(revision.pins),
                ledger=revision.ledger,
            )
        if revision.first_kept_index is not None:
            proposal = await asyncio.to_thread(
                proposal.moved, revision.first_kept_index
            )
        self.demand(revision.proposal)  # it may have been replaced in the meantime
        if revision.focus is not None and revision.focus != self.focus:
            self.focus = revision.focus or None
            proposal = proposal.out_of_date()
        self._set(proposal)

    def options(self, guidance: str | None, projection: Projection) -> RedraftOptions:
        """Return options for the next draft.

        The cut and the pins of the current proposal are kept if the proposal fits the view.
        """
        proposal = self.proposal
        if proposal is None:
            return RedraftOptions(guidance=guidance)
        options = RedraftOptions(
            guidance=guidance,
            earlier_draft=proposal.notes if guidance else None,
        )
        if not proposal.fits(projection):
            return options
        first_kept_index = proposal.cut.first_kept_index if proposal.cut else None
        return replace(options, first_kept_index=first_kept_index, pins=proposal.pins)

    def _set(self, proposal: Proposal) -> None:
        self.proposal = proposal
        entry, sizes = proposal.entry, proposal.sizes
        self.emit(
            events.ProposalReady(
                proposal=proposal.id,
                reason=entry.reason,
                state=proposal.state,
                waits=self.waits,
                tokens_before=entry.tokens_before,
                tokens_after=sizes.tokens_after,
                compacted=sizes.compacted,
                kept=proposal.kept,
                summary=entry.summary,
                facts=proposal.audit.facts,
                lost=len(proposal.audit.lost),
            )
        )


Draft = Callable[[Progress], Awaitable[Proposal | None]]

_REPORT_STEP = 50
"""A draft's progress is reported each time it has grown by this many estimated tokens."""


class Basis(NamedTuple):
    """The inputs of a draft.

    As long as they stay the same, the view only grows, and the draft's cut stays valid.
    """

    change: object
    """The newest change to the view."""
    strategy: CompactionStrategy
    writer: LLM

    def is_same(self, other: "Basis") -> bool:
        return all(map(is_, self, other))


class BackgroundDraft:
    """The draft that is being written or is ready in the background, if there is one."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        """Whether to draft in the background at all."""
        self.emit: Callable[[Event], None] = lambda _: None
        self.declined: object = False
        """The newest change to the view when the user last stopped a draft.

        False before that."""
        self.overdue = False
        """Whether the draft was needed at the end of a task or turn, but was not ready."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called once an overdue draft is ready."""
        self._basis: Basis | None = None
        self._task: asyncio.Task[Proposal | None] | None = None
        self._listener: Progress | None = None
        """Progress callback of the compaction that is waiting for the draft."""
        self._deltas: list[str] = []
        self._drafted_tokens = 0
        self._reported_tokens = 0

    @property
    def drafting(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def ready(self) -> bool:
        return (
            self._task is not None
            and self._task.done()
            and _result(self._task) is not None
        )

    def serves(self, basis: Basis) -> bool:
        """Return whether a draft was started with these inputs, even if it failed.

        Failed drafts are not tried again.
        """
        return self._basis is not None and self._basis.is_same(basis)

    def on_entry(self, change: object) -> None:
        """Drop the draft if it was made for another view.

        Args:
            change: newest change to the current view.
        """
        if self._basis is not None and self._basis.change is not change:
            self.drop()

    def begin(self, basis: Basis, draft: Draft) -> None:
        """Start a draft, which replaces any earlier one."""
        self.drop()
        self._basis = basis
        self._task = asyncio.create_task(self._run(draft))
        self._task.add_done_callback(self._on_end)

    async def take(self, basis: Basis, progress: Progress) -> Proposal | None:
        """Wait for the draft with these inputs and return it.

        Returns:
            None if there is no such draft, or if it failed.
        """
        if self._task is None or not self.serves(basis):
            self.drop()
            return None
        if self.drafting:
            self._listener = progress
            event = events.CompactionProgress(
                stage="draft",
                delta="".join(self._deltas),
                drafted_tokens=self._drafted_tokens,
            )
            progress(event)
        try:
            return await self._task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            return None  # only the draft was cancelled
        finally:
            self.drop()

    def drop(self) -> None:
        """Discard the draft.

        If it is still being written, cancel it.
        """
        task = self._task
        self._task = None
        self._basis = None
        self._listener = None
        self._deltas = []
        self._drafted_tokens = 0
        self._reported_tokens = 0
        self.overdue = False
        if task is not None:
            task.cancel()
            self._report("gone")

    def refuse(self, change: object) -> None:
        """Stop drafting at the user's request.

        Args:
            change: newest change to the view. No draft is started until the view has changed again.
        """
        self.declined = change
        if self.drafting and self._listener is None:
            self.drop()

    async def aclose(self) -> None:
        """Cancel the draft and wait until its task has ended."""
        task = self._task
        self.drop()
        if task is not None:
            await asyncio.wait([task])

    async def _run(self, draft: Draft) -> Proposal | None:
        self._report("drafting")
        try:
            proposal = await draft(self._on_progress)
        except FoldlineError as failure:
            self._report("gone")
            if self._listener is None:
                text = NOT_DRAFTED.format(failure=failure)
                self.emit(events.Notice(text=text))
            return None
        self._report("gone" if proposal is None else "ready", proposal)
        return proposal

    def _on_end(self, task: asyncio.Task[Proposal | None]) -> None:
        proposal = _result(task)  # this also marks an exception as retrieved
        if proposal and self.overdue and task is self._task and self._listener is None:
            self.on_ready()

    def _on_progress(self, event: events.CompactionProgress | events.Retrying) -> None:
        if self._listener is not None:
            self._listener(event)
        elif isinstance(event, events.Retrying):
            self._deltas.clear()
        else:
            self._deltas.append(event.delta)
            self._drafted_tokens = max(self._drafted_tokens, event.drafted_tokens)
            if self._drafted_tokens - self._reported_tokens >= _REPORT_STEP:
                self._report("drafting")

    def _report(
        self,
        state: Literal["drafting", "ready", "gone"],
        proposal: Proposal | None = None,
    ) -> None:
        self._reported_tokens = self._drafted_tokens
        event = events.DraftAhead(state=state, drafted_tokens=self._drafted_tokens)
        if proposal is not None:
            sizes = {
                "tokens_before": proposal.entry.tokens_before,
                "tokens_after": proposal.entry.tokens_after,
            }
            event = event.model_copy(update=sizes)
        self.emit(event)


def _result(task: asyncio.Task[Proposal | None]) -> Proposal | None:
    """Return the proposal that a finished task made, if it made one."""
    if task.cancelled() or task.exception():
        return None
    return task.result()
