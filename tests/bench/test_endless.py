"""How long an endless answer blocks the event loop, and so the key to stop it."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest

from bench.tables import table
from bench.timing import Times, ms, times_of
from foldline.llm import LLMError, Request
from foldline.llm.client import ModelClient, preload
from foldline.protocol import UserMessage, text_parts
from support.clients import chat_at
from support.server_process import running_server

TARGET_SECONDS = 0.05
OF_FLOOR = 3
"""Allowed multiple of the floor, if the machine is too slow for the target."""
WINDOW = 400_000
"""Answer limit in tokens: 3.2 million characters arrive before the cut-off."""


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _delta(**fields: Any) -> str:
    return _data({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


_CALL = {"index": 0, "id": "x", "function": {"name": "write", "arguments": "on and on"}}
FLOODS: dict[str, dict[str, Any]] = {
    "small pieces": {"piece": _delta(content="on and on and on and on ")},
    "arguments of a call": {"piece": _delta(tool_calls=[_CALL])},
    "one piece of 15 MB": {
        "head": 'data: {"choices":[{"delta":{"content":"',
        "piece": "x" * 1000,
        "times": 15_000,
        "tail": '"},"finish_reason":"stop"}]}\n\n',
    },
    "a line without end": {"piece": "x" * 1000},
}


@pytest.mark.parametrize("name", FLOODS)
def test_the_event_loop_is_not_held(
    benchmark: Callable[..., object], name: str
) -> None:
    script = [{"answer": {"fault": {"flood": FLOODS[name]}}}]
    with running_server(script=script, window=WINDOW) as server:
        preload()
        client = chat_at(server.base_url, model=server.model, window=WINDOW)
        delays: Times = benchmark.pedantic(  # type: ignore[attr-defined]
            lambda: asyncio.run(_held_by(client)), rounds=1
        )
    floor = times_of(
        lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 5
    )
    output = table(
        f"The event loop while an answer pours in (target: {TARGET_SECONDS * 1000:.0f} ms)",
        *("answer", "turns", "median", "worst", "floor", "worst / floor"),
    )
    ratio = delays.worst / floor.median
    output.row(
        name,
        len(delays.seconds),
        ms(delays.median),
        ms(delays.worst),
        ms(floor.median),
        f"{ratio:.1f}",
    )
    assert delays.worst <= max(TARGET_SECONDS, OF_FLOOR * floor.median), (
        f"held for {ms(delays.worst)}"
    )


async def _held_by(client: ModelClient) -> Times:
    """Return the seconds between two turns of another task during an answer."""
    delays: list[float] = []

    async def other() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            delays.append(now - last)
            last = now

    task = asyncio.create_task(other())
    with suppress(LLMError):
        async with aclosing(
            client.stream(Request([UserMessage(parts=text_parts("go"))]))
        ) as stream:
            async for _ in stream:
                pass
    task.cancel()
    await client.aclose()
    return Times.of(delays)
