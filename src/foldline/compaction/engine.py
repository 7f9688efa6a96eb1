"""Plans, drafts, verifies and proposes compactions.

All strategies share one pipeline.

The engine never changes a session. It returns a `Proposal`; committing the proposal appends a single entry.
The preview shows exactly the change that will be applied.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from foldline.compaction.strategies.hide import KEPT_GROUPS
from foldline.llm import LLM, ToolSpec
from foldline.memory.audit import Audit
from foldline.past.files import file_lists
from foldline.protocol import NEW, BaseMessage, Compaction, Reason
from foldline.view.budget import Budget
from foldline.view.cut import (
    Cut,
    clip_limit,
    cut_before,
    find_cut,
    giant_limit,
    giant_results,
    groups_from,
    oversized,
    seen_up_to,
)
from foldline.view.items import Messages, ViewItem, total_tokens, without_recall
from foldline.view.projection import Projection
from foldline.view.weight import view_size

from .automation import INEFFECTIVE
from .fallbacks import FailureLadder, SizeGoal
from .ledger import SessionLedger, budget_of, with_ledger_in
from .price import gain, least_hidden, ledger_room, steps_until_full
from .proposal import Proposal, originals_of, shown
from .registry import BUILT_IN
from .strategy import (
    CompactionContext,
    CompactionStrategy,
    MeteredLLM,
    OnRequest,
    Originals,
    Progress,
    tokens_of,
)

_MANUAL_SHARE = 4
"""A manual compaction keeps at most 1/_MANUAL_SHARE (a quarter) of the compactable tokens.

This makes sure that the compaction has an effect.
"""
WORTH_WHILE = 0.75
"""Largest fraction of the view that may remain for an early compaction to be worthwhile."""
_PLACEHOLDER = 45
"""Size of the placeholder for a hidden result, in tokens."""
_LEAST_SUMMARISER = 4
"""A summary may take up at most 1/_LEAST_SUMMARISER (a quarter) of the summariser's window.

The window must also hold the input and the prompt.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a compaction, predicted without a model."""

    cut: Cut[ViewItem] | None
    """The planned cut.

    None if only giant messages would be clipped, or if the strategy uses no cut.
    """
    keep_recent_tokens: int
    """How much of the newest work to keep verbatim, in estimated tokens before calibration."""
    tokens_before: int
    tokens_expected: int
    compacted: int
    """Number of entries that the compaction would remove from the view."""
    kept: int
    clipped: Mapping[int, int] = field(default_factory=dict)
    """Size to which each giant message would be clipped, in estimated tokens, by message index."""
    least_hidden: int | None = None
    """Minimum size of a result to hide; None unless the compaction is early.

    See `CompactionContext.least_hidden`.
    """


@dataclass(frozen=True, slots=True)
class RedraftOptions:
    """The user's instructions for the next draft of a proposal."""

    first_kept_index: int | None = None
    guidance: str | None = None
    earlier_draft: str | None = None
    pins: frozenset[int] = frozenset()


def plan(
    projection: Projection,
    budget: Budget,
    reason: Reason,
    *,
    overhead: int = 0,
    pending: int = 0,
    first_kept_index: int | None = None,
    pins: frozenset[int] = frozenset(),
) -> Plan | None:
    """Plan a compaction.

    Returns None if there is nothing to compact. The time is linear in the size of the view. No message text
    is read.

    Args:
        pending: size of the prompt waiting for the compaction; see `propose`.
    """
    view = tuple(projection.view)
    pins = projection.pins | pins
    keep = _planned_keep(projection, budget, reason, overhead=overhead, pending=pending)
    room = _room(projection, budget.threshold, overhead)
    if first_kept_index is not None:
        cut = cut_before(view, first_kept_index, pins=pins)
    else:
        cut = find_cut(view, keep, pins=pins)
        # Notices in the tail belong to the prompt at which the view is cut. They cannot be shortened.
        while cut is not None and keep > 1 and _notice_tokens(cut) > room:
            keep //= 2
            cut = find_cut(view, keep, pins=pins)
    movable_room = room - projection.fixed
    large = oversized(view, movable_room, talk=reason == "manual", pins=pins)
    if cut is None and not giant_results(
        view, giant_limit(keep, budget.window), pins=pins
    ):
        # A single long message fills the tokens to keep. Older messages may still be compacted.
        keep = 1
        cut = find_cut(view, keep, pins=pins)
        if cut is None and not large:
            return None
    removed = cut.compacted + cut.previous if cut else ()
    removed_keys = {item.key for item in removed}
    limit = giant_limit(keep, budget.window)
    tail = view[cut.position :] if cut else view
    giants = giant_results(tail, limit, pins=pins)
    clipped = {
        item.index: clip_limit(movable_room)
        for item in large
        if item.key not in removed_keys
    }
    clipped |= {item.index: clip_limit(limit) for item in giants}
    freed = total_tokens(removed)
    for item in {*giants, *large}:
        if item.index in clipped:
            freed += item.tokens - clipped[item.index]
    tokens_before = view_size(projection, overhead=overhead).tokens
    freed_share = freed / _counted_share(projection)
    expected = (projection.meter.sent + overhead - freed_share) * projection.meter.scale
    if cut:
        expected += budget.max_summary_tokens // 2
    enough = min(budget.threshold, INEFFECTIVE * tokens_before)
    expected += _ledger_tokens(projection, budget, enough, expected) // 2
    return Plan(
        cut=cut,
        keep_recent_tokens=max(1, keep),
        tokens_before=tokens_before,
        tokens_expected=min(tokens_before, round(expected)),
        compacted=len(cut.compacted) if cut else 0,
        kept=len(view) - len(removed),
        clipped=clipped,
    )


def _planned_keep(
    projection: Projection,
    budget: Budget,
    reason: Reason,
    *,
    overhead: int,
    pending: int,
) -> int:
    """Return how much recent work to keep, in estimated tokens."""
    keep = _keep(projection, budget)
    if reason == "manual":
        compactable = _compactable_tokens(projection.view, enough=keep * _MANUAL_SHARE)
        keep = min(keep, compactable // _MANUAL_SHARE)
    elif reason == "phase":
        keep //= 2  # after a finished task, less recent work is needed verbatim
    if pending:
        keep = min(keep, _room_for_keep(projection, budget, overhead + pending))
    return keep


def _notice_tokens(cut: Cut[ViewItem]) -> int:
    """Return the size of the notices in the tail, in estimated tokens."""
    return total_tokens([item for item in cut.tail if item.kind == "developer"])


def plan_early(
    projection: Projection, budget: Budget, cached: float, *, overhead: int = 0
) -> Plan | None:
    """Plan to hide large results before the window is full.

    Returns None if hiding them costs more than it saves. The time is linear in the size of the view. No
    message text is read.

    Args:
        cached: price of a cached token, relative to that of a fresh token.
    """
    view = tuple(projection.view)
    scale = projection.meter.scale
    keep = _keep(projection, budget) // 2
    least = least_hidden(cached) / scale
    old_items = view[: groups_from(view, KEPT_GROUPS, keep)]
    positions = [
        at
        for at, item in enumerate(old_items)
        if item.outline.type == "tool_result"
        and item.tokens >= least
        and item.index not in projection.pins
    ]
    if not positions:
        return None
    hidden = [view[at].tokens * scale for at in positions]
    tokens_before = view_size(projection, overhead=overhead).tokens
    left = tokens_before - sum(hidden)
    resent = 0.0
    if projection.meter.prefix_cached:
        cached_items = view[positions[0] : seen_up_to(view)]
        resent = total_tokens(cached_items) * scale - sum(hidden)
    steps = _steps_until_full(projection, budget.threshold - left)
    worth = gain(hidden, resent=resent, steps=steps, cached=cached)
    if (
        tokens_before < budget.early_mark
        or left > WORTH_WHILE * tokens_before
        or worth <= 0
    ):
        return None
    hidden_tokens = sum(view[at].tokens for at in positions)
    share = hidden_tokens / max(1, projection.meter.sent + overhead)
    expected = tokens_before * (1 - share) + _PLACEHOLDER * len(positions)
    freed = tokens_before - expected
    expected += _ledger_tokens(
        projection, budget, INEFFECTIVE * tokens_before, expected, early_freed=freed
    )
    return Plan(
        cut=None,
        keep_recent_tokens=max(1, keep),
        tokens_before=tokens_before,
        tokens_expected=round(expected),
        compacted=len(positions),
        kept=len(view),
        least_hidden=math.ceil(least),
    )


def _steps_until_full(projection: Projection, free: float) -> float:
    """Return the expected number of steps until `free` calibrated tokens are used."""
    requests = [request.tokens for request in projection.meter.requests]
    return steps_until_full(free, requests)


def _ledger_tokens(
    projection: Projection,
    budget: Budget,
    enough: float,
    size: float,
    *,
    early_freed: float | None = None,
) -> int:
    """Return the maximum size of the ledger in a view, in tokens.

    Args:
        enough: maximum size of the view including the ledger, in tokens.
        size: size of the view without the ledger, in tokens.
        early_freed: number of tokens freed by an early compaction; None if the compaction is not early.
    """
    room = ledger_room(
        round(enough - size),
        freed=round(early_freed or 0),
        steps=_steps_until_full(projection, budget.threshold - size),
        is_early=early_freed is not None,
    )
    return budget_of(room)


def _compactable_tokens(view: Sequence[ViewItem], enough: int) -> int:
    """Return the number of compactable tokens, as estimated.

    Counting stops once the number reaches `enough`.
    """
    tokens = 0
    for item in reversed(view):
        if tokens >= enough:
            break
        if item.compactable and not item.written:
            tokens += item.tokens
    return tokens


def _keep(projection: Projection, budget: Budget) -> int:
    """Return the budget for recent work, in estimated tokens."""
    keep = budget.keep_recent_tokens / projection.meter.scale
    return max(1, int(keep * _counted_share(projection)))


def _room(projection: Projection, limit: int, overhead: int) -> int:
    """Return how large a view may be, in estimated tokens, so that the request stays below a limit."""
    return int((limit / projection.meter.scale - overhead) * _counted_share(projection))


def _room_for_keep(projection: Projection, budget: Budget, overhead: int) -> int:
    """Return how much room is left for the newest work, in estimated tokens.

    The view also has to hold its fixed messages, a summary and `overhead`. The limit is the threshold, or the
    entire window if the threshold leaves no room.
    """
    fixed = projection.fixed + int(budget.max_summary_tokens / projection.meter.scale)
    for limit in (budget.threshold, budget.window):
        room = _room(projection, limit, overhead) - fixed
        if room > 0:
            return room
    return 1


def _counted_share(projection: Projection) -> float:
    """Return the fraction of a request's tokens that strategies count.

    Strategies do not count reasoning that is sent back.
    """
    return projection.tokens / projection.meter.sent if projection.tokens else 1.0


async def propose(
    projection: Projection,
    *,
    strategy: CompactionStrategy,
    llm: LLM,
    budget: Budget,
    reason: Reason,
    planned: Plan | None = None,
    focus: str | None = None,
    pending: int = 0,
    tools: Sequence[ToolSpec] = (),
    overhead: int = 0,
    options: RedraftOptions | None = None,
    alone: bool = False,
    ledger: SessionLedger | None = None,
    session: str = "",
    recalls: bool = True,
    progress: Progress = lambda _: None,
    on_request: OnRequest = lambda *_: None,
) -> Proposal | None:
    """Draft and verify a compaction.

    Returns None if nothing can be compacted. If the strategy fails, the failure ladder tries other methods.
    The entry's `rung` names the method that succeeded.

    Args:
        planned: the plan to follow; if None, a new plan is made.
        pending: size of the prompt waiting for the compaction, in estimated tokens before calibration.
        tools: the tools offered in the session's requests.
        overhead: size of the tool schemas, in estimated tokens.
        alone: whether to try only the strategy, and not the other rungs of the ladder.
        ledger: the session's ledger, which this call updates.
        session: name of the session, sent with each request.
        recalls: whether the model has the history tools. If not, placeholders do not mention them.
        on_request: called after each request to the model, even if the request fails.

    Raises:
        CompactionFailed: no rung of the ladder produced a view that is allowed to replace the current one.
        LLMError: the model could not be reached, and nothing can be compacted without a model.
    """
    redraft = options or RedraftOptions()
    planned = planned or plan(
        projection,
        budget,
        reason,
        overhead=overhead,
        pending=pending,
        first_kept_index=redraft.first_kept_index,
        pins=redraft.pins,
    )
    is_built_in = type(strategy) in BUILT_IN.values()
    goal = _size_goal(projection, budget, reason, pending, overhead, is_built_in)
    metered = MeteredLLM(llm, progress, on_request, session)
    view = tuple(projection.view)
    is_same_model = llm.info.id == projection.meter.model
    ctx = CompactionContext(
        history=(),
        token_count=view_size(projection, overhead=overhead).tokens,
        max_context_size=budget.window,
        reserved_context_size=budget.reserve_tokens,
        llm=metered,
        focus=focus,
        keep_recent_tokens=planned.keep_recent_tokens
        if planned
        else _keep(projection, budget),
        max_summary_tokens=_summary_tokens(budget, llm),
        pins=projection.pins | redraft.pins,
        details=file_lists(projection),
        first_kept_index=redraft.first_kept_index,
        cut_position=planned.cut.position if planned and planned.cut else None,
        least_hidden=planned.least_hidden if planned else None,
        guidance=redraft.guidance,
        earlier_draft=redraft.earlier_draft,
        tools=tools,
        tools_tokens=overhead,
        prefix_cached=is_same_model and projection.meter.prefix_cached,
        draft_window=None if is_same_model else llm.info.window,
        may_clip_unseen=goal.was_refused,
        originals=Originals(projection),
    )
    # Read the history as late as possible, because it may still grow. Use a thread, because the messages of
    # a reopened session are read from disk.
    originals = originals_of(projection)
    history = await asyncio.to_thread(shown, view, originals, redraft.pins)
    ctx = replace(ctx, history=tuple(history))
    ladder = FailureLadder(ctx, goal, metered, alone=alone)
    after = await ladder.run(strategy)
    if after is None:
        return None
    full = goal.enough
    if goal.by_hand:
        # A manual compaction comes early: the freed room lasts until the window is full.
        full = _room(projection, budget.threshold, overhead + pending)
    after = await asyncio.to_thread(
        _with_ledger,
        projection,
        ctx,
        after,
        goal.enough,
        full,
        ledger or SessionLedger(),
    )
    if not recalls:
        after = _without_recall(ctx.history, after)
    return await asyncio.to_thread(
        _proposal, projection, view, ladder, planned, after, redraft, reason
    )


def _without_recall(before: Messages, after: Messages) -> list[BaseMessage]:
    """Return the new view without mentions of the history tools.

    Unchanged messages keep their mentions.
    """
    old = {message.key: message for message in before}
    return [
        message if old.get(message.key) == message else without_recall(message)
        for message in after
    ]


def _with_ledger(
    projection: Projection,
    ctx: CompactionContext,
    after: Messages,
    enough: int,
    full: int,
    ledger: SessionLedger,
) -> Messages:
    """Add the session's ledger to the new view.

    Blocks while reading new entries from disk, so do not call this on the event loop.

    Args:
        enough: maximum size of the view including the ledger; see `SizeGoal`.
        full: the view size at which the next compaction is due, in estimated tokens before calibration.
    """
    size = tokens_of(after)
    room = ledger_room(
        enough - size,
        freed=tokens_of(ctx.history) - size,
        steps=_steps_until_full(projection, (full - size) * projection.meter.scale),
        is_early=ctx.least_hidden is not None,
    )
    return with_ledger_in(ctx.history, after, ledger.follow(projection), room)


def _proposal(
    projection: Projection,
    view: tuple[ViewItem, ...],
    ladder: FailureLadder,
    planned: Plan | None,
    after: Messages,
    redraft: RedraftOptions,
    reason: Reason,
) -> Proposal:
    """Return the proposal, including its entry and audit.

    Blocks while reading the compacted messages, so do not call this on the event loop.
    """
    ctx = ladder.ctx
    metered = ladder.metered
    drafted = tuple(after)
    cut = planned.cut if planned and _follows(planned.cut, drafted) else None
    entry = Compaction(
        first_kept_index=0,
        strategy=type(ladder.made_by).__name__,
        rung=ladder.rung,
        reason=reason,
        focus=ctx.focus,
        model=metered.info.id if metered.calls else None,
        usage=metered.usage if metered.calls else None,
        tokens_before=ctx.token_count,
        details=ctx.details,
    )
    return Proposal(
        entry=entry,
        view=view,
        drafted=drafted,
        after=drafted,
        audit=Audit(),
        model_calls=metered.calls,
        troubles=tuple(map(str, ladder.failures)),
        groups=tuple(
            {
                projection.group(message.index)
                for message in ctx.history
                if message.index >= 0
            }
        ),
        originals=originals_of(projection),
        pinned_before=projection.pins,
        overhead=ctx.tools_tokens,
        scale=projection.meter.scale,
        replays_reasoning=projection.meter.replays_reasoning,
        left_out=ladder.left_out,
        cut=cut,
        drafted_for=cut.first_kept_index if cut else None,
    ).with_pins(redraft.pins)


def _follows(cut: Cut[ViewItem] | None, drafted: Messages) -> bool:
    """Return whether a draft compacts exactly the messages before a cut."""
    if cut is None or all(message.index != NEW for message in drafted):
        return False
    kept = {message.key for message in drafted}
    keeps_tail = all(message.key in kept for message in cut.tail)
    return keeps_tail and not any(message.key in kept for message in cut.compacted)


def _size_goal(
    projection: Projection,
    budget: Budget,
    reason: Reason,
    pending: int,
    overhead: int,
    is_built_in: bool,
) -> SizeGoal:
    was_refused = reason == "overflow"
    by_hand = reason == "manual"
    size = view_size(projection, overhead=overhead).tokens
    size += round(pending * projection.meter.scale)
    has_no_room = size >= budget.window or was_refused
    room = _room(projection, budget.threshold, overhead + pending)
    return SizeGoal(
        enough=min(room, int(INEFFECTIVE * projection.tokens)),
        is_required=size >= budget.threshold or was_refused,
        is_replaceable=has_no_room or (is_built_in and not by_hand),
        was_refused=was_refused,
        by_hand=by_hand,
    )


def _summary_tokens(budget: Budget, llm: LLM) -> int:
    """Return the maximum length of a summary written by this model, in tokens."""
    most = budget.max_summary_tokens
    if llm.info.max_output:
        most = min(most, llm.info.max_output)
    return min(most, llm.info.window // _LEAST_SUMMARISER)
