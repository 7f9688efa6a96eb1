"""Tool servers on the screen: quiet while all is well, a list with `/mcp`, a sentence when one is lost."""

import os
import signal
from pathlib import Path

import pytest

from foldline.agent.extensions.mcp import ServerConfig, ToolServers
from foldline.agent.extensions.mcp.connection import HAS_STOPPED, NOT_STARTED
from foldline.tui.lists.picker import Picker
from foldline.tui.look.status import STARTING_SERVERS
from foldline.tui.overlays.dialogs import NO_SERVER
from support.agents import tool_reply
from support.live import live
from support.mcp_server import Diary, is_alive, stdio_server

pytestmark = pytest.mark.slow


def servers_in(folder: Path, *configs: ServerConfig) -> ToolServers:
    return ToolServers(configs, folder=folder, logs=folder / "logs", environ={})


async def test_a_servers_tool_is_a_row_like_any_other_and_all_else_is_quiet(
    tmp_path: Path,
) -> None:
    call = tool_reply(("mcp__one__echo", {"text": "hello"}))
    diary = Diary(tmp_path / "diary")
    servers = servers_in(tmp_path, stdio_server("one", diary.path))
    async with live(tmp_path / "work", call, "Done.", servers=servers) as running:
        await running.until(
            lambda: diary.pids
        )  # it is started with the program, before any prompt
        await running.ask("say hello")
        assert "one · echo" in running.text
        assert "1 line" in running.text
        assert "failed" not in running.text
    assert not any(map(is_alive, diary.pids))


async def test_waiting_for_one_that_starts_is_said_and_esc_gives_the_prompt_back(
    tmp_path: Path,
) -> None:
    diary = Diary(tmp_path / "diary")
    servers = servers_in(tmp_path, stdio_server("slow", diary.path, "--fault", "hang"))
    async with live(tmp_path / "work", "Done.", servers=servers) as running:
        await running.enter("hello")
        await running.until(lambda: f"{STARTING_SERVERS} · slow" in running.text)
        await running.press("escape")
        await running.at_rest()
        assert running.editor_text == "hello"
        await running.press("enter")
        await running.until(lambda: "Done." in running.text)


@pytest.mark.quick
async def test_the_list_says_how_it_is_with_each_and_enter_connects_anew(
    tmp_path: Path,
) -> None:
    diary = Diary(tmp_path / "diary")
    nope = ServerConfig("nope", command="no-such-program")
    servers = servers_in(tmp_path, stdio_server("one", diary.path), nope)
    async with live(tmp_path / "work", servers=servers) as running:
        await running.until(
            lambda: all(state.state != "connecting" for state in servers.states)
        )
        await running.until(
            lambda: f"The MCP server nope {NOT_STARTED[:20]}" in running.text
        )
        os.kill(diary.pids[0], signal.SIGKILL)
        await running.until(lambda: f"The MCP server one {HAS_STOPPED}" in running.text)
        await running.enter("/mcp")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        await running.until(lambda: f"failed: {HAS_STOPPED}" in running.text)
        assert f"failed: {NOT_STARTED[:20]}: no-such-program" in running.text
        await running.press("down", "enter")
        await running.until(
            lambda: "MCP server one: connected, 10 tools" in running.text
        )
        assert [is_alive(pid) for pid in diary.pids] == [False, True]


async def test_the_open_list_says_when_one_is_lost_and_the_mark_stays(
    tmp_path: Path,
) -> None:
    diary = Diary(tmp_path / "diary")
    servers = servers_in(
        tmp_path,
        stdio_server("one", diary.path),
        ServerConfig("nope", command="no-such"),
    )
    async with live(tmp_path / "work", servers=servers) as running:
        await running.until(
            lambda: all(state.state != "connecting" for state in servers.states)
        )
        await running.enter("/mcp")
        await running.until(
            lambda: (
                isinstance(running.app.screen, Picker)
                and "connected, 10" in running.text
            )
        )
        await running.press("down")
        os.kill(diary.pids[0], signal.SIGKILL)
        await running.until(lambda: f"failed: {HAS_STOPPED}" in running.text)
        assert "▶one" in running.text.replace(" ", "")


async def test_without_any_it_says_where_they_are_set_up(tmp_path: Path) -> None:
    async with live(tmp_path / "work") as running:
        await running.enter("/mcp")
        await running.until(lambda: NO_SERVER.partition(" to ")[0] in running.text)


async def test_why_a_server_failed_is_there_in_full_where_its_row_is_too_short(
    tmp_path: Path,
) -> None:
    program = "no-such-program-" * 6 + "at-all"
    servers = servers_in(tmp_path, ServerConfig("nope", command=program))
    async with live(tmp_path / "work", servers=servers, size=(80, 24)) as running:
        await running.until(lambda: NOT_STARTED[:20] in running.text)
        await running.enter("/mcp")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        await running.until(lambda: "at-all" in running.text)


async def test_resources_are_listed_behind_the_sign_and_tab_takes_one(
    tmp_path: Path,
) -> None:
    diary = Diary(tmp_path / "diary")
    servers = servers_in(tmp_path, stdio_server("one", diary.path))
    async with live(tmp_path / "work", "Done.", servers=servers) as running:
        await running.until(
            lambda: all(state.state == "connected" for state in servers.states)
        )
        await running.press(*"@one:memo", "colon", "slash", "slash", *"pa")
        await running.until(lambda: "The page" in running.text)
        await running.press("tab")
        assert running.editor_text == "@one:memo://page "
        await running.press("enter")
        await running.until(lambda: "Done." in running.text)
    assert diary.of("read") == ["memo://page"]
