"""Folding as the agent does it: announce, propose, commit. Cancelled or failed, it leaves the old view."""

from foldline.compaction import CompactionFailed, Proposal, plan, propose
from foldline.protocol import Compaction, FoldlineError, Reason, events

from .desk import Desk


async def fold(desk: Desk, reason: Reason, *, focus: str | None = None, will_retry: bool = False) -> bool:
    """Fold the view now; whether anything was folded. Reports start, progress and end as events.

    With nothing to fold, only who asked for it is told so.

    Raises:
        FoldlineError: it failed, and the view is as it was.
    """
    planned = plan(desk.projection, desk.budget, reason, overhead=desk.overhead)
    if planned is None:
        if reason == "manual":
            desk.emit(events.CompactionEnd(reason=reason, will_retry=will_retry, nothing=True))
        return False
    before = planned.tokens_before
    desk.emit(
        events.CompactionStart(
            reason=reason,
            tokens_before=before,
            expected_after=planned.tokens_expected,
            entries=planned.folded,
        )
    )
    end = events.CompactionEnd(reason=reason, will_retry=will_retry, tokens_before=before, aborted=True)
    known = len(desk.projection.folds)
    proposal: Proposal | None = None
    try:
        proposal = await propose(
            desk.projection,
            strategy=desk.strategy,
            llm=desk.llm,
            budget=desk.budget,
            reason=reason,
            focus=focus,
            overhead=desk.overhead,
            progress=desk.emit,
        )
        if proposal is None:
            end = end.model_copy(update={"aborted": False, "nothing": True})
            return False
        await commit(desk, proposal)
    except FoldlineError as failure:
        end = end.model_copy(update={"error": str(failure)})
        raise
    finally:
        # A cancel that came during the append was too late: what the history holds is what happened.
        if proposal is not None and len(desk.projection.folds) > known:
            end = _ended(end, proposal, desk.projection.folds[-1])
        desk.emit(end)
    return True


async def commit(desk: Desk, proposal: Proposal) -> None:
    """Append the proposal's entry: one entry, one append.

    Raises:
        FoldlineError: the view is no longer the one the proposal was made for, or the disk refused.
    """
    if not proposal.fits(desk.projection):
        raise CompactionFailed("The view has changed since this fold was drafted: draft it again.")
    desk.emit(events.CompactionProgress(stage="commit"))
    await desk.session.append(proposal.entry, durable=True)


def _ended(end: events.CompactionEnd, proposal: Proposal, entry: Compaction) -> events.CompactionEnd:
    return end.model_copy(
        update={
            "aborted": False,
            "tokens_after": entry.tokens_after,
            "kept_from_index": entry.first_kept_index,
            "index": entry.index,
            "folded": proposal.folded,
            "summary": entry.summary,
        }
    )
