"""The proposal that waits for its reader, and what the reader decides about it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from foldline.compaction import CompactionFailed, Proposal, Wishes
from foldline.context.projection import Projection
from foldline.protocol import FoldlineError, events, operations
from foldline.protocol.events import Event


@dataclass(frozen=True, slots=True)
class Apply:
    """Commit this proposal: the one the reader saw, also where a revision of it is finished meanwhile."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Redraft:
    """Draft it again."""

    wishes: Wishes
    focus: str | None


@dataclass(frozen=True, slots=True)
class Discard:
    """Throw it away."""


Decision = Apply | Redraft | Discard


class Review:
    """At most one proposal waits. Revising it asks no model and commits nothing."""

    def __init__(self) -> None:
        self.emit: Callable[[Event], None] = lambda _: None
        self.proposal: Proposal | None = None
        self.focus: str | None = None
        """What the next draft of it should dwell on."""
        self.drafting = False
        """Whether a fold is being drafted, or decided about."""
        self.held = False
        """Whether the reader looks at the fold that is being drafted: its commit waits for a decision."""
        self.declined: object = False
        """The newest change of the view when the reader threw away a draft nobody had asked for."""
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
        """Show it and wait for the reader's word. Cancelled, the proposal is kept."""
        self._decision = asyncio.get_running_loop().create_future()
        self.keep(proposal, focus)
        try:
            return await self._decision
        finally:
            self._decision = None

    def decide(self, decision: Decision) -> bool:
        """Pass on the reader's word; whether a task waited for it."""
        waiting = self._decision
        if waiting is None or waiting.done():
            return False
        waiting.set_result(decision)
        return True

    def discard(self, projection: Projection) -> None:
        """Throw it away, whether something waits for it or not."""
        if not self.decide(Discard()) and self.proposal and self.proposal.entry.reason != "manual":
            self.declined = projection.newest_change
        self.close(applied=False)

    def close(self, *, applied: bool) -> None:
        """The proposal has gone: into the history, or away."""
        if self.proposal is not None:
            closed, self.proposal = self.proposal, None
            self.emit(events.ProposalClosed(proposal=closed.id, applied=applied))

    def let_go(self, projection: Projection) -> None:
        """Throw it away where the view is no longer the one it was made for."""
        if self.proposal is not None and not self.waits and not self.proposal.fits(projection):
            self.close(applied=False)

    async def follow(self, projection: Projection, size: int) -> None:
        """Make it the same fold of the view as it is now, which has only grown since. In a thread: the audit
        reads all it folds. `size`: of the next request, in tokens."""
        kept = self.proposal
        if kept is None or self.waits or len(kept.view) == len(projection.view):
            return
        try:
            made = await asyncio.to_thread(kept.grown, projection, kept.entry.reason, size)
        except CompactionFailed:
            made = None
        if self.proposal is not kept or self.drafting:
            return  # it has gone its way meanwhile
        if made is None or not made.fits(projection):
            self.close(applied=False)
        else:
            self._set(replace(made, id=kept.id))  # to its reader it is the same one

    def demand(self, identity: str) -> Proposal:
        """The proposal of this identity.

        Raises:
            FoldlineError: another one waits, or none.
        """
        if self.proposal is None or self.proposal.id != identity:
            raise FoldlineError("This proposal is no longer the one that waits: look at it again.")
        return self.proposal

    async def revise(self, asked: operations.ReviseProposal) -> None:
        """Another text, other pins, another cut, another focus. In a thread: the audit reads all it folds.

        Raises:
            FoldlineError: it cannot be revised like this; it stays as it was.
        """
        made = self.demand(asked.proposal)
        if asked.notes is not None or asked.pins is not None:
            pins = None if asked.pins is None else frozenset(asked.pins)
            made = await asyncio.to_thread(made.revised, notes=asked.notes, pins=pins)
        if asked.first_kept_index is not None:
            made = await asyncio.to_thread(made.moved, asked.first_kept_index)
        self.demand(asked.proposal)  # another one may have come while this was worked out
        if asked.focus is not None and asked.focus != self.focus:
            self.focus = asked.focus or None
            made = made.out_of_date()
        self._set(made)

    def wishes(self, guidance: str | None, projection: Projection) -> Wishes:
        """What the next draft of this proposal has to keep to; its cut and pins, as long as the view holds
        them."""
        made = self.proposal
        if made is None:
            return Wishes(guidance=guidance)
        earlier = made.notes if guidance else None
        if not made.fits(projection):
            return Wishes(guidance=guidance, earlier_draft=earlier)
        return Wishes(
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
                folded=outline.folded,
                kept=proposal.kept,
                summary=entry.summary,
                facts=proposal.audit.facts,
                lost=len(proposal.audit.lost),
            )
        )
