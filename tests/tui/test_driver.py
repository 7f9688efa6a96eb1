"""From a prompt to the wire: one plan for one compaction, one weighing of the tools, few hops."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from foldline.agent.session import compaction_state, toolset
from foldline.compaction import engine, summary_view
from support.agents import reply
from support.live import FULL, live

pytestmark = pytest.mark.slow


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often plans, cuts and weights of schemas are computed, by name."""
    counted: Counter[str] = Counter()

    def counts(module: Any, name: str) -> None:
        wrapped: Callable[..., Any] = getattr(module, name)

        def counting(*args: Any, **options: Any) -> Any:
            counted[name] += 1
            return wrapped(*args, **options)

        monkeypatch.setattr(module, name, counting)

    counts(compaction_state, "plan")
    counts(toolset, "spec_tokens")
    counts(engine, "plan")
    counts(engine, "find_cut")
    counts(summary_view, "find_cut")
    return counted


@pytest.mark.quick
async def test_a_compaction_is_planned_and_cut_once_with_its_meter_and_its_event(
    tmp_path: Path, calls: Counter[str]
) -> None:
    async with live(
        tmp_path / "shop", *["ok"] * 4, summaries=("## Goal\n- all of it",)
    ) as running:
        for _ in range(4):
            await running.ask(FULL)
        calls.clear()
        await running.enter("/compact ")
        await running.until(lambda: running.agent.session.projection.all_compactions)
        await running.at_rest()
        assert (calls["plan"], calls["find_cut"], calls["spec_tokens"]) == (1, 1, 0)


async def test_a_prompt_that_needs_a_compaction_has_one_plan(
    tmp_path: Path, calls: Counter[str]
) -> None:
    async with live(
        tmp_path / "shop", *["ok"] * 7, window=16_384, summaries=("## Goal\n- all",)
    ) as running:
        parts = reply(FULL).parts
        while not running.agent.must_make_room(parts):
            await running.ask(FULL)
        running.agent.state.compaction._plans.clear()
        calls.clear()
        await running.ask(FULL)
        assert len(running.agent.session.projection.all_compactions) == 1
        assert calls["plan"] <= 1 and calls["find_cut"] <= 1


async def test_schemas_are_weighed_once_for_each_change_of_the_tools(
    tmp_path: Path, calls: Counter[str]
) -> None:
    async with live(tmp_path / "shop", "hello", "again") as running:
        state = running.agent.state
        weighed = calls["spec_tokens"]
        assert weighed == len(state.tools.specs)
        await running.ask("hi")
        await running.ask("more")
        assert calls["spec_tokens"] == weighed
        before = state.budget.overhead
        state.tools.all = state.tools.all[1:]
        assert state.budget.overhead < before
        assert calls["spec_tokens"] == weighed + len(state.tools.specs)


@contextmanager
def called_functions() -> Iterator[list[str]]:
    """Names of our own functions, each with its module, in the order they are first called."""
    names: dict[str, None] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/foldline/" in frame.f_code.co_filename:
            names.setdefault(
                f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"
            )

    found: list[str] = []
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)
        found += names


WALK = (
    "screen.ChatScreen._submitted",
    "open_session.OpenSession._prompt",
    "runner.Runner.send",
    "runner.Runner._deliver",
    "runner.Runner._send_prompt",
    "executor.Executor.submit",
    "executor.Executor._start_next",
    "executor.Executor._carry_out",
    "turn.Turn.run",
    "turn.Turn.step",
    "turn.Turn.query",
    "request.send_request",
)
"""The walk that docs/architecture.md describes; `stream` and `_attempt` of the client follow."""


async def test_enter_leads_to_the_model_in_twelve_hops_as_the_documentation_says(
    tmp_path: Path,
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    async with live(tmp_path / "shop", "hello") as running:
        await running.type("hi")
        with called_functions() as names:
            await running.press("enter")
            await running.until(lambda: running.llm.requests)
    places = [names.index(hop) for hop in WALK]
    assert places == sorted(places)
    assert all(hop.partition(".")[2] in text for hop in WALK)
