"""Servers that are programs: their tools, their ends, and that nothing of ours or theirs is left behind."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from foldline.agent.mcp import ServerConfig
from support.mcp_server import TESTS, is_alive, stdio_server

from .conftest import House

OLD_AND_NEW = pytest.mark.parametrize("era", [(), ("--old",)], ids=["without handshake", "with handshake"])


@OLD_AND_NEW
async def test_a_program_lends_its_tools_and_ends_with_us(house: House, era: tuple[str, ...]) -> None:
    servers = await house.started(stdio_server("one", house.diary, *era))
    assert [str(state) for state in servers.states] == ["connected, 10 tools"]
    names = [tool.spec.name for tool in servers.tools]
    assert names == sorted(names)
    outcome = await house.call(servers, "one:echo", text="hello")
    assert (outcome.text, outcome.is_error, outcome.brief) == ("hello", False, "1 line")
    await servers.aclose()
    assert not any(map(is_alive, house.noted.pids))
    assert house.notices == []


async def test_it_runs_where_it_is_set_to_with_no_variable_of_ours(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "t0ken-value"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-key")
    monkeypatch.setenv("EXTRA", "of the user")
    (house.folder / "there").mkdir()
    config = stdio_server("one", house.diary, cwd="there", env={"PYTHONPATH": str(TESTS), "TOKEN": "${T}"})
    servers = await house.started(config, T=value)
    assert (await house.call(servers, "one:where")).text == str(house.folder / "there")
    environment = house.noted.of("environment")[0]
    assert environment["TOKEN"] == value
    assert not {"OPENAI_API_KEY", "EXTRA"} & set(environment)


def test_servers_with_names_alike_share_no_log_and_no_sign_in(house: House) -> None:
    names = ("one", "a.b", "a_b", "a b", "a/b", f"{'a' * 90}1", f"{'a' * 90}2")
    logs = [state.log for state in house.servers(*(ServerConfig(name) for name in names)).states]
    assert len({log.with_suffix("") for log in logs}) == len(names)
    assert house.folder / "logs/one.log" in logs


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (ServerConfig("x", command="no-such-program"), "could not be started: no-such-program: no such file"),
        (ServerConfig("x"), "needs either a command or a url"),
        (ServerConfig("x", url="${NOPE}"), "needs the environment variable NOPE"),
    ],
)
async def test_what_cannot_be_started_is_one_sentence(house: House, config: ServerConfig, says: str) -> None:
    servers = await house.started(config)
    assert servers.tools == []
    assert [says in notice for notice in house.notices] == [True]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("crash", "has ended, its last words: ModuleNotFoundError: no such thing."),
        ("hang", "did not answer within 0.5 s."),
        ("garbage", "did not answer within 0.5 s."),
        ("long line", "has ended."),  # for us: a line of 20 MB is not read
    ],
)
async def test_a_server_that_does_not_begin_is_one_sentence(house: House, fault: str, says: str) -> None:
    seconds = 20 if fault in ("crash", "long line") else 0.5
    servers = await house.started(stdio_server("x", house.diary, "--fault", fault), seconds=seconds)
    assert house.notices == [f"The MCP server x {says}"]
    assert servers.tools == []
    assert not any(map(is_alive, house.noted.pids))


async def test_a_server_that_hears_nothing_is_ended_all_the_same(house: House) -> None:
    servers = house.servers(stdio_server("x", house.diary, "--fault", "deaf", cold=True))
    servers.start()
    await house.until(lambda: house.noted.pids)
    await servers.aclose()
    assert not any(map(is_alive, house.noted.pids))


@pytest.mark.parametrize("fault", ["chatty", "flood"])
async def test_words_beside_the_protocol_disturb_nobody(
    house: House, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    config = stdio_server(
        "x", house.diary, "--fault", fault, env={"PYTHONPATH": str(TESTS), "TOKEN": "planted-token"}
    )
    servers = await house.started(config)
    assert (await house.call(servers, "x:echo", text="hello")).text == "hello"
    await servers.aclose()
    assert capfd.readouterr() == ("", "")
    log = servers.states[0].log
    said = "a line that is no message" if fault == "chatty" else "my token is ***"
    await house.until(lambda: said in log.read_text())
    assert log.stat().st_size < 300_000
    assert "planted-token" not in log.read_text()


@OLD_AND_NEW
async def test_killed_in_mid_call_it_is_one_result_and_the_next_call_starts_it_again(
    house: House, era: tuple[str, ...]
) -> None:
    servers = await house.started(stdio_server("one", house.diary, *era))
    call = asyncio.create_task(house.call(servers, "one:slow", number=600))
    await house.until(lambda: house.noted.of("called"))
    os.kill(house.noted.pids[0], signal.SIGKILL)
    outcome = await call
    assert outcome.is_error
    assert outcome.text == (
        "The MCP server one has ended: the call may have run in part. The next call starts it again."
    )
    assert [tool.spec.name for tool in servers.tools if "echo" in tool.spec.name] == ["mcp__one__echo"]
    assert (await house.call(servers, "one:echo", text="again")).text == "again"
    assert len(house.notices) == 1
    assert len(house.noted.pids) == 2


async def test_lost_between_calls_is_said_at_once_and_started_again_once_a_turn(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary))
    for turn in (1, 2):
        os.kill(house.noted.pids[-1], signal.SIGKILL)
        await house.until(lambda turn=turn: len(house.notices) == turn)
        assert str(servers.states[0]) == "failed: has ended"
        servers.begin_turn()
        assert (await house.call(servers, "one:echo", text="back")).text == "back"
    assert (await house.call(servers, "one:die")).is_error  # now it may be started once more in this turn
    assert (await house.call(servers, "one:die")).is_error
    refused = await house.call(servers, "one:echo", text="no")
    assert refused.text == "The MCP server one has ended; it is tried again at the next prompt."


async def test_cancelled_in_mid_call_the_server_is_told(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary))
    call = asyncio.create_task(house.call(servers, "one:slow", number=600))
    await house.until(lambda: house.outputs)
    assert house.outputs == ["1 of 4: a quarter\n"]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await house.until(lambda: house.noted.of("cancelled") == ["slow"])
    assert (await house.call(servers, "one:echo", text="still here")).text == "still here"


async def test_a_call_that_takes_too_long_is_a_result(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary, timeout=2.0))
    outcome = await house.call(servers, "one:slow", number=600)
    assert outcome.text == "The MCP server one did not answer within 2 s."
    await house.until(lambda: house.noted.of("cancelled") == ["slow"])
    assert str(servers.states[0]) == "connected, 10 tools"


@OLD_AND_NEW
async def test_tools_that_change_are_listed_anew(house: House, era: tuple[str, ...]) -> None:
    servers = await house.started(stdio_server("one", house.diary, *era))
    await house.call(servers, "one:grow")
    await house.until(lambda: any(tool.spec.name == "mcp__one__grown_0" for tool in servers.tools))


async def test_one_that_does_not_list_its_new_tools_keeps_no_call_waiting_for_ever(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary, "--fault", "mute", timeout=2.0))
    await house.call(servers, "one:a.b")
    await house.until(
        lambda: "did not answer within 2 s: its tools stay as they were" in "".join(house.notices)
    )
    assert (await house.call(servers, "one:a.b")).text == "oddly"


async def test_odd_tools_are_told_and_the_others_are_there(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary, "--fault", "odd"))
    names = [tool.spec.name for tool in servers.tools]
    assert len(names) == len(set(names)) == 204
    assert house.notices == [
        "The MCP server one lists echo twice: the first of that name is used.",
        "The MCP server one has 4 tools that cannot be used: later (it is called as a task only), list (its "
        "arguments are array, not an object), bare (it has no schema) and 1 more.",
    ]
    assert (await house.call(servers, "one:a.b")).text == "oddly"


async def test_tools_stand_by_server_and_name_whoever_came_first(house: House) -> None:
    slow = stdio_server("a", house.diary)
    servers = house.servers(stdio_server("b", house.diary), slow)
    servers.start()
    await servers.settled(60)
    assert [tool.spec.name for tool in servers.tools] == sorted(tool.spec.name for tool in servers.tools)
    assert {tool.spec.name.split("__")[1] for tool in servers.tools} == {"a", "b"}


async def test_without_the_package_one_sentence_says_how_to_get_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldline.agent.mcp.servers.find_spec", lambda _: None)
    servers = await house.started(stdio_server("a", house.diary), stdio_server("b", house.diary))
    servers.begin_turn()
    assert len(house.notices) == 1
    assert "pip install 'foldline[mcp]'" in house.notices[0]
    assert house.noted.pids == []


async def test_the_user_can_have_it_started_anew(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary))
    state = await servers.restart("one")
    assert str(state) == "connected, 10 tools"
    assert [is_alive(pid) for pid in house.noted.pids] == [False, True]


# --- results ----------------------------------------------------------------------------------------------


async def test_a_long_result_is_clipped_and_its_whole_is_in_a_file(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary))
    outcome = await house.call(servers, "one:big", room=500, number=5_000)
    assert outcome.text.startswith("line 0 of many\n")
    assert outcome.text.rstrip().endswith("line 4999 of many")
    assert outcome.full_output is not None
    assert Path(outcome.full_output).name in outcome.text
    assert Path(outcome.full_output).read_text().count("\n") == 5_000


async def test_whatever_a_server_answers_comes_as_text_and_pictures(house: House) -> None:
    servers = await house.started(stdio_server("one", house.diary))
    picture = await house.call(servers, "one:picture")
    assert [image.media_type for image in picture.images] == ["image/png"]
    assert (picture.text, picture.brief) == ("", "1 image")
    parts = await house.call(servers, "one:parts")
    assert parts.text.splitlines()[:5] == [
        "plain red",
        "[resource memo://page]",
        "said in a resource",
        "[resource far, https://example.org/far]",
        "[a picture, image/png, is damaged and not shown]",
    ]
    assert parts.text.endswith("is a broken image (image/png, 40 B) and was not shown.]")
    assert parts.images == ()
    assert '"answer": 42' in (await house.call(servers, "one:data")).text
    failed = await house.call(servers, "one:fail")
    assert (failed.text, failed.is_error, failed.brief) == ("it cannot be done", True, "failed ✗")
    half = await house.call(servers, "one:echo", text="\ud800")
    assert half.is_error
    assert "half a character" in half.text
