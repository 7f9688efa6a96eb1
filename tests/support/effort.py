"""The cost of an operation, counted independently of the machine's load."""

import sys
import tracemalloc
from collections.abc import Callable, Sequence
from statistics import median
from types import FrameType
from typing import Any, NamedTuple


class Effort(NamedTuple):
    instructions: int
    """Python bytecode instructions. Work inside C functions is not counted ..."""
    memory: int
    """... but copying in C shows up as memory: peak bytes allocated."""


def effort_of(work: Callable[[], object]) -> Effort:
    """Measure one call of `work`.

    `work` is called twice: once to count instructions, once to measure memory.
    """
    _instructions(
        lambda: None
    )  # Python 3.12 sends no opcode to the first trace that asks for them
    return Effort(_instructions(work), _memory(work))


def typical(efforts: Sequence[Effort]) -> Effort:
    """Return the median: a single append may reallocate a list."""
    return Effort(
        round(median(effort.instructions for effort in efforts)),
        round(median(effort.memory for effort in efforts)),
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
        before, _ = tracemalloc.get_traced_memory()
        work()
        _, most = tracemalloc.get_traced_memory()
        return most - before
    finally:
        tracemalloc.stop()
