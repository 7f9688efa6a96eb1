"""What the pure core costs as a history grows, beside a floor measured in the same run.

Nothing here fails by the clock alone: a target in seconds is missed only where the floor shows that it is not
the machine that is slow.
"""

import asyncio
import resource
from collections.abc import Callable
from functools import cache
from math import inf
from pathlib import Path

import pytest

from bench.sessions import write_large
from bench.tables import Table, table
from bench.timing import Times, cpu_times_of, ms, times_of_async
from foldline.compaction import plan
from foldline.context.budget import budget_for
from foldline.context.files import FileLedger
from foldline.context.moments import SLICE, empty_prefix, replay_to
from foldline.context.projection import project
from foldline.context.tokens import message_tokens
from foldline.context.view import total_tokens
from foldline.context.weight import categories, view_size
from foldline.history import Session
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Edit,
    Entry,
    FileTouch,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Undo,
    UserMessage,
    text_parts,
)

Benchmark = Callable[..., object]

LENGTHS = (1_000, 10_000, 100_000)
"""Entries."""
APPEND_SECONDS, PLAN_SECONDS = 0.001, 1.0
"""The targets of docs/performance.md: one append and fold of a message, one plan of 100,000 entries."""
SLICE_SECONDS = 0.05
"""For as long the event loop may be held."""
ROUNDS = 1_000
SAME = 3.0
"""Times as much at 100,000 entries as at 1,000: what noise makes of the same cost."""


@cache
def long_history(entries: int) -> list[Entry]:
    """Turns of a prompt, a call, its result and an answer."""
    made: list[Entry] = []
    while len(made) < entries:
        at = len(made)
        made += [
            UserMessage(index=at, parts=text_parts(f"prompt {at}: change the handler in src/mod_{at}.py")),
            AssistantMessage(
                index=at + 1,
                parts=(ToolCallPart(call_id=f"c{at}", name="read", arguments='{"path": "src/a.py"}'),),
            ),
            ToolResultMessage(
                index=at + 2,
                call_id=f"c{at}",
                name="read",
                parts=text_parts("line\n" * 40),
                details=ToolDetails(files=(FileTouch(path=f"src/mod_{at % 5_000}.py", action="read"),)),
            ),
            AssistantMessage(index=at + 3, parts=text_parts("Done: the handler is changed.")),
        ]
    return made


def one_more(index: int) -> UserMessage:
    return UserMessage(
        index=index, parts=text_parts("one more prompt: change the handler in src/one_more.py")
    )


def test_folding_in_one_message_costs_the_same_at_any_length(benchmark: Benchmark) -> None:
    found: dict[int, Times] = {}
    floor = cpu_times_of(lambda: message_tokens(one_more(1)), ROUNDS)
    for length in LENGTHS:
        projection = project(long_history(length))
        work = lambda: projection.append(one_more(projection.last_index + 1))  # noqa: B023, E731
        found[length] = cpu_times_of(work, ROUNDS)
        _note("fold in one message (memory)", length, found[length], floor)
    benchmark(work)
    _holds(found, floor, times=20)


def test_appending_one_message_to_its_file_costs_the_same_at_any_length(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    """Written and flushed, fsync apart; the floor is a thread that writes and flushes the same bytes."""
    found: dict[int, Times] = {}

    async def run() -> Times:
        for length in LENGTHS:
            session = Session.create(tmp_path, home=tmp_path / f"home-{length}")
            await session.append(*long_history(length))
            found[length] = await times_of_async(lambda: session.append(one_more(-1)), ROUNDS)  # noqa: B023
            session.close()
        return await _floor_of_writing(tmp_path / "floor.jsonl")

    floor: Times = benchmark.pedantic(lambda: asyncio.run(run()), rounds=1)  # type: ignore[attr-defined]
    for length, taken in found.items():
        _note("append one message (file and memory)", length, taken, floor)
    _holds(found, floor, times=20)


async def _floor_of_writing(path: Path) -> Times:
    line = one_more(1).model_dump_json().encode() + b"\n"
    with path.open("ab") as file:

        def write() -> None:
            file.write(line)
            file.flush()

        return await times_of_async(lambda: asyncio.to_thread(write), ROUNDS)


@pytest.mark.parametrize("length", LENGTHS)
def test_planning_a_fold_takes_little_more_than_walking_through_the_view(
    benchmark: Benchmark, length: int
) -> None:
    projection = project(long_history(length))
    budget = budget_for(128_000)
    floor = cpu_times_of(lambda: total_tokens(projection.view), 9)
    taken = cpu_times_of(lambda: plan(projection, budget, "threshold"), 9)
    benchmark.pedantic(plan, args=(projection, budget, "threshold"), rounds=3)  # type: ignore[attr-defined]
    _note("plan a fold", length, taken, floor)
    _is_planned_in_time(taken, floor)


def test_planning_a_fold_of_a_session_that_was_opened_again_reads_none_of_it(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    """250 MB that were never folded: all of it is in the view, and on the disk only."""
    events = tmp_path / "events.jsonl"
    write_large(events, entries=LENGTHS[-1], size=250_000_000, window=inf)
    projection, budget = Session.open(events).projection, budget_for(1_000_000)
    most = _most_megabytes()
    floor = cpu_times_of(lambda: total_tokens(projection.view), 9)
    taken = cpu_times_of(lambda: plan(projection, budget, "threshold"), 9)
    more = _most_megabytes() - most
    benchmark.pedantic(plan, args=(projection, budget, "threshold"), rounds=3)  # type: ignore[attr-defined]
    _note("plan a fold, 250 MB opened again", LENGTHS[-1], taken, floor)
    _is_planned_in_time(taken, floor)
    assert more < 30, f"{more:.0f} MB more"


def _most_megabytes() -> float:
    """This process has held at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _is_planned_in_time(taken: Times, floor: Times) -> None:
    assert taken.median <= 60 * floor.median
    assert taken.median <= PLAN_SECONDS or taken.median <= 2 * floor.median


def test_an_edit_costs_what_it_changes_and_an_undo_what_came_since(benchmark: Benchmark) -> None:
    """An edit of the newest result, with what meter and side list make of it. The view before it is kept:
    a list of it is the floor."""
    found: dict[int, Times] = {}
    for length in LENGTHS:
        projection, ledger = project(long_history(length)), FileLedger()
        target = next(item.index for item in reversed(projection.view) if item.outline.type == "tool_result")
        floor = cpu_times_of(lambda: list(projection.view), 99)  # noqa: B023

        def mark(marker: Edit | Undo) -> None:
            projection.append(marker.model_copy(update={"index": projection.last_index + 1}))  # noqa: B023
            view_size(projection), categories(projection), ledger.newest(projection, 50)  # noqa: B023

        mark(Edit(target=target, action="pin"))
        edit = [Edit(target=target, action="unpin"), Edit(target=target, action="pin")]
        found[length] = cpu_times_of(lambda: mark(edit[projection.last_index % 2]), 50)  # noqa: B023
        _note("edit the newest result", length, found[length], floor)
        work = lambda: mark(Undo(target=projection.newest_change.index))  # noqa: B023, E731
        _note("take that back", length, cpu_times_of(work, 10), floor)
    benchmark.pedantic(work, rounds=3)  # type: ignore[attr-defined]
    assert found[LENGTHS[-1]].median <= found[LENGTHS[0]].median + 5 * floor.median


@pytest.mark.parametrize("length", LENGTHS)
def test_a_moment_is_folded_in_slices(benchmark: Benchmark, length: int) -> None:
    """The view at an earlier request, from nothing: half of the history, and the longest slice of it."""
    whole = project(long_history(length))

    def slices() -> Times:
        made = replay_to(empty_prefix(whole.entries), length // 2)
        return cpu_times_of(lambda: next(made), length // 2 // SLICE or 1)

    floor = cpu_times_of(lambda: total_tokens(whole.view[: length // 2]), 9)
    took: Times = benchmark.pedantic(slices, rounds=3)  # type: ignore[attr-defined]
    _note("the view half way back", length, Times.of([sum(took.seconds)]), floor)
    _note("a slice of that", length, took, floor)
    assert took.median <= SLICE_SECONDS or took.median <= 100 * floor.median / len(took.seconds)


def test_loading_a_history_is_linear_in_its_length(benchmark: Benchmark) -> None:
    found: dict[int, float] = {}
    for length in LENGTHS:
        entries = long_history(length)
        messages = [entry for entry in entries if isinstance(entry, BaseMessage)]
        floor = cpu_times_of(lambda: sum(map(message_tokens, messages)), 3)  # noqa: B023
        taken = cpu_times_of(lambda: project(entries), 3)  # noqa: B023
        found[length] = taken.median / length
        _note("fold a whole history", length, taken, floor)
    benchmark.pedantic(project, args=(entries,), rounds=3)  # type: ignore[attr-defined]
    assert found[LENGTHS[-1]] <= 2 * SAME * found[LENGTHS[0]]


def _holds(found: dict[int, Times], floor: Times, *, times: int) -> None:
    """No dearer at the longest than at the shortest, and within the target unless the machine is slow."""
    assert found[LENGTHS[-1]].median <= SAME * found[LENGTHS[0]].median
    for length, taken in found.items():
        slow_machine = taken.median <= times * floor.median
        assert taken.median <= APPEND_SECONDS or slow_machine, f"{length} entries: {ms(taken.median)}"


def _note(what: str, length: int, taken: Times, floor: Times) -> None:
    ratio = taken.median / floor.median
    _table().row(what, f"{length:,}", ms(taken.median), ms(taken.p99), ms(floor.median), f"{ratio:.1f}")


def _table() -> Table:
    shown = table(
        "The pure core, by length of the history",
        *("what", "entries", "median", "p99", "floor", "× floor"),
    )
    shown.note("targets: append and fold of one message ≤ 1 ms at any length, plan of 100,000 entries < 1 s")
    shown.note("floors: weighing the same messages once; for the file, a thread that writes the same bytes;")
    shown.note("of a plan and a moment one walk through that view, of an edit and an undo a list of the view")
    return shown
