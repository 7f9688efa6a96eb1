"""Servers that are programs: their tools, their ends, and that nothing of ours or theirs is left behind."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from foldline.agent.extensions.mcp import ServerConfig, connection, listing, tools
from foldline.agent.extensions.mcp.servers import (
    PARTLY_RUN,
    RETRIED_LATER,
    SENTENCE,
    UNCHANGED,
)
from foldline.agent.extensions.mcp.transport import NO_TARGET, NO_VARIABLE
from foldline.agent.tools import images
from foldline.agent.tools.base import HALF_CHARACTER
from support.mcp_server import TESTS, is_alive, stdio_server
from support.sentences import says

from .conftest import ServerHarness

pytestmark = pytest.mark.quick_cases(1)

OLD_AND_NEW = pytest.mark.parametrize(
    "era", [(), ("--old",)], ids=["without handshake", "with handshake"]
)


@OLD_AND_NEW
async def test_a_program_lends_its_tools_and_ends_with_us(
    harness: ServerHarness, era: tuple[str, ...]
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary, *era))
    assert [str(state) for state in servers.states] == ["connected, 10 tools"]
    names = [tool.spec.name for tool in servers.tools]
    assert names == sorted(names)
    outcome = await harness.call(servers, "one:echo", text="hello")
    assert (outcome.text, outcome.is_error, outcome.brief) == ("hello", False, "1 line")
    await servers.aclose()
    assert not any(map(is_alive, harness.log.pids))
    assert harness.notices == []


async def test_it_runs_where_it_is_set_to_with_no_variable_of_ours(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "t0ken-value"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-key")
    monkeypatch.setenv("EXTRA", "of the user")
    (harness.folder / "there").mkdir()
    config = stdio_server(
        "one",
        harness.diary,
        cwd="there",
        env={"PYTHONPATH": str(TESTS), "TOKEN": "${T}"},
    )
    servers = await harness.start(config, T=value)
    assert (await harness.call(servers, "one:where")).text == str(
        harness.folder / "there"
    )
    environment = harness.log.of("environment")[0]
    assert environment["TOKEN"] == value
    assert not {"OPENAI_API_KEY", "EXTRA"} & set(environment)


def test_servers_with_names_alike_share_no_log_and_no_sign_in(
    harness: ServerHarness,
) -> None:
    names = ("one", "a.b", "a_b", "a b", "a/b", f"{'a' * 90}1", f"{'a' * 90}2")
    logs = [
        state.log
        for state in harness.servers(*(ServerConfig(name) for name in names)).states
    ]
    assert len({log.with_suffix("") for log in logs}) == len(names)
    assert harness.folder / "logs/one.log" in logs


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            ServerConfig("x", command="no-such-program"),
            connection.NOT_STARTED.format(
                path="no-such-program", reason="no such file"
            ),
        ),
        (ServerConfig("x"), NO_TARGET.format(server="x")),
        (
            ServerConfig("x", url="${NOPE}"),
            NO_VARIABLE.format(server="x", variable="NOPE"),
        ),
    ],
)
async def test_what_cannot_be_started_is_one_sentence(
    harness: ServerHarness, config: ServerConfig, says: str
) -> None:
    servers = await harness.start(config)
    assert servers.tools == []
    assert [says in notice for notice in harness.notices] == [True]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            "crash",
            connection.LAST_OUTPUT.format(output="ModuleNotFoundError: no such thing"),
        ),
        ("hang", connection.TIMED_OUT.format(seconds=0.5)),
        ("garbage", connection.TIMED_OUT.format(seconds=0.5)),
        ("long line", connection.HAS_STOPPED),  # for us: a line of 20 MB is not read
    ],
)
async def test_a_server_that_does_not_begin_is_one_sentence(
    harness: ServerHarness, fault: str, says: str
) -> None:
    seconds = 20 if fault in ("crash", "long line") else 0.5
    servers = await harness.start(
        stdio_server("x", harness.diary, "--fault", fault), seconds=seconds
    )
    assert harness.notices == [SENTENCE.format(server="x", words=says)]
    assert servers.tools == []
    assert not any(map(is_alive, harness.log.pids))


async def test_a_server_that_hears_nothing_is_ended_all_the_same(
    harness: ServerHarness,
) -> None:
    servers = harness.servers(
        stdio_server("x", harness.diary, "--fault", "deaf", cold=True)
    )
    servers.start()
    await harness.until(lambda: harness.log.pids)
    await servers.aclose()
    assert not any(map(is_alive, harness.log.pids))


@pytest.mark.parametrize("fault", ["chatty", "flood"])
async def test_words_beside_the_protocol_disturb_nobody(
    harness: ServerHarness, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    config = stdio_server(
        "x",
        harness.diary,
        "--fault",
        fault,
        env={"PYTHONPATH": str(TESTS), "TOKEN": "planted-token"},
    )
    servers = await harness.start(config)
    assert (await harness.call(servers, "x:echo", text="hello")).text == "hello"
    await servers.aclose()
    assert capfd.readouterr() == ("", "")
    log = servers.states[0].log
    said = "a line that is no message" if fault == "chatty" else "my token is ***"
    await harness.until(lambda: said in log.read_text())
    assert log.stat().st_size < 300_000
    assert "planted-token" not in log.read_text()


@OLD_AND_NEW
async def test_killed_in_mid_call_it_is_one_result_and_the_next_call_starts_it_again(
    harness: ServerHarness, era: tuple[str, ...]
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary, *era))
    call = asyncio.create_task(harness.call(servers, "one:slow", number=600))
    await harness.until(lambda: harness.log.of("called"))
    os.kill(harness.log.pids[0], signal.SIGKILL)
    outcome = await call
    assert outcome.is_error
    words = PARTLY_RUN.format(error=connection.HAS_STOPPED)
    assert outcome.text == SENTENCE.format(server="one", words=words)
    assert [tool.spec.name for tool in servers.tools if "echo" in tool.spec.name] == [
        "mcp__one__echo"
    ]
    assert (await harness.call(servers, "one:echo", text="again")).text == "again"
    assert len(harness.notices) == 1
    assert len(harness.log.pids) == 2


async def test_lost_between_calls_is_said_at_once_and_started_again_once_a_turn(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary))
    for turn in (1, 2):
        os.kill(harness.log.pids[-1], signal.SIGKILL)
        await harness.until(lambda turn=turn: len(harness.notices) == turn)
        assert str(servers.states[0]) == f"failed: {connection.HAS_STOPPED}"
        servers.begin_turn()
        assert (await harness.call(servers, "one:echo", text="back")).text == "back"
    assert (
        await harness.call(servers, "one:die")
    ).is_error  # now it may be started once more in this turn
    assert (await harness.call(servers, "one:die")).is_error
    refused = await harness.call(servers, "one:echo", text="no")
    words = RETRIED_LATER.format(trouble=connection.HAS_STOPPED)
    assert refused.text == SENTENCE.format(server="one", words=words)


async def test_cancelled_in_mid_call_the_server_is_told(harness: ServerHarness) -> None:
    servers = await harness.start(stdio_server("one", harness.diary))
    call = asyncio.create_task(harness.call(servers, "one:slow", number=600))
    await harness.until(lambda: harness.outputs)
    assert harness.outputs == ["1 of 4: a quarter\n"]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await harness.until(lambda: harness.log.of("cancelled") == ["slow"])
    assert (
        await harness.call(servers, "one:echo", text="still here")
    ).text == "still here"


async def test_a_call_that_takes_too_long_is_a_result(harness: ServerHarness) -> None:
    servers = await harness.start(stdio_server("one", harness.diary, timeout=2.0))
    outcome = await harness.call(servers, "one:slow", number=600)
    words = connection.TIMED_OUT.format(seconds=2)
    assert outcome.text == SENTENCE.format(server="one", words=words)
    await harness.until(lambda: harness.log.of("cancelled") == ["slow"])
    assert str(servers.states[0]) == "connected, 10 tools"


@OLD_AND_NEW
async def test_tools_that_change_are_listed_anew(
    harness: ServerHarness, era: tuple[str, ...]
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary, *era))
    await harness.call(servers, "one:grow")
    await harness.until(
        lambda: any(tool.spec.name == "mcp__one__grown_0" for tool in servers.tools)
    )


async def test_one_that_does_not_list_its_new_tools_keeps_no_call_waiting_for_ever(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(
        stdio_server("one", harness.diary, "--fault", "mute", timeout=2.0)
    )
    await harness.call(servers, "one:a.b")
    await harness.until(
        lambda: (
            UNCHANGED.format(
                server="one", trouble=connection.TIMED_OUT.format(seconds=2)
            )
            in harness.notices
        )
    )
    assert (await harness.call(servers, "one:a.b")).text == "oddly"


async def test_odd_tools_are_told_and_the_others_are_there(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary, "--fault", "odd"))
    names = [tool.spec.name for tool in servers.tools]
    assert len(names) == len(set(names)) == 204
    broken = ", ".join(
        (
            listing.ONLY_A_TASK.format(name="later"),
            listing.NO_OBJECT.format(name="list", type="array"),
            listing.NO_SCHEMA.format(name="bare") + " and 1 more",
        )
    )
    assert harness.notices == [
        tools.DUPLICATES.format(server="one", names="echo"),
        tools.BROKEN.format(server="one", tools="4 tools", names=broken),
    ]
    assert (await harness.call(servers, "one:a.b")).text == "oddly"


async def test_tools_stand_by_server_and_name_whoever_came_first(
    harness: ServerHarness,
) -> None:
    slow = stdio_server("a", harness.diary)
    servers = harness.servers(stdio_server("b", harness.diary), slow)
    servers.start()
    await servers.settled(60)
    assert [tool.spec.name for tool in servers.tools] == sorted(
        tool.spec.name for tool in servers.tools
    )
    assert {tool.spec.name.split("__")[1] for tool in servers.tools} == {"a", "b"}


async def test_without_the_package_one_sentence_says_how_to_get_it(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "foldline.agent.extensions.mcp.servers.find_spec", lambda _: None
    )
    servers = await harness.start(
        stdio_server("a", harness.diary), stdio_server("b", harness.diary)
    )
    servers.begin_turn()
    assert len(harness.notices) == 1
    assert "pip install 'foldline[mcp]'" in harness.notices[0]
    assert harness.log.pids == []


async def test_the_user_can_have_it_started_anew(harness: ServerHarness) -> None:
    servers = await harness.start(stdio_server("one", harness.diary))
    state = await servers.restart("one")
    assert str(state) == "connected, 10 tools"
    assert [is_alive(pid) for pid in harness.log.pids] == [False, True]


# --- results ----------------------------------------------------------------------------------------------


async def test_a_long_result_is_clipped_and_its_whole_is_in_a_file(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary))
    outcome = await harness.call(servers, "one:big", room=500, number=5_000)
    assert outcome.text.startswith("line 0 of many\n")
    assert outcome.text.rstrip().endswith("line 4999 of many")
    assert outcome.full_output is not None
    assert Path(outcome.full_output).name in outcome.text
    assert Path(outcome.full_output).read_text().count("\n") == 5_000


async def test_whatever_a_server_answers_comes_as_text_and_pictures(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary))
    picture = await harness.call(servers, "one:picture")
    assert [image.media_type for image in picture.images] == ["image/png"]
    assert (picture.text, picture.brief) == ("", "1 image")
    parts = await harness.call(servers, "one:parts")
    assert parts.text.splitlines()[:5] == [
        "plain red",
        "[resource memo://page]",
        "said in a resource",
        "[resource far, https://example.org/far]",
        tools.DAMAGED_IMAGE.format(type="image/png"),
    ]
    assert says(parts.text, images.BROKEN, type="image/png", size="40 B")
    assert parts.images == ()
    assert '"answer": 42' in (await harness.call(servers, "one:data")).text
    failed = await harness.call(servers, "one:fail")
    assert (failed.text, failed.is_error, failed.brief) == (
        "it cannot be done",
        True,
        "failed ✗",
    )
    half = await harness.call(servers, "one:echo", text="\ud800")
    assert half.is_error
    assert half.text == HALF_CHARACTER.format(tool="mcp__one__echo")
