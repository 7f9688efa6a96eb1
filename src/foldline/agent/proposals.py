"""The proposal that waits for the user's decision, and the draft of the next one made in the background."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from operator import is_
from typing import Literal, NamedTuple

from foldline.compaction import CompactionFailed, CompactionStrategy, Progress, Proposal, RedraftOptions
from foldline.context.projection import Projection
from foldline.llm import LLM
from foldline.protocol import Cause, FoldlineError, events, operations
from foldline.protocol.events import Event


@dataclass(frozen=True, slots=True)
class Apply:
    """Commit this proposal: the one the user saw, also where a revision of it was finished since."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Redraft:
    """Draft it again."""

    options: RedraftOptions
    focus: str | None


@dataclass(frozen=True, slots=True)
class Discard:
    """Throw it away."""


Decision = Apply | Redraft | Discard


class PendingProposal:
    """At most one proposal waits. Revising it asks no model and commits nothing."""

    def __init__(self) -> None:
        self.emit: Callable[[Event], None] = lambda _: None
        self.proposal: Proposal | None = None
        self.focus: str | None = None
        """What the next draft of it should dwell on."""
        self.drafting = False
        """Whether a compaction is being drafted, or decided about."""
        self.held = False
        """Whether the user looks at the compaction that is being drafted: its commit waits for a decision."""
        self.declined: object = False
        """The newest change of the view when the user threw away a draft nobody had asked for."""
        self._decision: asyncio.Future[Decision] | None = None

    @property
    def waits(self) -> bool:
        """Whether a running task waits for the decision."""
        return self._decision is not None and not self._decision.done()

    def keep(self, proposal: Proposal, focus: str | None) -> None:
        """Show it. It stays until it is applied, thrown away or replaced by another one."""
        self.focus = focus
        self._set(proposal)

    def usable(self, projection: Projection) -> Proposal | None:
        """The proposal that was kept, where it can still be applied as it is."""
        kept = self.proposal
        return kept if kept and kept.state != "stale" and kept.fits(projection) else None

    async def decision(self, proposal: Proposal, focus: str | None) -> Decision:
        """Show it and wait for the user's decision. Cancelled, the proposal is kept."""
        self._decision = asyncio.get_running_loop().create_future()
        self.keep(proposal, focus)
        try:
            return await self._decision
        finally:
            self._decision = None

    def decide(self, decision: Decision) -> bool:
        """Pass the decision on; whether a task waited for it."""
        waiting = self._decision
        if waiting is None or waiting.done():
            return False
        waiting.set_result(decision)
        return True

    def discard(self, projection: Projection) -> None:
        """Throw the proposal away, whether a task waits for it or not."""
        if not self.decide(Discard()) and self.proposal and self.proposal.entry.reason != "manual":
            self.declined = projection.newest_change
        self.close(applied=False)

    def close(self, *, applied: bool) -> None:
        """Take the proposal off: it was committed, or thrown away."""
        if self.proposal is not None:
            closed, self.proposal = self.proposal, None
            self.emit(events.ProposalClosed(proposal=closed.id, applied=applied))

    def let_go(self, projection: Projection) -> None:
        """Throw it away where the view is no longer the one it was made for."""
        if self.proposal is not None and not self.waits and not self.proposal.fits(projection):
            self.close(applied=False)

    async def follow(self, projection: Projection, size: int) -> None:
        """Make it the same compaction of the grown view. `size`: of the next request, in tokens."""
        kept = self.proposal
        if kept is None or self.waits or len(kept.view) == len(projection.view):
            return
        try:
            made = await asyncio.to_thread(kept.grown, projection, kept.entry.reason, size)
        except CompactionFailed:
            made = None
        if self.proposal is not kept or self.drafting:
            return  # it was decided on since
        if made is None or not made.fits(projection):
            self.close(applied=False)
        else:
            self._set(replace(made, id=kept.id))  # to the user it is the same one

    def demand(self, identity: str) -> Proposal:
        """The proposal of this identity.

        Raises:
            FoldlineError: another one waits, or none.
        """
        if self.proposal is None or self.proposal.id != identity:
            raise FoldlineError("This proposal is no longer the one that waits: look at it again.")
        return self.proposal

    async def revise(self, asked: operations.ReviseProposal) -> None:
        """Another text, other pins, another cut, another focus. Raises FoldlineError where that cannot be."""
        made = self.demand(asked.proposal)
        if asked.notes is not None or asked.pins is not None or asked.ledger:
            pins = None if asked.pins is None else frozenset(asked.pins)
            made = await asyncio.to_thread(made.revised, notes=asked.notes, pins=pins, ledger=asked.ledger)
        if asked.first_kept_index is not None:
            made = await asyncio.to_thread(made.moved, asked.first_kept_index)
        self.demand(asked.proposal)  # another one may have come while this was worked out
        if asked.focus is not None and asked.focus != self.focus:
            self.focus = asked.focus or None
            made = made.out_of_date()
        self._set(made)

    def options(self, guidance: str | None, projection: Projection) -> RedraftOptions:
        """What the next draft keeps: the cut and pins of this proposal, as long as the view holds them."""
        made = self.proposal
        if made is None:
            return RedraftOptions(guidance=guidance)
        earlier = made.notes if guidance else None
        if not made.fits(projection):
            return RedraftOptions(guidance=guidance, earlier_draft=earlier)
        return RedraftOptions(
            first_kept_index=made.cut.first_kept_index if made.cut else None,
            guidance=guidance,
            earlier_draft=earlier,
            pins=made.pins,
        )

    def demand_current(self, identity: str) -> Proposal:
        """The proposal of this identity, as it may be applied.

        Raises:
            FoldlineError: it is another one, or its draft was made for another cut or focus.
        """
        made = self.demand(identity)
        if made.state == "stale":
            raise CompactionFailed("The draft was made for another cut or focus: draft it again first.")
        return made

    def _set(self, proposal: Proposal) -> None:
        self.proposal = proposal
        entry, outline = proposal.entry, proposal.outline
        self.emit(
            events.ProposalReady(
                proposal=proposal.id,
                reason=entry.reason,
                state=proposal.state,
                waits=self.waits,
                tokens_before=entry.tokens_before,
                tokens_after=outline.tokens_after,
                compacted=outline.compacted,
                kept=proposal.kept,
                summary=entry.summary,
                facts=proposal.audit.facts,
                lost=len(proposal.audit.lost),
            )
        )


Draft = Callable[[Progress], Awaitable[Proposal | None]]

_TELL_EACH = 50
"""Estimated tokens between two reports of how long the draft is."""


class Basis(NamedTuple):
    """What a draft is made from. While it is the same, the view has only grown, and the cut stands."""

    change: object
    """The newest change of the view."""
    strategy: CompactionStrategy
    writer: LLM

    def is_same(self, other: "Basis") -> bool:
        return all(map(is_, self, other))


class BackgroundDraft:
    """At most one draft, being written or ready. `on` is whether any is begun."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self.emit: Callable[[Event], None] = lambda _: None
        self.declined: object = False
        """The newest change of the view when the user stopped a draft."""
        self.overdue = False
        """Whether the moment to commit it has come before it was written: a task is done, or a turn."""
        self.cause: Cause = ""
        """What had that moment come."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called once one that is overdue is there."""
        self._basis: Basis | None = None
        self._task: asyncio.Task[Proposal | None] | None = None
        self._listener: Progress | None = None
        """Who hears of the draft, once a compaction waits for it."""
        self._written: list[str] = []
        self._drafted = self._told = 0

    @property
    def drafting(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def ready(self) -> bool:
        return self._task is not None and self._task.done() and _made_by(self._task) is not None

    def serves(self, now: Basis) -> bool:
        """Whether a draft was begun for this; one that came to nothing is not tried again."""
        return self._basis is not None and self._basis.is_same(now)

    def on_entry(self, change: object) -> None:
        """Give up a draft that was made for another view. `change`: the newest change of this one."""
        if self._basis is not None and self._basis.change is not change:
            self.drop()

    def begin(self, basis: Basis, draft: Draft) -> None:
        """Draft in the background, instead of what was begun before."""
        self.drop()
        self._basis = basis
        self._task = asyncio.create_task(self._run(draft))
        self._task.add_done_callback(self._ended)

    async def take(self, now: Basis, progress: Progress) -> Proposal | None:
        """The draft for this view, once it is written; None where there is none or it fails."""
        if self._task is None or not self.serves(now):
            self.drop()
            return None
        if self.drafting:
            self._listener = progress
            delta = "".join(self._written)
            progress(events.CompactionProgress(stage="draft", delta=delta, drafted_tokens=self._drafted))
        try:
            return await self._task
        except asyncio.CancelledError:
            waits = asyncio.current_task()
            if waits is None or waits.cancelling():
                raise
            return None  # only the draft was cancelled
        finally:
            self.drop()

    def drop(self) -> None:
        """Give the draft up; one that is still being written is cancelled."""
        task, self._task, self._basis, self._listener = self._task, None, None, None
        self._written, self._drafted, self._told = [], 0, 0
        self.overdue, self.cause = False, ""
        if task is not None:
            task.cancel()
            self._tell("gone")

    def refuse(self, change: object) -> None:
        """Stop the draft for the user; none is begun before something else changes the view."""
        self.declined = change
        if self.drafting and self._listener is None:
            self.drop()

    async def aclose(self) -> None:
        """Cancel it and wait for its end."""
        task = self._task
        self.drop()
        if task is not None:
            await asyncio.wait([task])

    async def _run(self, draft: Draft) -> Proposal | None:
        self._tell("drafting")
        try:
            made = await draft(self._on_progress)
        except FoldlineError as failure:
            self._tell("gone")
            if self._listener is None:
                late = "It is drafted when the window is full."
                self.emit(
                    events.Notice(text=f"The next compaction could not be drafted ahead. {failure} {late}")
                )
            return None
        if made is None:
            self._tell("gone")
        else:
            self._tell("ready", made)
        return made

    def _ended(self, task: asyncio.Task[Proposal | None]) -> None:
        if _made_by(task) and task is self._task and self.overdue and self._listener is None:
            self.on_ready()

    def _on_progress(self, event: events.CompactionProgress | events.Retrying) -> None:
        if self._listener is not None:
            self._listener(event)
        elif isinstance(event, events.Retrying):
            self._written.clear()
        else:
            self._written.append(event.delta)
            self._drafted = max(self._drafted, event.drafted_tokens)
            if self._drafted - self._told >= _TELL_EACH:
                self._tell("drafting")

    def _tell(self, state: Literal["drafting", "ready", "gone"], made: Proposal | None = None) -> None:
        self._told = self._drafted
        before, after = (made.entry.tokens_before, made.entry.tokens_after) if made else (0, 0)
        self.emit(
            events.DraftAhead(
                state=state, drafted_tokens=self._drafted, tokens_before=before, tokens_after=after
            )
        )


def _made_by(ended: asyncio.Task[Proposal | None]) -> Proposal | None:
    return None if ended.cancelled() or ended.exception() else ended.result()
