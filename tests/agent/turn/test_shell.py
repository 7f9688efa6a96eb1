"""The user's own shell: run unasked, kept for the model; cancelled, cut and told apart from what is typed."""

import asyncio
from pathlib import Path

import pytest

from foldline.agent.session.permissions import Permissions
from foldline.formats.export import Original
from foldline.formats.writers.html import write_html
from foldline.history import Session
from foldline.llm.dialect import OPENAI, to_openai
from foldline.past.rewind_points import rewind_points
from foldline.protocol import UserMessage, events, operations
from foldline.tui.transcript.calls import SHELL_CALL, command_of
from foldline.view.rules import broken
from support.agents import PlayedLLM, agent_in, other_tasks_done


def shells(session: Session) -> list[UserMessage]:
    found = [entry for entry in session.entries if isinstance(entry, UserMessage)]
    return [entry for entry in found if entry.origin == "shell"]


async def test_the_model_sees_the_command_and_its_output_with_the_next_prompt(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(tmp_path, llm := PlayedLLM())
    (tmp_path / "seen.txt").write_text("")
    executor = agent.executor
    finished = await executor.wait_for(
        executor.submit(operations.RunShell(command="ls seen.txt; exit 3"))
    )
    assert finished.outcome == "done", "how the command ended is its own business"
    (ran,) = shells(agent.session)
    assert (command_of(ran), ran.text) == (
        "ls seen.txt; exit 3",
        "$ ls seen.txt; exit 3\nseen.txt\n[exit 3]",
    )
    assert agent.session.projection.view[0].message.type == "system", (
        "a session can begin with a command"
    )
    assert watch.of(events.ApprovalRequested) == []
    outputs = [
        event.text
        for event in watch.of(events.ToolOutput)
        if event.call_id == SHELL_CALL
    ]
    assert "".join(outputs) == "seen.txt\n", "it is shown as it comes"
    await agent.prompt("What did I see?")
    sent = to_openai(llm.requests[-1].messages, OPENAI)
    assert "<system-note>\nThe user ran this in a shell:\n$ ls seen.txt" in str(
        [m["content"] for m in sent[-2:]]
    ).replace("\\n", "\n")
    assert broken(agent.session.projection) == []
    await agent.aclose()
    await other_tasks_done()


async def test_an_aside_is_in_the_history_and_not_in_the_view(tmp_path: Path) -> None:
    agent, _ = agent_in(tmp_path, llm := PlayedLLM())
    executor = agent.executor
    await executor.wait_for(
        executor.submit(operations.RunShell(command="echo mine", aside=True))
    )
    (ran,) = shells(agent.session)
    assert agent.session.projection.fate(ran.index).kind == "dropped"
    await agent.prompt("Go on")
    assert "mine" not in str(to_openai(llm.requests[-1].messages, OPENAI))
    await executor.wait_for(
        executor.submit(operations.EditView(target=ran.index, action="restore"))
    )
    assert agent.session.projection.fate(ran.index).kind == "live", (
        "the user may still show it"
    )
    await agent.aclose()
    await other_tasks_done()


async def test_cancelled_twice_it_keeps_what_it_had_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled_again(_: Permissions) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(Permissions, "check_after_cancel", cancelled_again)
    agent, watch = agent_in(tmp_path, PlayedLLM())
    executor = agent.executor
    task = executor.submit(operations.RunShell(command="echo begun; sleep 1000"))
    await watch.until(
        lambda: any(
            event.call_id == SHELL_CALL for event in watch.of(events.ToolOutput)
        )
    )
    executor.submit(operations.Interrupt())
    assert (await executor.wait_for(task)).outcome == "cancelled"
    assert [ran.text for ran in shells(agent.session) if "begun" in ran.text]
    await agent.aclose()
    await other_tasks_done()


async def test_cancelled_it_ends_what_it_started_and_keeps_what_it_had_said(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM())
    executor = agent.executor
    task = executor.submit(
        operations.RunShell(command="echo $$ > pid; echo begun; sleep 1000")
    )
    await watch.until(
        lambda: any(
            event.call_id == SHELL_CALL for event in watch.of(events.ToolOutput)
        )
    )
    executor.submit(operations.Interrupt())
    assert (await executor.wait_for(task)).outcome == "cancelled"
    (ran,) = shells(agent.session)
    assert "begun" in ran.text and "[cancelled by the user" in ran.text
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    await agent.aclose()
    await other_tasks_done()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("seq 200000", "To see them: `read` "),
        ("echo key is $OPENAI_API_KEY.", "key is ."),
        ("cat leak", "the file says [key]"),
        ("printf '\\033[2J\\000clean'", "$ printf '\\033[2J\\000clean'\n�clean"),
        ("true", "[no output]"),
    ],
)
async def test_output_is_clipped_cleaned_and_free_of_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecretverysecret")
    (tmp_path / "leak").write_text("the file says sk-verysecretverysecret")
    agent, _ = agent_in(tmp_path, PlayedLLM())
    await agent.executor.wait_for(
        agent.executor.submit(operations.RunShell(command=command))
    )
    (ran,) = shells(agent.session)
    assert said in ran.text
    assert "verysecret" not in ran.text and len(ran.text) < 60_000
    await agent.aclose()
    await other_tasks_done()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_command_is_rewound_compacted_and_exported_like_what_was_said(
    tmp_path: Path,
) -> None:
    agent, _ = agent_in(tmp_path, llm := PlayedLLM(), compaction="summary")
    session, executor = agent.session, agent.executor

    async def done(operation: operations.Operation) -> None:
        assert (await executor.wait_for(executor.submit(operation))).outcome == "done"
        assert broken(session.projection) == []

    await done(operations.RunShell(command="echo '<b>before</b>'; seq 9000"))
    await agent.prompt("first")
    await done(operations.RunShell(command="echo in vain"))
    await done(operations.Rewind(checkpoint=rewind_points(session.projection)[0].id))
    before, in_vain = (
        session.projection.fate(ran.index).kind for ran in shells(session)
    )
    assert (before, in_vain) == ("live", "reverted")
    await agent.prompt("again")
    await done(operations.RunShell(command="seq 4000"))
    await done(operations.CompactSession(reason="manual"))
    asked = str(to_openai(llm.summary_requests[-1].messages, OPENAI))
    assert "<b>before</b>" in asked and "in vain" not in asked
    fates = [session.projection.fate(ran.index).kind for ran in shells(session)]
    assert fates == ["summarised", "reverted", "live"]
    page = write_html(
        Original(session.header, list(session.entries), session.projection)
    ).data.decode()
    assert (
        "Shell command</b> · $ echo &#x27;&lt;b&gt;before" in page
        and "<b>before" not in page
    )
    await agent.aclose()
    await other_tasks_done()
