"""`foldline view --request` of a session that spoke the Responses API."""

import json
from pathlib import Path

from foldline.llm.responses import RESPONSES
from foldline.protocol import RequestRecord, operations
from support.agents import agent_in, write_lines
from support.clients import chat_at
from support.command_line import CommandLine
from support.server import running_server

THINKS = [
    {
        "when": {"role": "user", "content": "^Read", "tools": True},
        "answer": {"builtin": "calls", "thinking": "Hm."},
    }
]


async def test_view_prints_the_items_the_server_received(
    cli: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    write_lines(folder / "a.txt", 5)
    with running_server(script=THINKS, then_default=True) as server:
        llm = chat_at(
            server.base_url, model=server.model, window=32_768, api="responses"
        )
        agent, _ = agent_in(folder, llm)
        await agent.prompt("Read a.txt")
        submitted = agent.executor.submit(operations.CompactSession(reason="manual"))
        await agent.executor.wait_for(submitted)
        await agent.prompt("Say hello")
        received = [
            seen.messages for seen in server.requests() if seen.body.get("tools")
        ]
        path, records = agent.session.path, agent.session.entries
        await agent.aclose()
    assert {entry.dialect for entry in records if isinstance(entry, RequestRecord)} == {
        RESPONSES
    }
    assert len(received) == 3
    for number, items in enumerate(received, start=1):
        shown = cli("view", path, "--request", str(number), "--json")
        assert shown.code == 0, shown.err
        assert json.dumps(shown.json["messages"]) == json.dumps(items)
        assert shown.json["request"]["dialect"] == RESPONSES
        assert shown.json["request"]["proved"] is True
    assert cli("verify", path).code == 0
