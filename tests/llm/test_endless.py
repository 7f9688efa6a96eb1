"""Answers without end: each has one with us, what was said is kept, and others get their turn meanwhile.

How long the event loop is held is measured by tests/bench/test_endless.py.
"""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from foldline.llm import Request
from foldline.llm.sse import LONGEST_EVENT
from foldline.llm.wire import LEAST_BOUND, Growing, Room, most_characters
from foldline.protocol import AssistantMessage
from support.clients import answer_of, client_of, error_of, prompt
from support.server import RunningServer, running_server

WORDS = "".join(f"word{number} " for number in range(200))


def data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def delta(**fields: Any) -> str:
    return data({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


def called(arguments: str) -> str:
    return delta(tool_calls=[{"index": 0, "id": "x", "function": {"name": "write", "arguments": arguments}}])


def responded(kind: str, text: str) -> str:
    return data({"type": f"response.{kind}.delta", "output_index": 0, "delta": text})


SAID: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("chat", {"piece": delta(content=WORDS)}),
    "text in small pieces": ("chat", {"piece": delta(content=WORDS[:350])}),
    "text in one piece": ("chat", {"head": 'data: {"choices":[{"delta":{"content":"', "piece": WORDS[:1000],
                                   "times": 5_000, "tail": '"}}]}\n\n'}),
    "text, not streamed": ("chat", {"head": '{"choices":[{"message":{"content":"', "piece": WORDS[:1000],
                                    "times": 5_000, "tail": '"},"finish_reason":"stop"}]}'}),
    "reasoning": ("chat", {"piece": delta(reasoning_content=WORDS)}),
    "responses: text": ("responses", {"piece": responded("output_text", WORDS)}),
    "responses: reasoning": ("responses", {"piece": responded("reasoning_summary_text", WORDS)}),
}  # fmt: skip
CALLED: dict[str, tuple[str, dict[str, Any]]] = {
    "arguments": ("chat", {"head": delta(content="I write."), "piece": called(WORDS)}),
    "calls": ("chat", {"head": delta(content="I write."), "piece": called("{}").replace('"index": 0, ', "", 1)
                       .replace('{"index": 0, "id": "x", ', "{")}),
    "responses: arguments": ("responses", {
        "head": responded("output_text", "I write."),
        "piece": data({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": WORDS}),
    }),
}  # fmt: skip
SILENT: dict[str, tuple[str, dict[str, Any]]] = {
    "one line": ("chat", {"piece": "x" * 1000}),
    "one event": ("chat", {"head": 'data: {"choices": [{"delta": {"content": "', "piece": "x" * 1000}),
    "lines of one event": ("chat", {"piece": "data: " + "x" * 1000 + "\n"}),
    "one JSON text": ("chat", {"head": "{", "piece": "x" * 1000}),
    "comments": ("chat", {"piece": ": " + "." * 1000 + "\n\n"}),
    "blank lines": ("chat", {"piece": "\n" * 1000}),
    "pieces that say nothing": ("chat", {"piece": data({"choices": [], "pad": "x" * 1000})}),
    "responses: events nobody knows": ("responses", {"piece": data({"type": "x", "pad": "x" * 1000})}),
}
FLOODS = {**SAID, **CALLED, **SILENT}
SCRIPT = [
    {"when": {"content": f"^{name}$"}, "answer": {"fault": {"flood": flood}}}
    for name, (_, flood) in FLOODS.items()
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(script=SCRIPT, window=8_000) as running:
        yield running


async def ended(server: RunningServer, name: str) -> AssistantMessage:
    """The answer to a flood, after which the connection is closed."""
    client = client_of(server, api=FLOODS[name][0])
    message = await answer_of(client, prompt(name))
    if "times" not in FLOODS[name][1]:
        await left(server, name)
    await client.aclose()
    return message


async def left(server: RunningServer, name: str) -> None:
    def closed(_: object) -> bool:
        asked = [seen for seen in server.requests() if f'"{name}"'.encode() in seen.raw]
        return bool(asked) and all(seen.outcome == "closed by client" for seen in asked)

    await asyncio.to_thread(server.wait_for, closed)


@pytest.mark.parametrize("name", SAID)
async def test_what_a_model_can_say_is_kept_and_then_it_is_cut_off(server: RunningServer, name: str) -> None:
    message = await ended(server, name)
    assert LEAST_BOUND - 1_000 <= len(message.text + message.thinking) <= LEAST_BOUND
    assert message.stop_reason == "length"
    assert message.error is not None
    assert "beyond what the window of scripted-1 can hold" in message.error


@pytest.mark.parametrize("name", CALLED)
async def test_a_call_that_is_cut_off_is_left_out(server: RunningServer, name: str) -> None:
    message = await ended(server, name)
    assert message.text == "I write."
    assert {call.arguments for call in message.calls} <= {"{}"}
    assert len(message.calls) <= 1_000
    assert message.stop_reason == "length"


@pytest.mark.parametrize("name", SILENT)
async def test_bytes_that_say_nothing_are_given_up(server: RunningServer, name: str) -> None:
    client = client_of(server, api=FLOODS[name][0])
    error = await error_of(client, prompt(name))
    assert "sent 16 MB without one piece of an answer" in str(error)
    assert error.partial is None
    await left(server, name)
    await client.aclose()


async def test_a_line_without_end_costs_no_more_than_its_bound(server: RunningServer) -> None:
    client = client_of(server)
    await error_of(client, prompt("comments"))  # what is imported and built once
    tracemalloc.start()
    try:
        await error_of(client, prompt("one line"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * LONGEST_EVENT
    await client.aclose()


async def test_others_get_their_turn_while_an_answer_pours_in(server: RunningServer) -> None:
    """What has arrived is read without waiting: one read of the socket holds hundreds of pieces."""
    turns, at, run, longest = 0, 0, 0, 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    client = client_of(server)
    async with aclosing(client.stream(Request(prompt("text in small pieces")))) as stream:
        async for _ in stream:
            run, at = (run + 1, at) if turns == at else (0, turns)
            longest = max(longest, run)
    task.cancel()
    assert 0 < longest <= 64
    await client.aclose()


def test_no_model_can_say_more_than_its_window() -> None:
    assert most_characters(8_000) == most_characters(100_000) == LEAST_BOUND
    assert most_characters(1_000_000) == 8_000_000


def test_a_text_is_cut_where_the_room_ends() -> None:
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
