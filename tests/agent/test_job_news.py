"""Jobs of an agent: they outlive turns, both sides learn of their end, and none outlives the agent."""

from pathlib import Path

from foldline.protocol import AssistantMessage, DeveloperMessage, UserMessage
from support.agents import PlayedLLM, agent_in, tool_reply

from .tools.test_bash import is_running, pids, process_ended


def in_background(command: str) -> AssistantMessage:
    return tool_reply(("bash", {"command": command, "background": True}))


async def test_a_job_outlives_the_turn_and_ends_with_the_agent(tmp_path: Path) -> None:
    agent, _ = agent_in(
        tmp_path, PlayedLLM(in_background("echo $$ >p; exec sleep 1000"), "started")
    )
    await agent.prompt("start it")
    (pid,) = await pids(tmp_path / "p", 1)
    assert is_running(pid)
    await agent.aclose()
    await process_ended(pid)


async def test_reader_and_model_learn_that_a_job_has_ended(tmp_path: Path) -> None:
    llm = PlayedLLM(
        in_background("while [ ! -e go ]; do sleep 0.01; done; exit 4"),
        "started",
        "I see",
    )
    agent, watch = agent_in(tmp_path, llm)
    await agent.prompt("start it")
    before = [item.message for item in agent.session.projection.view]
    (tmp_path / "go").touch()
    await watch.until(
        lambda: any(
            text.startswith("Job 1 ended: exit 4: while") for text in watch.notices
        )
    )
    await agent.prompt("and now?")
    view = [item.message for item in agent.session.projection.view]
    assert view[: len(before)] == before, "what was sent stays as it was"
    told, prompt = view[len(before) : len(before) + 2]
    assert isinstance(told, DeveloperMessage) and isinstance(prompt, UserMessage)
    assert told.text.startswith("Job 1 ended: exit 4: while")
    await agent.prompt("once more")
    assert (
        sum(
            isinstance(item.message, DeveloperMessage)
            for item in agent.session.projection.view
        )
        == 1
    )
    await agent.aclose()
