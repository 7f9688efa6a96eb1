"""The working folder is known by its identity: moved, removed, or another one in its place."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.project.working_folder import WorkingFolder
from foldline.agent.session.rewind import foresee
from foldline.past.rewind_points import rewind_points
from foldline.protocol import ToolResultMessage, operations
from support.agents import PlayedLLM, agent_in, tool_reply
from support.messages import tool_results

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("bash", {"command": "pwd"}),
    ("read", {"path": "a.txt"}),
    ("write", {"path": "b.txt", "content": "x"}),
    ("edit", {"path": "a.txt", "old": "x", "new": "y"}),
    ("grep", {"pattern": "x"}),
    ("glob", {"pattern": "*"}),
    ("ls", {}),
]


async def worked_in(folder: Path, *script: Any) -> Agent:
    folder.mkdir()
    (folder / "a.txt").write_text("x")
    agent, _ = agent_in(
        folder,
        PlayedLLM(
            tool_reply(("edit", {"path": "a.txt", "old": "x", "new": "z"})),
            "ok",
            *script,
        ),
    )
    await agent.prompt("first")
    return agent


def results(agent: Agent) -> list[ToolResultMessage]:
    return tool_results(agent.session.entries)[1:]


async def test_every_tool_refuses_and_says_where_the_folder_went(
    tmp_path: Path,
) -> None:
    folder, now = tmp_path / "work", tmp_path / "elsewhere" / "deep"
    agent = await worked_in(folder, tool_reply(*CALLS), "ok")
    now.parent.mkdir()
    folder.rename(now)
    await agent.prompt("second")
    assert {result.text for result in results(agent)} == {
        agent.state.tools.folder.trouble
    }
    assert str(now) in agent.state.tools.folder.trouble and all(
        result.is_error for result in results(agent)
    )
    assert not folder.exists() and sorted(path.name for path in now.iterdir()) == [
        "a.txt"
    ]


async def test_nothing_is_written_into_another_folder_that_has_the_name_by_now(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    agent = await worked_in(folder, tool_reply(*CALLS), "ok")
    folder.rename(tmp_path / "now")
    folder.mkdir()
    await agent.prompt("second")
    assert {result.is_error for result in results(agent)} == {True} and not any(
        folder.iterdir()
    )


async def test_a_removed_folder_is_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    agent = await worked_in(folder, tool_reply(*CALLS), "ok")
    shutil.rmtree(folder)
    await agent.prompt("second")
    assert {result.is_error for result in results(agent)} == {
        True
    } and not folder.exists()


async def test_a_folder_made_again_under_its_name_is_worked_in(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    agent = await worked_in(
        folder, tool_reply(("write", {"path": "b.txt", "content": "x"})), "ok"
    )
    shutil.rmtree(folder)
    folder.mkdir()
    await agent.prompt("second")
    assert (folder / "b.txt").read_text() == "x"


async def test_a_rewind_takes_no_file_of_a_moved_folder_for_missing(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    agent = await worked_in(folder, "ok")
    folder.rename(tmp_path / "now")
    await agent.prompt("second")
    first = next(
        point.id
        for point in rewind_points(agent.session.projection)
        if point.prompt == "first"
    )
    outcome = await foresee(
        agent.state, operations.Rewind(checkpoint=first, files=True)
    )
    assert [change.kind for change in outcome.files] == ["unreadable"]
    back = operations.Rewind(checkpoint=first, files=True)
    await agent.executor.wait_for(agent.executor.submit(back))
    assert not folder.exists() and (tmp_path / "now" / "a.txt").read_text() == "z"


async def test_a_command_of_the_user_is_refused_with_the_same_sentence(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    agent = await worked_in(folder)
    folder.rename(tmp_path / "now")
    ended = await agent.executor.wait_for(
        agent.executor.submit(operations.RunShell(command="touch x"))
    )
    assert (
        ended.error == agent.state.tools.folder.trouble
        and not (tmp_path / "now" / "x").exists()
    )


@pytest.mark.parametrize("name", ["plain", "gone (deleted)", "a\nb", "  "])
def test_a_folder_is_found_whatever_its_new_name_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "old").mkdir()
    folder = WorkingFolder(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / name)
    assert folder.moved_to == tmp_path / name
    (tmp_path / name).rename(tmp_path / "old")
    assert (folder.moved_to, folder.trouble) == (None, "")
