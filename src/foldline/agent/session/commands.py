"""Operations other than turns and compactions: editing the view, undo, and switching the model."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from foldline.compaction import largest_items
from foldline.llm import LLM
from foldline.protocol import (
    BaseMessage,
    Edit,
    FoldlineError,
    ModelChange,
    Revert,
    Undo,
    operations,
)
from foldline.protocol.events import Option
from foldline.view.budget import budget_for
from foldline.view.items import is_preamble
from foldline.view.undo import newest_undoable
from foldline.view.weight import view_size

from .compact import CompactionRequest, compact
from .rewind import put_files_back
from .state import AgentState

NOT_EDITABLE = "Entry {index} is not a conversation message, so you cannot {action} it."
PIN_DROPPED = "Entry {index} was dropped. Restore it before you pin it."
NOTHING_TO_UNDO = "There is no compaction, clear or rewind to undo."
UNDO_SIZE = (
    "The next request would grow from {before:,} to {after:,} of {window:,} tokens, {excess}.\n"
    "The conversation will not be compacted again automatically. Foldline asks before it sends anything that "
    "is too long."
)
TOO_LARGE = (
    "The next request takes about {size:,} tokens, more than the {window:,} of {model}, and automatic "
    "compaction is off. Compact first, with /compact."
)
STILL_TOO_LARGE = (
    "{subject} next request takes about {size:,} tokens, more than the {window:,} of {model}. Largest items: "
    "{largest}."
)


async def edit_view(state: AgentState, operation: operations.EditView) -> None:
    target, action = operation.target, operation.action
    message = state.projection.entry(target)
    if not isinstance(message, BaseMessage) or is_preamble(message):
        raise FoldlineError(NOT_EDITABLE, index=target, action=action)
    if action == "pin" and state.projection.fate(target).kind == "dropped":
        raise FoldlineError(PIN_DROPPED, index=target)
    recalls = None if state.can_recall else False
    await state.session.append(
        Edit(target=target, action=action, recalls=recalls), durable=True
    )


async def undo(state: AgentState, target: int | None) -> None:
    """Undo a change to the view, by default the newest one.

    Asks the user first if the view would then exceed a limit.
    """
    if target is None:
        newest = newest_undoable(state.projection.markers)
        if newest is None:
            raise FoldlineError(NOTHING_TO_UNDO)
        target = newest.index
    refusal = state.projection.undo_refusal(target)
    if refusal is not None:
        raise FoldlineError(refusal)
    if await _is_undo_confirmed(state, target):
        marker = state.projection.entry(target)
        if isinstance(marker, Revert):
            await put_files_back(state, marker)
        await state.session.append(Undo(target=target), durable=True)


async def _is_undo_confirmed(state: AgentState, target: int) -> bool:
    if not state.is_interactive:
        return True
    after = await asyncio.to_thread(state.projection.with_entries, Undo(target=target))
    size = state.size()
    size_after = view_size(after, overhead=state.overhead).tokens
    budget = state.budget
    if not any(
        size < limit <= size_after for limit in (budget.threshold, budget.window)
    ):
        return True
    excess = "past the threshold"
    if size_after >= budget.window:
        excess = "more than the window"
    marker = state.projection.entry(target)
    change = "entry"
    if marker is not None:
        change = "rewind" if marker.type == "revert" else marker.type
    answer = await state.choices.ask(
        f"Undo {change} {target}?",
        [Option(key="u", label="Undo anyway"), Option(key="n", label="Keep it")],
        UNDO_SIZE.format(
            before=size, after=size_after, window=budget.window, excess=excess
        ),
        opened_by_user=True,
    )
    return answer.key == "u"


# --- another model ----------------------------------------------------------------------------------------


async def switch_model(
    state: AgentState,
    model: str,
    connect: Callable[[str], LLM],
) -> None:
    """Switch to another model.

    If the view does not fit the new model's window, the old model compacts it first.

    Raises:
        FoldlineError: the new model cannot be reached, or the view cannot be made to fit. The old model stays
            active.
    """
    llm = await asyncio.to_thread(connect, model)  # may run a command to get the key
    await take_over(state, llm)


async def take_over(state: AgentState, llm: LLM, *, writer: LLM | None = None) -> None:
    """Use this model from now on, and close the old model's client.

    If the new model cannot be used, the new model's client is closed instead.

    Args:
        writer: model that writes the summary if the old model cannot.

    Raises:
        FoldlineError: the new model cannot be reached, or the view cannot be made to fit. The old model stays
            active.
    """
    unused = llm
    try:
        await llm.prepare()
        await _make_fit(state, llm, writer)
        change = ModelChange(model=llm.info.id, provider=llm.info.provider)
        await state.session.append(change, durable=True)
        state.draft.drop()  # before the old model is closed
        unused = state.llm
        state.llm = llm
    finally:
        if not _is_shared(state, unused):
            await unused.aclose()


def _is_shared(state: AgentState, llm: LLM) -> bool:
    """Return whether the parent or another subagent also uses this client."""
    parent = state.parent
    if parent is not None and parent.llm is llm:
        return True
    subagents = (parent or state).subagents
    return subagents is not None and subagents.uses(llm)


def compacts_before_switch(
    state: AgentState,
    window: int,
    max_output: int | None,
    model: str,
) -> bool:
    """Return whether switching to this model compacts the view first."""
    if state.mode == "off":
        return False
    with suppress(
        FoldlineError
    ):  # The window is too small to work in. The switch reports this.
        budget = budget_for(window, max_output, state.budget_settings(window))
        return _size_for(state, model) >= budget.threshold
    return False


def _size_for(state: AgentState, model: str) -> int:
    """Return the size of the next request, in this model's tokens."""
    scale = state.projection.meter.scale_for(model)
    return round((state.projection.meter.sent + state.overhead) * scale)


async def _make_fit(state: AgentState, llm: LLM, writer: LLM | None) -> None:
    """Compact the view so that it fits another model's window."""
    budget = state.budget_of(llm)
    model = llm.info.id
    size = _size_for(state, model)
    if size < budget.threshold:
        return
    if state.mode == "off":
        if size >= budget.window:
            raise FoldlineError(TOO_LARGE, size=size, window=budget.window, model=model)
        return
    # The new model may count more tokens for the same text, so the old model has to compact further.
    scale = state.projection.meter.scale_for(model)
    pending = max(0, round(budget.threshold * (1 / state.scale - 1 / scale)))
    request = CompactionRequest(
        "threshold",
        "model",
        budget=budget,
        pending=pending,
        writer=writer,
    )
    outcome = await compact(state, request)
    size = _size_for(state, model)
    if size >= budget.window:
        subject = "Even compacted, the" if outcome == "compacted" else "The"
        raise FoldlineError(
            STILL_TOO_LARGE,
            subject=subject,
            size=size,
            window=budget.window,
            model=model,
            largest=largest_items(state.projection),
        )
