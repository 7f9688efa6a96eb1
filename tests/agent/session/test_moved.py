"""A session whose folder was moved: the model is told where it works now, once."""

from pathlib import Path

from foldline.agent import Agent
from foldline.agent.session.instructions import MOVED
from foldline.history import Session
from support.agents import PlayedLLM, agent_in, tool_reply


async def moved(tmp_path: Path, *script: object) -> Agent:
    """A session that began in `old`, opened where the folder is `new`."""
    (tmp_path / "old").mkdir()
    agent, _ = agent_in(tmp_path / "old", PlayedLLM("hello"))
    await agent.prompt("first")
    await agent.aclose()
    (tmp_path / "old").rename(tmp_path / "new")
    assert agent.session.path is not None
    session = Session.open(agent.session.path, cwd=tmp_path / "new")
    return Agent(session, llm=PlayedLLM(*script), approvals="all")  # type: ignore[arg-type]


def notices(agent: Agent) -> list[str]:
    return [
        item.message.text
        for item in agent.session.projection.view
        if item.kind == "developer"
    ]


async def test_the_model_is_told_once_where_the_folder_is_now(tmp_path: Path) -> None:
    agent = await moved(tmp_path, "ok", "ok")
    await agent.prompt("second")
    await agent.prompt("third")
    old, new = tmp_path / "old", tmp_path / "new"
    assert notices(agent) == [MOVED.format(old=old, new=new)]


async def test_tools_work_where_the_folder_is_now(tmp_path: Path) -> None:
    agent = await moved(
        tmp_path, tool_reply(("write", {"path": "a.txt", "content": "x"})), "ok"
    )
    await agent.prompt("write it")
    assert (tmp_path / "new" / "a.txt").read_text() == "x" and not (
        tmp_path / "old"
    ).exists()
