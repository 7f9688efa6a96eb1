"""The cost of a streamed answer at 2,000 tokens a second, with every frame drawn."""

import asyncio
import gc
import time
from collections.abc import Callable

from textual.app import App, ComposeResult

from bench.tables import table
from bench.timing import Times, ms
from foldline.tui.app.presenter import FRAMES
from foldline.tui.blocks.view import BlockView
from foldline.tui.transcript.feed import ChatTranscript
from support.answers import KINDS, split_chunks
from support.history import history

Benchmark = Callable[..., object]

TOKENS_A_SECOND = 2_000
_CHARACTERS_A_TOKEN = {"Chinese": 1.5}
"""By kind of text; 4 for all others."""
_LINES = {"fence": 5_000, "table": 500}
_ALLOWED = 1.5
"""Allowed frames for the slowest hundredth; a fence of 5,000 lines takes 0.8."""


class _Screen(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.view = BlockView()

    def compose(self) -> ComposeResult:
        yield self.view


async def _stream(text: str, a_frame: int) -> tuple[Times, int]:
    """Return the times of the frames, and the most blocks drawn in one.

    The times are CPU times of this process.
    """
    app = _Screen()
    async with app.run_test(size=(120, 40)) as pilot:
        transcript = ChatTranscript(
            app.view, history().system("s").user("go").projection()
        )
        transcript.show(transcript.read(transcript.projection.entries))
        transcript.begin_step()
        seconds: list[float] = []
        most = 0
        gc.freeze()  # as the program does after opening a session
        for piece in split_chunks(text, a_frame):
            before, began = app.view.rendered, time.process_time()
            transcript.write(piece)
            transcript.flush()
            app.screen._compositor.render_strips()
            seconds.append(time.process_time() - began)
            most = max(most, app.view.rendered - before)
        await pilot.pause()
        return Times.of(seconds), most


def test_streaming_keeps_up_with_2_000_tokens_a_second(benchmark: Benchmark) -> None:
    benchmark.pedantic(lambda: asyncio.run(_all_kinds()), rounds=1)  # type: ignore[attr-defined]


async def _all_kinds() -> None:
    output = table(
        f"Streaming at {TOKENS_A_SECOND:,} tokens a second, {FRAMES} frames a second",
        "answer",
        "lines",
        "frames",
        "median",
        "p99",
        "worst",
        "of the time",
        "most blocks a frame",
    )
    for name, make in KINDS.items():
        lines = _LINES.get(name, 1_000)
        a_frame = round(TOKENS_A_SECOND * _CHARACTERS_A_TOKEN.get(name, 4) / FRAMES)
        times, most = await _stream(make(lines), a_frame)
        share = sum(times.seconds) / (len(times.seconds) / FRAMES)
        output.row(
            name,
            f"{lines:,}",
            len(times.seconds),
            ms(times.median),
            ms(times.p99),
            ms(times.worst),
            f"{share:.0%}",
            most,
        )
        assert share < 1, f"{name} falls behind: {share:.0%} of the time"
        assert times.p99 < _ALLOWED / FRAMES, f"{name}: {ms(times.p99)} a frame"
