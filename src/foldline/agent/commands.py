"""What the executor carries out beside turns and compactions: edits of the view, undo, another model."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from foldline.compaction import largest_items
from foldline.context.budget import budget_for
from foldline.context.view import is_preamble
from foldline.context.view_state import newest_undoable
from foldline.context.weight import view_size
from foldline.llm import LLM
from foldline.protocol import BaseMessage, Edit, FoldlineError, ModelChange, Revert, Undo, operations
from foldline.protocol.events import Option

from .compact import CompactionRequest, compact
from .rewind import put_files_back
from .state import AgentState


async def edit_view(state: AgentState, asked: operations.EditView) -> None:
    message = state.projection.entry(asked.target)
    if not isinstance(message, BaseMessage) or is_preamble(message):
        raise FoldlineError(
            f"Entry {asked.target} is no message of the conversation: nothing to {asked.action}."
        )
    if asked.action == "pin" and state.projection.fate(asked.target).kind == "dropped":
        raise FoldlineError(f"Entry {asked.target} is dropped: restore it before you pin it.")
    await state.session.append(
        Edit(target=asked.target, action=asked.action, recalls=None if state.recalls else False), durable=True
    )


async def undo(state: AgentState, target: int | None) -> None:
    """Undo a change of the view, by default the newest. The user is asked where that crosses a limit."""
    if target is None:
        newest = newest_undoable(state.projection.markers)
        if newest is None:
            raise FoldlineError("There is no compaction, clear or rewind to undo.")
        target = newest.index
    refusal = state.projection.undo_refusal(target)
    if refusal is not None:
        raise FoldlineError(refusal)
    if await _confirmed_undo(state, target):
        revert = state.projection.entry(target)
        if isinstance(revert, Revert):
            await put_files_back(state, revert)
        await state.session.append(Undo(target=target), durable=True)


async def _confirmed_undo(state: AgentState, target: int) -> bool:
    after = await asyncio.to_thread(state.projection.foreseen, Undo(target=target))
    size, budget = view_size(after, overhead=state.overhead).tokens, state.budget
    crosses = any(state.size() < limit <= size for limit in (budget.threshold, budget.window))
    if not crosses or not state.choices.interactive:
        return True
    over = "more than the window" if size >= budget.window else "past the threshold"
    marker = state.projection.entry(target)
    change = {"revert": "rewind"}.get(marker.type, marker.type) if marker else "entry"
    word = await state.choices.ask(
        f"Undo {change} {target}?",
        [Option(key="u", label="Undo anyway"), Option(key="n", label="Leave it")],
        f"The next request grows from {state.size():,} to {size:,} of {budget.window:,} tokens, {over}.\n"
        "It will not be compacted again by itself. You are asked before anything too long is sent.",
        opened_by_user=True,
    )
    return word.key == "u"


async def switch_model(state: AgentState, model: str, connect: Callable[[str], LLM]) -> None:
    """Another model. Where its window is too small for the view, the old one compacts it first.

    Raises:
        FoldlineError: it cannot be asked, or the view cannot be made to fit; the old model stays.
    """
    llm = await asyncio.to_thread(connect, model)  # its key may come from a command
    await take_over(state, llm)


async def take_over(state: AgentState, llm: LLM, *, writer: LLM | None = None) -> None:
    """Let this model answer from now on; the one before, or this where it cannot, is closed.

    Args:
        writer: writes the summary that may be needed, where the one before cannot.

    Raises:
        FoldlineError: it cannot be asked, or the view cannot be made to fit; the old model stays.
    """
    unused = llm
    try:
        await llm.prepare()
        await _make_fit(state, llm, writer)
        change = ModelChange(model=llm.info.id, provider=llm.info.provider)
        await state.session.append(change, durable=True)
        state.draft.drop()  # before the model that may be writing it is closed
        state.llm, unused = llm, state.llm
    finally:
        if not _works_for_another(state, unused):
            await unused.aclose()


def _works_for_another(state: AgentState, llm: LLM) -> bool:
    """Whether another agent of this session answers with it: the parent, or a subagent."""
    top = state.parent or state
    is_parents = top is not state and top.llm is llm
    return is_parents or (top.subagents is not None and top.subagents.uses(llm))


def compacts_before_switch(state: AgentState, window: int, max_output: int | None, model: str) -> bool:
    """Whether the view would be compacted before a model of this window takes over."""
    with suppress(FoldlineError):  # Too small to work in: the switch says so.
        budget = budget_for(window, max_output, state.budget_settings(window, model))
        return state.mode != "off" and _size_for(state, model) >= budget.threshold
    return False


def _size_for(state: AgentState, model: str) -> int:
    """Tokens of the next request, as this model counts."""
    scale = state.projection.scale_for(model)
    return round((state.projection.sent + state.overhead) * scale)


async def _make_fit(state: AgentState, llm: LLM, writer: LLM | None) -> None:
    """Compact what the window of this model cannot hold, with the model that still can, or `writer`."""
    budget, name = state.budget_of(llm), llm.info.id
    size = _size_for(state, name)
    if size < budget.threshold:
        return
    if state.mode == "off":
        if size >= budget.window:
            raise FoldlineError(
                f"The next request takes about {size:,} tokens, more than the {budget.window:,} of {name}, "
                "and automatic compaction is off. Compact first with /compact."
            )
        return
    # The new model may need more tokens for the same text: to the old one, its threshold is so much lower.
    scale = state.projection.scale_for(name)
    pending = max(0, round(budget.threshold * (1 / state.scale - 1 / scale)))
    asked = CompactionRequest("threshold", "model", budget=budget, pending=pending, writer=writer)
    compacted = await compact(state, asked)
    size = _size_for(state, name)
    if size >= budget.window:
        raise FoldlineError(
            f"{'Even compacted, the' if compacted == 'compacted' else 'The'} next request takes about "
            f"{size:,} tokens, more than the {budget.window:,} of {name}. Largest: "
            f"{largest_items(state.projection)}."
        )
