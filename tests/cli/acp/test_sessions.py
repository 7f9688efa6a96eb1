"""Sessions of an editor: several at once, loaded, listed, lent tool servers, and killed."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from acp import RequestError, schema

from foldline.cli.acp.server import INVALID_CURSOR
from foldline.history import Session, find_session
from foldline.view.rules import broken
from support import warm
from support.command_line import CommandLine, cli
from support.editor import OFFLINE, call, editing, rule, scripted_server, texts
from support.history import history
from support.mcp_server import TESTS, Diary, http_server

pytestmark = pytest.mark.slow

__all__ = ["cli"]


@pytest.mark.quick
async def test_a_session_is_loaded_with_everything_that_was_said(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    calls = [
        call("read", path="notes.txt"),
        call("write", path="b.txt", content="two\n"),
    ]
    with scripted_server(
        rule("go", thinking="Hm.", text="I look.", tool_calls=calls)
    ) as (_, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            session = await editor.new(tmp_path)
            await editor.say(session, "go there")
            seen, said = editor.calls(), editor.text()
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            opened = await editor.agent.load_session(
                cwd=str(tmp_path), session_id=session, mcp_servers=[]
            )
            assert opened is not None and opened.modes is not None
            assert [
                each.content.text for each in editor.of(schema.UserMessageChunk)
            ] == ["go there"]
            assert (
                "".join(e.content.text for e in editor.of(schema.AgentThoughtChunk))
                == "Hm."
            )
            assert editor.text() == said
            same = ("title", "kind", "status", "content", "locations", "raw_input")
            assert [[each[name] for name in same] for each in editor.calls()] == [
                [each[name] for name in same] for each in seen
            ]
            assert editor.of(schema.SessionInfoUpdate)[-1].title == "go there"
            assert (await editor.say(session, "hello")).stop_reason == "end_turn"
            assert editor.check_trace() > 5


async def test_resuming_replays_nothing_and_closing_gives_the_session_back(
    tmp_path: Path,
) -> None:
    async with editing(*OFFLINE, home=tmp_path / "home") as first:
        session = await first.new(tmp_path)
        await first.say(session, "hello")
        async with editing(*OFFLINE, home=tmp_path / "home") as second:
            again = {"cwd": str(tmp_path), "session_id": session, "mcp_servers": []}
            with pytest.raises(RequestError, match=r"written by|writes"):
                await second.agent.load_session(**again)
            await first.agent.close_session(session_id=session)
            with pytest.raises(RequestError, match="is not open"):
                await first.say(session, "hello")
            await second.agent.resume_session(**again)
            assert second.of(schema.UserMessageChunk) == []
            assert (await second.say(session, "hello")).stop_reason == "end_turn"
            await second.agent.load_session(**again)  # that it has open itself
            assert len(second.of(schema.UserMessageChunk)) == 2


@pytest.mark.quick
async def test_sessions_are_listed_by_folder_a_page_at_a_time(
    tmp_path: Path, cli: CommandLine
) -> None:
    (tmp_path / "other").mkdir()

    def keep(text: str, cwd: Path) -> Path:
        return cli.keep(history().user(text).assistant("yes").entries, cwd=cwd)

    kept = [await asyncio.to_thread(keep, f"number {n}", cli.cwd) for n in range(60)]
    other = await asyncio.to_thread(keep, "elsewhere", tmp_path / "other")
    async with editing(*OFFLINE, home=cli.home) as editor:
        first = await editor.agent.list_sessions(cwd=str(cli.cwd))
        assert len(first.sessions) == 50 and first.next_cursor
        rest = await editor.agent.list_sessions(
            cwd=str(cli.cwd), cursor=first.next_cursor
        )
        assert rest.next_cursor is None
        listed = {each.session_id: each for each in (*first.sessions, *rest.sessions)}
        assert set(listed) == {path.name for path in kept}
        assert listed[kept[7].name].title == "number 7"
        assert {each.cwd for each in listed.values()} == {str(cli.cwd)}
        everywhere = await editor.agent.list_sessions()
        assert other.name in {each.session_id for each in everywhere.sessions} | {
            each.session_id
            for each in (
                await editor.agent.list_sessions(cursor=everywhere.next_cursor)
            ).sessions
        }
        with pytest.raises(RequestError, match=INVALID_CURSOR.format(cursor="-1")):
            await editor.agent.list_sessions(cursor="-1")


async def test_sessions_of_one_process_keep_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text(f"of {name}\n")
    look = rule("look", times=2, tool_calls=[call("read", path="notes.txt")])
    with scripted_server(rule("wait", text="late", seconds=600), look) as (
        server,
        environ,
    ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            first, second = [await editor.new(tmp_path / name) for name in ("a", "b")]
            waiting = asyncio.create_task(editor.say(first, "wait"))
            await asyncio.to_thread(server.wait_for, lambda seen: len(seen) == 1)
            await editor.say(second, "look")
            assert "of b" in texts(editor.calls(second)[0]["content"])
            await editor.agent.cancel(session_id=first)
            assert (await waiting).stop_reason == "cancelled"
            await editor.say(first, "look")
            assert "of a" in texts(editor.calls(first)[0]["content"])


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("cwd", ["relative", "", "/no/such/folder", __file__])
async def test_a_folder_that_is_none_is_refused(tmp_path: Path, cwd: str) -> None:
    async with editing(*OFFLINE, home=tmp_path / "home") as editor:
        with pytest.raises(RequestError, match="folder") as refused:
            await editor.agent.new_session(cwd=cwd, mcp_servers=[])
        assert refused.value.code == -32602


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "part", ["unknown", "", "20", "{id}/events.jsonl", "../{id}", "{end}"]
)
async def test_only_the_whole_id_of_a_session_loads_it(
    tmp_path: Path, part: str
) -> None:
    async with editing(*OFFLINE, home=tmp_path / "home") as editor:
        session = await editor.new(tmp_path)
        await editor.say(session, "hello")
        await editor.agent.close_session(session_id=session)
        asked = part.format(id=session, end=session[-6:])
        with pytest.raises(RequestError) as refused:
            await editor.agent.load_session(
                cwd=str(tmp_path), session_id=asked, mcp_servers=[]
            )
        assert refused.value.code == -32002


async def test_tool_servers_of_the_client_lend_their_tools(tmp_path: Path) -> None:
    command, *arguments = warm.command(
        "support.mcp_server", "--diary", str(tmp_path / "own.jsonl")
    )
    stdio = schema.McpServerStdio(
        name="own",
        command=command,
        args=arguments,
        env=[
            schema.EnvVariable(name="PYTHONPATH", value=str(TESTS)),
            schema.EnvVariable(name="TAKEN", value="${OPENAI_API_KEY}"),
        ],
    )
    asked = [
        call("mcp__own__echo", text="from a program"),
        call("mcp__far__echo", text="from far"),
    ]
    with (
        http_server(tmp_path / "far.jsonl") as (url, _),
        scripted_server(rule("go", tool_calls=asked)) as (_, environ),
    ):
        far = schema.HttpMcpServer(type="http", name="far", url=url, headers=[])
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            await editor.say(await editor.new(tmp_path, [stdio, far]), "go")
            assert [each["status"] for each in editor.calls()] == [
                "completed",
                "completed",
            ]
            assert "from a program" in texts(editor.calls()[0]["content"])
            assert "from far" in texts(editor.calls()[1]["content"])
            [started] = Diary(tmp_path / "own.jsonl").of("environment")
            assert started["TAKEN"] == "${OPENAI_API_KEY}"
            sse = schema.SseMcpServer(type="sse", name="old", url=url, headers=[])
            with pytest.raises(RequestError, match="only stdio and http"):
                await editor.new(tmp_path, [sse])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_killed_in_mid_turn_the_session_is_loaded_as_far_as_it_came(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = "echo $$ > pid; sleep 600"
    with scripted_server(
        rule("go", text="I wait.", tool_calls=[call("bash", command=command)])
    ) as (
        server,
        environ,
    ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            session = await editor.new(tmp_path)
            asking = asyncio.create_task(editor.say(session, "go"))
            await editor.until(
                lambda: [c for c in editor.calls() if c["status"] == "in_progress"]
            )
            editor.process.send_signal(number)
            [answer] = await asyncio.gather(asking, return_exceptions=True)
            assert isinstance(answer, Exception) or answer.stop_reason == "cancelled"
            code = await editor.process.wait()
            assert code == (-9 if number is signal.SIGKILL else 143)
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            await editor.agent.load_session(
                cwd=str(tmp_path), session_id=session, mcp_servers=[]
            )
            assert "I wait." in editor.text()
            assert (await editor.say(session, "hello")).stop_reason == "end_turn"
        assert server.requests()[-1].violations == ()


async def test_when_the_editor_goes_what_ran_is_ended_and_the_session_is_free(
    tmp_path: Path,
) -> None:
    command = "echo $$ > pid; sleep 600"
    with scripted_server(rule("go", tool_calls=[call("bash", command=command)])) as (
        _,
        environ,
    ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            session = await editor.new(tmp_path)
            asking = asyncio.create_task(editor.say(session, "go"))
            await editor.until(
                lambda: [c for c in editor.calls() if c["status"] == "in_progress"]
            )
            while (
                not (tmp_path / "pid").exists()
                or not (tmp_path / "pid").read_text().strip()
            ):
                await asyncio.sleep(0.01)
            assert editor.process.stdin is not None
            editor.process.stdin.close()
            assert await editor.process.wait() == 0
            asking.cancel()
        pid = int((tmp_path / "pid").read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        kept = Session.open(find_session(tmp_path / "home", session))
        kept.claim()
        assert not broken(kept.projection)
        kept.close()
