"""CPU time of a step in a long session.

From the tool's result to the request on the wire, and from the answer's first byte to the next call.
"""

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.tables import table
from bench.timing import ms
from foldline.agent import Agent
from foldline.agent.tools import default_tools
from foldline.history import Session
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    UserMessage,
    text_parts,
)
from foldline.view.tokens import message_tokens
from support.clients import chat_at
from support.recorded_job import UNLIMITED, recorded_job
from support.recordings import SHARED, needs_recorded
from support.server_process import RunningServer, running_server

pytestmark = needs_recorded

SESSION = SHARED / "pi" / "pimono-v1-2comp.jsonl"
STEPS = 40
SIZES = (10_000, 100_000, 400_000)
"""Estimated tokens of the view."""
OF_FLOOR = 8
"""Allowed multiple of a bare request: 5 in a short view, where the step itself counts, 3 in a long one."""
SCRIPT = [
    {"times": 1, "answer": {"text": "I wait."}},
    {
        "times": STEPS,
        "answer": {
            "text": "Next, the folder.",
            "tool_calls": [{"name": "ls", "arguments": {"path": "."}}],
            "chunk": 8,
        },
    },
    {"answer": {"text": "Done."}},
]


@pytest.mark.parametrize("size", SIZES)
def test_what_a_step_costs(
    benchmark: Callable[..., object], tmp_path: Path, size: int
) -> None:
    seconds, floor, tokens = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: asyncio.run(_measured(tmp_path, size)), rounds=1
    )
    output = table(
        "CPU time of one step, beside a bare request of the same body",
        *("view", "a step", "floor", "ratio"),
    )
    output.row(f"{tokens:,} tokens", ms(seconds), ms(floor), f"{seconds / floor:.1f}")
    output.note(
        "floor: json.dumps of the body, a post by http.client, the answer read and its pieces decoded"
    )
    assert tokens > size // 2
    assert seconds < OF_FLOOR * floor, (
        f"a step {ms(seconds)}, a bare request {ms(floor)}"
    )


async def _measured(folder: Path, size: int) -> tuple[float, float, int]:
    """Return the CPU seconds of a step and of the floor, and the view's tokens by the server's count."""
    with running_server(window=UNLIMITED, script=SCRIPT) as server:
        project = folder / "project"
        project.mkdir()
        session = Session.create(project, home=folder / "home")
        await session.append(*_history(size))
        agent = Agent(
            session,
            llm=chat_at(server.base_url, model=server.model, window=UNLIMITED),
            approvals="all",
            mode="off",
            tools=default_tools(),
        )
        await agent.prompt("Wait.")  # imports, connection, caches
        began = time.process_time()
        await agent.prompt("Look around.")
        seconds = (time.process_time() - began) / (STEPS + 1)
        await agent.aclose()
        seen = server.requests()
        floor = _floor(server, [one.body for one in seen[-STEPS // 2 :]])
        return seconds, floor, seen[-1].prompt_tokens


def _history(size: int) -> Sequence[BaseMessage]:
    messages: list[BaseMessage] = [
        SystemMessage(parts=text_parts("You are a careful agent."))
    ]
    for message in recorded_job(SESSION).messages:
        size -= message_tokens(message)
        if size < 0 and isinstance(message, UserMessage | AssistantMessage):
            break
        messages.append(message)
    return messages


def _floor(server: RunningServer, bodies: Sequence[dict[str, object]]) -> float:
    at = urlsplit(server.base_url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port or 0)
    connection.connect()
    began = time.process_time()
    for body in bodies:
        payload = json.dumps(body, ensure_ascii=False).encode()
        connection.request(
            "POST",
            "/v1/chat/completions",
            payload,
            {"content-type": "application/json"},
        )
        for line in connection.getresponse().read().split(b"\n\n"):
            if line.startswith(b"data: {"):
                json.loads(line[6:])
    seconds = (time.process_time() - began) / len(bodies)
    connection.close()
    return seconds
