"""Clipping a result to its room: head, tail, and one line that says what is left out and where it is."""

import asyncio
import secrets
import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from foldline.context.tokens import estimate_tokens
from foldline.files import make_private, write_new

from .base import ToolContext
from .paths import named
from .text import counted

_HEAD_SHARE = 0.6
"""Of the room, how much goes to the head: openings name things, ends hold the outcome."""
_POINTER_TOKENS = 80
"""Room for the line between head and tail."""
_MOST_CHARS = 8
"""More characters than a token ever stands for (of spaces, the lightest, it takes 6.8): a text longer than
that is not measured."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Where the whole of a clipped text can be read."""

    path: str
    """As `read` takes it."""
    first_line: int = 1
    """The line of that file at which the text starts."""
    by: str = ""
    """The call that shows lines of it, where that is not `read` with the path."""


def fits(text: str, room: int) -> bool:
    """Whether a text takes no more than `room` tokens."""
    return len(text) <= max(room, 0) * _MOST_CHARS and estimate_tokens(text) <= room


def clipped(text: str, room: int, whole: Whole) -> str:
    """The text within about `room` tokens: head and tail at line ends where lines are of ordinary length.

    A text that fits is returned as it is. However small the room, the pointer to the whole is always there.
    """
    if fits(text, room):
        return text
    shares = max(room - _POINTER_TOKENS, 0)
    head_end = _at_line_end(text, _longest(len(text), int(shares * _HEAD_SHARE), lambda n: text[:n]))
    tail_room = shares - estimate_tokens(text[:head_end])
    tail_size = _longest(len(text) - head_end, tail_room, lambda n: text[len(text) - n :])
    tail_start = _at_line_start(text, len(text) - tail_size, head_end)
    return _joined(text[:head_end], _pointer(text, head_end, tail_start, whole), text[tail_start:])


def _longest(most: int, room: int, piece: Callable[[int], str]) -> int:
    """The most characters a piece may have within `room` tokens, by bisection."""
    low, high = 0, min(most, max(room, 0) * _MOST_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(piece(middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _at_line_end(text: str, end: int) -> int:
    """Back to the last whole line, unless that gives up more than half: then the line itself is too long."""
    snapped = text.rfind("\n", 0, end) + 1
    return snapped if snapped * 2 >= end else end


def _at_line_start(text: str, start: int, head_end: int) -> int:
    """On to the next whole line, under the same condition."""
    if start <= head_end or text[start - 1] == "\n":
        return max(start, head_end)
    snapped = text.find("\n", start) + 1
    return snapped if snapped and (len(text) - snapped) * 2 >= len(text) - start else start


def _pointer(text: str, head_end: int, tail_start: int, whole: Whole) -> str:
    left_out = text[head_end:tail_start]
    first = whole.first_line + text.count("\n", 0, head_end)
    last = first + left_out.count("\n") - (1 if left_out.endswith("\n") else 0)
    in_line = (head_end > 0 and text[head_end - 1] != "\n") or not left_out.endswith("\n")
    size = counted(len(left_out), "character")
    if first == last and in_line:
        begin = head_end - (text.rfind("\n", 0, head_end) + 1)
        return (
            f"[… {size} of line {first} left out. To see them: `bash` "
            f"sed -n {first}p {shlex.quote(whole.path)} | cut -c {begin + 1}-{begin + 4000} …]"
        )
    lines = last - first + 1
    return (
        f"[… {counted(lines, 'line')} ({size}) left out, {first}–{last}. "
        f"To see them: {whole.by or f'`read` {whole.path}'} with offset {first} and limit {lines} …]"
    )


def _joined(head: str, pointer: str, tail: str) -> str:
    before = "" if not head or head.endswith("\n") else "\n"
    return f"{head}{before}{pointer}\n{tail}"


def with_notes(text: str, *notes: str) -> str:
    """The text, then each note that is not empty on a line of its own."""
    joined = "\n".join(filter(None, notes))
    if not text or not joined:
        return text or joined
    return text + ("" if text.endswith("\n") else "\n") + joined


async def fitted(text: str, context: ToolContext, tool: str, *notes: str) -> tuple[str, str | None]:
    """The text if it fits; else clipped, with the path of a new file in the spill folder that has all of it.

    The notes follow it, whole, within the same room.
    """

    def measure_and_spill() -> tuple[str, str | None]:
        shown = context.mask(text)
        room = context.max_tokens - sum(map(estimate_tokens, notes))
        if fits(shown, room):
            return with_notes(shown, *notes), None
        path = spilled(shown, context.spill_dir, tool)
        return with_notes(clipped(shown, room, Whole(named(path, context))), *notes), str(path)

    return await asyncio.to_thread(measure_and_spill)


def spilled(text: str, folder: Path, tool: str) -> Path:
    """A new file, readable by its owner only, with this text."""
    make_private(folder)
    path = folder / f"{tool}-{secrets.token_hex(4)}.txt"
    write_new(path, text.encode("utf-8", "replace"), durable=False)
    return path


T = TypeVar("T")


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """`work(stop)` in a thread. `stop()` becomes true when the waiting task is cancelled."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    finally:
        stopped.set()
