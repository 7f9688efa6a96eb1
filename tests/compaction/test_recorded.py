"""Real sessions sent through a small window, step by step: it folds, it holds, and it ends (invariant 8)."""

from pathlib import Path

import pytest

from foldline.compaction import BUILT_IN, load_strategy, propose
from foldline.context.budget import budget_for
from foldline.context.projection import Projection
from foldline.context.stubs import clip, with_text
from foldline.context.weight import view_size
from foldline.formats import read_foreign
from foldline.protocol import AssistantMessage, BaseMessage, Entry, ToolResultMessage, UserMessage
from support.history import History
from support.invariants import broken
from support.llm import ScriptedLLM
from support.recorded import needs_recorded, recorded

pytestmark = [needs_recorded, pytest.mark.slow]
FILES = recorded("pi")
WINDOW = 32_768


def narrowed(message: BaseMessage, room: int) -> BaseMessage:
    """A message as it would be here: no usage of another window, a result clipped to half the room left."""
    match message:
        case AssistantMessage():
            return message.model_copy(update={"usage": None})
        case ToolResultMessage():
            return with_text(message, clip(message.text, min(WINDOW // 10, room // 2), message.index))
        case _:
            return message


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", BUILT_IN)
async def test_a_recorded_session_goes_through_a_32k_window(path: Path, name: str) -> None:
    strategy = load_strategy(name)
    budget = budget_for(WINDOW)
    built, live = History().system("You are a careful agent."), Projection()
    live.append(built.entries[0])
    folds = 0
    messages = [entry for entry in read_foreign(path).entries if isinstance(entry, BaseMessage)]
    for message in messages:
        if isinstance(message, UserMessage | AssistantMessage) and view_size(live).tokens >= budget.threshold:
            llm = ScriptedLLM(always="## Goal\nNotes on the work so far, " + "with detail, " * 400)
            proposal = await propose(live, strategy=strategy, llm=llm, budget=budget, reason="threshold")
            assert proposal is not None
            append(built, live, proposal.entry)
            folds += 1
            assert broken(live) == []
            newest_call = max((item.tokens for item in live.view[-3:]), default=0)
            assert view_size(live).tokens < budget.threshold or newest_call > WINDOW // 3
            assert llm.requests == [] or name not in ("digest", "hide")
        append(built, live, narrowed(message, int((budget.threshold - view_size(live).tokens) / 1.4)))
    assert broken(live) == []
    assert folds > 0 or view_size(live).tokens < budget.threshold


def append(built: History, live: Projection, entry: Entry) -> None:
    live.append(built.add(entry).entries[-1])
