"""The whole agent over the Responses API: turns with tools, compacts, reasoning that goes back, resuming."""

from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.history import Session
from foldline.llm.client import ModelClient
from foldline.llm.failures import BROKEN, MAX_RETRIES
from foldline.view.rules import broken
from support.agents import agent_in, reload_session, write_lines
from support.clients import Waits, chat_at
from support.job_reader import is_summary_request
from support.sentences import pattern
from support.server import RunningServer, running_server
from support.server_responses import as_chat

THINKS = [
    {
        "when": {"role": "user", "content": "^Read a.txt", "tools": True},
        "answer": {"builtin": "calls", "thinking": "I have to read."},
    },
    {
        "when": {"role": "tool", "tools": True},
        "answer": {"builtin": "next_call", "thinking": "That was it."},
    },
]


def responding(server: RunningServer, window: int | None = None) -> ModelClient:
    return chat_at(
        server.base_url,
        model=server.model,
        window=window or server.window,
        api="responses",
        sleep=Waits(),
    )


def kinds(items: list[dict[str, Any]]) -> list[str]:
    return [item.get("role", item["type"]) for item in items]


async def test_reasoning_goes_back_live_and_after_resuming_and_not_to_another_server(
    tmp_path: Path,
) -> None:
    write_lines(tmp_path / "a.txt", 5)
    with (
        running_server(script=THINKS, then_default=True) as server,
        running_server() as other,
    ):
        agent, _ = agent_in(tmp_path, responding(server))
        await agent.prompt("Read a.txt")
        session = reload_session(agent)
        await agent.aclose()
        assert session.path is not None
        again = Agent(
            Session.open(session.path), llm=responding(server), approvals="all"
        )
        await again.prompt("Say on")
        live, after_call, resumed = (seen.messages for seen in server.requests())
        assert kinds(after_call)[len(live) :] == [
            "reasoning",
            "function_call",
            "function_call_output",
        ]
        assert resumed[: len(after_call)] == after_call
        assert kinds(resumed)[len(after_call) :] == ["reasoning", "assistant", "user"]
        assert [seen.violations for seen in server.requests()] == [(), (), ()]
        assert broken(again.session.projection) == []
        assert again.session.projection.meter.replays_reasoning, "what goes back counts"
        await again.state.models.llm.aclose()

        # The same model by name, at another server: what was encrypted for the first is left out.
        again.state.models.llm = responding(other)
        await again.prompt("Say more")
        [seen] = other.requests()
        assert seen.violations == ()
        assert "reasoning" not in kinds(seen.messages)
        await again.aclose()


async def test_an_overflow_compacts_and_the_turn_goes_on(tmp_path: Path) -> None:
    for number in range(4):
        write_lines(tmp_path / f"f{number}.txt", 260)
    with running_server(window=16_384) as server:
        # The client believes in a window twice as large: the server's refusal is the first it hears.
        agent, _ = agent_in(
            tmp_path, responding(server, window=32_768), compaction="summary"
        )
        for number in range(4):
            answer = await agent.prompt(f"Read f{number}.txt and say its last line")
            assert "The last line of the result is" in answer.text
        compactions = agent.session.projection.all_compactions
        assert compactions
        assert compactions[0].reason == "overflow"
        refused = {seen.rejected for seen in server.requests()} - {""}
        assert refused == {"too long"}
        assert [seen.violations for seen in server.requests() if seen.violations] == []
        assert any(is_summary_request(as_chat(seen.body)) for seen in server.requests())
        assert broken(agent.session.projection) == []
        await agent.aclose()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "fault", [{"cut_after": 6}, {"reset_after": 6}, {"malformed_after": 6}]
)
async def test_a_stream_that_breaks_leaves_a_history_that_the_server_takes(
    tmp_path: Path, fault: dict[str, Any]
) -> None:
    call = {"name": "read", "arguments": {"path": "a-file-with-a-long-name.txt"}}
    broken_answer = {
        "text": "I look.",
        "thinking": "Well.",
        "tool_calls": [call],
        "fault": fault,
    }
    asked = 1 + MAX_RETRIES
    script = [{"times": asked, "answer": broken_answer}]
    with running_server(script=script, then_default=True) as server:
        agent, _ = agent_in(tmp_path, responding(server))
        with pytest.raises(Exception, match=pattern(BROKEN)):
            await agent.prompt("look")
        assert (await agent.prompt("Say hello")).text == "You said: Say hello"
        assert [seen.violations for seen in server.requests()] == [()] * (asked + 1)
        assert broken(agent.session.projection) == []
        await agent.aclose()
