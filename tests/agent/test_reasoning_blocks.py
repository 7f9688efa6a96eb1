"""Reasoning that a provider signed in blocks, over the life of a session."""

from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.agent.session.commands import take_over
from support.agents import agent_in, reload_session
from support.clients import chat_at
from support.server import RunningServer, running_server

SEALED = {
    "type": "reasoning.encrypted",
    "data": "EvYB",
    "format": "google-gemini-v1",
    "id": "c1",
    "index": 0,
}
TEXT = {
    "type": "reasoning.text",
    "text": "I read it.",
    "format": "google-gemini-v1",
    "index": 0,
}
CALL = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}}
DELTAS: list[dict[str, Any]] = [
    {"reasoning": "I read it.", "reasoning_details": [TEXT]},
    {"reasoning_details": [SEALED], "tool_calls": [CALL]},
]
CALLS = {
    "fault": {
        "raw": [
            *(
                {"choices": [{"delta": delta, "finish_reason": None}]}
                for delta in DELTAS
            ),
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        ]
    }
}
SCRIPT = [{"times": 1, "answer": CALLS}, {"answer": {"text": "done"}}]


def client(server: RunningServer) -> Any:
    return chat_at(server.base_url, model=server.model, dialect="openrouter")


def blocks(server: RunningServer) -> list[Any]:
    """The reasoning blocks of the answer that called, as the newest request has them."""
    messages = server.requests()[-1].messages
    return next(m.get("reasoning_details") for m in messages if m.get("tool_calls"))


async def test_blocks_go_back_within_the_turn_and_after_a_resume(
    tmp_path: Path,
) -> None:
    with running_server(script=SCRIPT) as server:
        agent, _ = agent_in(tmp_path, client(server))
        await agent.prompt("look around")
        assert blocks(server) == [TEXT, SEALED]
        await agent.aclose()
        again = Agent(reload_session(agent), llm=client(server), approvals="all")
        await again.prompt("go on")
        assert blocks(server) == [TEXT, SEALED]
        await again.aclose()


async def test_blocks_go_back_after_a_compaction_that_keeps_their_answer(
    tmp_path: Path,
) -> None:
    early = {"times": 1, "answer": {"text": "So it was. " * 2_000}}
    with running_server(script=[early, *SCRIPT]) as server:
        agent, _ = agent_in(tmp_path, client(server), compaction="simple")
        await agent.prompt("tell me of it")
        await agent.prompt("look around")
        await agent.compact()
        assert agent.session.projection.all_compactions
        await agent.prompt("go on")
        assert "So it was. " * 100 not in str(server.requests()[-1].messages)
        assert blocks(server) == [TEXT, SEALED]
        await agent.aclose()


async def test_blocks_are_left_out_for_another_server_and_come_back_with_their_own(
    tmp_path: Path,
) -> None:
    with (
        running_server(script=SCRIPT) as server,
        running_server(script=SCRIPT[1:]) as other,
    ):
        agent, _ = agent_in(tmp_path, client(server))
        await agent.prompt("look around")
        await take_over(agent.state, client(other))
        await agent.prompt("go on")
        assert blocks(other) is None
        await take_over(agent.state, client(server))
        await agent.prompt("and on")
        assert blocks(server) == [TEXT, SEALED]
        await agent.aclose()
