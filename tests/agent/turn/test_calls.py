"""Tool calls: who is asked, what the answer does, and how much room the results of a group have."""

import json
from pathlib import Path
from typing import Literal

import pytest

from foldline.agent import Agent
from foldline.agent.permissions.approvals import Policy
from foldline.agent.tools.base import MISSING
from foldline.agent.turn.calls import BAD_ARGUMENTS, NO_ROOM, NO_TOOL
from foldline.protocol import (
    DeveloperMessage,
    Rule,
    ToolResultMessage,
    Usage,
    events,
    operations,
)
from foldline.protocol.events import Event
from foldline.protocol.messages import DEEPEST, StopReason, json_object
from foldline.view.calls import early_end
from foldline.view.rules import broken
from foldline.view.tokens import message_tokens
from support.agents import PlayedLLM, Watch, agent_in, reply, tool_reply, write_lines
from support.messages import tool_results

Answer = Literal["once", "always", "deny"]


def write(path: str, content: str = "new\n") -> tuple[str, dict[str, object]]:
    return ("write", {"path": path, "content": content})


def answering(agent: Agent, *answers: Answer) -> None:
    """Answer the questions as they come."""
    left = list(answers)

    def answer(event: Event) -> None:
        if isinstance(event, events.ApprovalRequested):
            agent.executor.submit(
                operations.Approve(call_id=event.call_id, answer=left.pop(0))
            )

    agent.executor.subscribe(answer)


def asked(watch: Watch) -> list[str]:
    return [event.title for event in watch.of(events.ApprovalRequested)]


def results(agent: Agent) -> list[ToolResultMessage]:
    return tool_results(agent.session.entries)


# --- approvals ----------------------------------------------------------------------------------------


async def test_reading_asks_nobody_and_writing_asks_with_a_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    llm = PlayedLLM(tool_reply(("read", {"path": "a.txt"})), tool_reply(write("a.txt")))
    agent, watch = agent_in(tmp_path, llm, approvals="ask")
    answering(agent, "once")
    await agent.prompt("change it")
    [question] = watch.of(events.ApprovalRequested)
    assert (question.name, question.title) == ("write", "a.txt")
    assert "-old" in question.diff
    assert "+new" in question.diff
    assert (tmp_path / "a.txt").read_text() == "new\n"
    await agent.aclose()


async def test_whoever_is_asked_is_shown_all_of_a_change_and_the_history_keeps_the_first_of_it(
    tmp_path: Path,
) -> None:
    content = "".join(f"line {number}\n" for number in range(2_500))
    agent, watch = agent_in(
        tmp_path, PlayedLLM(tool_reply(write("a.txt", content))), approvals="ask"
    )
    answering(agent, "once")
    await agent.prompt("write")
    [question] = watch.of(events.ApprovalRequested)
    assert question.diff.endswith("+line 2498\n+line 2499\n")
    [result] = results(agent)
    assert result.details.diff is not None and result.details.diff.endswith(
        "+line 1996\n… 503 more lines\n"
    )
    await agent.aclose()


async def test_once_is_for_this_call_and_always_is_remembered(tmp_path: Path) -> None:
    group = tool_reply(write("a.txt"), write("b.txt"), write("c.txt"))
    agent, watch = agent_in(tmp_path, PlayedLLM(group), approvals="ask")
    answering(agent, "once", "always")
    await agent.prompt("write")
    assert asked(watch) == ["a.txt", "b.txt"]
    assert all((tmp_path / name).exists() for name in ("a.txt", "b.txt", "c.txt"))
    assert Rule(tool="write") in agent.state.permissions.policy.always
    await agent.aclose()


async def test_nobody_is_asked_about_a_call_that_cannot_be_done(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    calls = (
        ("edit", {"path": "a.txt", "old": "not there", "new": "x"}),
        ("edit", {"path": "none.txt", "old": "a", "new": "x"}),
        ("write", {"path": "a.txt"}),
    )
    agent, watch = agent_in(tmp_path, PlayedLLM(tool_reply(*calls)), approvals="ask")
    await agent.prompt("change it")
    assert asked(watch) == []
    briefs = [result.details.brief for result in results(agent)]
    assert briefs == ["not found ✗", "not found ✗", "bad arguments ✗"]
    await agent.aclose()


async def test_a_failure_outside_the_folder_tells_nothing_before_the_user_has_said_yes(
    tmp_path: Path,
) -> None:
    """Else `old` would be a way to ask what stands in any file of the machine. What cannot be compared is
    asked about as it was given."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("a secret\n")
    guess = ("edit", {"path": "../secret.txt", "old": "a guess", "new": "x"})
    agent, watch = agent_in(folder, PlayedLLM(tool_reply(guess)), approvals="ask")
    answering(agent, "deny")
    await agent.prompt("guess")
    assert asked(watch) == [f"../secret.txt {json.dumps(guess[1])}"]
    assert [result.details.brief for result in results(agent)] == ["declined ✗"]
    await agent.aclose()


NESTED = '{"path": ' + "[" * DEEPEST + "]" * DEEPEST + "}"


@pytest.mark.parametrize(
    "arguments",
    ['{"path": "a.txt"', "[]", "null", "a.txt", '{"path": NaN}', NESTED],
    ids=lambda text: text[:16],
)
async def test_arguments_that_are_no_json_object_are_told_as_such(
    tmp_path: Path, arguments: str
) -> None:
    answer = tool_reply(("ls", {}))
    broken_call = answer.calls[0].model_copy(update={"arguments": arguments})
    llm = PlayedLLM(answer.model_copy(update={"parts": (broken_call,)}))
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("list")
    [result] = results(agent)
    assert result.text == BAD_ARGUMENTS.format(tool="ls")
    await agent.aclose()


def test_arguments_may_be_nested_to_a_bound_that_is_the_same_everywhere() -> None:
    assert json_object(NESTED.replace("[]", "")) is not None
    assert json_object(NESTED) is None
    assert json_object('{"text": "' + "[" * 1_000 + '"}') == {"text": "[" * 1_000}


async def test_a_declined_call_does_nothing_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(tool_reply(write("a.txt"), ("ls", {})))
    agent, watch = agent_in(tmp_path, llm, approvals="ask")
    answering(agent, "deny")
    await agent.prompt("write")
    assert not (tmp_path / "a.txt").exists()
    declined, listed = results(agent)
    assert "The user declined this call." in declined.text
    assert declined.details.brief == "declined ✗"
    assert not listed.is_error  # the rest of the group runs
    assert "The user declined this call." in llm.requests[1].messages[-2].text
    assert [event.allowed for event in watch.of(events.ApprovalResolved)] == [False]
    await agent.aclose()


async def test_what_the_user_says_with_a_no_goes_to_the_model(tmp_path: Path) -> None:
    llm = PlayedLLM(tool_reply(write("a.txt")))
    agent, _ = agent_in(tmp_path, llm, approvals="ask")

    def decline(event: events.Event) -> None:
        if isinstance(event, events.ApprovalRequested):
            word = operations.Approve(
                call_id=event.call_id, answer="deny", why="write b.txt"
            )
            agent.executor.submit(word)

    agent.executor.subscribe(decline)
    await agent.prompt("write")
    assert (
        llm.requests[1].messages[-1].text
        == "The user declined this call and says: write b.txt"
    )
    await agent.aclose()


async def test_what_reaches_outside_the_folder_asks_each_time_whatever_was_allowed(
    tmp_path: Path,
) -> None:
    inside = tmp_path / "project"
    inside.mkdir()
    outside = str(tmp_path / "outside.txt")
    llm = PlayedLLM(
        tool_reply(
            write("a.txt"), write(outside), write(outside), ("read", {"path": outside})
        )
    )
    agent, watch = agent_in(inside, llm, approvals="ask")
    answering(agent, "always", "always", "once", "deny")
    await agent.prompt("write")
    assert asked(watch) == ["a.txt", outside, outside, outside]
    await agent.aclose()


async def test_a_compaction_changes_nothing_about_what_is_allowed(
    tmp_path: Path,
) -> None:
    write_lines(tmp_path / "long.txt", 200)
    script = [
        tool_reply(write("a.txt")),
        "ok",
        tool_reply(("read", {"path": "long.txt"})),
        "ok",
        "ok",
    ]
    llm = PlayedLLM(*script)
    agent, watch = agent_in(tmp_path, llm, approvals="ask")
    answering(agent, "always")
    for text in ("write", "read", "say something"):
        await agent.prompt(text)
    allowed = agent.state.permissions.policy
    await agent.compact()
    assert agent.session.projection.all_compactions
    assert agent.state.permissions.policy == allowed
    llm.script.append(tool_reply(write("b.txt")))
    await agent.prompt("write again")
    assert asked(watch) == ["a.txt"]
    await agent.aclose()


# --- results ------------------------------------------------------------------------------------------


async def test_an_unknown_tool_and_wrong_arguments_are_results_the_model_reads(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(
        tool_reply(("fly", {}), ("read", {"file": "x"}), ("read", {"path": "none.txt"}))
    )
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("try")
    texts = [result.text for result in results(agent)]
    assert texts[0].startswith(NO_TOOL.format(name="fly", names="read, write,")[:-1])
    assert MISSING.format(name="path") in texts[1]
    assert "none.txt" in texts[2]
    assert all(result.is_error for result in results(agent))
    await agent.aclose()


async def test_each_call_is_reported_from_its_start_to_its_end_in_order(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(
        tmp_path, PlayedLLM(tool_reply(("ls", {}), ("bash", {"command": "echo hi"})))
    )
    await agent.prompt("go")
    tools = [event for event in watch.events if event.type.startswith("tool_")]
    assert [(event.type, event.call_id) for event in tools] == [
        ("tool_started", "c0"),
        ("tool_finished", "c0"),
        ("tool_started", "c1"),
        ("tool_output", "c1"),
        ("tool_finished", "c1"),
    ]
    await agent.aclose()


async def test_the_results_of_one_group_share_a_budget_and_the_next_request_fits(
    tmp_path: Path,
) -> None:
    for n in range(8):
        write_lines(tmp_path / f"f{n}.txt", 250)
    llm = PlayedLLM(
        tool_reply(*(("read", {"path": f"f{n}.txt"}) for n in range(8))), window=16_384
    )
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("read them all at once")
    texts = [result.text for result in results(agent)]
    assert (tmp_path / "f0.txt").read_text() == texts[0]
    assert any(
        "[Portion 1 of " in text and "Continue with offset " in text for text in texts
    )
    assert texts[-1] == NO_ROOM.text
    sent = (
        sum(map(message_tokens, llm.requests[1].messages)) + agent.state.budget.overhead
    )
    assert sent < agent.state.budget.limits.threshold
    assert broken(agent.session.projection) == []
    await agent.aclose()


async def test_a_call_that_found_the_window_full_works_when_it_is_made_again(
    tmp_path: Path,
) -> None:
    wholes = [
        write_lines(tmp_path / f"f{n}.txt", 400, f"file {n} row {{n}} and its text")
        for n in range(6)
    ]
    reads = [("read", {"path": f"f{n}.txt"}) for n in range(6)]
    again = [tool_reply(reads[n], stem=f"again{n}_") for n in range(3, 6)]
    llm = PlayedLLM(tool_reply(*reads), *again, "read", window=16_384)
    agent, watch = agent_in(tmp_path, llm)
    await agent.prompt("read them")
    assert [result.text for result in results(agent)[3:6]] == [NO_ROOM.text] * 3
    assert [result.text for result in results(agent)[6:]] == wholes[3:]
    assert [request.messages[-1].text for request in llm.requests[2:5]] == wholes[3:]
    assert len(watch.of(events.CompactionEnd)) >= 1
    await agent.aclose()


async def test_a_long_request_leaves_less_room_for_results(tmp_path: Path) -> None:
    write_lines(tmp_path / "big.txt", 2_000)
    request = "Consider all of this. " * 1_500
    llm = PlayedLLM(tool_reply(("read", {"path": "big.txt"})), window=16_384)
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt(request)
    sent = (
        sum(map(message_tokens, llm.requests[1].messages)) + agent.state.budget.overhead
    )
    assert sent < agent.state.budget.limits.threshold
    assert any(message.text == request for message in llm.requests[1].messages)
    await agent.aclose()


@pytest.mark.parametrize("rows", [10, 3_000])
async def test_what_was_clipped_is_whole_in_a_file_the_agent_may_read(
    tmp_path: Path, rows: int
) -> None:
    command = f"seq 1 {rows}"
    agent, watch = agent_in(
        tmp_path, PlayedLLM(tool_reply(("bash", {"command": command})), window=16_384)
    )
    await agent.prompt("count")
    [result] = results(agent)
    kept = result.details.full_output
    if rows == 10:
        assert kept is None
    else:
        assert kept is not None
        agent.state.permissions.policy = Policy(mode="ask")
        agent.state.models.llm = PlayedLLM(
            tool_reply(("read", {"path": kept, "offset": rows - 1}), stem="r")
        )
        await agent.prompt("look")
        assert asked(watch) == []
        assert results(agent)[-1].text.startswith(f"{rows - 1}\n{rows}\n")
    await agent.aclose()


# --- calls of an answer that ended early ------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["length", "filtered", "repeated"])
async def test_no_call_of_an_answer_that_ended_early_runs_and_the_model_reads_why(
    tmp_path: Path, reason: StopReason
) -> None:
    write_lines(tmp_path / "a.txt", 3)
    cut = tool_reply(
        ("read", {"path": "a.txt"}), ("write", {"path": "b.txt", "content": "half"})
    )
    cut = cut.model_copy(
        update={"stop_reason": reason, "usage": Usage(input=500, output=4_096)}
    )
    llm = PlayedLLM(cut, "done")
    agent, _ = agent_in(tmp_path, llm)
    agent.state.permissions.policy = Policy(mode="all")
    await agent.prompt("go")
    ending = early_end(cut)
    read, write = tool_results(agent.session.entries)
    assert not (tmp_path / "b.txt").exists()
    assert read.is_error
    assert ending in read.text
    assert read.text.startswith("read was not run")
    assert ending in write.text
    assert ("in parts" in write.text) == (reason == "length")
    await agent.aclose()


@pytest.mark.parametrize("reason", ["length", "filtered", "repeated"])
async def test_with_the_next_prompt_the_model_reads_that_its_answer_ended_early(
    tmp_path: Path, reason: StopReason
) -> None:
    cut = reply("half of the ans").model_copy(update={"stop_reason": reason})
    agent, _ = agent_in(tmp_path, PlayedLLM(cut, "whole", "more"))
    await agent.prompt("one")
    await agent.prompt("two")
    await agent.prompt("three")
    notes = [
        entry.text
        for entry in agent.session.entries
        if isinstance(entry, DeveloperMessage)
    ]
    assert len([text for text in notes if early_end(cut) in text]) == 1
    await agent.aclose()
