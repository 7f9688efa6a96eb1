"""What other agents stumbled over and never got up from: here, the next request gets through."""

import asyncio
import struct
import zlib
from base64 import b64encode
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from foldline.agent.turn.request import IMAGE_HIDDEN, LARGE_IMAGE
from foldline.llm import Chunk, ContextOverflow, LLMError, Request
from foldline.protocol import (
    Compaction,
    ImagePart,
    Usage,
    events,
    operations,
    text_parts,
)
from foldline.view.rules import broken
from support.agents import (
    Play,
    PlayedLLM,
    agent_in,
    other_tasks_done,
    reload_session,
    reply,
    tool_reply,
)
from support.messages import tool_results


def picture(width: int, height: int) -> bytes:
    """A picture that does not compress."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(
        b"\0" + bytes((x * y * 7 + x) % 251 for x in range(width))
        for y in range(height)
    )
    pieces = [(b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in pieces
    )


class SmallBodyLLM(PlayedLLM):
    """A server that refuses requests of more than so many bytes of pictures, as proxies and providers do."""

    def __init__(self, *script: Play, refusal: LLMError, most: int = 50_000) -> None:
        super().__init__(*script, always="done")
        self._refusal, self._most = refusal, most
        self.refused = 0

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        parts = [part for message in request.messages for part in message.parts]
        if (
            sum(len(part.data) for part in parts if isinstance(part, ImagePart))
            > self._most
        ):
            self.refused += 1
            raise self._refusal
        async for chunk in super().stream(request):
            yield chunk


REFUSALS = [
    ContextOverflow("The request is too large.", status=413),
    LLMError(
        "The server refused the request: image exceeds 5 MB maximum.",
        400,
        about="picture",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=["413", "400"])
async def test_an_oversized_picture_that_a_tool_read_is_hidden_and_the_turn_goes_on(
    tmp_path: Path, refusal: LLMError
) -> None:
    (tmp_path / "big.png").write_bytes(picture(300, 300))
    llm = SmallBodyLLM(tool_reply(("read", {"path": "big.png"})), refusal=refusal)
    agent, watch = agent_in(tmp_path, llm)
    assert (await agent.prompt("look at big.png")).text == "done"
    assert (await agent.prompt("and now?")).text == "done"
    assert llm.refused == 1
    hidden = IMAGE_HIDDEN.partition("{")[0]
    assert any(text.startswith(hidden) for text in watch.notices)
    assert broken(agent.session.projection) == []
    assert [item.message for item in reload_session(agent).projection.view] == [
        item.message for item in agent.session.projection.view
    ]
    await agent.aclose()


@pytest.mark.parametrize("refusal", REFUSALS, ids=["413", "400"])
@pytest.mark.parametrize("whose", ["the user's", "a tool's, with compacting off"])
async def test_a_picture_that_must_not_go_unasked_is_named_and_dropped_it_blocks_nothing(
    tmp_path: Path, refusal: LLMError, whose: str
) -> None:
    data = picture(300, 300)
    (tmp_path / "big.png").write_bytes(data)
    sent = ImagePart(
        media_type="image/png", data=b64encode(data).decode(), width=300, height=300
    )
    script = (
        [] if whose == "the user's" else [tool_reply(("read", {"path": "big.png"}))]
    )
    llm = SmallBodyLLM(*script, refusal=refusal)
    agent, watch = agent_in(tmp_path, llm, mode="off" if script else "auto")
    parts = text_parts("look") if script else (*text_parts("look"), sent)
    finished = await agent.executor.wait_for(
        agent.executor.submit(operations.RunAgent(parts=parts))
    )
    assert finished.outcome == "failed"
    said = " ".join([finished.error or "", *watch.notices])
    [item] = [
        item
        for item in agent.session.projection.view
        if any(isinstance(part, ImagePart) for part in item.message.parts)
    ]
    assert LARGE_IMAGE.format(index=item.index, size="").partition(".")[0] in said
    drop = operations.EditView(target=item.index, action="drop")
    await agent.executor.wait_for(agent.executor.submit(drop))
    assert (await agent.prompt("never mind")).text == "done"
    await agent.aclose()


async def test_a_usage_reported_before_a_compaction_does_not_begin_the_next_one(
    tmp_path: Path,
) -> None:
    usage = Usage(input=26_000, output=900)
    llm = PlayedLLM(
        "I see. " * 900, reply("I know it all now. " * 200, usage=usage), window=32_768
    )
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("Tell me of it. " * 900)
    await agent.prompt("And the rest.")
    await agent.compact()
    await agent.prompt("And on.")
    await agent.prompt("And on.")
    compactions = [
        entry
        for entry in reload_session(agent).entries
        if isinstance(entry, Compaction)
    ]
    assert [compaction.reason for compaction in compactions] == ["manual"]
    await agent.aclose()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("spins", range(0, 24, 2))
async def test_a_file_that_was_written_before_the_cancel_is_told_to_the_model(
    tmp_path: Path, spins: int
) -> None:
    llm = PlayedLLM(
        tool_reply(("write", {"path": "x.txt", "content": "new"})), always="done"
    )
    agent, watch = agent_in(tmp_path, llm)
    agent.executor.submit(operations.RunAgent(parts=text_parts("write it")))
    await watch.first(events.ToolStarted)
    for _ in range(spins):
        await asyncio.sleep(0)
    agent.executor.submit(operations.Interrupt())
    await agent.executor.settle()
    await other_tasks_done()
    [result] = tool_results(agent.session.entries)
    written = (tmp_path / "x.txt").exists()
    assert not (written and result.text.startswith("Not run"))
    llm.script.clear()
    await agent.prompt("go on")
    assert result.text in [message.text for message in llm.requests[-1].messages]
    await agent.aclose()
