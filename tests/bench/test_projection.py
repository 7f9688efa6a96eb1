"""What the pure core costs at 100,000 entries. Compare the ratios of one run, not the milliseconds of two."""

from collections.abc import Callable

import pytest

from foldline.compaction import plan
from foldline.context.budget import budget_for
from foldline.context.projection import Projection, project
from foldline.protocol import (
    AssistantMessage,
    Entry,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

Benchmark = Callable[..., object]


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
            ToolResultMessage(index=at + 2, call_id=f"c{at}", name="read", parts=text_parts("line\n" * 40)),
            AssistantMessage(index=at + 3, parts=text_parts("Done: the handler is changed.")),
        ]
    return made


@pytest.fixture(scope="module", params=[1_000, 100_000], ids=["1k", "100k"])
def history(request: pytest.FixtureRequest) -> list[Entry]:
    return long_history(request.param)


def test_fold_a_whole_history(benchmark: Benchmark, history: list[Entry]) -> None:
    benchmark.pedantic(project, args=(history,), rounds=3)  # type: ignore[attr-defined]


def test_append_one_message(benchmark: Benchmark, history: list[Entry]) -> None:
    projection = project(history)

    def append() -> None:
        index = projection.last_index + 1
        projection.append(UserMessage(index=index, parts=text_parts("one more prompt")))

    benchmark(append)


def test_plan_a_compaction(benchmark: Benchmark, history: list[Entry]) -> None:
    projection: Projection = project(history)
    benchmark.pedantic(  # type: ignore[attr-defined]
        plan, args=(projection, budget_for(128_000), "threshold"), rounds=3
    )
