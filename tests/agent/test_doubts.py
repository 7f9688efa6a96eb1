"""Servers whose usage cannot be true: those that cut a request silently, those that report too much."""

from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.turn.request import MAY_BE_CUT, TRUNCATED_NEXT
from foldline.past.proof import unproved
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    RequestRecord,
    Usage,
    events,
)
from foldline.view.rules import broken
from support.agents import (
    PlayedLLM,
    Watch,
    agent_in,
    reload_session,
    reply,
    tool_reply,
    write_lines,
)
from support.clients import chat_at
from support.server import RunningServer, running_server
from support.server_rules import DEFAULT

WINDOW = 16_384


def reporting(prompt_tokens: int, *, first_honest: int = 0) -> list[dict[str, Any]]:
    """The usable model of the test server, which reports this usage whatever it was sent."""
    usage = {
        "prompt_tokens": prompt_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    lying = [
        {**rule, "answer": {**rule["answer"], "usage": usage}}
        if "builtin" in rule["answer"] and rule["answer"]["builtin"] != "summary"
        else rule
        for rule in DEFAULT
    ]
    honest = [
        {"when": {"nth": number}, "answer": {"builtin": "calls"}}
        for number in range(1, first_honest + 1)
    ]
    return [*honest, *lying]


def agent_on(
    server: RunningServer, folder: Path, **options: Any
) -> tuple[Agent, Watch]:
    llm = chat_at(server.base_url, model=server.model, window=WINDOW)
    return agent_in(folder, llm, **options)


async def read_many(agent: Agent, folder: Path, files: int = 14) -> AssistantMessage:
    for number in range(files):
        write_lines(folder / f"f{number}.txt", 100)
    names = ", ".join(f"f{number}.txt" for number in range(files))
    return await agent.prompt(f"Read {names} one by one.")


def doubts(watch: Watch) -> list[str]:
    return [text for text in watch.notices if MAY_BE_CUT in text]


# --- far below the estimate: Ollama -------------------------------------------------------------------


async def compactions_with_honest_usage(folder: Path) -> int:
    folder.mkdir()
    with running_server(window=WINDOW) as server:
        agent, watch = agent_on(server, folder)
        await read_many(agent, folder)
        await agent.aclose()
        assert doubts(watch) == []
        return len(agent.session.projection.all_compactions)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "first_honest", [0, 1], ids=["from the first request on", "after an honest answer"]
)
async def test_a_server_that_cuts_silently_is_reported_once_never_learnt_and_compacted_for_as_usual(
    tmp_path: Path, first_honest: int
) -> None:
    usual = await compactions_with_honest_usage(tmp_path / "honest")
    folder = tmp_path / "work"
    folder.mkdir()
    with running_server(
        window=WINDOW, script=reporting(900, first_honest=first_honest)
    ) as server:
        agent, watch = agent_on(server, folder)
        await agent.prompt("hello")
        before = agent.session.projection.meter.calibration
        honest = agent.session.projection.meter.anchor
        assert (honest is None) == (first_honest == 0)
        answer = await read_many(agent, folder)
        projection = agent.session.projection
        assert answer.text
        assert len(doubts(watch)) == 1
        assert "counted only 900 tokens" in doubts(watch)[0]
        assert dict(projection.meter.calibration.ratios) == dict(before.ratios)
        assert projection.meter.anchor in (None, honest)
        # The estimate goes on deciding: the window is compacted for in time, and not at every step.
        assert [seen.rejected for seen in server.requests() if seen.rejected] == []
        assert max(seen.prompt_tokens for seen in server.requests()) < WINDOW
        assert 0 < usual <= len(projection.all_compactions) <= 2 * usual
        assert agent.state.budget.size() > 2_000
        assert broken(projection) == []
        await agent.aclose()


# --- above the window: z.ai ---------------------------------------------------------------------------


async def test_a_usage_above_the_window_keeps_the_answer_and_compacts_before_the_next_request(
    tmp_path: Path,
) -> None:
    for number in range(3):
        write_lines(tmp_path / f"f{number}.txt", 150)
    over = Usage(input=20_000, output=20)
    llm = PlayedLLM(
        tool_reply(("read", {"path": "f0.txt"}), stem="a"),
        tool_reply(("read", {"path": "f1.txt"}), stem="b"),
        tool_reply(("read", {"path": "f2.txt"}), stem="c").model_copy(
            update={"usage": over, "model": "played"}
        ),
        reply("all read"),
        window=WINDOW,
    )
    agent, watch = agent_in(tmp_path, llm)
    answer = await agent.prompt("read them")
    assert answer.text == "all read"
    assert len(llm.requests) == 4, "nothing is sent twice"
    [notice] = doubts(watch)
    assert "counted 20,000 tokens in a request" in notice
    assert TRUNCATED_NEXT in notice
    [compaction] = agent.session.projection.all_compactions
    assert compaction.reason == "threshold"
    third = [
        entry for entry in agent.session.entries if isinstance(entry, AssistantMessage)
    ][2]
    assert compaction.index > third.index
    assert broken(agent.session.projection) == []
    await agent.aclose()


async def test_a_server_that_always_reports_more_than_the_window_ends_every_turn(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with running_server(window=10 * WINDOW, script=reporting(40_000)) as server:
        agent, watch = agent_on(server, folder)
        answer = await read_many(agent, folder, 6)
        assert answer.text
        await agent.prompt("And what else?")
        assert len(doubts(watch)) == 1
        asked = [seen for seen in server.requests() if seen.body.get("tools")]
        assert len(asked) <= 8 + len(agent.session.projection.all_compactions)
        assert broken(agent.session.projection) == []
        await agent.aclose()


async def test_with_compaction_off_a_usage_above_the_window_is_only_said(
    tmp_path: Path,
) -> None:
    over = Usage(input=20_000, output=20)
    llm = PlayedLLM(
        reply("an answer", usage=over, model="played"), "more", window=WINDOW
    )
    agent, watch = agent_in(tmp_path, llm, mode="off")
    await agent.prompt("one")
    await agent.prompt("two")
    assert agent.session.projection.all_compactions == []
    [notice] = doubts(watch)
    assert "compacted first" not in notice
    await agent.aclose()


# --- the window ended in the answer -------------------------------------------------------------------


async def test_an_answer_the_window_ended_in_is_asked_for_again_after_a_compaction_and_its_words_are_kept(
    tmp_path: Path,
) -> None:
    cut = {
        "text": "The first half of",
        "finish_reason": "model_context_window_exceeded",
    }
    script = [{"when": {"content": "Sum it up"}, "times": 1, "answer": cut}, *DEFAULT]
    with running_server(window=WINDOW, script=script) as server:
        agent, watch = agent_on(server, tmp_path)
        await read_many(agent, tmp_path, 4)
        answer = await agent.prompt("Sum it up")
        assert answer.text == "You said: Sum it up"
        assert agent.session.projection.all_compactions[-1].reason == "overflow"
        given_up = [
            entry
            for entry in reload_session(agent).entries
            if isinstance(entry, RequestRecord) and entry.error
        ]
        assert [record.said for record in given_up] == ["The first half of"]
        # The half answer was never sent back: the question stands last, in both requests.
        first, second = (
            seen.messages
            for seen in server.requests()
            if "Sum it up" in str(seen.messages[-1]["content"])
            and "<conversation>" not in str(seen.messages[-1])
        )
        assert "The first half of" not in str(second)
        assert len(str(second)) < len(str(first))
        assert watch.of(events.CompactionEnd)[-1].will_retry
        assert unproved(reload_session(agent).entries) == []
        assert broken(agent.session.projection) == []
        await agent.aclose()


async def test_a_window_that_ends_in_every_answer_ends_the_turn_in_one_sentence(
    tmp_path: Path,
) -> None:
    cut = {
        "text": "The first half of",
        "finish_reason": "model_context_window_exceeded",
    }
    script = [{"when": {"tools": True}, "answer": cut}, *DEFAULT]
    with running_server(window=WINDOW, script=script) as server:
        agent, _ = agent_on(server, tmp_path)
        with pytest.raises(FoldlineError, match="Nothing more can be compacted"):
            await agent.prompt("hello " * 500)
        assert len(server.requests()) < 6
        records = [
            entry for entry in agent.session.entries if isinstance(entry, RequestRecord)
        ]
        assert {record.said for record in records} == {"The first half of"}
        await agent.aclose()
