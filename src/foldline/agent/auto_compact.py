"""Whether the view is compacted before a request, and doing it: the one place where that is decided.

Off is off: with automatic compaction off, stopped, or undone by the user, nothing changes the view by itself
(docs/design/invariants.md). Then the user is asked what to leave out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from foldline.compaction import (
    WORTH_WHILE,
    CompactionFailed,
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
)
from foldline.context.budget import Budget
from foldline.context.numbers import short_tokens
from foldline.context.todos import newly_completed
from foldline.context.tokens import message_tokens
from foldline.context.view import ViewItem
from foldline.llm import ContextOverflow, LLMError
from foldline.llm.models import cached_price, price_of
from foldline.protocol import NEW, AssistantMessage, Cause, Edit, FoldlineError, Reason, UserMessage
from foldline.protocol.events import Notice, Option

from .compact import CompactionRequest, begin_draft, compact, drafts_ahead
from .state import AgentState

_LITTLE_MORE = 1.5
"""A draft may keep so many times what it should, the step to come included."""

NextStep = Literal["send", "compact", "ask"]


def next_step(state: AgentState, pending: int = 0) -> NextStep:
    """What has to happen before the next request: nothing, a compaction, or a question to the user.

    Args:
        pending: estimate of the prompt that is not in the history yet, before calibration, in tokens.
    """
    budget, size = state.budget, state.size() + round(pending * state.scale)
    if auto_compact_blocker(state) is not None:
        paused = state.mode != "off" and pause_reason(state.projection)
        dismissed = state.dismissed_at is state.projection.newest_change
        limit = budget.threshold if paused and not dismissed else budget.window
        return "ask" if state.choices.interactive and size >= limit else "send"
    if tier_budget(state, pending) is not None:
        return "compact"
    if size < budget.threshold or (size < budget.window and no_request_since_compaction(state.projection)):
        return "send"
    return "send" if state.plan("threshold") is None and plans_by_cut(state.strategy) else "compact"


def tier_budget(state: AgentState, pending: int = 0) -> Budget | None:
    """The limits of a compaction that keeps the next request below a price tier (docs/design/budget.md). None
    where it crosses none, or that would not pay.

    Args:
        pending: as in `next_step`.
    """
    price, tier = price_of(state.llm.info.id), state.tier
    if price is None or tier is None:
        return None
    budget, size = state.budget, state.size() + round(pending * state.scale)
    stays = budget.keep_recent_tokens + budget.max_summary_tokens
    if not max(tier.above, stays) < size < budget.threshold or no_request_since_compaction(state.projection):
        return None
    below = replace(budget, set_threshold=tier.above)
    planned = state.plan("threshold", below)
    if planned is None or planned.tokens_expected > tier.above:
        return None
    worth = tier_gain(
        size,
        planned.tokens_expected,
        steps=steps_until_full(budget.threshold - size, [sent.tokens for sent in state.projection.requests]),
        factor=tier.input,
        cached=cached_price(state.llm.info.id),
        written=price.output_ratio * budget.max_summary_tokens / 2,
    )
    return below if worth > 0 else None


def auto_compact_blocker(state: AgentState) -> str | None:
    """Why a full window is not compacted without a word of the user, as a sentence; None where it is."""
    if state.mode == "off":
        return "Automatic compaction is off."
    if paused := pause_reason(state.projection):
        return paused
    return "You undid the last compaction." if compaction_undone(state.projection) else None


def end_of_task_is_due(state: AgentState) -> bool:
    """Whether to compact at the end of a task: the window is nearly full and it would free enough, or what
    is hidden pays for itself before the window is full."""
    if _was_declined(state):
        return False
    planned = state.plan("phase") if state.past_soft_mark else state.plan_early()
    return planned is not None and planned.tokens_expected <= WORTH_WHILE * planned.tokens_before


def too_long(state: AgentState, prompt: UserMessage) -> str:
    """Why no compaction could make room for this prompt, as a sentence; empty where one might. By the bare
    estimate, which errs high once it is calibrated: what is sent in vain stands in the history as the
    request."""
    size = state.projection.fixed + state.overhead + message_tokens(prompt)
    window = state.budget.window
    if size < window:
        return ""
    return (
        "Too long: send less, or have a file read. Even with all else compacted it comes to about "
        f"{size:,} of {window:,} tokens."
    )


class AutoCompact:
    """Makes room before the requests of one turn. What failed is not tried again at each step of it."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._reasons: set[Reason] = {"threshold", "phase"}
        """What is still a reason to compact in this turn."""

    async def before_prompt(self, prompt: UserMessage) -> str:
        """Make room for a prompt that is not appended yet; the sentence why it is not sent, or empty."""
        state = self._state
        with suppress(FoldlineError):  # A window too small is reported before the prompt is appended.
            if refusal := too_long(state, prompt):
                return refusal
            uncompacted, state.send_uncompacted = state.send_uncompacted, False
            pending = state.estimate(prompt)
            if (uncompacted and state.fits([prompt])) or next_step(state, pending) == "send":
                return ""
            state.send_uncompacted = True
            why = await self._room_for(prompt, pending)
            state.send_uncompacted = bool(why)
            return why
        return ""

    async def _room_for(self, prompt: UserMessage, pending: int) -> str:
        state, why = self._state, ""
        if await asyncio.to_thread(_fits_once_sent, state, prompt, pending):
            return ""
        try:
            outcome = await make_room(state, "threshold", pending=pending)
            if outcome == "nothing":
                return ""  # Nothing was old enough; once the prompt is in the history, the last answer is.
        except FoldlineError as failure:
            await state.record_failure(failure)
            why = str(failure)
        if state.fits([prompt]):
            if why:
                state.warn(f"{why} Continuing without a compaction: it still fits.")
            return ""
        size, window = state.size([prompt]), state.window
        if not why and state.choices.interactive:
            why = f"the request would take {size:,} of {window:,} tokens."
        return why

    async def before_step(self, *, decided: bool = False) -> None:
        """Compact where the window is full, or a task is done and it soon will be. Where that fails, the turn
        goes on. What was `decided` with the prompt goes as it is, where it fits."""
        state, draft = self._state, self._state.draft
        full, fits = state.is_full(), state.fits()
        if full and next_step(state) == "send":
            self._say_stopped()
        elif decided and fits:
            return
        elif full or next_step(state) == "compact":
            if not _was_declined(state):
                await self._try("threshold")
        elif (draft.overdue or newly_completed(state.projection)) and end_of_task_is_due(state):
            if draft.drafting:
                draft.overdue = True
            elif state.mode != "ask" and auto_compact_blocker(state) is None:
                await self._try("phase")

    async def after_overflow(self) -> bool:
        """Whether a compaction, or what the user chose, made the refused request smaller."""
        before = self._state.projection.tokens
        with suppress(CompactionFailed, ContextOverflow):  # It has been reported as an event.
            await make_room(self._state, "overflow")
        return self._state.projection.tokens < before

    def draft_next(self) -> None:
        """Have the next compaction drafted in the background, where it is near and no draft is under way.
        Where no model is asked nobody would wait for it, and what a draft keeps beyond it is sent again."""
        state, draft, budget = self._state, self._state.draft, self._state.budget
        near = drafts_ahead(state) and budget.draft_mark <= state.size() < budget.threshold
        wanted = near and asks_model(state.strategy) and not draft.serves(state.basis)
        allowed = wanted and auto_compact_blocker(state) is None and end_of_task_is_due(state)
        if allowed and _keeps_little(state):
            begin_draft(state)

    async def _try(self, reason: Reason) -> None:
        if reason not in self._reasons:
            return
        try:
            await make_room(self._state, reason)
        except (CompactionFailed, LLMError) as failure:
            self._reasons -= {"phase", reason}
            self._state.warn(f"{failure} The turn continues without a compaction.")

    def _say_stopped(self) -> None:
        """Warn, once a turn, that automatic compaction has stopped although one is due."""
        state = self._state
        paused = pause_reason(state.projection)
        if state.mode != "off" and paused and self._reasons:
            self._reasons.clear()
            state.warn(
                f"{paused[:-1]}: automatic compaction has stopped. Largest: "
                f"{largest_items(state.projection)}. /compact compacts now."
            )


async def compact_between_turns(state: AgentState, cause: Cause = "") -> None:
    """Between two turns: draft a compaction, and compact once the draft is there. In mode `ask` it waits for
    the user; where nobody is there, it is made now.

    Raises:
        FoldlineError: it failed.
    """
    if auto_compact_blocker(state) is not None:
        return
    draft, basis = state.draft, state.basis
    if not drafts_ahead(state) or (draft.ready and draft.serves(basis)):
        await compact(state, CompactionRequest("phase", cause, preview=state.mode == "ask"))
        return
    if not draft.serves(basis):
        begin_draft(state)
    draft.overdue, draft.cause = draft.drafting, cause


def _fits_once_sent(state: AgentState, prompt: UserMessage, pending: int) -> bool:
    """Whether the window has room for a prompt only where it stands in the history when that is compacted:
    what was asked before it is no longer the newest request then, which stays. In a thread."""
    now, window = state.plan("threshold", pending=pending), state.budget.window
    if auto_compact_blocker(state) is not None or (
        now is not None and now.tokens_expected + round(pending * state.scale) < window
    ):
        return False
    then = plan(state.projection.foreseen(prompt), state.budget, "threshold", overhead=state.overhead)
    return then is not None and then.tokens_expected < window


def _keeps_little(state: AgentState) -> bool:
    """Whether a draft begun now keeps little more than a compaction that is made when it is due, after the
    step to come: what it keeps beyond that is sent again, at a higher price than that of the wait."""
    planned = state.plan("phase")
    if planned is None or planned.cut is None:
        return planned is not None
    step = step_growth([sent.tokens for sent in state.projection.requests]) / state.scale
    return sum(item.tokens for item in planned.cut.tail) + step <= _LITTLE_MORE * planned.keep_recent_tokens


def _was_declined(state: AgentState) -> bool:
    """Whether the user threw a draft away for this view: no other one is made while the view fits."""
    return state.review.declined is state.projection.newest_change and state.fits()


async def make_room(
    state: AgentState, reason: Reason, *, pending: int = 0
) -> Literal["compacted", "nothing", "postponed", "asked"]:
    """Compact, or let the user choose; what came of it.

    Args:
        pending: estimate of the prompt that waits for it, before calibration, in tokens.

    Raises:
        FoldlineError: it failed.
    """
    blocker = auto_compact_blocker(state)
    if blocker is not None:
        await offer_remedies(state, blocker, pending)
        return "asked"
    tier = tier_budget(state, pending) if reason == "threshold" else None
    if tier is not None:
        at, model = short_tokens(tier.threshold), state.llm.info.id
        state.emit(Notice(text=f"Compacting at {at} tokens: above, {model} costs more."))
    return await compact(
        state,
        CompactionRequest(
            reason, "price" if tier else "", will_retry=reason == "overflow", pending=pending, budget=tier
        ),
    )


# --- what the user can choose -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Remedy:
    key: str
    label: str
    carry_out: Callable[[], Awaitable[object]]


async def offer_remedies(state: AgentState, why: str, pending: int = 0) -> None:
    """Name the largest items and ask what is to be done. Nobody there to be asked: nothing is done."""
    if not state.choices.interactive:
        return
    remedies = _remedies(state, pending)
    size, window = state.size() + round(pending * state.scale), state.budget.window
    word = await state.choices.ask(
        f"{why} The next request takes about {size:,} of {window:,} tokens.",
        [Option(key=remedy.key, label=remedy.label) for remedy in remedies],
        f"Largest: {largest_items(state.projection)}.",
    )
    chosen = next((remedy for remedy in remedies if remedy.key == word.key), None)
    if chosen is None:
        state.dismissed_at = state.projection.newest_change
    else:
        await chosen.carry_out()


def _remedies(state: AgentState, pending: int) -> list[_Remedy]:
    """What would free something now."""
    found = []

    def compacting(label: str, key: str, request: CompactionRequest) -> None:
        found.append(_Remedy(key, label, lambda: compact(state, request)))

    if state.plan("manual") is not None:
        compacting("compact now", "c", CompactionRequest("manual", pending=pending))
    hiding = ToolResultHidingCompaction()
    if hiding.hidden([item.message for item in state.projection.view], state.projection.pins) is not None:
        request = CompactionRequest("manual", pending=pending, strategy=hiding)
        compacting("hide old tool results", "h", request)
    largest = _largest_to_drop(state)
    if largest is not None:
        edit = Edit(target=largest.index, action="drop")
        label = f"drop {_named(state, largest)}"
        found.append(_Remedy("x", label, lambda: state.session.append(edit, durable=True)))
    target = max(1, int(state.budget.threshold / state.scale) - state.overhead - pending)
    truncating = CompactionRequest("manual", pending=pending, strategy=TruncateTurns(target))
    compacting("leave out the oldest turns", "t", truncating)
    return found


def _largest_to_drop(state: AgentState) -> ViewItem | None:
    """The largest item that may be left out without losing the request or what is not seen yet."""
    view = state.projection.view
    newest = {
        next((item.index for item in reversed(view) if isinstance(item.message, kind)), NEW)
        for kind in (UserMessage, AssistantMessage)
    }
    old = [
        item
        for item in view
        if item.compactable and not item.written and newest.isdisjoint(state.projection.group(item.index))
    ]
    return max(old, key=lambda item: item.tokens, default=None)


def _named(state: AgentState, item: ViewItem) -> str:
    group = state.projection.group(item.index)
    tokens = sum(message_tokens(other.message) for other in state.projection.view if other.index in group)
    name = f"{group[0]}–{group[-1]}" if len(group) > 1 else str(item.index)
    return f"{name} ({kind_of(item)}), {round(tokens * state.scale):,} tokens"
