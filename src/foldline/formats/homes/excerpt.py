"""The few lines of a session file that a list needs, picked from its beginning and its end.

A reader can be run on an excerpt as on the whole: what a list says of the first prompt, the folder and the
title is then the reader's own word. A file may be of any size; an excerpt costs the same.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO

from foldline.files import opened

_STEPS = ((32 * 1024, 3), (192 * 1024, 12), (1024 * 1024, 12))
"""How far from the beginning prompts are looked for, in bytes, and how many lines are taken that may be one.
The first step does for most sessions; others open with long instructions or a pasted image."""
_TAIL = 24 * 1024
"""How far from the end the newest title and the newest answer are looked for."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Byte strings by which lines are picked without being parsed."""

    prompts: Sequence[bytes] = ()
    """Lines that hold one of these may be what the user said."""
    beside: Sequence[bytes] = ()
    """Lines that hold one of these say something about the session: its title, its folder."""
    answers: Sequence[bytes] = ()
    """Of the lines that hold one of these, the newest is picked: it names the model."""
    no_prompts: Sequence[bytes] = ()
    """Lines that hold one of these are no prompts after all."""
    settles: bytes = b""
    """After a line that holds this, no further prompts are needed."""


def excerpts(path: Path, marks: Marks, begins_in: Path | None = None) -> Iterator[bytes]:
    """Excerpts of a file, each of more than the one before: take the first that says enough.

    `begins_in` is another file, that holds the beginning of the session.

    Raises:
        OSError: a file cannot be read.
    """
    with opened(path) as file:
        if begins_in is None:
            yield from _excerpts(file, file, marks)
        else:
            with opened(begins_in) as first:
                yield from _excerpts(first, file, marks)


def _excerpts(first: BinaryIO, file: BinaryIO, marks: Marks) -> Iterator[bytes]:
    size = os.fstat(first.fileno()).st_size
    for reach, most in _STEPS:
        first.seek(0)
        head = first.read(reach)
        whole = len(head) >= size
        head = head if whole else head[: head.rfind(b"\n") + 1]
        prompts = list(islice(_prompts(head, marks), _STEPS[-1][1] if whole else most))
        last = whole or reach == _STEPS[-1][0]
        if prompts or last:
            text = head + b"\n" + _last_lines(file, len(head) if first is file else 0)
            picked = sorted({*prompts, *_beside(text, marks)})
            yield b"".join(text[start:end] + b"\n" for start, end in picked)
        if last:
            return


Span = tuple[int, int]
"""Where a line begins and ends."""


def _prompts(head: bytes, marks: Marks) -> Iterator[Span]:
    lines = merge(*(_lines_with(mark, head) for mark in marks.prompts))
    for line, _ in groupby(lines):
        if not any(head.find(no, *line) >= 0 for no in marks.no_prompts):
            yield line
            if marks.settles and head.find(marks.settles, *line) >= 0:
                return


def _beside(text: bytes, marks: Marks) -> Iterator[Span]:
    """The first line and the last, those about the session, and the newest answer."""
    end = len(text.rstrip(b"\n"))
    if end:
        yield _line_at(len(text) - len(text.lstrip(b"\n")), text)
        yield _line_at(end - 1, text)
    for mark in marks.beside:
        yield from _lines_with(mark, text)
    newest = max((text.rfind(mark) for mark in marks.answers), default=-1)
    if newest >= 0:
        yield _line_at(newest, text)


def _lines_with(mark: bytes, text: bytes) -> Iterator[Span]:
    at = text.find(mark)
    while at >= 0:
        line = _line_at(at, text)
        yield line
        at = text.find(mark, line[1])


def _line_at(place: int, text: bytes) -> Span:
    end = text.find(b"\n", place)
    return text.rfind(b"\n", 0, place) + 1, end if end >= 0 else len(text)


def _last_lines(file: BinaryIO, after: int) -> bytes:
    """The whole lines at the end of a file, none of which begins before `after`."""
    size = os.fstat(file.fileno()).st_size
    start = max(after, size - _TAIL)
    file.seek(start)
    tail = file.read()
    return tail if start in (0, after) else tail.partition(b"\n")[2]
