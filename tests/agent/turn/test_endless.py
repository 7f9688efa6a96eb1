"""The whole agent when an answer does not end: the turn does, and the session goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from foldline.llm.failures import ENDLESS
from foldline.llm.wire import TOO_MUCH
from foldline.protocol import AssistantMessage, FoldlineError
from foldline.view.rules import broken
from support.agents import agent_in
from support.clients import chat_at
from support.sentences import pattern
from support.server import running_server


def delta(**fields: Any) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': fields, 'finish_reason': None}]})}\n\n"


CALL = {
    "index": 0,
    "id": "x",
    "function": {"name": "write", "arguments": "on and on " * 100},
}
FLOODS = {
    "text": {
        "piece": delta(content="".join(f"on and {number}, " for number in range(90)))
    },
    "a call": {"head": delta(content="I write."), "piece": delta(tool_calls=[CALL])},
}


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
async def test_an_answer_without_end_is_cut_off_and_the_session_goes_on(
    tmp_path: Path, flood: dict[str, Any]
) -> None:
    script = [{"when": {"nth": 1}, "answer": {"fault": {"flood": flood}}}]
    with running_server(script=script, then_default=True, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=server.window)
        agent, watch = agent_in(tmp_path, llm)
        await agent.prompt("talk")
        [said] = [
            entry
            for entry in agent.session.entries
            if isinstance(entry, AssistantMessage)
        ]
        assert said.stop_reason == "length"
        assert any(
            TOO_MUCH.format(model="scripted-1") in notice for notice in watch.notices
        )
        assert (await agent.prompt("Say hello")).text == "You said: Say hello"
        assert [seen.violations for seen in server.requests() if seen.violations] == []
        assert broken(agent.session.projection) == []
        await agent.aclose()


async def test_a_server_that_never_says_anything_is_one_sentence(
    tmp_path: Path,
) -> None:
    script = [
        {"when": {"nth": 1}, "answer": {"fault": {"flood": {"piece": "x" * 1000}}}}
    ]
    with running_server(script=script, then_default=True, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=server.window)
        agent, _ = agent_in(tmp_path, llm)
        with pytest.raises(FoldlineError, match=pattern(ENDLESS)):
            await agent.prompt("talk")
        assert (await agent.prompt("Say hello")).text.startswith("You said: ")
        assert broken(agent.session.projection) == []
        await agent.aclose()
