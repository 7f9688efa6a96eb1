"""The engine: plan, draft, verify, propose. One pipeline for all strategies; committing is one append.

Nothing here changes a session. A `Proposal` is a value: what is previewed is what is applied.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from foldline.context.audit import Audit
from foldline.context.budget import Budget
from foldline.context.cut import (
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
from foldline.context.files import file_lists
from foldline.context.projection import Projection
from foldline.context.view import ViewItem, total_tokens, without_recall
from foldline.context.weight import view_size
from foldline.llm import LLM, ToolSpec
from foldline.protocol import NEW, BaseMessage, Compaction, Reason

from .automation import INEFFECTIVE
from .fallbacks import FailureLadder, Need
from .ledger import SessionLedger, budget_of, with_ledger_in
from .price import gain, least_hidden, ledger_room, steps_until_full
from .proposal import Proposal, originals_of, shown
from .registry import BUILT_IN
from .simple import KEPT_GROUPS
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
"""By hand, at most a quarter of what could be compacted is kept: who asks for a compaction wants one."""
WORTH_WHILE = 0.75
"""A compaction before it is needed has to leave no more than this share of the view."""
_PLACEHOLDER = 45
"""Tokens that take the place of a hidden result."""
_LEAST_SUMMARISER = 4
"""A summariser's window must hold at least this many times the longest summary: input, prompt and answer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction would do, without a model call."""

    cut: Cut[ViewItem] | None
    """None where only giant results would be clipped, or a strategy of its own mind decides."""
    keep_recent_tokens: int
    """Estimated tokens to keep verbatim, before calibration."""
    tokens_before: int
    tokens_expected: int
    compacted: int
    """Entries that would leave the view."""
    kept: int
    clipped: Mapping[int, int] = field(default_factory=dict)
    """Giants that stay and what no request can carry: by index, the estimated tokens they are clipped to."""
    least_hidden: int | None = None
    """Of a plan before the window is full: as in `CompactionContext`."""


@dataclass(frozen=True, slots=True)
class RedraftOptions:
    """What the user of a proposal asked of the next draft."""

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
    """What a compaction would do now; None: nothing to compact. Linear in the view; reads no text.
    `pending`: as in `propose`."""
    view = tuple(projection.view)
    pins = projection.pins | pins
    scale = projection.scale
    keep = _keep(projection, budget)
    if reason == "manual":
        keep = min(keep, _compactable(view, enough=keep * _MANUAL_SHARE) // _MANUAL_SHARE)
    elif reason == "phase":
        keep //= 2  # a piece of work is done: less of it is needed word for word
    if pending:
        keep = min(keep, _left_beside(projection, budget, overhead + pending))
    room = _room(projection, budget.threshold, overhead)
    if first_kept_index is not None:
        cut = cut_before(view, first_kept_index, pins=pins)
    else:
        cut = find_cut(view, keep, pins=pins)
        while cut is not None and keep > 1 and _notices(cut) > room:
            keep //= 2  # came with the prompt at which it would cut, and nothing shortens them
            cut = find_cut(view, keep, pins=pins)
    left = room - projection.fixed  # for all that a compaction may touch
    large = oversized(view, left, talk=reason == "manual", pins=pins)
    if cut is None and not giant_results(view, giant_limit(keep, budget.window), pins=pins):
        keep = 1  # one long message holds all that was to be kept: what came before it may still go
        cut = find_cut(view, keep, pins=pins)
        if cut is None and not large:
            return None
    before = view_size(projection, overhead=overhead).tokens
    gone = cut.compacted + cut.previous if cut else ()
    limit = giant_limit(keep, budget.window)
    stay = giant_results(view[cut.position :] if cut else view, limit, pins=pins)
    goes = {item.key for item in gone}
    clipped = {item.index: clip_limit(left) for item in large if item.key not in goes}
    clipped |= {giant.index: clip_limit(limit) for giant in stay}
    shrink = total_tokens(gone)
    shrink += sum(item.tokens - clipped[item.index] for item in {*stay, *large} if item.index in clipped)
    written = budget.max_summary_tokens // 2 if cut else 0
    expected = (projection.sent + overhead - shrink / _counted(projection)) * scale + written
    expected += _ledger_room(projection, budget, min(budget.threshold, INEFFECTIVE * before), expected) // 2
    return Plan(
        cut=cut,
        keep_recent_tokens=max(1, keep),
        tokens_before=before,
        tokens_expected=min(before, round(expected)),
        compacted=len(cut.compacted) if cut else 0,
        kept=len(view) - len(gone),
        clipped=clipped,
    )


def _notices(cut: Cut[ViewItem]) -> int:
    """Estimated tokens of the notices in the tail."""
    return total_tokens([item for item in cut.tail if item.kind == "developer"])


def plan_early(projection: Projection, budget: Budget, cached: float, *, overhead: int = 0) -> Plan | None:
    """Hiding large results at the end of a task, before the window is full; None where that does not pay.
    Linear in the view; reads no text. `cached`: as in `price.least_hidden`."""
    view, scale = tuple(projection.view), projection.scale
    keep, least = _keep(projection, budget) // 2, least_hidden(cached) / scale
    old = view[: groups_from(view, KEPT_GROUPS, keep)]
    large = [
        at
        for at, item in enumerate(old)
        if item.outline.type == "tool_result" and item.tokens >= least and item.index not in projection.pins
    ]
    if not large:
        return None
    hidden = [view[at].tokens * scale for at in large]
    before = view_size(projection, overhead=overhead).tokens
    left = before - sum(hidden)
    behind = total_tokens(view[large[0] : seen_up_to(view)]) * scale - sum(hidden)
    worth = gain(
        hidden,
        resent=behind if projection.prefix_cached else 0.0,
        steps=steps_until_full(budget.threshold - left, [sent.tokens for sent in projection.requests]),
        cached=cached,
    )
    if before < budget.early_mark or left > WORTH_WHILE * before or worth <= 0:
        return None
    share = sum(view[at].tokens for at in large) / max(1, projection.sent + overhead)
    expected = before * (1 - share) + _PLACEHOLDER * len(large)
    expected += _ledger_room(projection, budget, INEFFECTIVE * before, expected, freed=before - expected)
    return Plan(
        cut=None,
        keep_recent_tokens=max(1, keep),
        tokens_before=before,
        tokens_expected=round(expected),
        compacted=len(large),
        kept=len(view),
        least_hidden=math.ceil(least),
    )


def _ledger_room(
    projection: Projection, budget: Budget, enough: float, size: float, *, freed: float | None = None
) -> int:
    """Tokens that a ledger takes at most in a view of `size` tokens, which may grow to `enough`. `freed`: of
    a compaction before the window is full."""
    steps = steps_until_full(budget.threshold - size, [sent.tokens for sent in projection.requests])
    early, room = freed is not None, round(enough - size)
    return budget_of(ledger_room(room, freed=round(freed or 0), steps=steps, early=early))


def _compactable(view: Sequence[ViewItem], enough: int) -> int:
    """Estimated tokens of what could be compacted; no more of it is added up than is `enough`."""
    tokens = 0
    for item in reversed(view):
        if tokens >= enough:
            break
        tokens += item.tokens if item.compactable and not item.written else 0
    return tokens


def _keep(projection: Projection, budget: Budget) -> int:
    """Estimated tokens of the newest work to keep, before calibration and without reasoning."""
    scale = projection.scale
    return max(1, int(budget.keep_recent_tokens / scale * _counted(projection)))


def _room(projection: Projection, limit: int, beside: int) -> int:
    """Estimated tokens, before calibration, a view may take below a limit with `beside` more."""
    return int((limit / projection.scale - beside) * _counted(projection))


def _left_beside(projection: Projection, budget: Budget, beside: int) -> int:
    """Estimated tokens that the newest work may take with a summary and `beside`: below the threshold, or,
    where that leaves none, in the window."""
    stays = projection.fixed + int(budget.max_summary_tokens / projection.scale)
    rooms = (_room(projection, limit, beside) - stays for limit in (budget.threshold, budget.window))
    return next((room for room in rooms if room > 0), 1)


def _counted(projection: Projection) -> float:
    """The share of what is sent that strategies count: reasoning that is sent back is not."""
    return projection.tokens / projection.sent if projection.tokens else 1.0


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
    """Draft and verify a compaction of the present view; None where there is nothing to compact.

    Where the configured strategy fails, the failure ladder takes over; the entry's `rung` says how far.

    Args:
        planned: the plan it follows, where that was made already.
        pending: estimate of the prompt that waits for it, before calibration.
        tools: those of the session's requests, and `overhead` the estimate of their schemas.
        alone: whether nothing but the strategy is tried.
        ledger: the session's, which need not be built anew.
        session: its name, which goes with the requests.
        recalls: whether the model can read the history, which else is not said in what is written.
        on_request: called after each request to the model, also where nothing comes of it.

    Raises:
        CompactionFailed: no rung of the ladder gave a view that may replace this one.
        LLMError: the model could not be asked, and nothing can be compacted without it.
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
    need = _need(projection, budget, reason, pending, overhead, type(strategy) in BUILT_IN.values())
    metered = MeteredLLM(llm, progress, on_request, session)
    view = tuple(projection.view)
    ctx = CompactionContext(
        history=(),
        token_count=view_size(projection, overhead=overhead).tokens,
        max_context_size=budget.window,
        reserved_context_size=budget.reserve_tokens,
        llm=metered,
        focus=focus,
        keep_recent_tokens=planned.keep_recent_tokens if planned else _keep(projection, budget),
        max_summary_tokens=_summary_room(budget, llm),
        pins=projection.pins | redraft.pins,
        details=file_lists(projection),
        first_kept_index=redraft.first_kept_index,
        cut_position=planned.cut.position if planned and planned.cut else None,
        least_hidden=planned.least_hidden if planned else None,
        guidance=redraft.guidance,
        earlier_draft=redraft.earlier_draft,
        tools=tools,
        tools_tokens=overhead,
        prefix_cached=llm.info.id == projection.model and projection.prefix_cached,
        may_clip_unseen=need.refused,
        originals=Originals(projection),
    )
    if llm.info.id != projection.model:
        ctx = replace(ctx, draft_window=llm.info.window)
    # Last, for the history may grow until then. In a thread: what was opened again is read from the disk.
    originals = originals_of(projection)
    ctx = replace(ctx, history=tuple(await asyncio.to_thread(shown, view, originals, redraft.pins)))
    climb = FailureLadder(ctx, need, metered, alone=alone)
    after = await climb.run(strategy)
    if after is None:
        return None
    # By hand one compacts long before the window is full: what is free then lasts as long as there is room.
    full = _room(projection, budget.threshold, overhead + pending) if need.by_hand else need.enough
    after = await asyncio.to_thread(
        _with_ledger, projection, ctx, after, need.enough, full, ledger or SessionLedger()
    )
    if not recalls:
        known = {message.key: message for message in ctx.history}
        after = [each if known.get(each.key) == each else without_recall(each) for each in after]
    return await asyncio.to_thread(
        _proposed, projection, view, climb, planned, after, redraft, reason, overhead
    )


def _with_ledger(
    projection: Projection,
    ctx: CompactionContext,
    after: Sequence[BaseMessage],
    enough: int,
    full: int,
    ledger: SessionLedger,
) -> Sequence[BaseMessage]:
    """The new view with the ledger of the session. In a thread: what is new to the ledger is read.

    Args:
        enough: as in `Need`: a ledger takes it no further.
        full: the size at which it is compacted again, in estimated tokens before calibration.
    """
    size = tokens_of(after)
    requests = [sent.tokens for sent in projection.requests]
    steps = steps_until_full((full - size) * projection.scale, requests)
    freed = tokens_of(ctx.history) - size
    room = ledger_room(enough - size, freed=freed, steps=steps, early=ctx.least_hidden is not None)
    return with_ledger_in(ctx.history, after, ledger.follow(projection), room)


def _proposed(
    projection: Projection,
    view: tuple[ViewItem, ...],
    climb: FailureLadder,
    planned: Plan | None,
    after: Sequence[BaseMessage],
    redraft: RedraftOptions,
    reason: Reason,
    overhead: int,
) -> Proposal:
    """The entry, the audit and what a user may still change. In a thread: it reads all that is compacted."""
    ctx, metered = climb.ctx, climb.metered
    drafted = tuple(after)
    cut = planned.cut if planned and _keeps_to(planned.cut, drafted) else None
    made = Compaction(
        first_kept_index=0,
        strategy=type(climb.made_by).__name__,
        rung=climb.rung,
        reason=reason,
        focus=ctx.focus,
        model=metered.info.id if metered.calls else None,
        usage=metered.usage if metered.calls else None,
        tokens_before=ctx.token_count,
        details=ctx.details,
    )
    return Proposal(
        entry=made,
        view=view,
        drafted=drafted,
        after=drafted,
        audit=Audit(),
        model_calls=metered.calls,
        troubles=tuple(map(str, climb.failures)),
        groups=tuple({projection.group(message.index) for message in ctx.history if message.index >= 0}),
        originals=originals_of(projection),
        pinned_before=projection.pins,
        overhead=overhead,
        scale=projection.scale,
        replays_reasoning=projection.replays_reasoning,
        left_out=climb.left_out,
        cut=cut,
        drafted_for=cut.first_kept_index if cut else None,
    ).with_pins(redraft.pins)


def _keeps_to(cut: Cut[ViewItem] | None, drafted: Sequence[BaseMessage]) -> bool:
    """Whether a strategy compacted what lies before this cut, and nothing behind it."""
    if cut is None or all(message.index != NEW for message in drafted):
        return False
    stays = {message.key for message in drafted}
    kept = all(message.key in stays for message in cut.tail)
    return kept and not any(message.key in stays for message in cut.compacted)


def _need(
    projection: Projection, budget: Budget, reason: Reason, pending: int, overhead: int, built_in: bool
) -> Need:
    scale = projection.scale
    before = projection.tokens
    size = view_size(projection, overhead=overhead).tokens + round(pending * scale)
    return Need(
        enough=min(_room(projection, budget.threshold, overhead + pending), int(INEFFECTIVE * before)),
        must=size >= budget.threshold or reason == "overflow",
        replaceable=size >= budget.window or reason == "overflow" or (built_in and reason != "manual"),
        refused=reason == "overflow",
        by_hand=reason == "manual",
    )


def _summary_room(budget: Budget, llm: LLM) -> int:
    """The longest summary, in tokens, that this model can write."""
    room = min(budget.max_summary_tokens, llm.info.max_output or budget.max_summary_tokens)
    return min(room, llm.info.window // _LEAST_SUMMARISER)
