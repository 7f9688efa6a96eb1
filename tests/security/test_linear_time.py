"""Any output of a model or server is read in linear time: the event loop waits for it."""

import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.agent.permissions.sandbox import Sandbox
from foldline.agent.permissions.sandbox_engine import Engine
from foldline.agent.tools.files import nearest
from foldline.compaction.strategies.hierarchical import parse_levels
from foldline.compaction.summary_text import (
    appendix_of,
    lists_of,
    notes_of,
    unframed,
    unwrapped,
)
from foldline.llm.failures import Endpoint, status_failure
from foldline.memory.audit import facts_of
from foldline.memory.digest import digest
from foldline.memory.language import is_sectioned, parse_summary
from foldline.protocol import SystemMessage, UserMessage, text_parts
from foldline.text.harmless import clean, clean_line
from foldline.tui.blocks.cutter import Cutter
from foldline.tui.browser.draft.panel import note_blocks

LENGTH, TIMES = 6_000, 8
"""Characters, and the factor that in linear time takes less than `MAX_RATIO` times as long."""
MAX_RATIO = 24
"""Quadratic time would be 64. Thread time is measured, so a busy machine does not matter."""
NEGLIGIBLE_SECONDS = 0.3
"""Times below this are not compared."""

PIECES = [
    *(
        "\n",
        " ",
        "\t",
        "<",
        "`",
        "[",
        "#",
        "-",
        "*",
        "_",
        "|",
        "a",
        "0",
        "\\",
        "\r\n",
        "<a>",
        "[a](",
        "```\n",
    ),
    *(
        "<summary>\n",
        "\n</summary>",
        "<read-files>\n",
        "<standing-constraints>\n",
        "[entry 1] ",
        "| a |\n",
    ),
    *("|-|\n", "- a\n", "# a\n", "**a", "\x1b[", "TODO: ", "must ", "<<EOF\n"),
    *("/", "a/", "=/", "Errno 30 ", "ENOENT ", "use", "content ", "valid string "),
]


def summary(text: str) -> SystemMessage:
    return SystemMessage(index=1, origin="summary", parts=text_parts(text))


def prompt(text: str) -> UserMessage:
    return UserMessage(index=1, parts=text_parts(text))


def streamed(text: str) -> None:
    cutter = Cutter()
    for start in range(0, len(text), 100):
        cutter.feed(text[start : start + 100])
        cutter.open()
    cutter.close()


OUTPUTS = Sandbox(Path("/"), engine=Engine(""))

READERS: dict[str, Callable[[str], object]] = {
    "an error body": lambda text: status_failure(
        Endpoint("http://x", "m", "sk-0123456789"), 400, text, {}
    ),
    "what a failed command wrote": OUTPUTS.blocked,
    "notes": lambda text: notes_of(unwrapped(text)),
    "lists": lambda text: (lists_of(text), appendix_of(text)),
    "a frame": lambda text: unframed(summary(text)),
    "sections": lambda text: (list(parse_summary(text)), is_sectioned(text)),
    "levels": parse_levels,
    "facts of a summary": lambda text: facts_of([summary(text)]),
    "a digest": lambda text: digest(
        [prompt(text)], previous=text, focus="", max_tokens=1_000
    ),
    "what is shown": lambda text: (clean(text), clean_line(text)),
    "markdown as it comes": streamed,
    "text to be replaced": lambda text: nearest("one\n" * 9, text),
    "a draft": note_blocks,
}


def seconds(read: Callable[[str], object], text: str) -> float:
    """Measure thread time without garbage collection, whose time depends on other tests."""
    gc.disable()
    try:
        before = time.thread_time()
        read(text)
        return time.thread_time() - before
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_any_output_is_read_in_linear_time(reader: str) -> None:
    read = READERS[reader]
    read("x")  # imports and patterns compiled at the first call
    for piece in PIECES:
        text = "-" + piece * (LENGTH // len(piece)) + "\0"
        longer = "-" + piece * (TIMES * LENGTH // len(piece)) + "\0"
        # Measure again if it seemed slow: other processes share the processor's caches.
        assert any(
            long < NEGLIGIBLE_SECONDS or long < MAX_RATIO * seconds(read, text)
            for long in (seconds(read, longer) for _ in range(3))
        ), piece
