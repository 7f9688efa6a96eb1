"""What a model or a server says is read in linear time, whatever it says: the event loop waits for it."""

import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.agent.sandbox import Engine, Sandbox
from foldline.agent.tools.files import nearest
from foldline.compaction.note_writer import _told_apart
from foldline.compaction.notes import parsed
from foldline.compaction.summary_text import appendix_of, lists_of, notes_of, unframed, unwrapped
from foldline.context.audit import mentions
from foldline.context.digest import digest_conversation
from foldline.context.harmless import clean, clean_line
from foldline.context.language import is_sectioned, parse_summary
from foldline.llm.failures import Endpoint, status_failure
from foldline.protocol import SystemMessage, text_parts
from foldline.tui.blocks.cutter import Cutter
from foldline.tui.preview.draft import note_blocks, note_lines

LENGTH, TIMES = 6_000, 8
"""Characters, and how many times as many are read in linear time in less than `MOST` times as long."""
MOST = 24
"""Quadratic would be 64. The time is that of this thread, so a busy machine does not count."""
TRIFLE = 0.3
"""Seconds that nobody would notice."""

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
    *("<summary>\n", "\n</summary>", "<read-files>\n", "<standing-constraints>\n", "[entry 1] ", "| a |\n"),
    *("|-|\n", "- a\n", "# a\n", "**a", "\x1b[", "TODO: ", "must ", "<<EOF\n"),
    *("/", "a/", "=/", "Errno 30 ", "ENOENT ", "use", "content ", "valid string "),
]


def summary(text: str) -> SystemMessage:
    return SystemMessage(index=1, origin="summary", parts=text_parts(text))


def streamed(text: str) -> None:
    cutter = Cutter()
    for start in range(0, len(text), 100):
        cutter.feed(text[start : start + 100])
        cutter.open()
    cutter.close()


OUTPUTS = Sandbox(Path("/"), engine=Engine(""))

READERS: dict[str, Callable[[str], object]] = {
    "an error body": lambda text: status_failure(Endpoint("http://x", "m", "sk-0123456789"), 400, text, {}),
    "what a failed command wrote": OUTPUTS.refused,
    "notes": lambda text: notes_of(unwrapped(text)),
    "lists": lambda text: (lists_of(text), appendix_of(text)),
    "a frame": lambda text: unframed(summary(text)),
    "sections": lambda text: (list(parse_summary(text)), is_sectioned(text)),
    "levels": parsed,
    "notes on parts": lambda text: _told_apart(text, "turn", 2),
    "mentions of a summary": lambda text: mentions([summary(text)]),
    "a digest": lambda text: digest_conversation(text, text, "", 1_000),
    "what is shown": lambda text: (clean(text), clean_line(text)),
    "markdown as it comes": streamed,
    "text to be replaced": lambda text: nearest("one\n" * 9, text),
    "a draft": lambda text: note_blocks(note_lines(text)),
}


def seconds(read: Callable[[str], object], text: str) -> float:
    """Of this thread, without the collector: how long that takes is a matter of what other tests left."""
    gc.disable()
    try:
        before = time.thread_time()
        read(text)
        return time.thread_time() - before
    finally:
        gc.enable()


@pytest.mark.parametrize("reader", READERS)
def test_it_takes_no_longer_than_its_length(reader: str) -> None:
    read = READERS[reader]
    read("x")  # what is imported or compiled at the first call
    for piece in PIECES:
        text = "-" + piece * (LENGTH // len(piece)) + "\0"
        longer = "-" + piece * (TIMES * LENGTH // len(piece)) + "\0"
        # A second look at what seemed slow: caches of the processor are shared with whatever else runs.
        assert any(
            long < TRIFLE or long < MOST * seconds(read, text)
            for long in (seconds(read, longer) for _ in range(3))
        ), piece
