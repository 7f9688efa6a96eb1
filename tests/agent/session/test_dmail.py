"""D-Mail: the model goes back to a checkpoint of its own, with a message; the request always survives."""

from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.session.rewind import FILES_STAY
from foldline.agent.tools.history import UNREACHABLE
from foldline.llm.dialect import OPENAI, STRICT, to_openai
from foldline.past.proof import unproved
from foldline.protocol import Revert, UserMessage, events, operations, text_parts
from foldline.view.calls import paired
from foldline.view.rules import broken
from support.agents import PlayedLLM, agent_in, reload_session, tool_reply, write_lines
from support.sentences import says


def dmail(message: str, checkpoint: int) -> tuple[str, dict[str, Any]]:
    return ("send_dmail", {"message": message, "checkpoint_id": checkpoint})


def told(llm: PlayedLLM, request: int) -> list[int]:
    """The checkpoints that a request names."""
    return [
        m.checkpoint for m in llm.requests[request].messages if m.checkpoint is not None
    ]


def texts(llm: PlayedLLM, request: int) -> list[str]:
    return [message.text for message in llm.requests[request].messages]


async def sent_back(folder: Path, **options: Any) -> tuple[Agent, PlayedLLM]:
    write_lines(folder / "big.txt", 50)
    llm = PlayedLLM(
        tool_reply(("read", {"path": "big.txt"})),
        tool_reply(dmail("line 7 has it", 1), stem="d"),
        "the answer",
    )
    agent, _ = agent_in(folder, llm, dmail=True, **options)
    await agent.prompt("find it")
    return agent, llm


async def test_the_last_item_before_each_request_names_its_checkpoint(
    tmp_path: Path,
) -> None:
    _, llm = await sent_back(tmp_path)
    assert told(llm, 0) == [1] and told(llm, 1) == [1, 2]
    assert (
        llm.requests[1].messages[: len(llm.requests[0].messages)]
        == llm.requests[0].messages
    )


async def test_the_steps_since_become_one_message_and_the_request_survives(
    tmp_path: Path,
) -> None:
    agent, llm = await sent_back(tmp_path)
    after = texts(llm, 2)
    assert (
        "find it" in after
        and "line 7 has it" in after[-1]
        and "No file was changed" in after[-1]
    )
    assert not any("value_20" in text for text in after)
    assert broken(agent.session.projection) == []


async def test_what_was_sent_is_proved_and_a_reload_gives_the_same_view(
    tmp_path: Path,
) -> None:
    agent, _ = await sent_back(tmp_path)
    again = reload_session(agent)
    assert unproved(again.entries) == []
    assert paired(item.message for item in again.projection.view) == paired(
        item.message for item in agent.session.projection.view
    )


async def test_back_to_before_the_turn_still_keeps_its_request(tmp_path: Path) -> None:
    llm = PlayedLLM("hello", tool_reply(dmail("start over", 1)), "done")
    agent, _ = agent_in(tmp_path, llm, dmail=True)
    await agent.prompt("first")
    await agent.prompt("second")
    assert [m.text for m in llm.requests[2].messages if isinstance(m, UserMessage)] == [
        "first",
        "second",
    ]


async def test_a_checkpoint_from_before_a_compaction_is_out_of_reach(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM("one", "two", tool_reply(dmail("too far", 1)), "ok")
    agent, _ = agent_in(tmp_path, llm, dmail=True)
    await agent.prompt("first " * 300)
    await agent.prompt("second")
    await agent.executor.wait_for(
        agent.executor.submit(operations.CompactSession(reason="manual"))
    )
    assert agent.session.projection.compactions()
    await agent.prompt("third")
    assert any(says(text, UNREACHABLE, number=1) for text in texts(llm, 3))
    assert not any(isinstance(entry, Revert) for entry in agent.session.entries)


async def test_ids_are_never_used_again_after_going_back(tmp_path: Path) -> None:
    agent, llm = await sent_back(tmp_path)
    assert told(llm, 2) == [1, 3]
    ids = [entry.id for entry in agent.session.projection.checkpoints]
    assert ids == sorted(set(ids))


async def test_files_that_were_changed_in_between_are_named(tmp_path: Path) -> None:
    write = ("write", {"path": "new.txt", "content": "x"})
    llm = PlayedLLM(
        tool_reply(write), tool_reply(dmail("it is written", 1), stem="d"), "done"
    )
    agent, _ = agent_in(tmp_path, llm, dmail=True)
    await agent.prompt("write it")
    assert FILES_STAY.format(paths="new.txt") in texts(llm, 2)[-1]
    assert (tmp_path / "new.txt").exists()


async def test_only_the_first_of_two_in_a_step_goes_out_and_the_other_calls_are_carried_out(
    tmp_path: Path,
) -> None:
    write = ("write", {"path": "new.txt", "content": "x"})
    llm = PlayedLLM(tool_reply(dmail("one", 1), dmail("two", 1), write), "done")
    agent, watch = agent_in(tmp_path, llm, dmail=True)
    await agent.prompt("go")
    [revert] = [entry for entry in agent.session.entries if isinstance(entry, Revert)]
    assert "one" in str(revert.message) and (tmp_path / "new.txt").exists()
    assert [event.brief for event in watch.of(events.ToolFinished)] == [
        "sent",
        "not sent ✗",
        "1 line",
    ]


async def test_without_the_setting_the_model_is_offered_and_told_nothing(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM("done")
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("go")
    assert told(llm, 0) == [] and "send_dmail" not in {
        tool.name for tool in llm.requests[0].tools
    }


async def test_every_dialect_tells_of_the_checkpoint_as_machine_text(
    tmp_path: Path,
) -> None:
    _, llm = await sent_back(tmp_path)
    for dialect in (OPENAI, STRICT):
        rendered = to_openai(llm.requests[1].messages, dialect)
        user = next(message for message in rendered if message["role"] == "user")
        assert (
            user["content"] == "find it\n\n<system-note>\nCHECKPOINT 1\n</system-note>"
        )
        assert rendered[-1]["content"].endswith(
            "<system-note>\nCHECKPOINT 2\n</system-note>"
        )


async def test_one_of_a_step_that_was_cancelled_is_never_delivered(
    tmp_path: Path,
) -> None:
    write_lines(tmp_path / "big.txt", 5)
    waits = ("bash", {"command": "echo started >started; sleep 60"})
    llm = PlayedLLM(
        tool_reply(dmail("too late", 1), waits),
        tool_reply(("read", {"path": "big.txt"}), stem="r"),
        "the answer",
    )
    agent, watch = agent_in(tmp_path, llm, dmail=True)
    agent.executor.submit(operations.RunAgent(parts=text_parts("find it")))
    await watch.until(
        lambda: any(event.name == "bash" for event in watch.of(events.ToolStarted))
    )
    await agent.executor.wait_for(agent.executor.submit(operations.Interrupt()))
    await agent.prompt("read it")
    assert not any(isinstance(entry, Revert) for entry in agent.session.entries)
    assert any("value_3" in text for text in texts(llm, 2))


async def test_braces_in_the_message_or_in_the_users_own_prompt_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "{back} {message} {files}"
    monkeypatch.setattr("foldline.agent.session.rewind.load_prompt", lambda _: own)
    llm = PlayedLLM(tool_reply(dmail("{files} {x}", 1)), "done")
    agent, _ = agent_in(tmp_path, llm, dmail=True)
    await agent.prompt("go")
    assert "{back} {files} {x} No file was changed." in texts(llm, 1)[-1]
