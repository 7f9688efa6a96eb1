"""Our client of tool servers against those that the protocol's authors publish (`make test-real`)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from agent.mcp.conftest import FakeUser, ServerHarness, harness

from foldline.agent import Agent
from foldline.agent.extensions.mcp import ServerConfig
from foldline.agent.extensions.mcp.elicitation import DECLINE, SKIP, elicited
from foldline.agent.extensions.mcp.listing import ONLY_A_TASK
from foldline.agent.extensions.mcp.servers import PARTLY_RUN
from foldline.agent.extensions.mcp.tools import BINARY, BROKEN
from foldline.agent.session.server_prompts import resource_rows
from foldline.agent.turn.toolset import BY_SEARCH
from foldline.protocol import (
    FoldlineError,
    NoticeRecord,
    ToolResultMessage,
    UserMessage,
)
from support.agents import PATIENCE, PlayedLLM, agent_in, tool_reply
from support.mcp_server import RED_DOT, is_alive
from support.real_server import free_port
from support.sentences import says

__all__ = ["harness"]

INSTALLED = Path(sys.prefix) / "servers"
EVERYTHING = INSTALLED / "node_modules/.bin/mcp-server-everything"
FILES = INSTALLED / "node_modules/.bin/mcp-server-filesystem"
GIT = INSTALLED / "bin/mcp-server-git"
TIME = INSTALLED / "bin/mcp-server-time"
ASKS = "trigger-elicitation-request"
LONG = "trigger-long-running-operation"
HARMLESS = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}


def needs(program: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not program.exists(), reason=f"{program.name} not installed: make test-real"
    )


def everything(**config: object) -> ServerConfig:
    return ServerConfig(
        "everything", command=str(EVERYTHING), args=("stdio",), **config
    )  # type: ignore[arg-type]


def children(program: Path) -> list[int]:
    """The running processes of a program that this one has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            line = (process / "cmdline").read_text()
        except OSError:  # has ended meanwhile
            continue
        if (
            parent == os.getpid()
            and program.name in line
            and is_alive(int(process.name))
        ):
            found.append(int(process.name))
    return found


@contextmanager
def everything_over_http(port: int) -> Iterator[None]:
    process = subprocess.Popen(
        [EVERYTHING, "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert any("listening" in line for line in process.stdout)
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# --- the one that has everything --------------------------------------------------------------------


@needs(EVERYTHING)
async def test_its_tools_are_offered_but_for_the_one_that_is_a_task(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(everything())
    assert [str(state) for state in servers.states] == ["connected, 12 tools"]
    assert harness.notices == [
        BROKEN.format(
            server="everything",
            tools="1 tool",
            names=ONLY_A_TASK.format(name="simulate-research-query"),
        )
    ]
    (running,) = children(EVERYTHING)
    await servers.aclose()
    assert not is_alive(running)


@needs(EVERYTHING)
async def test_what_it_is_given_comes_back(harness: ServerHarness) -> None:
    servers = await harness.start(everything())
    assert (
        await harness.call(servers, "everything:echo", message="hällo")
    ).text == "Echo: hällo"
    assert (
        await harness.call(servers, "everything:get-sum", a=2, b=3)
    ).text == "The sum of 2 and 3 is 5."
    weather = await harness.call(
        servers, "everything:get-structured-content", location="Chicago"
    )
    assert set(json.loads(weather.text)) == {"temperature", "conditions", "humidity"}


@needs(EVERYTHING)
async def test_wrong_arguments_are_an_error_in_its_words(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(everything())
    outcome = await harness.call(servers, "everything:get-sum", a="two", b=3)
    assert outcome.is_error
    assert "Invalid arguments for tool get-sum" in outcome.text


@needs(EVERYTHING)
async def test_a_long_text_is_clipped_and_whole_in_a_file(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(everything())
    outcome = await harness.call(
        servers, "everything:echo", message="a long word " * 50_000
    )
    assert len(outcome.text) < 30_000
    assert outcome.full_output is not None
    assert Path(outcome.full_output).read_text() == "Echo: " + "a long word " * 50_000


@needs(EVERYTHING)
async def test_its_picture_is_shown_though_a_checksum_in_it_is_wrong(
    harness: ServerHarness,
) -> None:
    """Of its colour profile: modelcontextprotocol/servers, pull request 4816."""
    servers = await harness.start(everything())
    outcome = await harness.call(servers, "everything:get-tiny-image")
    assert [
        (image.media_type, image.width, image.height) for image in outcome.images
    ] == [("image/png", 20, 20)]
    assert outcome.text.splitlines() == [
        "Here's the image you requested:",
        "The image above is the MCP logo.",
    ]


@needs(EVERYTHING)
async def test_resources_are_text_or_named(harness: ServerHarness) -> None:
    servers = await harness.start(everything())
    links = await harness.call(servers, "everything:get-resource-links", count=2)
    assert "[resource Text Resource 2, demo://resource/dynamic/text/2: " in links.text
    text = await harness.call(
        servers, "everything:get-resource-reference", resourceType="Text", resourceId=1
    )
    assert (
        "[resource demo://resource/dynamic/text/1]\nResource 1: This is a plaintext resource"
        in text.text
    )
    blob = await harness.call(
        servers, "everything:get-resource-reference", resourceType="Blob", resourceId=1
    )
    assert (
        BINARY.format(uri="demo://resource/dynamic/blob/1", type="text/plain")
        in blob.text
    )


@needs(EVERYTHING)
async def test_no_key_of_ours_is_in_its_environment(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-key")
    monkeypatch.setenv("EXTRA", "of the user")
    servers = await harness.start(everything(env={"TOKEN": "${T}"}), T="t0ken-value")
    environment = json.loads((await harness.call(servers, "everything:get-env")).text)
    assert environment.pop("TOKEN") == "t0ken-value"
    assert {"HOME", "PATH"} <= set(environment) <= HARMLESS


@needs(EVERYTHING)
async def test_its_progress_is_shown_as_it_comes(harness: ServerHarness) -> None:
    servers = await harness.start(everything())
    outcome = await harness.call(servers, f"everything:{LONG}", duration=0.3, steps=3)
    assert harness.outputs == ["1 of 3\n", "2 of 3\n", "3 of 3\n"]
    assert (
        outcome.text
        == "Long running operation completed. Duration: 0.3 seconds, Steps: 3."
    )


async def cancelled(harness: ServerHarness, servers: object) -> None:
    call = asyncio.create_task(
        harness.call(servers, f"everything:{LONG}", duration=8, steps=40)
    )  # type: ignore[arg-type]
    await harness.until(lambda: harness.outputs)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    harness.outputs.clear()


@needs(EVERYTHING)
async def test_of_a_cancelled_call_nothing_more_is_heard(
    harness: ServerHarness,
) -> None:
    """The server goes on with it and reports, beside the call that comes next."""
    servers = await harness.start(everything())
    await cancelled(harness, servers)
    await harness.call(servers, f"everything:{LONG}", duration=1, steps=2)
    assert harness.outputs == ["1 of 2\n", "2 of 2\n"]


@needs(EVERYTHING)
async def test_killed_in_mid_call_it_is_one_result_and_started_again(
    harness: ServerHarness,
) -> None:
    servers = await harness.start(everything())
    harness.notices.clear()
    call = asyncio.create_task(
        harness.call(servers, f"everything:{LONG}", duration=60, steps=600)
    )
    await harness.until(lambda: harness.outputs)
    (running,) = children(EVERYTHING)
    os.kill(running, signal.SIGKILL)
    outcome = await call
    assert outcome.is_error
    assert says(outcome.text, PARTLY_RUN)
    assert len(harness.notices) == 1
    assert (
        await harness.call(servers, "everything:echo", message="again")
    ).text == "Echo: again"
    assert children(EVERYTHING) != [running]


@needs(EVERYTHING)
async def test_at_an_address_it_is_the_same(harness: ServerHarness) -> None:
    port = free_port()
    with everything_over_http(port):
        servers = await harness.start(
            ServerConfig("everything", url=f"http://127.0.0.1:{port}/mcp")
        )
        assert [str(state) for state in servers.states] == ["connected, 12 tools"]
        await harness.call(servers, f"everything:{LONG}", duration=0.3, steps=3)
        assert harness.outputs == ["1 of 3\n", "2 of 3\n", "3 of 3\n"]
        harness.outputs.clear()
        await cancelled(harness, servers)
        assert (
            await harness.call(servers, "everything:echo", message="still")
        ).text == "Echo: still"
        await servers.aclose()


@needs(EVERYTHING)
async def test_started_anew_at_its_address_it_has_forgotten_us_and_is_reached_again(
    harness: ServerHarness,
) -> None:
    port = free_port()
    with everything_over_http(port):
        servers = await harness.start(
            ServerConfig("everything", url=f"http://127.0.0.1:{port}/mcp")
        )
    with everything_over_http(port):
        assert (
            await harness.call(servers, "everything:echo", message="again")
        ).text == "Echo: again"
        await servers.aclose()


# --- what it has beside tools ------------------------------------------------------------------------


def sent(agent: Agent) -> str:
    """What stands below the user's words in the newest prompt."""
    return next(
        entry
        for entry in reversed(agent.session.entries)
        if isinstance(entry, UserMessage)
    ).piped


@needs(EVERYTHING)
async def test_a_resource_that_is_named_goes_along_and_one_that_is_none_is_said(
    harness: ServerHarness,
) -> None:
    agent, _ = agent_in(
        harness.folder, PlayedLLM(), servers=harness.servers(everything())
    )
    await agent.prompt("Compare @everything:demo://resource/dynamic/text/7, please.")
    assert '<resource source="everything:demo://resource/dynamic/text/7">' in sent(
        agent
    )
    assert "Resource 7: This is a plaintext resource" in sent(agent)
    rows = {name: is_whole for name, _, is_whole in resource_rows(agent.state)}
    assert rows["everything:demo://resource/static/document/features.md"]
    assert not rows["everything:demo://resource/dynamic/text/"]
    with pytest.raises(
        FoldlineError, match=r"@everything:demo://nowhere cannot be read: .* not found"
    ):
        await agent.prompt("Read @everything:demo://nowhere")
    await agent.aclose()


@needs(EVERYTHING)
@pytest.mark.parametrize(
    ("typed", "filled"),
    [
        ("/everything:simple-prompt", "This is a simple prompt without arguments."),
        ("/everything:args-prompt 'New York' NY", "What's weather in New York, NY?"),
        ("/everything:args-prompt Oslo", "What's weather in Oslo?"),
        (
            "/everything:resource-prompt Text 3",
            "Resource 3: This is a plaintext resource",
        ),
    ],
)
async def test_its_prompts_are_called_like_commands(
    harness: ServerHarness, typed: str, filled: str
) -> None:
    agent, _ = agent_in(
        harness.folder, PlayedLLM(), servers=harness.servers(everything())
    )
    await agent.prompt("hello")
    await agent.prompt(typed)
    assert '<slash-command source="MCP server everything">' in sent(agent)
    assert filled in sent(agent)
    await agent.aclose()


async def asked(harness: ServerHarness, person: FakeUser) -> str:
    """What its long form gets of somebody."""
    servers = harness.servers(everything())
    servers.ask = partial(elicited, person.choices)
    servers.start()
    await servers.settled(PATIENCE)
    # It lists this tool only once it knows that somebody can be asked, and says that its list has changed.
    await harness.until(
        lambda: any(ASKS in spec for spec in servers.by_name["everything"].offers)
    )
    return (await harness.call(servers, f"everything:{ASKS}")).text


@needs(EVERYTHING)
async def test_its_form_of_all_kinds_of_fields_is_filled_in_as_it_wants_them(
    harness: ServerHarness,
) -> None:
    answers = [
        "oAda",
        "=yes",
        f"={SKIP}",
        "oada@example.org",
        f"={SKIP}",
        "o1815-12-10",
        "o0",
        "o7",
        "o2.5",
        "=Ross",
    ]
    person = FakeUser(*answers, "oPiano, Bass", "c", "oSalmon", "a")
    text = await asked(harness, person)
    said = json.loads(text.rpartition("Raw result: ")[2])
    assert said["action"] == "accept"
    assert said["content"] == {
        "name": "Ada",
        "check": True,
        "email": "ada@example.org",
        "birthdate": "1815-12-10",
        "integer": 7,
        "number": 2.5,
        "untitledSingleSelectEnum": "Ross",
        "untitledMultipleSelectEnum": ["Piano", "Bass"],
        "titledSingleSelectEnum": "hero-3",
        "titledMultipleSelectEnum": ["fish-2"],
        "legacyTitledEnum": "pet-1",
    }
    assert "at least 1" in person.questions[7].detail


@needs(EVERYTHING)
@pytest.mark.parametrize(
    ("answer", "says"),
    [(f"={DECLINE}", "declined to provide"), ("", "cancelled the elicitation")],
)
async def test_its_form_is_declined_or_left(
    harness: ServerHarness, answer: str, says: str
) -> None:
    assert says in await asked(harness, FakeUser(answer))


@needs(EVERYTHING)
async def test_what_a_call_adds_to_its_resources_can_be_named_at_once(
    harness: ServerHarness,
) -> None:
    call = (
        "mcp__everything__gzip-file-as-resource",
        {"name": "new.gz", "data": "data:text/plain,hello"},
    )
    servers = harness.servers(everything())
    agent, _ = agent_in(harness.folder, PlayedLLM(tool_reply(call)), servers=servers)
    await agent.prompt("Pack it")
    await harness.until(
        lambda: any(
            name == "everything:demo://resource/session/new.gz"
            for name, *_ in resource_rows(agent.state)
        )
    )
    await agent.prompt("See @everything:demo://resource/session/new.gz")
    assert says(sent(agent), BINARY, type="application/gzip")
    await agent.aclose()


@needs(EVERYTHING)
@needs(FILES)
@needs(GIT)
async def test_many_tools_of_several_servers_are_found_by_a_search_and_called(
    harness: ServerHarness,
) -> None:
    configs = (
        everything(),
        ServerConfig("files", command=str(FILES), args=(str(harness.folder),)),
        ServerConfig("git", command=str(GIT)),
    )
    llm = PlayedLLM(
        tool_reply(("tool_search", {"query": "sum of two numbers"})),
        tool_reply(("mcp__everything__get-sum", {"a": 2, "b": 3}), stem="d"),
    )
    agent, _ = agent_in(harness.folder, llm, servers=harness.servers(*configs))
    await agent.prompt("Add 2 and 3")
    first, second, third = (
        [tool.name for tool in request.tools] for request in llm.requests
    )
    assert "tool_search" in first
    assert not any(name.startswith("mcp__") for name in first)
    assert "mcp__everything__get-sum" in second
    assert second == third
    assert len([name for name in second if name.startswith("mcp__")]) <= 8
    results = [
        entry.text
        for entry in agent.session.entries
        if isinstance(entry, ToolResultMessage)
    ]
    assert results[-1] == "The sum of 2 and 3 is 5."
    [notice] = [
        entry.text for entry in agent.session.entries if isinstance(entry, NoticeRecord)
    ]
    assert notice.endswith(BY_SEARCH)
    await agent.aclose()


# --- files, Git, the time ----------------------------------------------------------------------------


@needs(FILES)
async def test_files_are_written_and_read_in_its_folder_and_nowhere_else(
    harness: ServerHarness,
) -> None:
    allowed = harness.folder / "allowed"
    allowed.mkdir()
    (harness.folder / "secret").write_text("planted")
    (allowed / "way out").symlink_to(harness.folder / "secret")
    (allowed / "dot.png").write_bytes(RED_DOT)
    servers = await harness.start(
        ServerConfig("files", command=str(FILES), args=(str(allowed),))
    )
    assert harness.notices == []
    path = str(allowed / "a.txt")
    assert not (
        await harness.call(servers, "files:write_file", path=path, content="one\ntwo\n")
    ).is_error
    edits = [{"oldText": "two", "newText": "three"}]
    assert not (
        await harness.call(servers, "files:edit_file", path=path, edits=edits)
    ).is_error
    assert (
        await harness.call(servers, "files:read_text_file", path=path)
    ).text == "one\nthree\n"
    for outside in (
        harness.folder / "secret",
        allowed / ".." / "secret",
        allowed / "way out",
    ):
        outcome = await harness.call(servers, "files:read_text_file", path=str(outside))
        assert outcome.is_error and "Access denied" in outcome.text
    picture = await harness.call(
        servers, "files:read_media_file", path=str(allowed / "dot.png")
    )
    assert [(image.media_type, image.width) for image in picture.images] == [
        ("image/png", 1)
    ]


@needs(GIT)
async def test_git_tells_the_log_of_a_repository(harness: ServerHarness) -> None:
    repository = harness.folder / "repository"

    def git(*words: str) -> None:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(
            ["git", "-C", repository, *who, *words], check=True, capture_output=True
        )

    repository.mkdir()
    git("init", "-q")
    for number in (1, 2):
        (repository / "file").write_text(f"line {number}\n")
        git("add", "file")
        git("commit", "-q", "-m", f"change {number}")
    servers = await harness.start(ServerConfig("git", command=str(GIT)))
    assert harness.notices == []
    log = (
        await harness.call(
            servers, "git:git_log", repo_path=str(repository), max_count=1
        )
    ).text
    assert "change 2" in log and "Ada" in log and "change 1" not in log
    shown = await harness.call(
        servers, "git:git_show", repo_path=str(repository), revision="HEAD"
    )
    assert "-line 1\n+line 2" in shown.text
    nowhere = await harness.call(
        servers, "git:git_log", repo_path=str(harness.folder / "nowhere")
    )
    assert nowhere.is_error


@needs(TIME)
async def test_the_time_is_converted_and_a_zone_that_is_none_is_an_error(
    harness: ServerHarness,
) -> None:
    config = ServerConfig("time", command=str(TIME), args=("--local-timezone", "UTC"))
    servers = await harness.start(config)
    assert harness.notices == []
    zones = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
    told = await harness.call(servers, "time:convert_time", time="12:00", **zones)
    assert json.loads(told.text)["target"]["datetime"].endswith("T21:00:00+09:00")
    none = await harness.call(servers, "time:get_current_time", timezone="Nowhere")
    assert none.is_error and "Invalid timezone" in none.text
