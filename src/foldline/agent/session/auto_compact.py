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
    compaction_undone,
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
from foldline.view.tokens import message_tokens

from .compact import CompactionRequest, begin_draft, compact, drafts_ahead
from .state import AgentState

_MOST_EXTRA = 1.5
"""Maximum size of a draft's verbatim part plus the next step's growth.

This is a multiple of the planned size of the verbatim part. If the sum is larger, the draft is postponed.
"""

AUTO_OFF = "Automatic compaction is off."
UNDONE = "You undid the last compaction."
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


def next_step(state: AgentState, pending: int = 0) -> NextStep:
    """Return the action that is needed before the next request.

    Args:
        pending: estimated size, in tokens before calibration, of a prompt that is not in the history yet.
    """
    budget = state.budget
    size = _size_with(state, pending)
    if auto_compact_blocker(state) is not None:
        limit = budget.window
        is_dismissed = state.dismissed_at is state.projection.newest_change
        if state.mode != "off" and not is_dismissed and pause_reason(state.projection):
            limit = budget.threshold
        return "ask" if state.is_interactive and size >= limit else "send"
    if tier_budget(state, pending) is not None:
        return "compact"
    if size < budget.threshold:
        return "send"
    if size < budget.window and no_request_since_compaction(state.projection):
        return "send"
    if plans_by_cut(state.strategy) and state.plan("threshold") is None:
        return "send"
    return "compact"


def _size_with(state: AgentState, pending: int) -> int:
    """Return the size of the next request in tokens, including a pending prompt."""
    return state.size() + round(pending * state.scale)


def tier_budget(state: AgentState, pending: int = 0) -> Budget | None:
    """Return limits that keep the next request below a price tier.

    Args:
        pending: as in `next_step`.

    Returns:
        None if a compaction would not save money. See docs/design/budget.md.
    """
    model = state.model_id
    price = price_of(model)
    tier = state.tier
    if price is None or tier is None:
        return None
    budget = state.budget
    size = _size_with(state, pending)
    smallest = max(tier.above, budget.keep_recent_tokens + budget.max_summary_tokens)
    if not smallest < size < budget.threshold or no_request_since_compaction(
        state.projection
    ):
        return None
    tier_limits = replace(budget, set_threshold=tier.above)
    planned = state.plan("threshold", tier_limits)
    if planned is None or planned.tokens_expected > tier.above:
        return None
    request_sizes = [request.tokens for request in state.projection.meter.requests]
    gain = tier_gain(
        size,
        planned.tokens_expected,
        steps=steps_until_full(budget.threshold - size, request_sizes),
        factor=tier.input,
        cached=cached_price(model),
        written=price.output_ratio * budget.max_summary_tokens / 2,
    )
    return tier_limits if gain > 0 else None


def auto_compact_blocker(state: AgentState) -> str | None:
    """Return a message explaining why compaction is not automatic now.

    Returns None if it is automatic.
    """
    if state.mode == "off":
        return AUTO_OFF
    if paused := pause_reason(state.projection):
        return paused
    if compaction_undone(state.projection):
        return UNDONE
    return None


def end_of_task_is_due(state: AgentState) -> bool:
    """Return whether to compact at the end of a task.

    Returns True if the window is nearly full and a compaction would free enough tokens, or if hiding tool
    results saves money even before that.
    """
    if _was_declined(state):
        return False
    planned = state.plan("phase") if state.past_soft_mark else state.plan_early()
    return (
        planned is not None
        and planned.tokens_expected <= WORTH_WHILE * planned.tokens_before
    )


def too_long(state: AgentState, prompt: UserMessage) -> str:
    """Return why no compaction can make room for a prompt, as a clause.

    Returns an empty string if a compaction might make room.

    Uses the uncalibrated estimate, because calibrated estimates tend to be too high. If a prompt turns out to
    be too long only when it is sent, it stays in the history.
    """
    size = state.projection.fixed + state.overhead + message_tokens(prompt)
    window = state.budget.window
    if size < window:
        return ""
    return TOO_LONG.format(size=size, window=window)


class AutoCompact:
    """Makes room before each request of one turn.

    A failed compaction is not tried again in the same turn.
    """

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._reasons: set[Reason] = {"threshold", "phase"}
        """Reasons for which to compact in this turn.

        After a failed compaction, its reason is removed.
        """

    async def before_prompt(self, prompt: UserMessage) -> str:
        """Make room for a prompt that is not in the history yet.

        Returns:
            A message explaining why the prompt cannot be sent; an empty string if it can.
        """
        state = self._state
        with suppress(FoldlineError):  # A window that is too small is reported later.
            refusal = too_long(state, prompt)
            if refusal:
                return refusal
            send_uncompacted = state.send_uncompacted
            state.send_uncompacted = False
            if send_uncompacted and state.fits([prompt]):
                return ""
            pending = state.estimate(prompt)
            if next_step(state, pending) == "send":
                return ""
            state.send_uncompacted = True
            refusal = await self._room_for(prompt, pending)
            state.send_uncompacted = bool(refusal)
            return refusal
        return ""

    async def _room_for(self, prompt: UserMessage, pending: int) -> str:
        """Compact to make room for a prompt, and return the same values as `before_prompt`."""
        state = self._state
        if await asyncio.to_thread(_fits_once_appended, state, prompt, pending):
            return ""
        error = ""
        try:
            if await make_room(state, "threshold", pending=pending) == "nothing":
                # Nothing is old enough to compact yet. Once the prompt is appended, the last answer is.
                return ""
        except FoldlineError as failure:
            await state.record_failure(failure)
            error = str(failure)
        if state.fits([prompt]):
            if error:
                state.warn(STILL_FITS.format(error=error))
            return ""
        if not error and state.is_interactive:
            return NO_ROOM.format(size=state.size([prompt]), window=state.window)
        return error

    async def before_step(self, *, has_room: bool = False) -> None:
        """Compact if the window is full, or nearly full at the end of a task.

        A failed compaction does not end the turn.

        Args:
            has_room: whether making room for the prompt has already made room for this step.
        """
        state = self._state
        draft = state.draft
        is_full = state.is_full()
        if is_full and next_step(state) == "send":
            self._warn_stopped()
        elif has_room and state.fits():
            return
        elif is_full or next_step(state) == "compact":
            if not _was_declined(state):
                await self._try("threshold")
        elif (
            draft.overdue or newly_completed(state.projection)
        ) and end_of_task_is_due(state):
            if draft.drafting:
                draft.overdue = True
            elif state.mode != "ask" and auto_compact_blocker(state) is None:
                await self._try("phase")

    async def after_overflow(self) -> bool:
        """Compact after a request was rejected as too long.

        Returns whether the view became smaller.
        """
        tokens = self._state.projection.tokens
        with suppress(
            CompactionFailed, ContextOverflow
        ):  # the failure was reported as an event
            await make_room(self._state, "overflow")
        return self._state.projection.tokens < tokens

    def draft_next(self) -> None:
        """Start drafting the next compaction, if it is due soon.

        Does nothing if drafting needs no model call, because a compaction then takes no time. Does nothing
        if the draft would keep much more than a later compaction.
        """
        state = self._state
        if not drafts_ahead(state) or not asks_model(state.strategy):
            return
        is_near = state.budget.draft_mark <= state.size() < state.budget.threshold
        if (
            not is_near
            or state.draft.serves(state.basis)
            or auto_compact_blocker(state) is not None
        ):
            return
        if end_of_task_is_due(state) and _keeps_little(state):
            begin_draft(state)

    async def _try(self, reason: Reason) -> None:
        if reason not in self._reasons:
            return
        try:
            await make_room(self._state, reason)
        except (CompactionFailed, LLMError) as failure:
            self._reasons -= {"phase", reason}
            self._state.warn(CONTINUES.format(error=failure))

    def _warn_stopped(self) -> None:
        """Warn once per turn that automatic compaction has stopped."""
        state = self._state
        paused = pause_reason(state.projection)
        if state.mode != "off" and paused and self._reasons:
            self._reasons.clear()
            largest = largest_items(state.projection)
            state.warn(STOPPED.format(reason=paused[:-1], largest=largest))


async def compact_between_turns(state: AgentState) -> None:
    """Compact between two turns, with a background draft if possible.

    In `ask` mode, the proposal waits for the user. Without drafts, compacts immediately.

    Raises:
        FoldlineError: the compaction failed.
    """
    if auto_compact_blocker(state) is not None:
        return
    draft = state.draft
    is_drafted = draft.serves(state.basis)
    if not drafts_ahead(state) or (is_drafted and draft.ready):
        request = CompactionRequest("phase", preview=state.mode == "ask")
        await compact(state, request)
        return
    if not is_drafted:
        begin_draft(state)
    draft.overdue = draft.drafting


def _fits_once_appended(state: AgentState, prompt: UserMessage, pending: int) -> bool:
    """Return whether a compaction can make room only after the prompt is appended.

    Once the prompt is appended, the previous prompt is no longer the newest one and may be compacted.
    Blocking: do not call it on the event loop.
    """
    if auto_compact_blocker(state) is not None:
        return False
    window = state.budget.window
    planned = state.plan("threshold", pending=pending)
    if (
        planned is not None
        and planned.tokens_expected + round(pending * state.scale) < window
    ):
        return False
    appended = state.projection.with_entries(prompt)
    later = plan(appended, state.budget, "threshold", overhead=state.overhead)
    return later is not None and later.tokens_expected < window


def _keeps_little(state: AgentState) -> bool:
    """Return whether a draft made now would keep little more than a later one.

    Tokens that a draft keeps in addition are sent again with each later request, which would cost more than
    waiting.
    """
    planned = state.plan("phase")
    if planned is None:
        return False
    if planned.cut is None:
        return True
    growth = (
        step_growth([request.tokens for request in state.projection.meter.requests])
        / state.scale
    )
    tail = sum(item.tokens for item in planned.cut.tail)
    return tail + growth <= _MOST_EXTRA * planned.keep_recent_tokens


def _was_declined(state: AgentState) -> bool:
    """Return whether the user discarded a draft of the current view."""
    return state.review.declined is state.projection.newest_change and state.fits()


async def make_room(
    state: AgentState,
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
    blocker = auto_compact_blocker(state)
    if blocker is not None:
        await offer_remedies(state, blocker, pending)
        return "asked"
    tier = tier_budget(state, pending) if reason == "threshold" else None
    if tier is not None:
        threshold = short_tokens(tier.threshold)
        state.notify(TIER.format(tokens=threshold, model=state.model_id))
    request = CompactionRequest(
        reason,
        "price" if tier else "",
        pending=pending,
        budget=tier,
    )
    return await compact(state, request)


# --- remedies the user can choose -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Remedy:
    key: str
    label: str
    carry_out: Callable[[], Awaitable[object]]


async def offer_remedies(state: AgentState, why: str, pending: int = 0) -> None:
    """List the largest items, and let the user choose how to free tokens.

    Does nothing without a user.
    """
    if not state.is_interactive:
        return
    remedies = _remedies(state, pending)
    size = _size_with(state, pending)
    choice = await state.choices.ask(
        NEXT_SIZE.format(reason=why, size=size, window=state.budget.window),
        [Option(key=remedy.key, label=remedy.label) for remedy in remedies],
        f"Largest items: {largest_items(state.projection)}.",
    )
    for remedy in remedies:
        if remedy.key == choice.key:
            await remedy.carry_out()
            return
    state.dismissed_at = state.projection.newest_change


def _remedies(state: AgentState, pending: int) -> list[_Remedy]:
    """Return the user's options for freeing tokens now."""
    remedies = []

    def add_compaction(
        label: str,
        key: str,
        strategy: CompactionStrategy | None = None,
    ) -> None:
        request = CompactionRequest("manual", pending=pending, strategy=strategy)
        remedies.append(_Remedy(key, label, lambda: compact(state, request)))

    if state.plan("manual") is not None:
        add_compaction("Compact now", "c")
    hiding = ToolResultHidingCompaction()
    messages = [item.message for item in state.projection.view]
    if with_hidden_results(messages, state.projection.pins) is not None:
        add_compaction("Hide old tool results", "h", hiding)
    largest = _largest_to_drop(state)
    if largest is not None:
        edit = Edit(target=largest.index, action="drop")
        label = f"Drop {_group_label(state, largest)}"
        remedies.append(
            _Remedy("x", label, lambda: state.session.append(edit, durable=True))
        )
    target = int(state.budget.threshold / state.scale) - state.overhead - pending
    add_compaction("Leave out the oldest turns", "t", TruncateTurns(max(1, target)))
    return remedies


def _largest_to_drop(state: AgentState) -> ViewItem | None:
    """Return the largest item that can be dropped.

    The newest prompt and answer cannot be dropped.
    """
    view = state.projection.view
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
        and newest.isdisjoint(state.projection.group(item.index))
    ]
    return max(candidates, key=lambda item: item.tokens, default=None)


def _group_label(state: AgentState, item: ViewItem) -> str:
    """Describe an item together with its calls or results.

    The description states their indexes, kind and size in tokens.
    """
    group = state.projection.group(item.index)
    messages = [
        member.message for member in state.projection.view if member.index in group
    ]
    tokens = round(sum(map(message_tokens, messages)) * state.scale)
    indexes = f"{group[0]}–{group[-1]}" if len(group) > 1 else str(item.index)
    return f"{indexes} ({kind_of(item)}), {tokens:,} tokens"
