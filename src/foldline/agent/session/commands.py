"""Operations other than turns and compactions: editing the view, undo, and switching the model."""

import asyncio
from contextlib import suppress

from foldline.agent.permissions.approvals import Choices
from foldline.compaction import largest_items
from foldline.llm import LLM
from foldline.protocol import (
    BaseMessage,
    Edit,
    FoldlineError,
    ModelChange,
    Revert,
    Undo,
)
from foldline.protocol.events import Option
from foldline.protocol.operations import EditView
from foldline.view.budget import budget_for
from foldline.view.items import is_preamble
from foldline.view.undo import newest_undoable
from foldline.view.weight import view_size

from .compact import CompactionRequest, compact
from .compaction_state import CompactionState
from .context_budget import ContextBudget
from .rewind import put_files_back
from .state import AgentState
from .toolset import Toolset

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


async def edit_view(tools: Toolset, operation: EditView) -> None:
    target, action = operation.target, operation.action
    projection = tools.projection
    message = projection.entry(target)
    if not isinstance(message, BaseMessage) or is_preamble(message):
        raise FoldlineError(NOT_EDITABLE, index=target, action=action)
    if action == "pin" and projection.fate(target).kind == "dropped":
        raise FoldlineError(PIN_DROPPED, index=target)
    recalls = None if tools.can_recall else False
    await tools.session.append(
        Edit(target=target, action=action, recalls=recalls), durable=True
    )


async def undo(state: AgentState, target: int | None) -> None:
    """Undo a change to the view, by default the newest one.

    Asks the user first if the view would then exceed a limit.
    """
    projection = state.projection
    if target is None:
        newest = newest_undoable(projection.markers)
        if newest is None:
            raise FoldlineError(NOTHING_TO_UNDO)
        target = newest.index
    refusal = projection.undo_refusal(target)
    if refusal is not None:
        raise FoldlineError(refusal)
    if await _is_undo_confirmed(state.budget, state.permissions.choices, target):
        marker = projection.entry(target)
        if isinstance(marker, Revert):
            await put_files_back(state.tools, marker)
        await state.session.append(Undo(target=target), durable=True)


async def _is_undo_confirmed(
    budget: ContextBudget, choices: Choices, target: int
) -> bool:
    if not choices.interactive:
        return True
    projection = budget.projection
    after = await asyncio.to_thread(projection.with_entries, Undo(target=target))
    size = budget.size()
    size_after = view_size(after, overhead=budget.overhead).tokens
    limits = budget.limits
    if not any(
        size < limit <= size_after for limit in (limits.threshold, limits.window)
    ):
        return True
    excess = "past the threshold"
    if size_after >= limits.window:
        excess = "more than the window"
    marker = projection.entry(target)
    change = "entry"
    if marker is not None:
        change = "rewind" if marker.type == "revert" else marker.type
    answer = await choices.ask(
        f"Undo {change} {target}?",
        [Option(key="u", label="Undo anyway"), Option(key="n", label="Keep it")],
        UNDO_SIZE.format(
            before=size, after=size_after, window=limits.window, excess=excess
        ),
        opened_by_user=True,
    )
    return answer.key == "u"


# --- another model ----------------------------------------------------------------------------------------


async def switch_model(state: AgentState, model: str) -> None:
    """Switch to another model.

    If the view does not fit the new model's window, the old model compacts it first.

    Raises:
        FoldlineError: the new model cannot be reached, or the view cannot be made to fit. The old model stays
            active.
    """
    await take_over(state, await asyncio.to_thread(state.models.connect, model))


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
        state.compaction.draft.drop()  # before the old model is closed
        unused = state.models.llm
        state.models.llm = llm
    finally:
        if not _is_shared(state, unused):
            await unused.aclose()


def _is_shared(state: AgentState, llm: LLM) -> bool:
    """Return whether the parent or another subagent also uses this client."""
    parent = state.parent
    if parent is not None and parent.models.llm is llm:
        return True
    subagents = (parent or state).subagents
    return subagents is not None and subagents.uses(llm)


def compacts_before_switch(
    compaction: CompactionState,
    window: int,
    max_output: int | None,
    model: str,
) -> bool:
    """Return whether switching to this model compacts the view first."""
    if compaction.mode == "off":
        return False
    with suppress(
        FoldlineError
    ):  # The window is too small to work in. The switch reports this.
        limits = budget_for(window, max_output, compaction.budget.settings(window))
        return compaction.budget.size_for(model) >= limits.threshold
    return False


async def _make_fit(state: AgentState, llm: LLM, writer: LLM | None) -> None:
    """Compact the view so that it fits another model's window."""
    budget = state.budget
    limits = budget.limits_of(llm)
    model = llm.info.id
    size = budget.size_for(model)
    if size < limits.threshold:
        return
    if state.compaction.mode == "off":
        if size >= limits.window:
            raise FoldlineError(TOO_LARGE, size=size, window=limits.window, model=model)
        return
    # The new model may count more tokens for the same text, so the old model has to compact further.
    scale = state.projection.meter.scale_for(model)
    pending = max(0, round(limits.threshold * (1 / budget.scale - 1 / scale)))
    request = CompactionRequest(
        "threshold",
        "model",
        budget=limits,
        pending=pending,
        writer=writer,
    )
    outcome = await compact(state.compaction, request)
    size = budget.size_for(model)
    if size >= limits.window:
        subject = "Even compacted, the" if outcome == "compacted" else "The"
        raise FoldlineError(
            STILL_TOO_LARGE,
            subject=subject,
            size=size,
            window=limits.window,
            model=model,
            largest=largest_items(state.projection),
        )
