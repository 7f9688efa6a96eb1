"""Decides whether to compact before a request, and compacts if so.

No other module makes this decision. If automatic compaction is off or has stopped, or if the user has undone
a compaction, nothing changes the view automatically (docs/design/invariants.md). The user is then asked what
to leave out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from foldline.compaction import (
    WORTH_WHILE,
    CompactionFailed,
    CompactionStrategy,
    ToolResultHidingCompaction,
    TruncateTurns,
    asks_model,
    kind_of,
    largest_items,
    no_request_since_compaction,
    pause_reason,
    plan,
    plans_by_cut,
    step_growth,
    steps_until_full,
    tier_gain,
    with_hidden_results,
)
from foldline.llm import ContextOverflow, LLMError
from foldline.llm.models import cached_price, price_of
from foldline.memory.todos import newly_completed
from foldline.protocol import (
    NEW,
    AssistantMessage,
    Edit,
    FoldlineError,
    Reason,
    UserMessage,
)
from foldline.protocol.events import Option
from foldline.text.numbers import short_tokens
from foldline.view.budget import Budget
from foldline.view.items import ViewItem
from foldline.view.projection import Projection
from foldline.view.tokens import message_tokens

from .compact import CompactionRequest, begin_draft, compact, drafts_ahead
from .compaction_state import CompactionState
from .context_budget import ContextBudget
from .event_stream import record_failure

_MOST_EXTRA = 1.5
"""Maximum size of a draft's verbatim part plus the next step's growth.

This is a multiple of the planned size of the verbatim part. If the sum is larger, the draft is postponed.
"""

TOO_LONG = (
    "the prompt is too long. Even with everything else compacted, the request would take about {size:,} of "
    "{window:,} tokens. Shorten the prompt, or put the text in a file and ask the model to read it."
)
STILL_FITS = "{error} Continuing without a compaction: the request still fits."
NO_ROOM = "the request would take {size:,} of {window:,} tokens."
CONTINUES = "{error} The turn continues without a compaction."
STOPPED = "{reason}: automatic compaction has stopped. Largest items: {largest}. /compact compacts now."
TIER = "Compacting at {tokens} tokens: longer requests cost more with {model}."
NEXT_SIZE = "{reason} The next request takes about {size:,} of {window:,} tokens."

NextStep = Literal["send", "compact", "ask"]


def next_step(compaction: CompactionState, pending: int = 0) -> NextStep:
    """Return the action that is needed before the next request.

    Args:
        pending: estimated size, in tokens before calibration, of a prompt that is not in the history yet.
    """
    limits = compaction.budget.limits
    projection = compaction.projection
    size = compaction.budget.size_with(pending)
    if compaction.blocker is not None:
        limit = limits.window
        is_dismissed = compaction.dismissed_at is projection.newest_change
        if compaction.mode != "off" and not is_dismissed and pause_reason(projection):
            limit = limits.threshold
        return "ask" if compaction.choices.interactive and size >= limit else "send"
    if tier_budget(compaction, pending) is not None:
        return "compact"
    if size < limits.threshold:
        return "send"
    if size < limits.window and no_request_since_compaction(projection):
        return "send"
    if plans_by_cut(compaction.strategy) and compaction.plan("threshold") is None:
        return "send"
    return "compact"


def tier_budget(compaction: CompactionState, pending: int = 0) -> Budget | None:
    """Return limits that keep the next request below a price tier.

    Args:
        pending: as in `next_step`.

    Returns:
        None if a compaction would not save money. See docs/design/budget.md.
    """
    budget = compaction.budget
    projection = compaction.projection
    model = compaction.models.id
    price = price_of(model)
    tier = budget.tier
    if price is None or tier is None:
        return None
    limits = budget.limits
    size = budget.size_with(pending)
    smallest = max(tier.above, limits.keep_recent_tokens + limits.max_summary_tokens)
    if not smallest < size < limits.threshold or no_request_since_compaction(
        projection
    ):
        return None
    tier_limits = replace(limits, set_threshold=tier.above)
    planned = compaction.plan("threshold", tier_limits)
    if planned is None or planned.tokens_expected > tier.above:
        return None
    request_sizes = [request.tokens for request in projection.meter.requests]
    gain = tier_gain(
        size,
        planned.tokens_expected,
        steps=steps_until_full(limits.threshold - size, request_sizes),
        factor=tier.input,
        cached=cached_price(model),
        written=price.output_ratio * limits.max_summary_tokens / 2,
    )
    return tier_limits if gain > 0 else None


def end_of_task_is_due(compaction: CompactionState) -> bool:
    """Return whether to compact at the end of a task.

    Returns True if the window is nearly full and a compaction would free enough tokens, or if hiding tool
    results saves money even before that.
    """
    if compaction.was_declined:
        return False
    is_large = compaction.budget.past_soft_mark
    planned = compaction.plan("phase") if is_large else compaction.plan_early()
    return (
        planned is not None
        and planned.tokens_expected <= WORTH_WHILE * planned.tokens_before
    )


def too_long(budget: ContextBudget, prompt: UserMessage) -> str:
    """Return why no compaction can make room for a prompt, as a clause.

    Returns an empty string if a compaction might make room.

    Uses the uncalibrated estimate, because calibrated estimates tend to be too high. If a prompt turns out to
    be too long only when it is sent, it stays in the history.
    """
    fixed = budget.projection.fixed + budget.overhead
    size = fixed + message_tokens(prompt)
    window = budget.limits.window
    if size < window:
        return ""
    return TOO_LONG.format(size=size, window=window)


class AutoCompact:
    """Makes room before each request of one turn.

    A failed compaction is not tried again in the same turn.
    """

    def __init__(self, compaction: CompactionState) -> None:
        self._compaction = compaction
        self._reasons: set[Reason] = {"threshold", "phase"}
        """Reasons for which to compact in this turn.

        After a failed compaction, its reason is removed.
        """

    async def before_prompt(self, prompt: UserMessage) -> str:
        """Make room for a prompt that is not in the history yet.

        Returns:
            A message explaining why the prompt cannot be sent; an empty string if it can.
        """
        compaction = self._compaction
        with suppress(FoldlineError):  # A window that is too small is reported later.
            refusal = too_long(compaction.budget, prompt)
            if refusal:
                return refusal
            send_uncompacted = compaction.send_uncompacted
            compaction.send_uncompacted = False
            if send_uncompacted and compaction.budget.fits([prompt]):
                return ""
            pending = compaction.budget.estimate(prompt)
            if next_step(compaction, pending) == "send":
                return ""
            compaction.send_uncompacted = True
            refusal = await self._room_for(prompt, pending)
            compaction.send_uncompacted = bool(refusal)
            return refusal
        return ""

    async def _room_for(self, prompt: UserMessage, pending: int) -> str:
        """Compact to make room for a prompt, and return the same values as `before_prompt`."""
        compaction = self._compaction
        if await asyncio.to_thread(_fits_once_appended, compaction, prompt, pending):
            return ""
        error = ""
        try:
            if await make_room(compaction, "threshold", pending=pending) == "nothing":
                # Nothing is old enough to compact yet. Once the prompt is appended, the last answer is.
                return ""
        except FoldlineError as failure:
            await record_failure(compaction.session, failure)
            error = str(failure)
        if compaction.budget.fits([prompt]):
            if error:
                compaction.events.warn(STILL_FITS, error=error)
            return ""
        if not error and compaction.choices.interactive:
            return NO_ROOM.format(
                size=compaction.budget.size([prompt]), window=compaction.models.window
            )
        return error

    async def before_step(self, *, has_room: bool = False) -> None:
        """Compact if the window is full, or nearly full at the end of a task.

        A failed compaction does not end the turn.

        Args:
            has_room: whether making room for the prompt has already made room for this step.
        """
        compaction = self._compaction
        draft = compaction.draft
        is_full = compaction.budget.is_full()
        if is_full and next_step(compaction) == "send":
            self._warn_stopped()
        elif has_room and compaction.budget.fits():
            return
        elif is_full or next_step(compaction) == "compact":
            if not compaction.was_declined:
                await self._try("threshold")
        elif (
            draft.overdue or newly_completed(compaction.projection)
        ) and end_of_task_is_due(compaction):
            if draft.drafting:
                draft.overdue = True
            elif compaction.mode != "ask" and compaction.blocker is None:
                await self._try("phase")

    async def after_overflow(self) -> bool:
        """Compact after a request was rejected as too long.

        Returns whether the view became smaller.
        """
        tokens = self._compaction.projection.tokens
        with suppress(
            CompactionFailed, ContextOverflow
        ):  # the failure was reported as an event
            await make_room(self._compaction, "overflow")
        return self._compaction.projection.tokens < tokens

    def draft_next(self) -> None:
        """Start drafting the next compaction, if it is due soon.

        Does nothing if drafting needs no model call, because a compaction then takes no time. Does nothing
        if the draft would keep much more than a later compaction.
        """
        compaction = self._compaction
        if not drafts_ahead(compaction) or not asks_model(compaction.strategy):
            return
        limits = compaction.budget.limits
        is_near = limits.draft_mark <= compaction.budget.size() < limits.threshold
        if (
            not is_near
            or compaction.draft.serves(compaction.basis)
            or compaction.blocker is not None
        ):
            return
        if end_of_task_is_due(compaction) and _keeps_little(compaction):
            begin_draft(compaction)

    async def _try(self, reason: Reason) -> None:
        if reason not in self._reasons:
            return
        try:
            await make_room(self._compaction, reason)
        except (CompactionFailed, LLMError) as failure:
            self._reasons -= {"phase", reason}
            self._compaction.events.warn(CONTINUES, error=failure)

    def _warn_stopped(self) -> None:
        """Warn once per turn that automatic compaction has stopped."""
        compaction = self._compaction
        paused = pause_reason(compaction.projection)
        if compaction.mode != "off" and paused and self._reasons:
            self._reasons.clear()
            largest = largest_items(compaction.projection)
            compaction.events.warn(STOPPED, reason=paused[:-1], largest=largest)


async def compact_between_turns(compaction: CompactionState) -> None:
    """Compact between two turns, with a background draft if possible.

    In `ask` mode, the proposal waits for the user. Without drafts, compacts immediately.

    Raises:
        FoldlineError: the compaction failed.
    """
    if compaction.blocker is not None:
        return
    draft = compaction.draft
    is_drafted = draft.serves(compaction.basis)
    if not drafts_ahead(compaction) or (is_drafted and draft.ready):
        request = CompactionRequest("phase", preview=compaction.mode == "ask")
        await compact(compaction, request)
        return
    if not is_drafted:
        begin_draft(compaction)
    draft.overdue = draft.drafting


def _fits_once_appended(
    compaction: CompactionState, prompt: UserMessage, pending: int
) -> bool:
    """Return whether a compaction can make room only after the prompt is appended.

    Once the prompt is appended, the previous prompt is no longer the newest one and may be compacted.
    Blocking: do not call it on the event loop.
    """
    budget = compaction.budget
    if compaction.blocker is not None:
        return False
    limits = budget.limits
    planned = compaction.plan("threshold", pending=pending)
    if (
        planned is not None
        and planned.tokens_expected + round(pending * budget.scale) < limits.window
    ):
        return False
    projection = compaction.projection
    appended = projection.with_entries(prompt)
    later = plan(appended, limits, "threshold", overhead=budget.overhead)
    return later is not None and later.tokens_expected < limits.window


def _keeps_little(compaction: CompactionState) -> bool:
    """Return whether a draft made now would keep little more than a later one.

    Tokens that a draft keeps in addition are sent again with each later request, which would cost more than
    waiting.
    """
    planned = compaction.plan("phase")
    if planned is None:
        return False
    if planned.cut is None:
        return True
    meter = compaction.projection.meter
    sizes = [request.tokens for request in meter.requests]
    growth = step_growth(sizes) / meter.scale
    tail = sum(item.tokens for item in planned.cut.tail)
    return tail + growth <= _MOST_EXTRA * planned.keep_recent_tokens


async def make_room(
    compaction: CompactionState,
    reason: Reason,
    *,
    pending: int = 0,
) -> Literal["compacted", "nothing", "postponed", "asked"]:
    """Compact.

    If automatic compaction is not allowed, let the user choose what to do.

    Args:
        pending: estimated size of the waiting prompt, in tokens before calibration.

    Raises:
        FoldlineError: the compaction failed.
    """
    blocker = compaction.blocker
    if blocker is not None:
        await offer_remedies(compaction, blocker, pending)
        return "asked"
    tier = tier_budget(compaction, pending) if reason == "threshold" else None
    if tier is not None:
        threshold = short_tokens(tier.threshold)
        compaction.events.notify(TIER, tokens=threshold, model=compaction.models.id)
    request = CompactionRequest(
        reason,
        "price" if tier else "",
        pending=pending,
        budget=tier,
    )
    return await compact(compaction, request)


# --- remedies the user can choose -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Remedy:
    key: str
    label: str
    carry_out: Callable[[], Awaitable[object]]


async def offer_remedies(
    compaction: CompactionState, why: str, pending: int = 0
) -> None:
    """List the largest items, and let the user choose how to free tokens.

    Does nothing without a user.
    """
    if not compaction.choices.interactive:
        return
    remedies = _remedies(compaction, pending)
    size = compaction.budget.size_with(pending)
    choice = await compaction.choices.ask(
        NEXT_SIZE.format(reason=why, size=size, window=compaction.budget.limits.window),
        [Option(key=remedy.key, label=remedy.label) for remedy in remedies],
        f"Largest items: {largest_items(compaction.projection)}.",
    )
    for remedy in remedies:
        if remedy.key == choice.key:
            await remedy.carry_out()
            return
    compaction.dismissed_at = compaction.projection.newest_change


def _remedies(compaction: CompactionState, pending: int) -> list[_Remedy]:
    """Return the user's options for freeing tokens now."""
    remedies = []
    projection = compaction.projection

    def add_compaction(
        label: str,
        key: str,
        strategy: CompactionStrategy | None = None,
    ) -> None:
        request = CompactionRequest("manual", pending=pending, strategy=strategy)
        remedies.append(_Remedy(key, label, lambda: compact(compaction, request)))

    if compaction.plan("manual") is not None:
        add_compaction("Compact now", "c")
    hiding = ToolResultHidingCompaction()
    messages = [item.message for item in projection.view]
    if with_hidden_results(messages, projection.pins) is not None:
        add_compaction("Hide old tool results", "h", hiding)
    largest = _largest_to_drop(projection)
    if largest is not None:
        edit = Edit(target=largest.index, action="drop")
        label = f"Drop {_group_label(projection, largest)}"
        remedies.append(
            _Remedy("x", label, lambda: compaction.session.append(edit, durable=True))
        )
    budget = compaction.budget
    room = int(budget.limits.threshold / budget.scale) - budget.overhead
    add_compaction(
        "Leave out the oldest turns", "t", TruncateTurns(max(1, room - pending))
    )
    return remedies


def _largest_to_drop(projection: Projection) -> ViewItem | None:
    """Return the largest item that can be dropped.

    The newest prompt and answer cannot be dropped.
    """
    view = projection.view
    newest = set()
    for kind in (UserMessage, AssistantMessage):
        indexes = (
            item.index for item in reversed(view) if isinstance(item.message, kind)
        )
        newest.add(next(indexes, NEW))
    candidates = [
        item
        for item in view
        if item.compactable
        and not item.written
        and newest.isdisjoint(projection.group(item.index))
    ]
    return max(candidates, key=lambda item: item.tokens, default=None)


def _group_label(projection: Projection, item: ViewItem) -> str:
    """Describe an item together with its calls or results.

    The description states their indexes, kind and size in tokens.
    """
    group = projection.group(item.index)
    messages = [member.message for member in projection.view if member.index in group]
    tokens = round(sum(map(message_tokens, messages)) * projection.meter.scale)
    indexes = f"{group[0]}–{group[-1]}" if len(group) > 1 else str(item.index)
    return f"{indexes} ({kind_of(item)}), {tokens:,} tokens"
