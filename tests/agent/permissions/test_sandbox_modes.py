"""The modes in which commands run in the sandbox."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.permissions.approvals import Policy, decide
from foldline.agent.permissions.confinement import BLOCKED, CREATED
from foldline.agent.permissions.sandbox import NETWORK_ACCESS, WRITE_ACCESS
from foldline.agent.permissions.sandbox_engine import Engine, engine_here
from foldline.agent.permissions.sandbox_policy import SandboxOptions
from foldline.agent.permissions.sandbox_record import EXISTED
from foldline.agent.settings.settings import load_settings
from foldline.agent.turn.calls import CREATED as KEEP
from foldline.agent.turn.calls import KEPT, REJECTED
from foldline.history import Session
from foldline.protocol import (
    FoldlineError,
    Rule,
    ToolResultMessage,
    UserMessage,
    events,
    operations,
)
from support.agents import PlayedLLM, Watch, tool_reply
from support.sandboxes import require_engine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(
        "HOME", str(tmp_path)
    )  # in `/tmp`, commands have files of their own
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


def answer_all(agent: Agent, answer: str) -> list[str]:
    """Gives this answer to each question of a call; what was asked."""
    asked: list[str] = []

    def hear(event: events.Event) -> None:
        if isinstance(event, events.ApprovalRequested):
            asked.append(event.title)
            word = {"call_id": event.call_id, "answer": answer}
            agent.executor.submit(operations.Approve.model_validate(word))

    agent.executor.subscribe(hear)
    return asked


async def worked(
    folder: Path,
    mode: Any,
    *calls: tuple[str, dict[str, Any]],
    answer: str = "deny",
    engine: Engine | None = None,
    sandbox: SandboxOptions | None = None,
) -> tuple[list[str], list[str]]:
    """What was asked, and the results."""
    llm = PlayedLLM(tool_reply(*calls))
    agent = Agent(Session.create(folder), llm=llm, approvals=mode, sandbox=sandbox)
    agent.state.permissions.sandbox.engine = engine
    asked = answer_all(agent, answer)
    await agent.prompt("go")
    results = [
        entry.text
        for entry in agent.session.entries
        if isinstance(entry, ToolResultMessage)
    ]
    await agent.aclose()
    return asked, results


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return ("bash", {"command": command})


async def test_what_stays_inside_runs_unasked_and_what_was_refused_is_asked_about(
    folder: Path,
) -> None:
    require_engine("bubblewrap")
    out = folder.parent / "out"
    asked, results = await worked(
        folder, "sandboxed", bash("echo a >a"), bash(f"echo b >{out}")
    )
    assert len(asked) == 1
    access = WRITE_ACCESS.format(paths=out)
    assert f"needs {access}." in asked[0]
    assert BLOCKED.format(access=access) in results[1]
    assert (folder / "a").exists()
    assert not out.exists()


async def test_once_allowed_it_runs_outside(folder: Path) -> None:
    require_engine("bubblewrap")
    out = folder.parent / "out"
    asked, _ = await worked(folder, "sandboxed", bash(f"echo b >{out}"), answer="once")
    assert len(asked) == 1
    assert out.read_text() == "b\n"


async def test_a_host_that_is_always_allowed_is_a_rule_of_its_own(folder: Path) -> None:
    require_engine("bubblewrap")
    get = bash("curl -fsS --max-time 9 http://localhost.invalid/")
    asked, results = await worked(folder, "sandboxed", get, answer="always")
    assert f"needs {NETWORK_ACCESS}: localhost.invalid." in asked[0]
    assert len(asked) == 1
    assert len(results) == 1


async def test_a_page_that_is_our_refusal_is_asked_about_too(folder: Path) -> None:
    """`curl` without `--fail` takes it for an answer, and does not fail."""
    require_engine("bubblewrap")
    get = "curl -sS --max-time 9 http://localhost.invalid/"
    asked, results = await worked(
        folder, "sandboxed", bash(get), bash(f"{get} >/dev/null")
    )
    assert [each.partition("needs ")[2] for each in asked] == [
        f"{NETWORK_ACCESS}: localhost.invalid. Run it again with this access?"
    ]
    access = f"{NETWORK_ACCESS}: localhost.invalid"
    assert BLOCKED.format(access=access) in results[0]


@pytest.mark.parametrize("answer", ["deny", "once"])
async def test_what_is_new_and_acts_by_itself_is_asked_about(
    folder: Path, answer: str
) -> None:
    require_engine("bubblewrap")
    asked, results = await worked(
        folder,
        "sandboxed",
        bash("echo x >.envrc; mkdir d"),
        bash("cat .envrc"),
        answer=answer,
    )
    assert len(asked) == 1
    assert asked[0].endswith(KEEP.format(title="", paths=folder / ".envrc"))
    assert CREATED.format(paths=folder / ".envrc") in results[0]
    names = {path.name[:12] for path in folder.iterdir()}
    if answer == "once":
        assert (names, results[1]) == ({".envrc", "d"}, "x\n")
    else:
        assert names == {".envrc.aside", "d"}
        assert f"{REJECTED}: {folder}/.envrc was renamed to .envrc.aside-" in results[0]


async def test_what_a_job_makes_is_said_when_it_has_ended(folder: Path) -> None:
    require_engine("bubblewrap")
    waits = ("jobs", {"action": "wait", "job": 1})
    job = (
        "bash",
        {
            "command": "while ! test -e go; do sleep 0.01; done; echo x >.envrc",
            "background": True,
        },
    )
    llm = PlayedLLM(tool_reply(job, waits))
    agent = Agent(Session.create(folder), llm=llm, approvals="sandboxed")
    said: list[str] = []

    def hear(event: events.Event) -> None:
        if isinstance(event, events.Notice):
            said.append(event.text)
        if isinstance(event, events.ToolStarted) and event.name == "jobs":
            (
                folder / "go"
            ).touch()  # no other command runs, which might be the one to see it

    agent.executor.subscribe(hear)
    await agent.prompt("go")
    await agent.aclose()
    assert [
        each for each in said if each.endswith(CREATED.format(paths=folder / ".envrc"))
    ]


async def test_read_only_changes_nothing(folder: Path) -> None:
    require_engine("bubblewrap")
    write = ("write", {"path": "a", "content": "x"})
    asked, results = await worked(
        folder, "read-only", write, bash("echo b >b"), bash("echo seen")
    )
    assert asked == []
    assert "read-only" in results[0]
    assert results[2] == "seen\n"
    assert list(folder.iterdir()) == []


async def test_where_none_holds_sandboxed_asks_and_read_only_runs_no_command(
    folder: Path,
) -> None:
    none = Engine("", "nothing here")
    asked, _ = await worked(folder, "sandboxed", bash("echo a >a"), engine=none)
    assert asked == ["echo a >a"]
    asked, results = await worked(folder, "read-only", bash("echo a >a"), engine=none)
    assert (asked, list(folder.iterdir())) == ([], [])
    assert "need a sandbox" in results[0]


@pytest.mark.parametrize(
    ("mode", "level", "inside", "in_box", "box", "expected"),
    [
        ("sandboxed", "run", False, True, "whole", "allow"),
        ("sandboxed", "run", True, True, "part", "ask"),
        ("sandboxed", "edit", True, False, "whole", "allow"),
        ("sandboxed", "edit", False, False, "whole", "ask"),
        ("sandboxed", "edit", True, False, "part", "ask"),
        ("sandboxed", "run", True, False, "whole", "ask"),
        ("read-only", "run", True, True, "part", "allow"),
        ("read-only", "edit", True, False, "whole", "refuse"),
        ("read-only", "read", True, False, "", "allow"),
        ("ask", "run", True, True, "whole", "ask"),
    ],
)
def test_what_a_mode_makes_of_a_call(
    mode: Any, level: Any, inside: bool, in_box: bool, box: Any, expected: str
) -> None:
    policy = Policy(mode)
    assert (
        decide(policy, level, [Rule(tool="x")], inside=inside, box=box, in_box=in_box)
        == expected
    )


async def test_commands_of_the_users_own_run_in_it(folder: Path) -> None:
    require_engine("bubblewrap")
    out = folder.parent / "out"
    agent = Agent(
        Session.create(folder),
        llm=PlayedLLM(),
        approvals="sandboxed",
    )
    await agent.executor.wait_for(
        agent.executor.submit(operations.RunShell(command=f"echo b >{out}"))
    )
    said = "\n".join(
        entry.text for entry in agent.session.entries if isinstance(entry, UserMessage)
    )
    await agent.aclose()
    assert not out.exists()
    assert BLOCKED.format(access=WRITE_ACCESS.format(paths=out)) in said


async def test_what_the_settings_add_may_be_written_and_what_they_hide_is_not_read(
    folder: Path, tmp_path: Path
) -> None:
    require_engine("bubblewrap")
    cache, secret = tmp_path / "cache", tmp_path / "secret.txt"
    cache.mkdir()
    secret.write_text("hush")
    config = tmp_path / "home" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(
        f"[sandbox]\nwritable = ['{cache}']\nhidden = ['{secret}']\nhosts = ['*.example.org']\n"
    )
    settings = load_settings(folder, os.environ)
    options = settings.sandbox_options
    assert options.hosts == ["*.example.org"]
    calls = (bash(f"echo a >{cache}/a"), bash(f"cat {secret}"))
    asked, results = await worked(folder, "sandboxed", *calls, sandbox=options)
    assert (cache / "a").exists()
    assert "hush" not in results[1]
    assert len(asked) == 1


@pytest.mark.parametrize("is_whole", [True, False])
async def test_whether_it_holds_is_known_from_the_start_and_said_once(
    folder: Path, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And why not, also where the mode comes from the settings; a switch to such a mode says it again."""
    engine = engine_here() if is_whole else Engine("", "nothing here")
    monkeypatch.setattr(
        "foldline.agent.permissions.sandbox.engine_here", lambda: engine
    )
    llm = PlayedLLM(tool_reply(bash("true"), bash("true")))
    agent = Agent(Session.create(folder), llm=llm, approvals="sandboxed")
    watch = Watch(agent)
    agent.start()
    assert (await watch.first(events.SandboxKnown)).holds == engine.holds
    answer_all(agent, "once")
    await agent.prompt("go")
    assert len(watch.of(events.SandboxKnown)) == 1
    assert watch.notices == ([] if engine.holds else [engine.why])
    agent.executor.submit(operations.SwitchApprovals(mode="read-only"))
    await watch.until(lambda: engine.holds or watch.notices == [engine.why] * 2)
    await agent.aclose()


async def test_what_a_refused_command_made_is_asked_about_though_it_ran_again_outside(
    folder: Path,
) -> None:
    require_engine("bubblewrap")
    out = folder.parent / "out"
    asked, _ = await worked(
        folder, "sandboxed", bash(f"echo x >.envrc; echo b >{out}"), answer="once"
    )
    assert [question.partition("\n")[2].partition(" ")[0] for question in asked] == [
        "needs",
        "created",
    ]


@pytest.mark.parametrize(
    ("command", "until"),
    [
        ("echo x >.envrc; echo made; sleep 60", events.ToolOutput),
        ("echo x >.envrc", events.ApprovalRequested),
    ],
    ids=["while it runs", "while it is asked about"],
)
async def test_what_a_cancelled_command_made_is_said_at_once(
    folder: Path,
    command: str,
    until: type[events.ToolOutput | events.ApprovalRequested],
) -> None:
    require_engine("bubblewrap")
    agent = Agent(
        Session.create(folder),
        llm=PlayedLLM(tool_reply(bash(command))),
        approvals="sandboxed",
    )
    watch = Watch(agent)
    turn = asyncio.create_task(agent.prompt("go"))
    await watch.first(until)
    agent.executor.submit(operations.Interrupt())
    with pytest.raises(FoldlineError):
        await turn
    assert CREATED.format(paths=folder / ".envrc") in watch.notices
    await agent.aclose()


async def test_what_the_user_had_is_never_renamed(folder: Path) -> None:
    """Also where a command took it away and brought it back, and the user says no to that."""
    require_engine("bubblewrap")
    (folder / "part" / ".vscode").mkdir(parents=True)
    steps = (
        "mkdir node_modules; mv part node_modules",
        "true",
        "mv node_modules/part .",
    )
    asked, results = await worked(folder, "sandboxed", *map(bash, steps))
    path = folder / "part/.vscode"
    assert asked == [KEEP.format(title=steps[2], paths=path)]
    assert KEPT.format(path=path, reason=EXISTED) in results[2]
    assert [path.name for path in (folder / "part").iterdir()] == [".vscode"]
