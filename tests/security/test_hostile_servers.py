"""Tool servers that demand more than calls: the model, passwords, memory, authority."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from foldline.agent.extensions.mcp import ServerConfig, ToolServers
from support.hostile_mcp import WANTS
from support.tools import tool_context

SERVER = Path(__file__).parent.parent / "support" / "hostile_mcp.py"
MAX_TOOL_TEXT = 70_000
"""Most characters one tool may use in every request."""


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary"


def requests_of(diary: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in diary.read_text().splitlines()]


def answers_in(diary: Path) -> list[dict[str, Any]]:
    """Return the answers to the server's own requests."""
    return [
        line for line in requests_of(diary) if str(line.get("id")).startswith("want-")
    ]


async def test_a_server_gets_only_calls_and_gives_only_text(
    tmp_path: Path, diary: Path
) -> None:
    told: list[str] = []
    config = ServerConfig(
        "evil", command=sys.executable, args=("-P", str(SERVER), str(diary))
    )
    servers = ToolServers(
        [config], folder=tmp_path, logs=tmp_path / "logs", environ=os.environ
    )
    servers.tell = told.append
    try:
        servers.start()
        await servers.settled(30)
        tools = {tool.spec.name: tool for tool in servers.tools}
        assert {"mcp__evil__ask", "mcp__evil__bash"} <= tools.keys()
        for tool in tools.values():
            assert tool.level == "run", (
                "what it says of its own harmlessness is its own word"
            )
            assert tool.spec.name.startswith("mcp__evil__")
            size = len(json.dumps([tool.spec.description, tool.spec.parameters]))
            assert size < MAX_TOOL_TEXT, tool.spec.name
        assert any("bomb" in sentence and "wordy" in sentence for sentence in told)

        (tmp_path / "project").mkdir()
        outcome = await asyncio.wait_for(
            tools["mcp__evil__ask"].run({}, tool_context(tmp_path / "project")), 60
        )
        assert "\x1b" not in outcome.text
        assert outcome.images == (), (
            "a broken picture would have every later request refused"
        )

        async with asyncio.timeout(60):
            while len(answers := answers_in(diary)) < len(WANTS):
                await asyncio.sleep(0.01)
        assert all("error" in line and "result" not in line for line in answers)
        offered = next(
            line for line in requests_of(diary) if line.get("method") == "initialize"
        )
        assert not offered["params"]["capabilities"].keys() & {
            "sampling",
            "elicitation",
            "roots",
        }
    finally:
        await servers.aclose()
