"""Runs a compaction: announces it, drafts it, lets the user decide if needed, and commits it.

If the compaction is cancelled or fails, the view is unchanged.
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
from foldline.llm import LLM, LLMError, WithStandIn
from foldline.protocol import BaseMessage, Cause, Edit, FoldlineError, Reason, events
from foldline.view.budget import Budget

from .hook_runs import fire
from .proposals import Redraft
from .state import AgentState

HOOK_BLOCKED = "A user hook blocked the compaction: {reason}"
OUTDATED = "The context has changed since this compaction was drafted. Draft it again."


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """The parameters of one compaction."""

    reason: Reason
    cause: Cause = ""
    focus: str | None = None
    pending: int = 0
    """Estimated size of a waiting prompt, in tokens before calibration."""
    preview: bool = False
    """Whether to keep the proposal for the user instead of committing it."""
    options: RedraftOptions | None = None
    strategy: CompactionStrategy | None = None
    """Strategy that the user chose for a full window; None for the session's strategy."""
    budget: Budget | None = None
    """Limits to use instead of the current model's limits.

Used when compacting for another model or a price tier."""
    writer: LLM | None = None
    """Model for the summary, if the session's model cannot be reached."""


async def compact(
    state: AgentState, request: CompactionRequest
) -> Literal["compacted", "nothing", "postponed"]:
    """Compact the view, and emit events about the compaction.

    If there is nothing to compact, only a manual request emits an event.

    Raises:
        FoldlineError: the compaction failed, and the view is unchanged.
    """
    planned = state.plan(request.reason, request.budget, request.pending)
    if (
        planned is None
        and request.reason != "overflow"
        and plans_by_cut(_strategy(state, request))
    ):
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
        async with _reported(state, start) as report:
            request = await _run_pre_hooks(state, request)
            proposal = await _decided_proposal(state, request)
            report.proposal = proposal
            if proposal is None:
                is_kept = (
                    request.preview and review.usable(state.projection) is not None
                )
                # The user did not request a compaction at the end of a task, so it needs no message.
                says_nothing = not is_kept and request.reason != "phase"
                report.update(aborted=False, proposed=is_kept, nothing=says_nothing)
                return "postponed" if is_kept else "nothing"
            await commit(state, proposal)
    except _ProposalDeclined:
        if request.reason != "manual":
            review.declined = state.projection.newest_change
        return "postponed"
    await _run_post_hooks(state, request)
    return "compacted"


async def _run_pre_hooks(
    state: AgentState, request: CompactionRequest
) -> CompactionRequest:
    """Run the `PreCompact` hooks before a compaction.

    Pins the entries that the hooks name, and adds the hooks' focus to the request.

    Raises:
        CompactionFailed: a hook rejected the compaction.
    """
    trigger = _trigger(request)
    outcome = await fire(state, "PreCompact", trigger, [str(trigger["trigger"])])
    if outcome.refused:
        raise CompactionFailed(HOOK_BLOCKED.format(reason=outcome.refused))
    for index in outcome.pins:
        if isinstance(state.projection.entry(index), BaseMessage):
            await state.session.append(Edit(target=index, action="pin"), durable=True)
    if not outcome.context:
        return request
    focus = "\n".join(filter(None, (request.focus, *outcome.context)))
    return replace(request, focus=focus)


async def _run_post_hooks(state: AgentState, request: CompactionRequest) -> None:
    entry = state.projection.all_compactions[-1]
    payload = {
        **_trigger(request),
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
    }
    await fire(state, "PostCompact", payload)


def _trigger(request: CompactionRequest) -> dict[str, object]:
    return {
        "trigger": "manual" if request.reason == "manual" else "auto",
        "reason": request.reason,
        "custom_instructions": request.focus or "",
    }


class _ProposalDeclined(Exception):
    """Raised if the user discards the proposal."""


async def _decided_proposal(
    state: AgentState, request: CompactionRequest
) -> Proposal | None:
    """Draft a proposal, and wait for the user's decision if needed.

    Returns:
        The proposal to commit. None if there is nothing to compact, or if the proposal stays on the screen
        for the user.
    """
    review = state.review
    proposal = _pending_proposal(state, request) or await _drafted(state, request)
    while proposal is not None:
        if request.preview:
            review.keep(proposal, request.focus)
            return None
        needs_decision = review.held or (
            state.mode == "ask" and request.reason != "manual"
        )
        if not needs_decision:
            return proposal
        match await review.decision(proposal, request.focus):
            case Proposal() as chosen:
                return chosen
            case None:
                raise _ProposalDeclined
            case Redraft(options=options, focus=focus):
                request = replace(request, options=options, focus=focus)
                proposal = await _drafted(state, request)
    return None


def _pending_proposal(state: AgentState, request: CompactionRequest) -> Proposal | None:
    """Return the waiting proposal, if it makes enough room."""
    if state.mode != "ask" or request.reason == "manual" or request.options is not None:
        return None
    proposal = state.review.usable(state.projection)
    if proposal is None:
        return None
    growth = state.projection.tokens - sum(item.tokens for item in proposal.view)
    size = proposal.sizes.tokens_after + round((growth + request.pending) * state.scale)
    budget = request.budget or state.budget
    return proposal if size < budget.threshold else None


async def _drafted(state: AgentState, request: CompactionRequest) -> Proposal | None:
    """Draft a proposal, and return it if it frees enough tokens."""
    proposal = await _background_draft(state, request)
    if proposal is None:
        proposal = await draft_now(state, request, state.emit)
    if proposal is None:
        return None
    proposal = _with_cause(state, request, proposal)
    if request.reason == "phase" and not proposal.model_calls:
        pays = proposal.left <= WORTH_WHILE
    elif (
        request.reason == "manual"
        and request.options is None
        and not state.past_soft_mark
    ):
        # The window has room: do not discard facts without freeing anything.
        pays = proposal.sizes.tokens_after < proposal.entry.tokens_before
    else:
        pays = True
    return proposal if pays else None


def _with_cause(
    state: AgentState,
    request: CompactionRequest,
    proposal: Proposal,
) -> Proposal:
    """Add the cause, window and limit to the proposal's entry.

    They make it possible to explain the compaction later.
    """
    budget = request.budget or state.budget
    limits = {"threshold": budget.threshold, "phase": budget.soft_mark}
    fields = {
        "cause": request.cause,
        "window": budget.window,
        "limit": limits.get(request.reason, 0),
    }
    return replace(proposal, entry=proposal.entry.model_copy(update=fields))


async def draft_now(
    state: AgentState,
    request: CompactionRequest,
    progress: Progress,
    *,
    alone: bool = False,
) -> Proposal | None:
    """Draft a proposal.

    Args:
        alone: whether to fail instead of trying fallback strategies.
    """
    planned = None
    if not request.options:
        planned = state.plan(request.reason, request.budget, request.pending)
    return await propose(
        state.projection,
        strategy=_strategy(state, request),
        llm=await summariser(state, request.writer or state.llm),
        budget=request.budget or state.budget,
        reason=request.reason,
        planned=planned,
        focus=request.focus,
        pending=request.pending,
        tools=state.specs,
        recalls=state.can_recall,
        overhead=state.overhead,
        options=request.options,
        alone=alone or request.strategy is not None,
        ledger=state.ledger,
        session=state.session.id,
        progress=progress,
        on_request=state.bounds.on_summary,
    )


async def summariser(state: AgentState, fallback: LLM) -> LLM:
    """Return the model for summaries, which `fallback` replaces if it fails."""
    if state.summary_llm is None:
        return fallback
    with suppress(LLMError):  # calling the model will fail again, with a message
        await state.summary_llm.prepare()
    return WithStandIn(state.summary_llm, fallback)


def drafts_ahead(state: AgentState) -> bool:
    """Return whether to draft compactions before they are due.

    Returns False if there are `PreCompact` hooks, because they must run first and may change the draft.
    """
    if not state.draft.on:
        return False
    return not any(hook.matches("PreCompact", ["auto"]) for hook in state.hooks or ())


def begin_draft(state: AgentState) -> None:
    """Start a background draft.

    Does nothing if the user stopped a draft of this view. The draft keeps as much as a compaction at the end
    of a task would, and uses no fallback strategies.
    """
    if state.draft.declined is not state.projection.newest_change:
        request = CompactionRequest("phase")
        state.draft.begin(
            state.basis,
            lambda progress: draft_now(state, request, progress, alone=True),
        )


async def _background_draft(
    state: AgentState, request: CompactionRequest
) -> Proposal | None:
    """Return the background draft, if it makes enough room.

    A draft that needed no model call is discarded, because it can quickly be made again.
    """
    if request.options or request.focus or request.strategy or request.budget:
        state.draft.drop()
        return None
    draft = await state.draft.take(state.basis, state.emit)
    if draft is None or not draft.model_calls or not draft.fits(state.projection):
        return None
    with suppress(CompactionFailed):
        draft = await asyncio.to_thread(
            draft.grown, state.projection, request.reason, state.size()
        )
        size = draft.sizes.tokens_after + round(request.pending * draft.scale)
        if size < state.budget.threshold:
            return draft
    return None


def _strategy(state: AgentState, request: CompactionRequest) -> CompactionStrategy:
    return request.strategy or strategy_for(state.strategy, request.reason)


async def commit(state: AgentState, proposal: Proposal) -> None:
    """Append the proposal's entry to the history, in one write.

    Raises:
        FoldlineError: the view has changed since the draft, or the write to disk failed.
    """
    if not proposal.fits(state.projection):
        raise CompactionFailed(OUTDATED)
    rung = proposal.entry.rung
    state.emit(events.CompactionProgress(stage="commit", rung=rung))
    count = len(state.projection.all_compactions)
    try:
        await state.session.append(proposal.entry, durable=True)
    finally:
        if (
            len(state.projection.all_compactions) > count
        ):  # even if it has been cancelled since
            state.review.close(applied=state.review.proposal is proposal)
    if proposal.troubles:
        state.warn(f"{proposal.troubles[0]} Compacted by {WORDS[rung]} instead.")


async def apply(state: AgentState, identity: str) -> None:
    """Commit the proposal that was kept for the user.

    Raises:
        FoldlineError: the proposal was replaced, or cannot be applied.
    """
    proposal = state.review.demand_current(identity)
    entry = proposal.entry
    focus = state.review.focus
    start = events.CompactionStart(
        reason=entry.reason,
        tokens_before=entry.tokens_before,
        expected_after=entry.tokens_after,
        entries=proposal.compacted,
    )
    async with _reported(state, start) as report:
        report.proposal = proposal
        await commit(state, proposal)
    await _run_post_hooks(state, CompactionRequest(entry.reason, focus=focus))


@dataclass
class _CompactionReport:
    """The data for a compaction's end event, filled in during the compaction."""

    end: events.CompactionEnd
    proposal: Proposal | None = None

    def update(self, **fields: object) -> None:
        self.end = self.end.model_copy(update=fields)


@asynccontextmanager
async def _reported(
    state: AgentState, start: events.CompactionStart
) -> AsyncIterator[_CompactionReport]:
    """Emit the start and end events of a compaction.

    The outcome is read from the history, so it is correct even if the append was cancelled.
    """
    end = events.CompactionEnd(
        reason=start.reason,
        will_retry=start.reason == "overflow",
        tokens_before=start.tokens_before,
        aborted=True,
    )
    report = _CompactionReport(end)
    state.emit(start)
    count = len(state.projection.all_compactions)
    try:
        yield report
    except FoldlineError as failure:
        report.update(error=str(failure))
        raise
    finally:
        state.review.drafting = False
        state.review.held = False
        if (
            report.proposal is not None
            and len(state.projection.all_compactions) > count
        ):
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
