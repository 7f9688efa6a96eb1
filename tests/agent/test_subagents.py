"""Subagents: a task in a session of its own, several at once, cancelled, in the background, asking the user."""

import asyncio
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.context.invariants import broken
from foldline.history import Session, children_of, spawned_of
from foldline.protocol import (
    Approval,
    AssistantMessage,
    Subagent,
    ToolResultMessage,
    operations,
    text_parts,
)
from foldline.protocol.events import ApprovalRequested, SubagentProgress
from support.agents import Gate, Hang, PlayedLLM, Watch, agent_in, calling

pytestmark = pytest.mark.usefixtures("data_folder")


def task(prompt: str, **more: str) -> tuple[str, dict[str, object]]:
    return ("task", {"prompt": prompt, **more})


def results(session: Session) -> list[ToolResultMessage]:
    return [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]


def children(agent: Agent) -> list[Session]:
    assert agent.session.path is not None
    return [Session.open(path) for path in children_of(agent.session.path)]


async def test_the_parent_gets_the_answer_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("secret = 41\n")
    llm = PlayedLLM(
        calling(task("Find the number.\nIt is in a.py.", agent="explore")),
        calling(("read", {"path": "a.py"})),
        "It is 41.",
        "The agent says 41.",
    )
    agent = agent_in(tmp_path, llm)
    answer = await agent.prompt("what is it?")
    assert answer.text == "The agent says 41."
    [child] = children(agent)
    [result] = results(agent.session)
    assert result.text.startswith("It is 41.")
    assert result.details.child == child.id
    assert "secret" not in str([item.message for item in agent.session.projection.view])
    [entry] = [each for each in agent.session.entries if isinstance(each, Subagent)]
    assert (entry.child, entry.call_id, entry.agent, entry.title) == (child.id, "c0", "explore", "Find the number.")
    spawned = spawned_of(child.header)
    assert spawned is not None and spawned.session == agent.session.id
    assert not broken(child.projection) and not broken(agent.session.projection)
    await agent.aclose()
