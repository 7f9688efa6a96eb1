"""Tool calls of a real model, read by llama.cpp's own parser, run by Foldline's agent, over a full window.

The template is ours (`tests/support/real_tools.jinja`): its examples are why so small a model calls at all.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from foldline.agent.settings.model_choice import server_of_environment
from foldline.agent.tools.files import ReadTool
from foldline.llm import Answer, Chunk, Request, ToolCallChunk
from foldline.llm.client import ModelClient
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    Message,
    ToolResultMessage,
    Usage,
    UserMessage,
    events,
    text_parts,
)
from foldline.view.rules import broken
from support.agents import Watch, agent_in
from support.real_server import RealServer, real_server, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

WINDOW = 2_048
PAGE = "Page {} is about the sea. " * 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(
        tmp_path_factory.mktemp("real") / "log", "tools", window=WINDOW
    ) as running:
        yield running


@dataclass(frozen=True)
class Read:
    """A session in which pages were read, one a prompt, until the server refused a request as too long."""

    entries: list[Entry]
    watch: Watch
    faults: list[str]
    """What is wrong with the view at its end."""

    @property
    def usages(self) -> list[Usage]:
        """What the server says of each request before the compaction."""
        before = next(
            i for i, entry in enumerate(self.entries) if isinstance(entry, Compaction)
        )
        answers = [
            entry
            for entry in self.entries[:before]
            if isinstance(entry, AssistantMessage)
        ]
        return [answer.usage for answer in answers if answer.usage is not None]


@pytest.fixture(scope="module")
def read(server: RealServer, tmp_path_factory: pytest.TempPathFactory) -> Read:
    folder = tmp_path_factory.mktemp("pages")

    async def pages() -> Read:
        client = ModelClient(
            server_of_environment(server.base_url), window=16_384
        )  # more than it has
        agent, watch = agent_in(folder, client, tools=(ReadTool(),))
        for number in range(8):
            (folder / f"page{number}.txt").write_text(
                PAGE.format(*[number] * 40), encoding="utf-8"
            )
            await agent.prompt(f"Please read page{number}.txt")
            if watch.of(events.CompactionEnd):
                break
        await agent.aclose()
        return Read(
            list(agent.session.entries), watch, broken(agent.session.projection)
        )

    return asyncio.run(pages())


def asks(path: str) -> list[Message]:
    return [UserMessage(parts=text_parts(f"Please read {path}"))]


async def streamed(
    server: RealServer, messages: list[Message], most: int | None = None
) -> list[Chunk]:
    client = ModelClient(server_of_environment(server.base_url))
    try:
        request = Request(messages, (ReadTool().spec,), max_output=most)
        return [chunk async for chunk in client.stream(request)]
    finally:
        await client.aclose()


async def answer(
    server: RealServer, messages: list[Message], most: int | None = None
) -> Answer:
    last = (await streamed(server, messages, most))[-1]
    assert isinstance(last, Answer)
    return last


async def test_a_template_with_tools_is_seen_before_the_first_request(
    server: RealServer,
) -> None:
    client = ModelClient(server_of_environment(server.base_url))
    assert (await client.prepare()).tools
    await client.aclose()


async def test_a_call_comes_in_pieces_and_is_whole_in_the_answer(
    server: RealServer,
) -> None:
    *pieces, answer = await streamed(server, asks("ships.txt"))
    texts = [chunk.text for chunk in pieces if isinstance(chunk, ToolCallChunk)]
    assert len(texts) > 3
    assert isinstance(answer, Answer)
    said = answer.message
    assert [(call.name, call.arguments) for call in said.calls] == [
        ("read", "".join(texts))
    ]
    assert (said.text, said.stop_reason) == ("", "tool_calls")
    assert json.loads(said.calls[0].arguments) == {"path": "ships.txt"}


async def test_a_call_that_was_cut_off_is_sent_again_and_taken(
    server: RealServer,
) -> None:
    """The server parses the arguments of every call in a request, and refuses what is no JSON."""
    cut = (await answer(server, asks("ships.txt"), most=20)).message
    assert (cut.calls[0].arguments, cut.stop_reason) == ('{"path": "ships.', "length")
    result = ToolResultMessage(
        call_id=cut.calls[0].call_id, name="read", parts=text_parts("Cut off.")
    )
    after = (
        await answer(server, [*asks("ships.txt"), cut, result, *asks("trees.txt")])
    ).message
    assert [json.loads(call.arguments) for call in after.calls] == [
        {"path": "trees.txt"}
    ]


def test_each_prompt_is_a_call_its_result_and_an_answer(read: Read) -> None:
    said = [
        e
        for e in read.entries
        if isinstance(e, UserMessage | AssistantMessage | ToolResultMessage)
    ]
    assert len(said) >= 12 and len(said) % 4 == 0
    for number in range(len(said) // 4):
        asked, called, result, answered = said[4 * number : 4 * number + 4]
        path = f"page{number}.txt"
        assert isinstance(asked, UserMessage) and path in asked.text
        assert isinstance(called, AssistantMessage) and isinstance(
            result, ToolResultMessage
        )
        (call,) = called.calls
        assert call.arguments == f'{{"path": "{path}"}}'
        assert (result.call_id, result.is_error) == (call.call_id, False)
        assert result.text.startswith(f"Page {number} is about the sea.")
        assert (
            isinstance(answered, AssistantMessage)
            and answered.text
            and not answered.calls
        )


def test_the_cache_has_all_of_the_request_before(read: Read) -> None:
    """The server says so: what was sent once is sent again token by token, calls and results included."""
    assert len(read.usages) > 5
    for before, after in pairwise(read.usages):
        assert before.input <= after.cached < after.input, (before, after)


def test_a_refusal_between_a_call_and_its_answer_is_compacted_away(read: Read) -> None:
    (end,) = read.watch.of(events.CompactionEnd)
    assert (end.reason, end.will_retry, end.error) == ("overflow", True, None)
    kinds = [
        type(entry) for entry in read.entries if not isinstance(entry, UserMessage)
    ]
    at = kinds.index(Compaction)
    assert ToolResultMessage in kinds[at - 3 : at] and AssistantMessage in kinds[at:]
    last = next(
        entry for entry in reversed(read.entries) if isinstance(entry, AssistantMessage)
    )
    assert last.text and last.usage is not None and last.usage.input < WINDOW
    assert read.faults == []
