"""Hooks: programs that hear of a moment, and may refuse, ask, add to it."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.agent import Agent
from foldline.agent.extensions.catalogue import IGNORED
from foldline.agent.extensions.hooks import (
    BAD_EVENT,
    BAD_MATCHER,
    BAD_TIMEOUT,
    BAD_TYPE,
    EVENTS,
    NO_COMMAND,
    hooks_of,
    parsed_hooks,
)
from foldline.agent.project.trust import LEADS_OUT, folder_files
from foldline.agent.session.compact import HOOK_BLOCKED, drafts_ahead
from foldline.agent.session.hook_runs import BAD_JSON, HOOK_SAYS, NO_REASON, TIMED_OUT
from foldline.agent.session.trust_question import does
from foldline.agent.turn.calls import HOOK_REFUSED
from foldline.agent.turn.calls import HOOK_SAYS as RESULT_REMARK
from foldline.protocol import (
    FoldlineError,
    ToolResultMessage,
    UserMessage,
    events,
    operations,
)
from support.agents import PATIENCE, PlayedLLM, Watch, other_tasks_done, tool_reply
from support.agents import agent_in as without_hooks
from support.limits import examples
from support.processes import process_ended
from support.sandboxes import require_engine
from support.trust import agree

READ = tool_reply(("read", {"path": "a.txt"}))
WRITE = tool_reply(("write", {"path": "b.txt", "content": "new"}))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folders."""
    for name in ("HOME", "FOLDLINE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def agent_in(folder: Path, llm: Any, **options: Any) -> tuple[Agent, Watch]:
    return without_hooks(folder, llm, hooks=True, **options)


def defines(
    event: str, command: str, matcher: str = "", **more: object
) -> dict[str, Any]:
    return {
        "hooks": {
            event: [
                {
                    "matcher": matcher,
                    "hooks": [{"type": "command", "command": command, **more}],
                }
            ]
        }
    }


def own(home: Path, *args: Any, **more: object) -> None:
    (home / "hooks.json").write_text(json.dumps(defines(*args, **more)))


def says(answer: object) -> str:
    return f"cat >/dev/null; printf %s {shlex.quote(json.dumps(answer))}"


def results(agent: Any) -> list[str]:
    return [
        entry.text
        for entry in agent.session.entries
        if isinstance(entry, ToolResultMessage)
    ]


def notices(watch: Watch) -> list[str]:
    return [event.text for event in watch.events if isinstance(event, events.Notice)]


async def test_a_hook_before_a_tool_hears_of_it_as_scripts_for_claude_code_expect(
    work: Path, home: Path
) -> None:
    own(home, "PreToolUse", "cat > heard.json", "Write|Edit")
    agent, _ = agent_in(work, PlayedLLM(READ, WRITE, "done"))
    await agent.prompt("go")
    heard = json.loads((work / "heard.json").read_text())
    assert heard["hook_event_name"] == "PreToolUse" and heard["tool_name"] == "Write"
    assert heard["tool_input"]["file_path"] == str(work / "b.txt")
    assert heard["tool_input"]["content"] == "new"
    assert heard["cwd"] == str(work) and Path(heard["transcript_path"]).is_file()
    await agent.aclose()


@pytest.mark.parametrize(
    "command",
    [
        "echo 'not this file' >&2; exit 2",
        says({"decision": "block", "reason": "not this file"}),
        says(
            {
                "hookSpecificOutput": {
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "not this file",
                }
            }
        ),
        says({"continue": False, "stopReason": "not this file"}),
    ],
)
async def test_it_refuses_a_call_and_the_model_reads_why(
    work: Path, home: Path, command: str
) -> None:
    own(home, "PreToolUse", command, "Write")
    agent, _ = agent_in(work, PlayedLLM(WRITE, "done"))
    await agent.prompt("go")
    assert not (work / "b.txt").exists()
    assert results(agent) == [HOOK_REFUSED.format(reason="not this file")]
    await agent.aclose()


@pytest.mark.parametrize(
    ("decision", "asked"), [("allow", False), ("ask", True), ("", True)]
)
async def test_a_hook_of_the_users_own_allows_a_call_or_has_it_asked_about(
    work: Path, home: Path, decision: str, asked: bool
) -> None:
    own(
        home,
        "PreToolUse",
        says({"hookSpecificOutput": {"permissionDecision": decision}}),
    )
    agent, watch = agent_in(work, PlayedLLM(WRITE, "done"), approvals="ask")
    task = asyncio.create_task(agent.prompt("go"))
    async with asyncio.timeout(PATIENCE):
        while not task.done() and not any(
            isinstance(each, events.ApprovalRequested) for each in watch.events
        ):
            await asyncio.sleep(0.01)
    assert (
        any(isinstance(each, events.ApprovalRequested) for each in watch.events)
        == asked
    )
    agent.executor.submit(operations.Interrupt())
    await asyncio.wait([task])
    await agent.aclose()


async def test_a_hook_of_a_project_runs_once_agreed_to_refuses_and_never_allows(
    work: Path,
) -> None:
    allow = says({"hookSpecificOutput": {"permissionDecision": "allow"}})
    (work / ".claude").mkdir()
    file = work / ".claude" / "settings.json"
    file.write_text(
        json.dumps(defines("PreToolUse", f"touch ran; {allow}; echo {'x' * 99}; end"))
    )
    [theirs] = folder_files(work)
    assert "touch ran" in does(theirs) and not theirs.is_trusted
    agent, watch = agent_in(
        work, PlayedLLM(READ, "done", WRITE, "done"), approvals="ask"
    )
    await agent.prompt("go")
    assert not (work / "ran").exists()
    agree(work)
    task = asyncio.create_task(agent.prompt("again"))
    async with asyncio.timeout(PATIENCE):
        while not any(
            isinstance(each, events.ApprovalRequested) for each in watch.events
        ):
            await asyncio.sleep(0.01)
    assert (work / "ran").exists()
    agent.executor.submit(operations.Interrupt())
    await asyncio.wait([task])
    file.write_text(file.read_text().replace("touch ran", "touch other"))
    assert hooks_of(work)[0] == []
    await agent.aclose()


def test_settings_of_other_agents_without_hooks_are_not_asked_about(work: Path) -> None:
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.json").write_text(
        '{"permissions": {"allow": ["Bash"]}}'
    )
    assert folder_files(work) == []


async def test_what_a_hook_says_after_a_tool_stands_below_its_result(
    work: Path, home: Path
) -> None:
    own(
        home,
        "PostToolUse",
        says({"decision": "block", "reason": "run the formatter"}),
        "Read",
    )
    agent, _ = agent_in(work, PlayedLLM(READ, "done"))
    await agent.prompt("go")
    [result] = results(agent)
    assert result.endswith(RESULT_REMARK.format(text="run the formatter"))
    assert "one" in result
    await agent.aclose()


async def test_a_prompt_is_refused_or_gets_what_a_hook_says_beside_it(
    work: Path, home: Path
) -> None:
    refuse = (
        "if grep -q secret; then echo 'no secrets' >&2; exit 2; fi; echo 'branch: main'"
    )
    own(home, "UserPromptSubmit", refuse)
    llm = PlayedLLM("done")
    agent, _ = agent_in(work, llm)
    with pytest.raises(
        FoldlineError, match="A user hook rejected the prompt: no secrets"
    ):
        await agent.prompt("my secret")
    assert llm.requests == [] and not any(
        isinstance(each, UserMessage) for each in agent.session.entries
    )
    await agent.prompt("hello")
    assert HOOK_SAYS.format(text="branch: main") in [
        message.text for message in llm.requests[0].messages
    ]
    await agent.aclose()


async def test_a_compaction_is_forbidden_or_gets_a_focus_and_pins(
    work: Path, home: Path
) -> None:
    llm = PlayedLLM(
        *("long answer " * 700 for _ in range(4)),
        summaries=("## Goal\n- all of it",) * 3,
    )
    agent, _ = agent_in(work, llm, compaction="summary")
    for number in range(4):
        await agent.prompt(f"part {number}")
    own(home, "PreCompact", "exit 2", "manual")
    agent.state.hooks.hooks = None
    with pytest.raises(FoldlineError, match=HOOK_BLOCKED.format(reason=NO_REASON)):
        await agent.compact()
    first = next(
        each.index for each in agent.session.entries if isinstance(each, UserMessage)
    )
    answer = {
        "hookSpecificOutput": {
            "focus": "the exact port numbers",
            "pin": [first, 9_999, "x"],
        }
    }
    both = defines("PreCompact", says(answer))
    both["hooks"] |= defines("PostCompact", "cat > after.json")["hooks"]
    (home / "hooks.json").write_text(json.dumps(both))
    agent.state.hooks.hooks = None
    await agent.compact()
    assert any(
        "the exact port numbers" in each.text
        for each in llm.summary_requests[-1].messages
    )
    assert "part 0" in [item.message.text for item in agent.session.projection.view]
    after = json.loads((work / "after.json").read_text())
    assert (
        after["trigger"] == "manual" and after["tokens_after"] < after["tokens_before"]
    )
    await agent.aclose()


async def test_a_hook_sends_the_model_on_and_not_for_ever(
    work: Path, home: Path
) -> None:
    own(home, "Stop", "echo 'the tests are red' >&2; exit 2")
    llm = PlayedLLM(always="done")
    agent, _ = agent_in(work, llm)
    await agent.prompt("go")
    assert len(llm.requests) == 4
    assert "the tests are red" in llm.requests[1].messages[-1].text
    await agent.aclose()


async def test_start_and_end_of_a_session_and_a_question_are_heard(
    work: Path, home: Path
) -> None:
    heard = "cat >> heard; echo >> heard"
    whole: dict[str, Any] = {"hooks": {}}
    for event in ("SessionStart", "SessionEnd", "Notification"):
        whole["hooks"] |= defines(event, heard)["hooks"]
    (home / "hooks.json").write_text(json.dumps(whole))
    agent, watch = agent_in(work, PlayedLLM(WRITE, "done", "done"), approvals="ask")
    task = asyncio.create_task(agent.prompt("go"))
    async with asyncio.timeout(PATIENCE):
        while (
            not (work / "heard").exists()
            or (work / "heard").read_text().count("\n") < 2
        ):
            await asyncio.sleep(0.01)
    agent.executor.submit(operations.Interrupt())
    await asyncio.wait([task])
    await agent.prompt("more")
    await agent.aclose()
    told = [json.loads(line) for line in (work / "heard").read_text().splitlines()]
    assert [each["hook_event_name"] for each in told] == [
        "SessionStart",
        "Notification",
        "SessionEnd",
    ]
    assert told[0]["source"] == "startup" and "b.txt" in told[1]["message"]
    assert notices(watch) == []


@pytest.mark.parametrize(
    ("command", "more", "says"),
    [
        ("echo broken >&2; exit 1", {}, "failed: exit 1, broken"),
        ("sleep 60", {"timeout": 0.2}, TIMED_OUT.format(time="")),
        ("echo '{oops'", {}, BAD_JSON),
        ("yes", {"timeout": 0.2}, TIMED_OUT.format(time="")),
        ("kill -SEGV $$", {}, "failed: exit 139"),
        (
            "(sleep 60) & (sleep 60 >/dev/null) &",
            {"timeout": 0.2},
            TIMED_OUT.format(time=""),
        ),
    ],
)
async def test_one_that_fails_is_a_notice_and_the_call_runs(
    work: Path, home: Path, command: str, more: dict[str, object], says: str
) -> None:
    own(home, "PreToolUse", command, **more)
    agent, watch = agent_in(work, PlayedLLM(WRITE, "done"))
    await agent.prompt("go")
    assert (work / "b.txt").read_text() == "new"
    [notice] = notices(watch)
    assert says in notice and "hooks.json" in notice
    await agent.aclose()


@pytest.mark.parametrize("end", ["; echo Not there. >&2", " >&2; echo Not there. >&2"])
async def test_a_hook_that_writes_a_lot_refuses_all_the_same(
    work: Path, home: Path, end: str
) -> None:
    own(home, "PreToolUse", f"head -c 2000000 /dev/zero | tr '\\0' x{end}; exit 2")
    agent, _ = agent_in(work, PlayedLLM(WRITE, "done"))
    await agent.prompt("go")
    assert not (work / "b.txt").exists()
    assert len(results(agent)[0]) < 11_000, "why is said in bounds"
    await agent.aclose()


async def test_a_hook_gets_a_huge_call_whole(work: Path, home: Path) -> None:
    own(home, "PreToolUse", "wc -c > size")
    huge = "é" * 400_000
    agent, watch = agent_in(
        work,
        PlayedLLM(tool_reply(("write", {"path": "b.txt", "content": huge})), "done"),
    )
    await agent.prompt("go")
    assert int((work / "size").read_text()) > 400_000 and "hook" not in "".join(
        notices(watch)
    )
    assert (work / "b.txt").read_text() == huge
    await agent.aclose()


async def test_a_cancel_ends_a_hook_that_runs(work: Path, home: Path) -> None:
    own(home, "PreToolUse", "echo $$ > pid; sleep 60")
    agent, _ = agent_in(work, PlayedLLM(WRITE, "done"))
    task = asyncio.create_task(agent.prompt("go"))
    async with asyncio.timeout(PATIENCE):
        while not (work / "pid").exists() or not (work / "pid").read_text():
            await asyncio.sleep(0.01)
    agent.executor.submit(operations.Interrupt())
    await asyncio.wait([task])
    await other_tasks_done()
    await process_ended(int((work / "pid").read_text()))
    await agent.aclose()


def test_what_cannot_be_run_is_named_and_the_rest_is_used() -> None:
    whole = defines("PreToolUse", "true")
    whole["hooks"] |= {
        "PostToolUse": [
            {"matcher": "(", "hooks": [{"type": "command", "command": "true"}]}
        ],
        "Stop": [
            {
                "hooks": [
                    {"type": "prompt", "prompt": "ok?"},
                    {"type": "command", "command": " "},
                ]
            }
        ],
        "Sometimes": [{"hooks": [{"type": "command", "command": "true"}]}],
        "SessionEnd": [
            {"hooks": [{"type": "command", "command": "true", "timeout": "1"}]}
        ],
    }
    hooks, faults = parsed_hooks(
        json.dumps(whole).encode(), "hooks.json", of_project=False
    )
    assert [hook.event for hook in hooks] == ["PreToolUse"]
    for fault in (BAD_MATCHER, BAD_TYPE, NO_COMMAND, BAD_EVENT, BAD_TIMEOUT):
        assert any(fault in each for each in faults), fault
    for damaged in (b"{", b"[]", b'{"hooks": 3}', b"x" * 300_000):
        assert parsed_hooks(damaged, "hooks.json", of_project=True)[1]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=examples(30))
@given(
    st.dictionaries(
        st.sampled_from([*EVENTS, "other"]),
        values
        | st.lists(
            st.fixed_dictionaries({"hooks": st.lists(values, max_size=3)}), max_size=3
        ),
        max_size=4,
    )
)
def test_no_file_of_hooks_breaks_the_reader(whole: dict[str, Any]) -> None:
    hooks, faults = parsed_hooks(
        json.dumps({"hooks": whole}).encode(), "hooks.json", of_project=False
    )
    assert hooks == [] and all(fault.endswith(".") for fault in faults)


def test_hooks_of_the_project_come_from_its_top_down_after_the_users_own(
    work: Path, home: Path
) -> None:
    own(home, "Stop", "first")
    (work / ".git").mkdir()
    (work / "sub" / ".foldline").mkdir(parents=True)
    (work / ".foldline").mkdir()
    for folder, command in ((work, "second"), (work / "sub", "third")):
        (folder / ".foldline" / "hooks.json").write_text(
            json.dumps(defines("Stop", command))
        )
    agree(work / "sub")
    assert [hook.command for hook in hooks_of(work / "sub")[0]] == [
        "first",
        "second",
        "third",
    ]


async def test_what_a_hook_gets_is_in_no_list_of_processes(
    work: Path, home: Path
) -> None:
    own(
        home,
        "UserPromptSubmit",
        "cat > heard; tr '\\0' ' ' < /proc/$PPID/cmdline > shown",
    )
    agent, _ = agent_in(work, PlayedLLM("done"))
    await agent.prompt("between us")
    assert "between us" in (work / "heard").read_text()
    assert (
        "cat > heard" in (work / "shown").read_text()
        and "between us" not in (work / "shown").read_text()
    )
    await agent.aclose()


@pytest.mark.parametrize("linked", [".claude", ".claude/settings.json"])
def test_hooks_behind_a_link_out_of_the_project_are_left_aside(
    work: Path, tmp_path: Path, linked: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "settings.json"
    file.write_text(json.dumps(defines("Stop", "true")))
    (work / linked).parent.mkdir(exist_ok=True)
    (work / linked).symlink_to(outside if linked == ".claude" else file)
    assert folder_files(work) == []
    hooks, [fault] = hooks_of(work)
    assert hooks == []
    assert fault == IGNORED.format(path=".claude/settings.json", reason=LEADS_OUT)


async def test_an_agent_of_a_library_runs_no_hooks_unless_it_is_told_to(
    work: Path, home: Path
) -> None:
    own(home, "SessionStart", "touch ran")
    agent, _ = without_hooks(work, PlayedLLM(READ, "done"))
    await agent.prompt("go")
    await agent.aclose()
    assert not (work / "ran").exists()


async def test_no_hook_hears_a_key_of_a_provider(
    work: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = 'sk-proj-0123456789abcdef"quoted'
    monkeypatch.setenv("OPENAI_API_KEY", key)
    (work / "a.txt").write_text(f"OPENAI_API_KEY={key}\n")
    own(home, "PostToolUse", "cat > heard; env > env")
    agent, _ = agent_in(work, PlayedLLM(READ, "done"))
    await agent.prompt(f"is {key} right?")
    heard = (work / "heard").read_text()
    assert (
        "0123456789" not in heard
        and "OPENAI_API_KEY=" in json.loads(heard)["tool_response"]["content"]
    )
    assert "0123456789" not in (work / "env").read_text()
    await agent.aclose()


async def test_what_the_start_says_is_sent_with_the_first_prompt_that_goes(
    work: Path, home: Path
) -> None:
    whole = defines("SessionStart", "echo on branch main")
    whole["hooks"] |= defines("UserPromptSubmit", "if grep -q secret; then exit 2; fi")[
        "hooks"
    ]
    (home / "hooks.json").write_text(json.dumps(whole))
    llm = PlayedLLM("done", "done")
    agent, _ = agent_in(work, llm)
    with pytest.raises(FoldlineError):
        await agent.prompt("my secret")
    await agent.prompt("hello")
    await agent.prompt("more")
    said = [message.text for message in llm.requests[-1].messages]
    assert said.count(HOOK_SAYS.format(text="on branch main")) == 1
    await agent.aclose()


async def test_what_a_hook_says_to_the_model_is_clipped(work: Path, home: Path) -> None:
    own(home, "UserPromptSubmit", "head -c 200000 /dev/zero | tr '\\0' x")
    llm = PlayedLLM("done")
    agent, _ = agent_in(work, llm)
    await agent.prompt("hello")
    [said] = [
        message.text for message in llm.requests[0].messages if "xxx" in message.text
    ]
    assert len(said) < 11_000
    await agent.aclose()


async def test_no_hook_is_asked_where_there_is_nothing_to_compact(
    work: Path, home: Path
) -> None:
    own(home, "PreCompact", "touch asked")
    agent, _ = agent_in(work, PlayedLLM("done"), compaction="summary")
    await agent.prompt("hello")
    await agent.compact()
    assert not (work / "asked").exists()
    await agent.aclose()


async def test_a_proposal_that_is_applied_later_is_heard_of_too(
    work: Path, home: Path
) -> None:
    llm = PlayedLLM(
        *("long answer " * 700 for _ in range(4)), summaries=("## Goal\n- all of it",)
    )
    own(home, "PostCompact", "cat > after.json")
    agent, watch = agent_in(work, llm, compaction="summary", interactive=True)
    for number in range(4):
        await agent.prompt(f"part {number}")
    kept = operations.CompactSession(reason="manual", preview=True)
    await agent.executor.wait_for(agent.executor.submit(kept))
    assert not (work / "after.json").exists()
    [ready] = [each for each in watch.events if isinstance(each, events.ProposalReady)]
    applied = operations.ApplyProposal(proposal=ready.proposal)
    await agent.executor.wait_for(agent.executor.submit(applied))
    assert json.loads((work / "after.json").read_text())["trigger"] == "manual"
    await agent.aclose()


async def test_where_hooks_are_asked_first_no_compaction_is_drafted_before(
    work: Path, home: Path
) -> None:
    agent, _ = agent_in(
        work, PlayedLLM("done", "done"), compaction="summary", interactive=True
    )
    await agent.prompt("hello")
    assert drafts_ahead(agent.state.compaction)
    own(home, "PreCompact", "true")
    await agent.prompt("more")
    assert not drafts_ahead(agent.state.compaction)
    await agent.aclose()


async def test_hooks_of_a_project_run_in_the_sandbox_of_its_mode(
    work: Path, home: Path
) -> None:
    require_engine("bubblewrap")
    (work / ".foldline").mkdir()
    outside = home / "outside"
    command = f"cat > heard; echo out > {outside}; touch inside"
    (work / ".foldline" / "hooks.json").write_text(
        json.dumps(defines("UserPromptSubmit", command))
    )
    agree(work)
    agent, _ = agent_in(work, PlayedLLM("done"), approvals="sandboxed")
    await agent.prompt("hello")
    assert json.loads((work / "heard").read_text())["prompt"] == "hello"
    assert (work / "inside").exists() and not outside.exists()
    await agent.aclose()
