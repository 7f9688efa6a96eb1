"""How much work something is, counted: the same on every machine, however busy it is."""

import sys
import tracemalloc
from collections.abc import Callable, Sequence
from statistics import median
from types import FrameType
from typing import Any, NamedTuple


class Effort(NamedTuple):
    instructions: int
    """Of Python's machine. What C does in one of them is not seen ..."""
    memory: int
    """... but where it copies, it needs memory: bytes allocated at the most, all in all."""


def effort_of(work: Callable[[], object]) -> Effort:
    """What one call of this takes, which is called twice: once to count, once to weigh."""
    _instructions(lambda: None)  # Python 3.12 sends no opcode to the first trace that asks for them
    return Effort(_instructions(work), _memory(work))


def typical(efforts: Sequence[Effort]) -> Effort:
    """The middle: of many appends to a list, one moves it to where it has more room."""
    return Effort(
        round(median(each.instructions for each in efforts)), round(median(each.memory for each in efforts))
    )


def _instructions(work: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        held, _ = tracemalloc.get_traced_memory()
        work()
        _, most = tracemalloc.get_traced_memory()
        return most - held
    finally:
        tracemalloc.stop()
