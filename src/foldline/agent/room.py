"""Making room in the window: by a fold where that may happen by itself, else by what the user chooses.

Off is off: with automatic folding off, stopped, or taken back by the user, nothing changes the view unasked
(invariants 8 and 11). Then the remedies are offered, one key each.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from foldline.compaction import (
    ToolResultHidingCompaction,
    TruncateTurns,
    compaction_undone,
    kind_of,
    largest_items,
    pause_reason,
    plan,
)
from foldline.context.budget import budget_for
from foldline.context.overflow import silent_overflow
from foldline.context.tokens import message_tokens
from foldline.context.view import ViewItem
from foldline.context.weight import view_size
from foldline.llm import LLM
from foldline.protocol import NEW, AssistantMessage, Edit, FoldlineError, Reason, Undo, UserMessage, events
from foldline.protocol.events import Option

from .compact import WORTH_WHILE, CompactionRequest, begin_draft, compact
from .state import AgentState


def auto_compact_blocker(state: AgentState) -> str | None:
    """Why a full window is not folded without a word of the user; None where it is."""
    if state.mode == "off":
        return "Automatic folding is off."
    if paused := pause_reason(state.projection):
        return paused
    if compaction_undone(state.projection):
        return "You took the last fold back."
    return None


def end_of_task_is_due(state: AgentState) -> bool:
    """Whether a natural boundary, such as the end of a turn, is a good moment to fold: the window is nearly
    full, and the fold would free enough to be worth a model call.
    """
    if not state.past_soft_mark or was_declined(state):
        return False
    planned = plan(state.projection, state.budget, "phase", overhead=state.overhead)
    return planned is not None and planned.tokens_expected <= WORTH_WHILE * planned.tokens_before


def draft_early(state: AgentState) -> None:
    """Have the next fold drafted in the background, where it is near and no draft for it is under way."""
    draft, budget = state.draft, state.budget
    if not draft.on or not budget.draft_mark <= state.size() < budget.threshold or draft.serves(state.basis):
        return
    if auto_compact_blocker(state) is None and end_of_task_is_due(state):
        _begin_draft(state)


def _begin_draft(state: AgentState) -> None:
    """Unless the user stopped one, and the view has not changed since."""
    if state.draft.declined is not state.projection.newest_change:
        begin_draft(state)


async def compact_between_turns(state: AgentState) -> None:
    """Between two turns, nothing depends on a fold yet, and nothing waits for it: have it drafted, and fold
    once the draft is there. Where the reader wants to be asked, it waits for them. Where there is no reader,
    nobody may be there by then: it is folded now.

    Raises:
        FoldlineError: the fold failed.
    """
    if auto_compact_blocker(state) is not None:
        return
    draft, basis = state.draft, state.basis
    if not (draft.on and state.choices.interactive) or (draft.ready and draft.serves(basis)):
        await compact(state, CompactionRequest("phase", preview=state.mode == "ask"))
        return
    if not draft.serves(basis):
        _begin_draft(state)
    draft.overdue = draft.drafting


def was_declined(state: AgentState) -> bool:
    """Whether the reader threw a draft away, and nothing has changed the view since: while it fits, no other
    one is made in that turn, or at its end.
    """
    return state.review.declined is state.projection.newest_change and state.fits()


async def make_room(state: AgentState, reason: Reason, *, pending: int = 0) -> bool:
    """Fold, or let the user choose; whether the view became smaller.

    `pending` is the estimate of the prompt that waits for it, before calibration, in tokens.

    Raises:
        FoldlineError: the fold failed.
    """
    before = state.projection.tokens
    why = auto_compact_blocker(state)
    if why is None:
        await compact(state, CompactionRequest(reason, will_retry=reason == "overflow", pending=pending))
    else:
        await offer_remedies(state, why, reason, pending)
    return state.projection.tokens < before


def must_choose(state: AgentState, pending: int = 0) -> bool:
    """Whether only the user can make room now, and is there to be asked."""
    if not state.choices.interactive or auto_compact_blocker(state) is None:
        return False
    size = state.size() + round(pending * _scale(state))
    stopped = state.mode != "off" and pause_reason(state.projection)
    if stopped and state.dismissed_at is not state.projection.newest_change:
        return size >= state.budget.threshold
    return size >= state.budget.window


@dataclass(frozen=True, slots=True)
class _Remedy:
    key: str
    label: str
    carry_out: Callable[[], Awaitable[object]]


async def offer_remedies(state: AgentState, why: str, reason: Reason, pending: int = 0) -> None:
    """Name the largest items and ask what is to be done. Nobody there to be asked: nothing is done."""
    if not state.choices.interactive:
        return
    remedies = _remedies(state, reason, pending)
    options = [Option(key=remedy.key, label=remedy.label) for remedy in remedies]
    size, window = state.size() + round(pending * _scale(state)), state.budget.window
    key = await state.choices.ask(
        f"{why} The next request takes about {size:,} of {window:,} tokens.",
        options,
        f"Largest: {largest_items(state.projection)}.",
    )
    chosen = next((remedy for remedy in remedies if remedy.key == key), None)
    if chosen is None:
        state.dismissed_at = state.projection.newest_change
    else:
        await chosen.carry_out()


def _remedies(state: AgentState, reason: Reason, pending: int) -> list[_Remedy]:
    """What would free something now."""
    projection, budget = state.projection, state.budget
    found = []

    def compacting(wanted: CompactionRequest) -> Callable[[], Awaitable[object]]:
        return lambda: compact(state, wanted)

    if plan(projection, budget, "manual", overhead=state.overhead) is not None:
        found.append(_Remedy("c", "fold now", compacting(CompactionRequest("manual", pending=pending))))
    if _hidable(state):
        hiding = CompactionRequest("manual", pending=pending, strategy=ToolResultHidingCompaction())
        found.append(_Remedy("h", "hide old tool results", compacting(hiding)))
    largest = _largest_to_drop(state)
    if largest is not None:
        edit = Edit(target=largest.index, action="drop")
        found.append(
            _Remedy("x", f"drop {_named(state, largest)}", lambda: state.session.append(edit, durable=True))
        )
    target = int(budget.threshold / _scale(state)) - state.overhead - pending
    truncating = CompactionRequest("manual", pending=pending, strategy=TruncateTurns(max(target, 1)))
    found.append(_Remedy("t", "leave out the oldest turns", compacting(truncating)))
    return found


def _scale(state: AgentState) -> float:
    return state.projection.calibration.scale(state.projection.model)


def _hidable(state: AgentState) -> bool:
    view = [item.message for item in state.projection.view]
    return ToolResultHidingCompaction().hidden(view, state.projection.pins) is not None


def _largest_to_drop(state: AgentState) -> ViewItem | None:
    """The largest item that a person may leave out without losing the request or what is not seen yet."""
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
    tokens = sum(
        message_tokens(other.message) for other in state.projection.view if other.index in group
    ) * _scale(state)
    name = f"{group[0]}–{group[-1]}" if len(group) > 1 else str(item.index)
    return f"{name} ({kind_of(item)}), {round(tokens):,} tokens"


async def confirmed_undo(state: AgentState, target: int) -> bool:
    """Whether to take back this change: where that takes the view past a limit, the user is asked."""
    after = await asyncio.to_thread(state.projection.foreseen, Undo(target=target))
    size, budget = view_size(after, overhead=state.overhead).tokens, state.budget
    crosses = any(state.size() < limit <= size for limit in (budget.threshold, budget.window))
    if not crosses or not state.choices.interactive:
        return True
    over = "more than the window" if size >= budget.window else "past the threshold"
    key = await state.choices.ask(
        f"Undoing {_change_named(state, target)} brings the next request from {state.size():,} to {size:,} "
        f"of {budget.window:,} tokens, {over}.",
        [Option(key="u", label="undo it all the same")],
        "It is not folded again by itself. What does not fit is asked about before it is sent.",
    )
    return key == "u"


def _change_named(state: AgentState, target: int) -> str:
    kind = {"compaction": "fold", "revert": "rewind"}
    marker = state.projection.entry(target)
    return f"{kind.get(marker.type, marker.type) if marker else 'entry'} {target}"


def compacts_before_switch(state: AgentState, window: int, max_output: int | None, model: str) -> bool:
    """Whether the view would be folded before a model of this window takes over: what `make_fit` does, asked
    before anything is connected."""
    with suppress(FoldlineError):  # Too small to work in: the switch says so.
        budget = budget_for(window, max_output, state.budget_settings(window, model))
        scale = state.projection.calibration.scale(model)
        size = round((state.projection.sent + state.overhead) * scale)
        return state.mode != "off" and size >= budget.threshold
    return False


async def make_fit(state: AgentState, llm: LLM) -> None:
    """Before another model takes over: fold what its window cannot hold, with the model that still can.

    Raises:
        FoldlineError: it cannot be made to fit; nothing has changed, and the old model stays.
    """
    budget = state.budget_of(llm)
    scale = state.projection.calibration.scale(llm.info.id)
    size = round((state.projection.sent + state.overhead) * scale)
    if size < budget.threshold:
        return
    if state.mode == "off":
        if size >= budget.window:
            raise FoldlineError(
                f"The next request takes about {size:,} tokens, more than the {budget.window:,} of "
                f"{llm.info.id}, and automatic folding is off. Fold first with /compact."
            )
        return
    # The new model may need more tokens for the same text: to the old one, its threshold is so much lower.
    pending = max(0, round(budget.threshold * (1 / _scale(state) - 1 / scale)))
    folded = await compact(state, CompactionRequest("threshold", budget=budget, pending=pending))
    size = round((state.projection.sent + state.overhead) * scale)
    if size >= budget.window:
        raise FoldlineError(
            f"{'Even folded, the' if folded else 'The'} next request takes about {size:,} tokens, more than "
            f"the {budget.window:,} of {llm.info.id}. Largest: {largest_items(state.projection)}."
        )


def doubt(state: AgentState, reported: int, estimated: int) -> None:
    """Look at the input tokens reported for a request of `estimated` tokens, before calibration."""
    model, window = state.llm.info.id, state.window
    if not reported or model in state.doubted:
        return
    if silent_overflow(reported, window):
        text = (
            f"The server counted {reported:,} tokens in a request, more than the window of {window:,} holds: "
        )
        text += "it may have cut it without a word, and answered a part of it. "
        text += "The next request is folded first. " if state.mode == "auto" else ""
        text += "If the window is larger than that, set FOLDLINE_CONTEXT_WINDOW."
    elif not state.projection.calibration.plausible(model, reported, estimated):
        text = f"The server counted only {reported:,} tokens in a request of about {estimated:,}: it may "
        text += "have cut it without a word. Set FOLDLINE_CONTEXT_WINDOW to the window it runs with."
    else:
        return
    state.doubted.add(model)
    state.emit(events.Notice(level="warning", text=text))
