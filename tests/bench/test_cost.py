"""The cost of each strategy on recorded sessions, every token counted by the server.

The floor is the same work with an unlimited window: each message is sent uncached once, and the cache serves
the rest. It is unreachable, because the sessions are longer than the windows; the cost of a strategy is given
as a multiple of it.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.tables import Table, table
from foldline.compaction import BUILT_IN, DEFAULT
from foldline.llm import LLM, Request
from foldline.llm.dialect import tools_to_openai
from foldline.llm.models import price_of
from foldline_eval.arms import arm_named
from foldline_eval.cost import Cost, PromptCache, cost
from foldline_eval.record import RecordedSession
from foldline_eval.replay import replay
from support.recorded_job import Bill, Cell, Pace, played_tools, recorded_job
from support.recordings import SHARED, needs_recorded
from support.replays import FakeSummariser
from support.server_checks import CACHE_STEP, count
from support.server_notes import notes

pytestmark = needs_recorded

SESSIONS = {
    32_768: (
        "pi/pimono-v1-large.jsonl",
        "claude-code/entire-2auto-opus45.jsonl",
        "claude-code/kimicli-zh-images.jsonl",
        "codex/mise-mid.jsonl",
        "opencode/prsui-mimo.json",
        "mini-swe-agent/sqlfluff-1517.traj.json",
    ),
    131_072: (
        "codex/mise-1comp-gpt55.jsonl",
        "pi/pimono-v1-2comp.jsonl",
        "claude-code/entire-2auto-opus45.jsonl",
    ),
}
"""Long sessions of five formats, one of them Chinese; for the larger window those that fill it."""
STEPS = 260
"""Steps played of each session, plus the rest of the running turn."""
PRICES = ("gpt-5.5", "deepseek-v4-flash")
"""Models with cached input at 0.10 and at 0.02 of the price of fresh input."""
MOST_UNCACHED = 1.75
"""Limit relative to the floor, for the default strategy over all sessions of a window; each compaction
includes a ledger.
"""


@dataclass(frozen=True)
class Arm:
    name: str
    strategy: str
    ahead: bool = False

    def cell(self, session: str, window: int) -> Cell:
        return Cell(SHARED / session, window, self.strategy, self.ahead, STEPS)


ARMS = (
    *(
        Arm(name, name)
        for name in (DEFAULT, *(name for name in BUILT_IN if name != DEFAULT))
    ),
    Arm("truncate", "truncate"),
    *(Arm(f"{name}, drafted ahead", name, ahead=True) for name in (DEFAULT, "summary")),
)


@pytest.fixture(scope="module")
def bills() -> dict[Cell, Bill]:
    """Return the bills of all cells, run two at a time.

    Client and server of a cell take turns, so two cells do not keep two cores busy.
    """
    sessions = {session for chosen in SESSIONS.values() for session in chosen}
    cells = [_floor_of(session) for session in sorted(sessions)]
    cells += [
        arm.cell(session, window)
        for window, chosen in SESSIONS.items()
        for session in chosen
        for arm in ARMS
    ]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        return dict(zip(cells, pool.map(Cell.bill, cells), strict=True))


@pytest.mark.parametrize("window", SESSIONS)
def test_what_each_strategy_costs(
    benchmark: Callable[..., object], bills: dict[Cell, Bill], window: int
) -> None:
    benchmark.pedantic(lambda: _tell(bills, window), rounds=1)  # type: ignore[attr-defined]
    for arm in ARMS:
        for session in SESSIONS[window]:
            bill = bills[arm.cell(session, window)]
            where = f"{arm.name}, {session}"
            assert bill.broken == (), where
            assert bill.failures == (), where
            assert bill.violations == (), where
    floor = sum(_floor(bills, session).uncached for session in SESSIONS[window])
    default = sum(
        bills[ARMS[0].cell(session, window)].uncached for session in SESSIONS[window]
    )
    assert default <= MOST_UNCACHED * floor


def _floor(bills: dict[Cell, Bill], session: str) -> Bill:
    return bills[_floor_of(session)]


def _floor_of(session: str) -> Cell:
    return Cell(SHARED / session, None, DEFAULT, steps=STEPS)


def _tell(bills: dict[Cell, Bill], window: int) -> None:
    chosen = SESSIONS[window]
    floors = [_floor(bills, session) for session in chosen]
    output = _table(
        f"What strategies cost in a window of {window // 1024}k: the sums of {len(chosen)} sessions"
    )
    _row(output, "floor: no window", floors, floors)
    for arm in ARMS:
        _row(
            output,
            arm.name,
            [bills[arm.cell(session, window)] for session in chosen],
            floors,
        )
    output.note(
        "tokens by the server's own counter; x: multiple of the floor; broken: prefixes lost without a"
    )
    output.note(
        f"change of the view; $: {' and '.join(PRICES)}; CPU: of the agent, for each request"
    )
    arm_table = table(
        "Uncached input as a multiple of the floor, session by session",
        *("session", "window", "floor", *(arm.name for arm in ARMS)),
    )
    for session in chosen:
        floor = _floor(bills, session)
        ratios = (
            bills[arm.cell(session, window)].uncached / floor.uncached for arm in ARMS
        )
        arm_table.row(
            session,
            f"{window // 1024}k",
            f"{floor.uncached:,}",
            *(f"{ratio:.2f}" for ratio in ratios),
        )


def _table(title: str) -> Table:
    return table(
        title,
        *(
            "strategy",
            "requests",
            "compactions",
            "summaries",
            "as text",
            "input",
            "x",
            "uncached",
            "x",
        ),
        *(
            "by summaries",
            "output",
            "refused",
            "broken",
            "$ dear",
            "x",
            "$ cheap",
            "x",
            "CPU",
        ),
    )


def _row(
    output: Table, name: str, bills: Sequence[Bill], floors: Sequence[Bill]
) -> None:
    def total(of: Callable[[Bill], float], among: Iterable[Bill] = bills) -> float:
        return sum(map(of, among))

    def ratio(of: Callable[[Bill], float]) -> str:
        return f"{total(of) / total(of, floors):.2f}"

    def rounded(of: Callable[[Bill], float]) -> str:
        return f"{total(of):,.0f}"

    def dollars(model: str) -> tuple[str, str]:
        price = price_of(model)
        assert price is not None, model
        return f"{total(lambda bill: bill.dollars(price)):.2f}", ratio(
            lambda bill: bill.dollars(price)
        )

    output.row(
        name,
        *(
            rounded(lambda b: b.requests),
            rounded(lambda b: b.compactions),
            rounded(lambda b: b.summaries),
        ),
        *(
            rounded(lambda b: b.as_text),
            rounded(lambda b: b.input),
            ratio(lambda b: b.input),
        ),
        *(
            rounded(lambda b: b.uncached),
            ratio(lambda b: b.uncached),
            rounded(lambda b: b.of_summaries),
        ),
        *(
            rounded(lambda b: b.output),
            rounded(lambda b: b.refused),
            rounded(lambda b: len(b.broken)),
        ),
        *(part for model in PRICES for part in dollars(model)),
        f"{total(lambda b: b.seconds) / total(lambda b: b.requests) * 1000:.1f} ms",
    )


# -- the estimate of `foldline eval` ----------------------------------------------------------------------

CACHE = PromptCache(granularity=CACHE_STEP, minimum=CACHE_STEP, life=float("inf"))
"""The cache of the test server."""
TOLERANCE = {"input": 0.06, "uncached": 0.2}
"""The differences: the server counts a fifth more tokens for the same text; the position of compactions,
since a replay has no clipped results of parallel calls and no tools; frames of merged messages.
"""


@pytest.mark.parametrize("arm", ["adaptive", "summary", "hide", "digest"])
def test_eval_says_what_the_server_counts(
    benchmark: Callable[..., object], bills: dict[Cell, Bill], arm: str
) -> None:
    window = min(SESSIONS)
    measured: Cost = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: _evaluated(arm, window), rounds=1
    )
    counted = [
        bills[Cell(SHARED / session, window, arm, steps=STEPS)]
        for session in SESSIONS[window]
    ]
    inputs, uncached = (
        sum(bill.input for bill in counted),
        sum(bill.uncached for bill in counted),
    )
    output = table(
        "What `foldline eval` says of the same work, beside what the server counted",
        *(
            "strategy",
            "calls",
            "their",
            "input",
            "their",
            "ratio",
            "uncached",
            "their",
            "ratio",
        ),
    )
    output.row(
        *(arm, measured.calls, sum(bill.requests for bill in counted)),
        *(f"{measured.input:,}", f"{inputs:,}", f"{measured.input / inputs:.3f}"),
        *(
            f"{measured.uncached:,}",
            f"{uncached:,}",
            f"{measured.uncached / uncached:.3f}",
        ),
    )
    assert measured.input == pytest.approx(inputs, rel=TOLERANCE["input"])
    assert measured.uncached == pytest.approx(uncached, rel=TOLERANCE["uncached"])


def _evaluated(arm: str, window: int) -> Cost:
    """Return the sum over all sessions of the window."""
    costs = [
        asyncio.run(_replayed(SHARED / session, arm, window))
        for session in SESSIONS[window]
    ]
    return Cost(
        input=sum(cost.input for cost in costs),
        uncached=sum(cost.uncached for cost in costs),
        output=sum(cost.output for cost in costs),
        calls=sum(cost.calls for cost in costs),
        aux=sum(cost.aux for cost in costs),
        peak=max(cost.peak for cost in costs),
    )


async def _replayed(path: Path, arm: str, window: int) -> Cost:
    job = recorded_job(path).first(STEPS)
    writer = FakeSummariser("notes", window, _written)
    run = await replay(
        RecordedSession(job.name, tuple(job.messages), path.parent),
        arm_named(arm, window, {LLM: writer}),
        writer,
    )
    schemas = sum(
        count(json.dumps(tool, sort_keys=True))
        for tool in tools_to_openai(tool.spec for tool in played_tools(job))
    )
    return cost(run, CACHE, tools=schemas)


def _written(request: Request) -> str:
    return notes(request.messages[-1].text, {"max_tokens": request.max_output})


# -- how long a turn waits ----------------------------------------------------------------------------

PACE = Pace(step=0.1, summary=0.45)
"""The server's pace. A step of a real model takes about 6 s, a summary of 2,000 tokens about 27 s: sixty
times as long as here.
"""

WAITED = ("codex/mise-mid.jsonl", "opencode/prsui-mimo.json")


@pytest.mark.parametrize("ahead", [False, True], ids=["when it is due", "ahead"])
def test_how_long_a_turn_waits_for_its_compaction(
    benchmark: Callable[..., object], ahead: bool
) -> None:
    cells = [
        Cell(SHARED / session, 32_768, "summary", ahead, steps=80, pace=PACE)
        for session in WAITED
    ]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        bills: list[Bill] = benchmark.pedantic(  # type: ignore[attr-defined]
            lambda: list(pool.map(Cell.bill, cells)), rounds=1
        )
    waits = sorted(wait for bill in bills for wait in bill.waits)
    output = table(
        "How long the work waits for its compactions, in summaries (one takes 27 s or so)",
        *(
            "drafted",
            "compactions",
            "summaries",
            "waits, middle",
            "longest",
            "all",
            "input",
            "uncached",
        ),
    )
    output.row(
        *("ahead" if ahead else "when due", sum(bill.compactions for bill in bills)),
        sum(bill.summaries for bill in bills),
        *(
            f"{seconds / PACE.summary:.2f}"
            for seconds in (waits[len(waits) // 2], waits[-1], sum(waits))
        ),
        *(
            f"{sum(bill.input for bill in bills):,}",
            f"{sum(bill.uncached for bill in bills):,}",
        ),
    )
    assert [bill.broken for bill in bills] == [()] * len(bills)
