"""Folding as the agent does it: announce, propose, let the reader decide where they want to, commit.

Cancelled or failed, it leaves the old view.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

from foldline.compaction import (
    WORDS,
    CompactionFailed,
    CompactionStrategy,
    Progress,
    Proposal,
    RedraftOptions,
    plan,
    plans_by_cut,
    propose,
    strategy_for,
)
from foldline.context.budget import Budget
from foldline.protocol import FoldlineError, Reason, events

from .proposals import Apply, Discard, Redraft
from .state import AgentState

WORTH_WHILE = 0.75
"""A fold before it is needed has to leave no more than this share of the view."""


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """A fold that was asked for."""

    reason: Reason
    focus: str | None = None
    will_retry: bool = False
    pending: int = 0
    """Estimated tokens, before calibration, of the prompt that waits for it."""
    preview: bool = False
    """Whether the proposal is kept for its reader, instead of being committed."""
    options: RedraftOptions | None = None
    strategy: CompactionStrategy | None = None
    """Another one than usual, where the reader chose a remedy."""
    budget: Budget | None = None
    """That of another model, which is to take over."""


async def compact(state: AgentState, wanted: CompactionRequest) -> bool:
    """Fold the view now; whether anything was folded. Reports start, progress and end as events.

    With nothing to fold, only who asked for it is told so.

    Raises:
        FoldlineError: it failed, and the view is as it was.
    """
    budget = wanted.budget or state.budget
    planned = plan(state.projection, budget, wanted.reason, overhead=state.overhead)
    told_all = plans_by_cut(_strategy(state, wanted))
    if planned is None and told_all and wanted.reason != "overflow":
        if wanted.reason == "manual":
            state.emit(events.CompactionEnd(reason="manual", nothing=True))
        return False
    before = state.size()
    state.review.drafting = True
    state.emit(
        events.CompactionStart(
            reason=wanted.reason,
            tokens_before=before,
            expected_after=planned.tokens_expected if planned else None,
            entries=planned.folded if planned else 0,
        )
    )
    end = events.CompactionEnd(
        reason=wanted.reason, will_retry=wanted.will_retry, tokens_before=before, aborted=True
    )
    known = len(state.projection.all_compactions)
    proposal: Proposal | None = None
    try:
        proposal = await _decided(state, wanted)
        if proposal is None:
            kept = wanted.preview and state.review.usable(state.projection) is not None
            nothing = not kept and wanted.reason != "phase"  # nobody asked for that one: nobody is told
            end = end.model_copy(update={"aborted": False, "proposed": kept, "nothing": nothing})
            return False
        await commit(state, proposal)
    except _ThrownAway:
        if wanted.reason != "manual":
            state.review.declined = state.projection.newest_change
        return False
    except FoldlineError as failure:
        end = end.model_copy(update={"error": str(failure)})
        raise
    finally:
        state.review.drafting = state.review.held = False
        state.emit(_ended(state, end, proposal, known))
    return True


class _ThrownAway(Exception):
    """The reader did not want the proposal."""


async def _decided(state: AgentState, wanted: CompactionRequest) -> Proposal | None:
    """The proposal to commit; None where there is nothing to fold, or it is kept for its reader.

    Raises:
        FoldlineError: it failed.
        _ThrownAway: its reader did not want it.
    """
    review = state.review
    proposal = _that_waits_already(state, wanted) or await _drafted(state, wanted)
    while proposal is not None:
        if wanted.preview:
            review.keep(proposal, wanted.focus)
            return None
        if not review.held and (state.mode != "ask" or wanted.reason == "manual"):
            return proposal
        match await review.decision(proposal, wanted.focus):
            case Apply(proposal=chosen):
                return chosen
            case Discard():
                raise _ThrownAway
            case Redraft(options=options, focus=focus):
                wanted = replace(wanted, options=options, focus=focus)
                proposal = await _drafted(state, wanted)
    return None


def _that_waits_already(state: AgentState, wanted: CompactionRequest) -> Proposal | None:
    """The proposal its reader has not decided about, where it makes the room that is wanted now. It is shown
    to them again, never committed unasked.
    """
    if state.mode != "ask" or wanted.reason == "manual" or wanted.options is not None:
        return None
    proposal = state.review.usable(state.projection)
    if proposal is None:
        return None
    scale = state.projection.calibration.scale(state.projection.model)
    since = state.projection.tokens - sum(item.tokens for item in proposal.view)
    size = proposal.outline.tokens_after + round((since + wanted.pending) * scale)
    return proposal if size < (wanted.budget or state.budget).threshold else None


async def _drafted(state: AgentState, wanted: CompactionRequest) -> Proposal | None:
    """A proposal; None where there is nothing to fold, or nothing worth breaking the cached prefix for."""
    proposal = await _drafted_ahead(state, wanted) or await _drafted_now(state, wanted, state.emit)
    if proposal is None or wanted.reason != "phase" or proposal.model_calls:
        return proposal
    return proposal if proposal.left <= WORTH_WHILE else None


async def _drafted_now(
    state: AgentState, wanted: CompactionRequest, progress: Progress, *, alone: bool = False
) -> Proposal | None:
    def count() -> None:
        state.summary_requests += 1

    return await propose(
        state.projection,
        strategy=_strategy(state, wanted),
        llm=await state.summariser(),
        budget=wanted.budget or state.budget,
        reason=wanted.reason,
        focus=wanted.focus,
        pending=wanted.pending,
        tools=state.specs,
        overhead=state.overhead,
        options=wanted.options,
        alone=alone or wanted.strategy is not None,
        progress=progress,
        on_request=count,
    )


def begin_draft(state: AgentState) -> None:
    """Begin the draft of the next fold in the background, in place of one that was begun before.

    It keeps as much as a fold at a natural boundary: the view grows until it is committed. Where its strategy
    fails, the fold itself will climb the ladder.
    """
    state.draft.begin(
        state.basis, lambda progress: _drafted_now(state, CompactionRequest("phase"), progress, alone=True)
    )


async def _drafted_ahead(state: AgentState, wanted: CompactionRequest) -> Proposal | None:
    """What was drafted in the background, where it makes the room that is wanted now.

    What asked no model is made anew, from all that can be hidden by now.
    """
    if wanted.options or wanted.focus or wanted.strategy or wanted.budget:
        state.draft.drop()
        return None
    made = await state.draft.take(state.basis, state.emit)
    with suppress(CompactionFailed):
        if made is not None and made.model_calls and made.fits(state.projection):
            made = await asyncio.to_thread(made.grown, state.projection, wanted.reason, state.size())
            size = made.outline.tokens_after + round(wanted.pending * made.scale)
            return made if size < state.budget.threshold else None
    return None


def _strategy(state: AgentState, wanted: CompactionRequest) -> CompactionStrategy:
    return wanted.strategy or strategy_for(state.strategy, wanted.reason)


async def commit(state: AgentState, proposal: Proposal) -> None:
    """Append the proposal's entry: one entry, one append.

    Raises:
        FoldlineError: the view is no longer the one the proposal was made for, or the disk refused.
    """
    if not proposal.fits(state.projection):
        raise CompactionFailed("The view has changed since this fold was drafted: draft it again.")
    state.emit(events.CompactionProgress(stage="commit", rung=proposal.entry.rung))
    known = len(state.projection.all_compactions)
    try:
        await state.session.append(proposal.entry, durable=True)
    finally:
        if len(state.projection.all_compactions) > known:  # also where a cancel came while it was written
            state.review.close(applied=state.review.proposal is proposal)
    if proposal.troubles:
        how = WORDS[proposal.entry.rung]
        state.emit(events.Notice(level="warning", text=f"{proposal.troubles[0]} Folded by {how}."))


async def apply(state: AgentState, identity: str) -> None:
    """Commit the proposal that was kept for its reader.

    Raises:
        FoldlineError: it is not that one any more, or cannot be applied.
    """
    proposal = state.review.demand_current(identity)
    entry = proposal.entry
    start = events.CompactionStart(
        reason=entry.reason,
        tokens_before=entry.tokens_before,
        expected_after=entry.tokens_after,
        entries=proposal.folded,
    )
    state.emit(start)
    end = events.CompactionEnd(reason=entry.reason, tokens_before=entry.tokens_before, aborted=True)
    known = len(state.projection.all_compactions)
    try:
        await commit(state, proposal)
    except FoldlineError as failure:
        end = end.model_copy(update={"error": str(failure)})
        raise
    finally:
        state.emit(_ended(state, end, proposal, known))


def _ended(
    state: AgentState, end: events.CompactionEnd, proposal: Proposal | None, known: int
) -> events.CompactionEnd:
    """How it ended, where `known` folds were in force before: what the history holds is what happened.

    A cancel that comes during the append is too late.
    """
    if proposal is None or len(state.projection.all_compactions) <= known:
        return end
    entry = state.projection.all_compactions[-1]
    return end.model_copy(
        update={
            "aborted": False,
            "tokens_after": entry.tokens_after,
            "kept_from_index": entry.first_kept_index,
            "index": entry.index,
            "folded": proposal.folded,
            "rung": entry.rung,
            "summary": proposal.entry.summary,
        }
    )
