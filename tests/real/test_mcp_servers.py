"""Tool servers that others wrote, from npm and PyPI, each in its own process (`make test-real`)."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent.mcp.conftest import House
from foldline.agent.mcp import ServerConfig, ToolServers

ENVIRONMENT = Path(sys.executable).parent
NODE = ENVIRONMENT.parent / "node" / "node_modules" / ".bin"


def by_others(name: str, *args: str) -> ServerConfig:
    """The configuration of one of them; skips where it is not installed."""
    found = shutil.which(f"mcp-server-{name}", path=f"{ENVIRONMENT}:{NODE}")
    if found is None or (found.startswith(str(NODE)) and shutil.which("node") is None):
        pytest.skip(f"mcp-server-{name} is not installed: make test-real")
    return ServerConfig(name, command=found, args=args)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    for servers in house.opened:
        await servers.aclose()


async def started(house: House, config: ServerConfig) -> ToolServers:
    servers = await house.started(config, PATH=os.environ["PATH"], OPENAI_API_KEY="sk-secret")
    assert [state.state for state in servers.states] == ["connected"], house.notices
    return servers


def names(servers: ToolServers) -> Sequence[str]:
    return [tool.spec.name for tool in servers.tools]


async def test_everything_a_server_can_send_comes_as_text_and_pictures(house: House) -> None:
    servers = await started(house, by_others("everything"))
    assert "mcp__everything__echo" in names(servers)
    assert (await house.call(servers, "everything:echo", message="héllo ✓")).text == "Echo: héllo ✓"
    assert "is 3.5" in (await house.call(servers, "everything:get-sum", a=1, b=2.5)).text
    picture = await house.call(servers, "everything:get-tiny-image")
    assert [(image.media_type, image.width) for image in picture.images] == [("image/png", 20)]
    linked = await house.call(servers, "everything:get-resource-links", count=2)
    assert "[resource Text Resource 2, demo://resource/dynamic/text/2" in linked.text
    resource = await house.call(
        servers, "everything:get-resource-reference", resourceType="Text", resourceId=1
    )
    assert "Resource 1: This is a plaintext resource" in resource.text
    weather = await house.call(servers, "everything:get-structured-content", location="Chicago")
    assert '"conditions"' in weather.text
    wrong = await house.call(servers, "everything:echo", unknown=1)
    assert wrong.is_error and "message" in wrong.text


async def test_it_gets_no_key_and_is_offered_nothing_of_ours(house: House) -> None:
    servers = await started(house, by_others("everything"))
    assert "sk-secret" not in (await house.call(servers, "everything:get-env")).text
    asks_back = ("sampling", "elicitation", "roots")  # listed only for who says that it can answer
    assert not [name for name in names(servers) if any(word in name for word in asks_back)]


async def test_progress_is_shown_as_it_comes_and_a_cancelled_call_leaves_the_next_one_well(
    house: House,
) -> None:
    servers = await started(house, by_others("everything"))
    slow = "everything:trigger-long-running-operation"
    done = await house.call(servers, slow, duration=1, steps=4)
    assert "completed" in done.text and house.outputs == ["1 of 4\n", "2 of 4\n", "3 of 4\n", "4 of 4\n"]
    task = asyncio.create_task(house.call(servers, slow, duration=600, steps=6_000))
    await house.until(lambda: len(house.outputs) > 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await house.call(servers, "everything:echo", message="well")).text == "Echo: well"


async def test_files_inside_its_folder_are_read_and_written_and_none_outside(house: House) -> None:
    inside = house.folder / "inside"
    inside.mkdir()
    (inside / "a.txt").write_text("line\n" * 5_000)
    servers = await started(house, by_others("filesystem", str(inside)))
    whole = await house.call(servers, "filesystem:read_text_file", room=400, path=str(inside / "a.txt"))
    assert whole.full_output is not None and Path(whole.full_output).read_text() == "line\n" * 5_000
    await house.call(servers, "filesystem:write_file", path=str(inside / "b.txt"), content="ünï ✓\n")
    assert (inside / "b.txt").read_text() == "ünï ✓\n"
    refused = await house.call(servers, "filesystem:read_text_file", path=str(house.folder / "diary"))
    assert refused.is_error and "Access denied" in refused.text


async def test_times_are_told_and_a_zone_that_is_none_is_an_error(house: House) -> None:
    servers = await started(house, by_others("time"))
    tokyo = await house.call(
        servers, "time:convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
    )
    assert "T21:00:00+09:00" in tokyo.text
    nowhere = await house.call(servers, "time:get_current_time", timezone="Nowhere/X")
    assert nowhere.is_error and "Nowhere/X" in nowhere.text


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With a file that is in no commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    for name, value in (("name", "A. Keeper"), ("email", "keeper@example.org")):
        subprocess.run(["git", "config", f"user.{name}", value], cwd=folder, check=True)
    (folder / "a.txt").write_text("a ship\n")
    return folder


async def test_a_repository_is_read_and_a_commit_is_made_in_it(house: House, repository: Path) -> None:
    servers = await started(house, by_others("git"))
    at = {"repo_path": str(repository)}
    assert "a.txt" in (await house.call(servers, "git:git_status", **at)).text
    await house.call(servers, "git:git_add", files=["a.txt"], **at)
    await house.call(servers, "git:git_commit", message="A ship passed", **at)
    assert "A ship passed" in (await house.call(servers, "git:git_log", **at)).text
    assert (await house.call(servers, "git:git_log", repo_path=str(house.folder))).is_error
