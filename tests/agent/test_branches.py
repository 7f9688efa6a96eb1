"""What a branch that is left tells the one gone to, and what going there would come to."""

from pathlib import Path

from foldline.agent import Agent
from foldline.agent.branches import note_on_left
from foldline.agent.rewind import foresee
from foldline.context.branches import before_prompt
from foldline.protocol import Revert, UserMessage, operations
from support.agents import PlayedLLM, agent_in, calling
from support.live import FULL


def prompt(agent: Agent, text: str) -> int:
    said = (each for each in agent.session.entries if isinstance(each, UserMessage))
    return next(each.index for each in said if each.text == text)


async def go(agent: Agent, asked: operations.Rewind) -> None:
    await agent.executor.wait_for(agent.executor.submit(asked))


async def branched(folder: Path, first: str = "first") -> tuple[Agent, int, int]:
    """Two branches below one prompt, each with a file; the second is now. The ends of both."""
    llm = PlayedLLM(
        "one",
        calling(("write", {"path": "a.txt", "content": "a"})),
        "two",
        calling(("write", {"path": "b.txt", "content": "b"})),
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


async def test_a_note_is_of_what_is_left_whichever_branch_is_the_older(tmp_path: Path) -> None:
    agent, older, newer = await branched(tmp_path)
    note = note_on_left(agent.state, Revert(checkpoint=-1, moment=older))
    assert note is not None and "“other”" in note and "“three”" in note and "b.txt" in note
    assert "“second”" not in note and "a.txt" not in note
    await go(agent, operations.Rewind(moment=older))
    note = note_on_left(agent.state, Revert(checkpoint=-1, moment=newer))
    assert note is not None and "“second”" in note and "“two”" in note and "a.txt" in note
    assert "“other”" not in note and "b.txt" not in note and "“first”" not in note


async def test_what_the_branch_gone_to_holds_in_a_summary_is_not_said_to_be_left(tmp_path: Path) -> None:
    agent, older, _ = await branched(tmp_path, FULL)
    await agent.executor.wait_for(agent.executor.submit(operations.CompactSession(reason="manual")))
    compacted = agent.session.projection.last_index
    assert "summary 1" in agent.session.projection.view[1].message.text
    await go(agent, operations.Rewind(moment=prompt(agent, FULL) + 2))
    assert note_on_left(agent.state, Revert(checkpoint=-1, moment=compacted)) is None
    await go(agent, operations.Rewind(moment=older))
    note = note_on_left(agent.state, Revert(checkpoint=-1, moment=compacted))
    assert note is not None and "“second”" in note and "All there is" not in note


async def test_going_back_shows_the_size_that_the_meter_shows(tmp_path: Path) -> None:
    agent, _, _ = await branched(tmp_path)
    for mark in agent.session.projection.checkpoints:
        outcome = await foresee(agent.state, operations.Rewind(checkpoint=mark.id))
        assert outcome.before.tokens == agent.state.size()
        if outcome.items > 0 and not outcome.after.estimated:  # an estimate errs high
            assert outcome.after.tokens < outcome.before.tokens
    mark = agent.session.projection.checkpoints[0]
    outcome = await foresee(agent.state, operations.Rewind(checkpoint=mark.id))
    await go(agent, operations.Rewind(checkpoint=mark.id))
    assert outcome.after.tokens == agent.state.size()
