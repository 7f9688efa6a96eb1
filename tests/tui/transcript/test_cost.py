"""What a frame of something endless costs: as much at its end as at its start, and nothing twice."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

import pytest
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from foldline.protocol import AssistantMessage, text_parts
from foldline.tui.blocks.markdown import MarkdownBlock, StreamingMarkdown
from foldline.tui.blocks.view import BlockView
from foldline.tui.transcript.feed import ChatTranscript
from support.agents import tool_reply
from support.answers import KINDS, split_chunks
from support.history import history

ANSWERS: dict[str, Callable[[int], str]] = {
    **KINDS,
    "indented code": lambda lines: "\n".join(
        f"    {n} = code({n})" for n in range(lines)
    ),
    "one line": lambda lines: "many words " * 8 * lines,
    "one item": lambda lines: "- " + "many words " * 8 * lines,
    "an item of many lines": lambda lines: (
        "- first\n" + "  another line of it\n" * lines
    ),
    "quote": lambda lines: "> quoted words\n" * lines,
}
A_FRAME = 266
"""Characters of 2,000 tokens a second in a thirtieth of one."""
FRAMES = 60
"""Frames that are compared."""


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How many functions of Python are called within it."""
    calls = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ANSWERS)
def test_the_last_of_thousands_of_lines_costs_what_the_first_did(kind: str) -> None:
    frames = list(split_chunks(ANSWERS[kind](10_000), A_FRAME))
    stream = StreamingMarkdown(1)

    def work(frames: list[str]) -> tuple[int, int]:
        """Characters given to whatever draws them, and functions called."""
        characters = 0
        with counted_calls() as calls:
            for frame in frames:
                characters += sum(len(block.text()) for block in stream.feed(frame))
        return characters, calls[0]

    early = work(frames[:FRAMES])
    work(frames[FRAMES:-FRAMES])
    late = work(frames[-FRAMES:])
    assert late[0] <= 1.5 * early[0] and late[1] <= 1.5 * early[1]


# --- on the screen ---------------------------------------------------------------------------------------


class Shown(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.view = BlockView()

    def compose(self) -> ComposeResult:
        yield self.view


@asynccontextmanager
async def shown() -> AsyncIterator[ChatTranscript]:
    app = Shown()
    async with app.run_test(size=(80, 24)):
        talk = history().system("s").user("go")
        transcript = ChatTranscript(app.view, talk.projection())
        transcript.show(transcript.read(transcript.projection.entries))
        yield transcript


def think(transcript: ChatTranscript, text: str) -> None:
    transcript.think(text)


def write(transcript: ChatTranscript, text: str) -> None:
    transcript.write(text)


def put_out(transcript: ChatTranscript, text: str) -> None:
    transcript.tool_output("c0", text)


def add(transcript: ChatTranscript, message: AssistantMessage) -> None:
    entry = message.model_copy(update={"index": transcript.projection.last_index + 1})
    transcript.projection.append(entry)
    transcript.add(entry)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("put", [think, write, put_out])
async def test_a_frame_draws_the_same_however_much_came_before_and_lays_nothing_out(
    put: Callable[[ChatTranscript, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown() as transcript:
        view = transcript.openings._view
        transcript.begin_step()
        if put is think:
            transcript.think("Let me see.\n")
            transcript.flush()
            transcript.toggle(view.block_at(view.count - 1).key)
        if put is put_out:
            add(transcript, tool_reply(("bash", {"command": "make"})))
            transcript.start_tool("c0", "make")
        made: list[object] = []
        monkeypatch.setattr(
            Widget, "__init__", lambda self, *_, **__: made.append(self)
        )
        monkeypatch.setattr(
            Screen, "_refresh_layout", lambda self, *_: made.append(self)
        )
        frames = list(split_chunks("A line of what comes in.\n" * 2_000, A_FRAME))

        def drawn(frames: list[str]) -> tuple[int, int]:
            before = view.rendered
            with counted_calls() as calls:
                for frame in frames:
                    put(transcript, frame)
                    transcript.flush()
            return view.rendered - before, calls[0]

        early = drawn(frames[:FRAMES])
        drawn(frames[FRAMES:-FRAMES])
        late = drawn(frames[-FRAMES:])
        assert not made and early[0] >= FRAMES
        assert late[0] <= 1.2 * early[0] and late[1] <= 1.5 * early[1]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ["prose", "fence", "list", "table"])
async def test_what_is_finished_is_drawn_once_also_when_the_answer_ends(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[MarkdownBlock] = []
    render = MarkdownBlock.render
    monkeypatch.setattr(
        MarkdownBlock,
        "render",
        lambda self, *given: drawn.append(self) or render(self, *given),
    )
    text = KINDS[kind](300)
    async with shown() as transcript:
        transcript.begin_step()
        for frame in split_chunks(text, A_FRAME):
            transcript.write(frame)
            transcript.flush()
        assert len(drawn) == len(set(drawn)), (
            "an open piece is another block in each frame"
        )
        before = len(drawn)
        add(transcript, AssistantMessage(parts=text_parts(text), model="m"))
        assert len(drawn) <= before + 1, "only what was open"
