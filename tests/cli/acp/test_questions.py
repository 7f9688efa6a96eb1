"""What Foldline asks, as an editor's requests for permission."""

import asyncio
from pathlib import Path

import pytest
from acp import schema

from foldline.agent.permissions.approvals import ANSWER_FREELY
from foldline.agent.session.plan import NO_ANSWER, NOT_ACCEPTED, OWN_WORDS
from foldline.agent.session.trust_question import NOT_AGREED
from foldline.cli.plain.commands import APPROVED
from foldline.frontend.questions import LEAVES_FOLDER
from foldline.llm.catalog import NEEDS_KEY
from support.editor import OFFLINE, call, editing, rule, scripted_server, texts
from support.homes import hooks
from support.sentences import pattern

pytestmark = pytest.mark.slow


def kinds(asked: schema.RequestPermissionRequest) -> list[str]:
    return [option.kind for option in asked.options]


@pytest.mark.quick
async def test_always_holds_in_the_session_and_in_the_project_in_later_ones(
    tmp_path: Path,
) -> None:
    run = [
        rule(f"run{n}", tool_calls=[call("bash", command="mkdir -p made")])
        for n in range(4)
    ]
    with scripted_server(*run) as (_, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            session = await editor.new(tmp_path)
            await editor.say(session, "run0")
            [asked] = editor.permissions
            assert kinds(asked) == [
                "allow_once",
                "allow_always",
                "allow_always",
                "reject_once",
            ]
            assert (
                asked.options[1].name == "Always in this session: exactly this command"
            )
            assert asked.tool_call.title == "mkdir -p made"
            assert (
                texts(asked.tool_call.content)
                == "Allow this bash call?\n```\nmkdir -p made\n```"
            )
            editor.allow = lambda _: "p"
            await editor.say(session, "run1")
            assert len(editor.permissions) == 2
            assert "always allowed in this project" in editor.text(session)
            await editor.say(session, "run2")
            await editor.say(await editor.new(tmp_path), "run3")
            assert len(editor.permissions) == 2


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("answer", ["n", None, "no such option"])
async def test_a_no_and_anything_that_is_no_yes_runs_nothing(
    tmp_path: Path, answer: str | None
) -> None:
    with scripted_server(
        rule("run", tool_calls=[call("bash", command="touch made")])
    ) as (server, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            editor.allow = lambda _: answer
            assert (
                await editor.say(await editor.new(tmp_path), "run it")
            ).stop_reason == "end_turn"
            assert editor.calls()[0]["status"] == "failed"
        assert not (tmp_path / "made").exists()
        assert (
            "The user declined this call"
            in server.requests()[-1].messages[-1]["content"]
        )


async def test_a_cancel_takes_the_question_back(tmp_path: Path) -> None:
    with scripted_server(
        rule("run", tool_calls=[call("bash", command="touch made")])
    ) as (_, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            editor.hold = asyncio.Event()
            session = await editor.new(tmp_path)
            asking = asyncio.create_task(editor.say(session, "run it"))
            await editor.until(lambda: editor.permissions)
            await editor.agent.cancel(session_id=session)
            assert (await asking).stop_reason == "cancelled"
            editor.hold.set()  # too late: it allows nothing any more
            assert (await editor.say(session, "hello")).stop_reason == "end_turn"
        assert not (tmp_path / "made").exists()


async def test_a_call_that_reaches_out_says_so_and_has_no_always(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("mine\n")
    with scripted_server(
        rule("look", tool_calls=[call("read", path="../secret.txt")])
    ) as (_, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            editor.allow = lambda _: "n"
            await editor.say(await editor.new(tmp_path / "work"), "look")
            [asked] = editor.permissions
            assert kinds(asked) == ["allow_once", "reject_once"]
            assert LEAVES_FOLDER in texts(asked.tool_call.content)


async def test_what_a_folder_brings_is_agreed_to_by_the_users_own_words_and_by_no_client_that_allows_all(
    tmp_path: Path,
) -> None:
    """Who has a client allow every call has not read what would run by itself, here and in later chats."""
    (tmp_path / "AGENTS.md").write_text("Always answer in Latin.\n")
    command = "touch ran\n: '<!-- no client\nhides this -->'"
    hooks(tmp_path / ".claude/settings.json", SessionStart=command)
    with scripted_server() as (server, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            session = await editor.new(tmp_path)
            await editor.until(lambda: "/approvals trust" in editor.text(session))
            assert "AGENTS.md: 1 line of instructions to the model" in editor.text(
                session
            )
            assert f"```\n{NOT_AGREED}" in editor.text(
                session
            ) and command in editor.text(session)
            await editor.say(session, "hello")
            assert editor.permissions == []
            assert "Latin" not in str(server.requests()[-1].messages)
            assert not (tmp_path / "ran").exists()
            (tmp_path / "AGENTS.md").write_text(
                "Always answer in Greek.\n"
            )  # nobody has seen this one
            await editor.say(session, "/approvals trust")
            assert APPROVED.format(files=".claude/settings.json") in editor.text(
                session
            )
            (tmp_path / "AGENTS.md").write_text("Always answer in Latin.\n")
            later = await editor.new(tmp_path)
            await editor.until(lambda: "AGENTS.md: 1 line" in editor.text(later))
            await editor.say(later, "/approvals trust")
            await editor.say(later, "hello")
            assert "Latin" in str(server.requests()[-1].messages)
            assert (tmp_path / "ran").exists()
            assert NOT_AGREED not in editor.text(await editor.new(tmp_path))


async def test_a_mode_is_set_by_its_name_and_decides_what_asks(tmp_path: Path) -> None:
    write = [
        rule(f"go{n}", tool_calls=[call("write", path="a.txt", content=f"{n}")])
        for n in range(2)
    ]
    with scripted_server(*write) as (_, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            opened = await editor.agent.new_session(cwd=str(tmp_path), mcp_servers=[])
            session = opened.session_id
            assert opened.modes is not None
            assert opened.modes.current_mode_id == "ask"
            offered = [mode.id for mode in opened.modes.available_modes]
            assert offered == ["ask", "edits", "sandboxed", "read-only", "all", "plan"]
            await editor.agent.set_session_mode(session_id=session, mode_id="edits")
            assert editor.of(schema.CurrentModeUpdate)[-1].current_mode_id == "edits"
            await editor.say(session, "go0")
            assert editor.permissions == []
            await editor.say(session, "/approvals ask")
            assert editor.of(schema.CurrentModeUpdate)[-1].current_mode_id == "ask"
            await editor.say(session, "go1")
            assert len(editor.permissions) == 1
            with pytest.raises(Exception, match="Unknown option or value: mode 'god'"):
                await editor.agent.set_session_mode(session_id=session, mode_id="god")


async def test_models_and_effort_are_options_of_the_session(tmp_path: Path) -> None:
    with scripted_server() as (server, environ):
        async with editing(
            home=tmp_path / "home", environ={**environ, "FOLDLINE_MODEL": ""}
        ) as editor:
            session = await editor.new(tmp_path)

            def named() -> dict[str, schema.SessionConfigOptionSelect]:
                found = editor.of(schema.ConfigOptionUpdate)
                return (
                    {each.id: each for each in found[-1].config_options}
                    if found
                    else {}
                )

            options = await editor.until(
                lambda: named() if "model" in named() else None
            )
            assert options["model"].current_value == server.model
            assert options["mode"].current_value == "ask"
            set_option = editor.agent.set_config_option
            answer = await set_option(
                config_id="thought_level", session_id=session, value="high"
            )
            assert answer is not None
            assert {each.id: each.current_value for each in answer.config_options}[
                "thought_level"
            ] == "high"
            await editor.say(session, "hello")
            await set_option(config_id="model", session_id=session, value="offline")
            assert named()["model"].current_value == "offline"
            await editor.say(session, "hello")
            assert len(server.requests()) == 1
            with pytest.raises(Exception, match=pattern(NEEDS_KEY)):
                await set_option(
                    config_id="model", session_id=session, value="any@deepseek"
                )
            with pytest.raises(Exception, match="Unknown option or value: colour"):
                await set_option(config_id="colour", session_id=session, value="red")


async def test_without_a_model_the_client_is_told_what_to_do(tmp_path: Path) -> None:
    async with editing(home=tmp_path / "home") as editor:
        for asking in (
            editor.new(tmp_path),
            editor.agent.authenticate(method_id="setup"),
        ):
            with pytest.raises(Exception, match="No model is set up") as refused:
                await asking
            assert refused.value.code == -32000
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text('model = "offline"\n')
        await editor.agent.authenticate(method_id="setup")
        assert (
            await editor.say(await editor.new(tmp_path), "hello")
        ).stop_reason == "end_turn"
    async with editing(*OFFLINE, home=tmp_path / "other") as editor:
        assert await editor.new(tmp_path)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("b", "The user chose: Postgres"),
        (None, NO_ANSWER),
    ],
)
async def test_a_question_of_the_model_is_asked_with_its_choices(
    tmp_path: Path, answer: str | None, result: str
) -> None:
    asks = call("ask_user", question="Which base?", choices=["SQLite", "Postgres"])
    with scripted_server(rule("choose", tool_calls=[asks])) as (server, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            editor.allow = lambda _: answer
            await editor.say(await editor.new(tmp_path), "choose")
            [asked] = editor.permissions
            assert [option.name for option in asked.options] == [
                "SQLite",
                "Postgres",
                "Leave undecided",
            ]
        assert server.requests()[-1].messages[-1]["content"] == result


async def test_a_plan_is_accepted_in_an_editor_and_the_mode_before_comes_back(
    tmp_path: Path,
) -> None:
    with scripted_server(
        rule("plan it", tool_calls=[call("plan", text="1. a test")])
    ) as (_, environ):
        async with editing(home=tmp_path / "home", environ=environ) as editor:
            editor.allow = lambda _: "y"
            session = await editor.new(tmp_path)
            await editor.say(session, "/plan")
            await editor.say(session, "plan it")
            [asked] = editor.permissions
            assert kinds(asked) == ["allow_once", "reject_once", "reject_once"]
            assert "1. a test" in texts(asked.tool_call.content)
            await editor.say(session, "/approvals")
            assert "Mode ask:" in editor.text(session)


async def test_where_the_editor_has_forms_a_question_is_answered_in_own_words_too(
    tmp_path: Path,
) -> None:
    asks = call("ask_user", question="Which base?", choices=["SQLite", "Postgres"])
    fills: list[tuple[dict[str, object] | None, str]] = [
        ({"answer": "b"}, "The user chose: Postgres"),
        ({"answer": "b", "words": " "}, "The user chose: Postgres"),
        (
            {"answer": "a", "words": "a file"},
            OWN_WORDS.format(answer="a file"),
        ),
        ({}, NO_ANSWER),
        (None, NO_ANSWER),
    ]
    with scripted_server(
        *(rule(f"choose {n}", tool_calls=[asks]) for n in range(5))
    ) as (server, environ):
        async with editing(
            home=tmp_path / "home", forms=True, environ=environ
        ) as editor:
            session = await editor.new(tmp_path)
            for n, (fill, result) in enumerate(fills):
                editor.fill = fill
                await editor.say(session, f"choose {n}")
                assert server.requests()[-1].messages[-1]["content"] == result
            message, form = editor.forms[0]
            assert (
                message == "Which base?"
                and len(editor.forms) == 5
                and not editor.permissions
            )
            listed = form.properties["answer"].one_of  # type: ignore[index, union-attr]
            assert [each.title for each in listed] == [
                "SQLite",
                "Postgres",
                "Leave undecided",
            ]  # type: ignore[union-attr]
            assert form.properties["words"].title == ANSWER_FREELY  # type: ignore[index, union-attr]
            editor.check_trace()


async def test_where_the_editor_has_forms_a_plan_is_declined_with_a_reason_and_calls_are_permissions(
    tmp_path: Path,
) -> None:
    plan, run = call("plan", text="1. a test"), call("bash", command="touch made")
    with scripted_server(
        rule("plan it", tool_calls=[plan]), rule("run it", tool_calls=[run])
    ) as (
        server,
        environ,
    ):
        async with editing(
            home=tmp_path / "home", forms=True, environ=environ
        ) as editor:
            editor.fill, editor.allow = (
                {"answer": "y", "words": "first the schema"},
                lambda _: "n",
            )
            session = await editor.new(tmp_path)
            await editor.say(session, "/plan")
            await editor.say(session, "plan it")
            said = NOT_ACCEPTED.format(reason=" and says: first the schema")
            assert server.requests()[-1].messages[-1]["content"] == said
            assert "1. a test" in editor.forms[0][0]
            await editor.say(session, "/approvals ask")
            await editor.say(session, "run it")
            assert len(editor.permissions) == 1 == len(editor.forms)
