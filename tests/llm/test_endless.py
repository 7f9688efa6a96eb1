"""Endless answers: each is bounded, its text is kept, and other tasks run meanwhile.

tests/bench/test_endless.py measures how long the event loop is blocked.
"""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from foldline.llm import Request
from foldline.llm.failures import ENDLESS
from foldline.llm.growing import Growing, Room
from foldline.llm.sse import LONGEST_EVENT
from foldline.llm.wire import LEAST_BOUND, TOO_MUCH, most_characters
from foldline.protocol import AssistantMessage
from support.clients import answer_of, client_of, error_of, prompt
from support.sentences import says
from support.server import RunningServer, running_server

WORDS = "".join(f"word{number} " for number in range(200))


def data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def delta(**fields: Any) -> str:
    return data({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


def call_delta(arguments: str) -> str:
    return delta(
        tool_calls=[
            {
                "index": 0,
                "id": "x",
                "function": {"name": "write", "arguments": arguments},
            }
        ]
    )


def response_delta(kind: str, text: str) -> str:
    return data({"type": f"response.{kind}.delta", "output_index": 0, "delta": text})


TEXT_FLOODS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("chat", {"piece": delta(content=WORDS)}),
    "text in small pieces": ("chat", {"piece": delta(content=WORDS[:350])}),
    "text in one piece": ("chat", {"head": 'data: {"choices":[{"delta":{"content":"', "piece": WORDS[:1000],
                                   "times": 5_000, "tail": '"}}]}\n\n'}),
    "text, not streamed": ("chat", {"head": '{"choices":[{"message":{"content":"', "piece": WORDS[:1000],
                                    "times": 5_000, "tail": '"},"finish_reason":"stop"}]}'}),
    "reasoning": ("chat", {"piece": delta(reasoning_content=WORDS)}),
    "responses: text": ("responses", {"piece": response_delta("output_text", WORDS)}),
    "responses: reasoning": ("responses", {"piece": response_delta("reasoning_summary_text", WORDS)}),
}  # fmt: skip
CALL_FLOODS: dict[str, tuple[str, dict[str, Any]]] = {
    "arguments": ("chat", {"head": delta(content="I write."), "piece": call_delta(WORDS)}),
    "calls": ("chat", {
        "head": delta(content="I write."),
        "piece": call_delta("{}").replace('"index": 0, ', "", 1).replace('{"index": 0, "id": "x", ', "{"),
    }),
    "responses: arguments": ("responses", {
        "head": response_delta("output_text", "I write."),
        "piece": data({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": WORDS}),
    }),
}  # fmt: skip
EMPTY_FLOODS: dict[str, tuple[str, dict[str, Any]]] = {
    "one line": ("chat", {"piece": "x" * 1000}),
    "one event": (
        "chat",
        {"head": 'data: {"choices": [{"delta": {"content": "', "piece": "x" * 1000},
    ),
    "lines of one event": ("chat", {"piece": "data: " + "x" * 1000 + "\n"}),
    "one JSON text": ("chat", {"head": "{", "piece": "x" * 1000}),
    "comments": ("chat", {"piece": ": " + "." * 1000 + "\n\n"}),
    "blank lines": ("chat", {"piece": "\n" * 1000}),
    "pieces that say nothing": (
        "chat",
        {"piece": data({"choices": [], "pad": "x" * 1000})},
    ),
    "responses: events nobody knows": (
        "responses",
        {"piece": data({"type": "x", "pad": "x" * 1000})},
    ),
}
FLOODS = {**TEXT_FLOODS, **CALL_FLOODS, **EMPTY_FLOODS}
SCRIPT = [
    {"when": {"content": f"^{name}$"}, "answer": {"fault": {"flood": flood}}}
    for name, (_, flood) in FLOODS.items()
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(script=SCRIPT, window=8_000) as running:
        yield running


async def flood_answer(server: RunningServer, name: str) -> AssistantMessage:
    """Return the answer to a flood, checking that the connection is closed."""
    client = client_of(server, api=FLOODS[name][0])
    message = await answer_of(client, prompt(name))
    if "times" not in FLOODS[name][1]:
        await wait_until_closed(server, name)
    await client.aclose()
    return message


async def wait_until_closed(server: RunningServer, name: str) -> None:
    def closed(_: object) -> bool:
        asked = [seen for seen in server.requests() if f'"{name}"'.encode() in seen.raw]
        return bool(asked) and all(seen.outcome == "closed by client" for seen in asked)

    await asyncio.to_thread(server.wait_for, closed)


@pytest.mark.parametrize("name", TEXT_FLOODS)
async def test_an_endless_answer_is_kept_up_to_its_bound_and_cut_off(
    server: RunningServer, name: str
) -> None:
    message = await flood_answer(server, name)
    assert LEAST_BOUND - 1_000 <= len(message.text + message.thinking) <= LEAST_BOUND
    assert message.stop_reason == "length"
    assert message.error is not None
    assert message.error == TOO_MUCH.format(model="scripted-1")


@pytest.mark.parametrize("name", CALL_FLOODS)
async def test_an_endless_call_is_left_out(server: RunningServer, name: str) -> None:
    message = await flood_answer(server, name)
    assert message.text == "I write."
    assert {call.arguments for call in message.calls} <= {"{}"}
    assert len(message.calls) <= 1_000
    assert message.stop_reason == "length"


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", EMPTY_FLOODS)
async def test_a_stream_without_content_is_aborted(
    server: RunningServer, name: str
) -> None:
    client = client_of(server, api=FLOODS[name][0])
    error = await error_of(client, prompt(name))
    assert says(error, ENDLESS, size=16)
    assert error.partial is None
    await wait_until_closed(server, name)
    await client.aclose()


async def test_an_endless_line_takes_no_more_memory_than_its_bound(
    server: RunningServer,
) -> None:
    client = client_of(server)
    await error_of(client, prompt("comments"))  # imports and objects built once
    tracemalloc.start()
    try:
        await error_of(client, prompt("one line"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * LONGEST_EVENT
    await client.aclose()


async def test_other_tasks_run_during_a_flood(server: RunningServer) -> None:
    """Received data is read without awaiting: one socket read holds hundreds of chunks."""
    turns, at, run, longest = 0, 0, 0, 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    client = client_of(server)
    async with aclosing(
        client.stream(Request(prompt("text in small pieces")))
    ) as stream:
        async for _ in stream:
            run, at = (run + 1, at) if turns == at else (0, turns)
            longest = max(longest, run)
    task.cancel()
    assert 0 < longest <= 64
    await client.aclose()


def test_no_answer_is_longer_than_the_models_window() -> None:
    assert most_characters(8_000) == most_characters(100_000) == LEAST_BOUND
    assert most_characters(1_000_000) == 8_000_000


def test_a_text_is_cut_at_the_bound() -> None:
    room = Room(5)
    text = Growing(room)
    assert [text.add("abc"), text.add("de"), room.full, text.add("f"), room.full] == [
        "abc",
        "de",
        False,
        "",
        True,
    ]
    assert str(text) == "abcde"
    assert room.taken == 6
