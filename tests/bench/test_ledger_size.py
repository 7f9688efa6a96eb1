"""The cost of a ledger of 100,000 entries: adding, choosing, and the Inspector's hit rate."""

from collections.abc import Callable
from time import process_time

from bench.tables import table
from bench.timing import Times, ms, times_of
from foldline.memory.ledger import Ledger, keys_in
from foldline.memory.ledger_lines import ledger_lines, used_lines
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolResultMessage,
    text_parts,
)
from support.history import call

Benchmark = Callable[..., object]

SIZES = (10_000, 100_000)
GROWS = 1.5
"""Allowed time of choosing relative to a tenth of the entries."""


def entry(at: int) -> BaseMessage:
    """A call on one of 500 files, or its result with unique lines and names."""
    if at % 2 == 0:
        return AssistantMessage(
            index=at, parts=(call("read", f"c{at}", path=f"src/part_{at % 500}.py"),)
        )
    lines = [
        f"def work_{at}_{n}(some_value, *, limit_{n}):  # of part_{at % 500}"
        for n in range(8)
    ]
    return ToolResultMessage(
        index=at, call_id=f"c{at - 1}", name="read", parts=text_parts("\n".join(lines))
    )


def test_choosing_does_not_grow_with_the_session(benchmark: Benchmark) -> None:
    report = table(
        "the ledger of a long session",
        "entries",
        "things known",
        "taking one in",
        "choosing 8,000 tokens",
    )
    ledger = Ledger()
    newest: list[BaseMessage] = []
    seconds = 0.0
    chosen: list[Times] = []
    for size, before in zip(SIZES, (0, *SIZES), strict=False):
        newest = [entry(at) for at in range(before, size)]
        began = process_time()
        for message in newest:
            ledger.add(message)
        seconds += process_time() - began
        keys = keys_in(newest[-40:])
        chosen.append(
            times_of(
                lambda query_keys=keys: ledger.choose(8_000, query_keys),
                7,
                process_time,
            )
        )  # type: ignore[misc]
        report.row(
            f"{size:,}",
            f"{len(ledger.items):,}",
            ms(seconds / size),
            ms(chosen[-1].median),
        )
    lines = ledger_lines(
        "\n".join(group.text for group in ledger.choose(8_000, frozenset()))
    )
    answers = [
        message for message in newest[-500:] if isinstance(message, AssistantMessage)
    ]
    looking = times_of(lambda: used_lines(lines, answers), 5, process_time)
    report.note(
        f"which of {len(lines)} lines 500 entries used, in the Inspector's thread: {ms(looking.median)}"
    )
    assert chosen[-1].median < GROWS * chosen[0].median
    benchmark(lambda: ledger.choose(8_000, frozenset()))
