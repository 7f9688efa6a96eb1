"""Compacting as the agent does it: announce, propose, let the user decide where they want to, commit.

Cancelled or failed, it leaves the old view.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal

from foldline.compaction import (
    WORDS,
    WORTH_WHILE,
    CompactionFailed,
    CompactionStrategy,
    Progress,
    Proposal,
    RedraftOptions,
    plans_by_cut,
    propose,
    strategy_for,
)
from foldline.context.budget import Budget
from foldline.llm import LLM, LLMError, WithStandIn
from foldline.protocol import BaseMessage, Cause, Edit, FoldlineError, Reason, events

from .hooks import fire
from .proposals import Apply, Discard, Redraft
from .state import AgentState


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """A compaction that was asked for."""

    reason: Reason
    cause: Cause = ""
    focus: str | None = None
    will_retry: bool = False
    pending: int = 0
    """Estimated tokens, before calibration, of the prompt that waits for it."""
    preview: bool = False
    """Whether the proposal is kept for the user, instead of being committed."""
    options: RedraftOptions | None = None
    strategy: CompactionStrategy | None = None
    """Another one than usual, where the user chose a remedy."""
    budget: Budget | None = None
    """That of another model, which is to take over."""
    writer: LLM | None = None
    """Writes the summary in place of the session's model, where that cannot be asked."""


async def compact(
    state: AgentState, request: CompactionRequest
) -> Literal["compacted", "nothing", "postponed"]:
    """Compact the view now; what came of it. Reports start, progress and end as events.

    With nothing to compact, it says so only where the user asked.

    Raises:
        FoldlineError: it failed, and the view is as it was.
    """
    planned = state.plan(request.reason, request.budget, request.pending)
    if planned is None and plans_by_cut(_strategy(state, request)) and request.reason != "overflow":
        if request.reason == "manual":
            state.emit(events.CompactionEnd(reason="manual", nothing=True))
        return "nothing"
    review = state.review
    review.drafting = True
    start = events.CompactionStart(
        reason=request.reason,
        tokens_before=state.size(),
        expected_after=planned.tokens_expected if planned else None,
        entries=planned.compacted if planned else 0,
    )
    try:
        async with _reported(state, start, will_retry=request.will_retry) as report:
            request = await _with_hooks(state, request)
            report.proposal = proposal = await _decided(state, request)
            if proposal is None:
                kept = request.preview and review.usable(state.projection) is not None
                # Nobody asked for one at the end of a task: no message.
                nothing = not kept and request.reason != "phase"
                report.update(aborted=False, proposed=kept, nothing=nothing)
                return "postponed" if kept else "nothing"
            await commit(state, proposal)
    except _Declined:
        if request.reason != "manual":
            review.declined = state.projection.newest_change
        return "postponed"
    await _tell_hooks(state, request)
    return "compacted"


async def _with_hooks(state: AgentState, request: CompactionRequest) -> CompactionRequest:
    """The request with the focus that hooks add; what they pin is pinned.

    Raises:
        CompactionFailed: one refuses it.
    """
    trigger = _trigger(request)
    answer = await fire(state, "PreCompact", trigger, [str(trigger["trigger"])])
    if answer.refused:
        raise CompactionFailed(f"A hook refuses to compact: {answer.refused}")
    for index in answer.pins:
        if isinstance(state.projection.entry(index), BaseMessage):
            await state.session.append(Edit(target=index, action="pin"), durable=True)
    focus = "\n".join(filter(None, (request.focus, *answer.said)))
    return replace(request, focus=focus) if answer.said else request


async def _tell_hooks(state: AgentState, request: CompactionRequest) -> None:
    """That the newest compaction is in the history."""
    entry = state.projection.all_compactions[-1]
    sizes = {"tokens_before": entry.tokens_before, "tokens_after": entry.tokens_after}
    await fire(state, "PostCompact", {**_trigger(request), **sizes})


def _trigger(request: CompactionRequest) -> dict[str, object]:
    by = "manual" if request.reason == "manual" else "auto"
    return {"trigger": by, "reason": request.reason, "custom_instructions": request.focus or ""}


class _Declined(Exception):
    """The user did not want the proposal."""


async def _decided(state: AgentState, request: CompactionRequest) -> Proposal | None:
    """The proposal to commit; None where there is nothing to compact, or it is kept for the user."""
    review = state.review
    proposal = _waiting(state, request) or await _drafted(state, request)
    while proposal is not None:
        if request.preview:
            review.keep(proposal, request.focus)
            return None
        if not review.held and (state.mode != "ask" or request.reason == "manual"):
            return proposal
        match await review.decision(proposal, request.focus):
            case Apply(proposal=chosen):
                return chosen
            case Discard():
                raise _Declined
            case Redraft(options=options, focus=focus):
                request = replace(request, options=options, focus=focus)
                proposal = await _drafted(state, request)
    return None


def _waiting(state: AgentState, request: CompactionRequest) -> Proposal | None:
    """The proposal that waits for the user, if it makes enough room: to be shown again, never committed."""
    if state.mode != "ask" or request.reason == "manual" or request.options is not None:
        return None
    proposal = state.review.usable(state.projection)
    if proposal is None:
        return None
    since = state.projection.tokens - sum(item.tokens for item in proposal.view)
    size = proposal.outline.tokens_after + round((since + request.pending) * state.scale)
    return proposal if size < (request.budget or state.budget).threshold else None


async def _drafted(state: AgentState, request: CompactionRequest) -> Proposal | None:
    """A proposal; None where there is nothing to compact, or it would free nothing for what it loses."""
    proposal = await _drafted_before(state, request) or await draft_now(state, request, state.emit)
    if proposal is None:
        return None
    proposal = _explained(state, request, proposal)
    if request.reason == "phase" and not proposal.model_calls:
        return proposal if proposal.left <= WORTH_WHILE else None
    if request.reason == "manual" and request.options is None and not state.past_soft_mark:
        # Facts would go for nothing, and nothing needs the room.
        return proposal if proposal.outline.tokens_after < proposal.entry.tokens_before else None
    return proposal


def _explained(state: AgentState, request: CompactionRequest, proposal: Proposal) -> Proposal:
    """With what shows later why it was made."""
    budget = request.budget or state.budget
    limits = {"threshold": budget.threshold, "phase": budget.soft_mark}
    why = {"cause": request.cause, "window": budget.window, "limit": limits.get(request.reason, 0)}
    return replace(proposal, entry=proposal.entry.model_copy(update=why))


async def draft_now(
    state: AgentState, request: CompactionRequest, progress: Progress, *, alone: bool = False
) -> Proposal | None:
    return await propose(
        state.projection,
        strategy=_strategy(state, request),
        llm=await summariser(state, request.writer or state.llm),
        budget=request.budget or state.budget,
        reason=request.reason,
        planned=None if request.options else state.plan(request.reason, request.budget, request.pending),
        focus=request.focus,
        pending=request.pending,
        tools=state.specs,
        recalls=state.recalls,
        overhead=state.overhead,
        options=request.options,
        alone=alone or request.strategy is not None,
        ledger=state.ledger,
        session=state.session.id,
        progress=progress,
        on_request=state.bounds.on_summary,
    )


async def summariser(state: AgentState, own: LLM) -> LLM:
    """The model that writes the summaries, in whose place `own` is asked where it fails."""
    if state.summary_llm is None:
        return own
    with suppress(LLMError):  # says so when it is asked
        await state.summary_llm.prepare()
    return WithStandIn(state.summary_llm, own)


def drafts_ahead(state: AgentState) -> bool:
    """Whether compactions are drafted before they are due: not where hooks are asked first, who may change
    what is drafted."""
    asked = any(hook.hears("PreCompact", ["auto"]) for hook in state.hooks or ())
    return state.draft.on and not asked


def begin_draft(state: AgentState) -> None:
    """Begin the draft of the next compaction in the background, unless the user stopped one for this view. It
    keeps as much as one at the end of a task, and goes down no failure ladder."""
    if state.draft.declined is not state.projection.newest_change:
        request = CompactionRequest("phase")
        state.draft.begin(state.basis, lambda progress: draft_now(state, request, progress, alone=True))


async def _drafted_before(state: AgentState, request: CompactionRequest) -> Proposal | None:
    """What was drafted in the background, where it makes enough room. What asked no model is made anew."""
    if request.options or request.focus or request.strategy or request.budget:
        state.draft.drop()
        return None
    made = await state.draft.take(state.basis, state.emit)
    with suppress(CompactionFailed):
        if made is not None and made.model_calls and made.fits(state.projection):
            made = await asyncio.to_thread(made.grown, state.projection, request.reason, state.size())
            size = made.outline.tokens_after + round(request.pending * made.scale)
            return made if size < state.budget.threshold else None
    return None


def _strategy(state: AgentState, request: CompactionRequest) -> CompactionStrategy:
    return request.strategy or strategy_for(state.strategy, request.reason)


async def commit(state: AgentState, proposal: Proposal) -> None:
    """Append the proposal's entry: one entry, one append.

    Raises:
        FoldlineError: the view is no longer the one the proposal was made for, or the disk refused.
    """
    if not proposal.fits(state.projection):
        raise CompactionFailed("The view has changed since this compaction was drafted: draft it again.")
    state.emit(events.CompactionProgress(stage="commit", rung=proposal.entry.rung))
    known = len(state.projection.all_compactions)
    try:
        await state.session.append(proposal.entry, durable=True)
    finally:
        if len(state.projection.all_compactions) > known:  # also where a cancel came while it was written
            state.review.close(applied=state.review.proposal is proposal)
    if proposal.troubles:
        state.warn(f"{proposal.troubles[0]} Compacted by {WORDS[proposal.entry.rung]}.")


async def apply(state: AgentState, identity: str) -> None:
    """Commit the proposal that was kept for the user.

    Raises:
        FoldlineError: it is not that one any more, or cannot be applied.
    """
    proposal = state.review.demand_current(identity)
    entry, focus = proposal.entry, state.review.focus
    start = events.CompactionStart(
        reason=entry.reason,
        tokens_before=entry.tokens_before,
        expected_after=entry.tokens_after,
        entries=proposal.compacted,
    )
    async with _reported(state, start) as report:
        report.proposal = proposal
        await commit(state, proposal)
    await _tell_hooks(state, CompactionRequest(entry.reason, focus=focus))


@dataclass
class _Report:
    """How a compaction ended, as it comes about."""

    end: events.CompactionEnd
    proposal: Proposal | None = None

    def update(self, **changes: object) -> None:
        self.end = self.end.model_copy(update=changes)


@asynccontextmanager
async def _reported(
    state: AgentState, start: events.CompactionStart, *, will_retry: bool = False
) -> AsyncIterator[_Report]:
    """Reports start and end. What the history holds counts, also where a cancel came during the append."""
    report = _Report(
        events.CompactionEnd(
            reason=start.reason, will_retry=will_retry, tokens_before=start.tokens_before, aborted=True
        )
    )
    state.emit(start)
    known = len(state.projection.all_compactions)
    try:
        yield report
    except FoldlineError as failure:
        report.update(error=str(failure))
        raise
    finally:
        state.review.drafting = state.review.held = False
        if report.proposal is not None and len(state.projection.all_compactions) > known:
            entry = state.projection.all_compactions[-1]
            report.update(
                aborted=False,
                tokens_after=entry.tokens_after,
                kept_from_index=entry.first_kept_index,
                index=entry.index,
                compacted=report.proposal.compacted,
                rung=entry.rung,
                summary=report.proposal.entry.summary,
            )
        state.emit(report.end)
