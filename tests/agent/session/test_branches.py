"""What going back to another branch would come to."""

from pathlib import Path

from foldline.agent import Agent
from foldline.agent.session.rewind import foresee
from foldline.past.branches import before_prompt
from foldline.protocol import UserMessage, operations
from support.agents import PlayedLLM, agent_in, tool_reply


def prompt(agent: Agent, text: str) -> int:
    said = (each for each in agent.session.entries if isinstance(each, UserMessage))
    return next(each.index for each in said if each.text == text)


async def go(agent: Agent, asked: operations.Rewind) -> None:
    await agent.executor.wait_for(agent.executor.submit(asked))


async def branched(folder: Path, first: str = "first") -> tuple[Agent, int, int]:
    """Two branches below one prompt, each with a file; the second is now. The ends of both."""
    llm = PlayedLLM(
        "one",
        tool_reply(("write", {"path": "a.txt", "content": "a"})),
        "two",
        tool_reply(("write", {"path": "b.txt", "content": "b"})),
        "three",
        window=8_192,
    )
    agent, _ = agent_in(folder, llm)
    await agent.prompt(first)
    await agent.prompt("second")
    end = agent.session.projection.last_index
    await go(agent, before_prompt(agent.session.projection, prompt(agent, "second")))
    await agent.prompt("other")
    return agent, end, agent.session.projection.last_index


async def test_going_back_shows_the_size_that_the_meter_shows(tmp_path: Path) -> None:
    agent, _, _ = await branched(tmp_path)
    for mark in agent.session.projection.checkpoints:
        outcome = await foresee(agent.state, operations.Rewind(checkpoint=mark.id))
        assert outcome.before.tokens == agent.state.budget.size()
        if outcome.items > 0 and not outcome.after.estimated:  # an estimate errs high
            assert outcome.after.tokens < outcome.before.tokens
    mark = agent.session.projection.checkpoints[0]
    outcome = await foresee(agent.state, operations.Rewind(checkpoint=mark.id))
    await go(agent, operations.Rewind(checkpoint=mark.id))
    assert outcome.after.tokens == agent.state.budget.size()
