"""The messages kept besides the newest work: within budget, in order, complete and legal for the API."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.compaction import CompactionContext
from foldline.compaction.rewrite import faults
from foldline.compaction.strategies.selection import compact_units, select, units_in
from foldline.compaction.summary_text import KEPT, lists_of, unframed
from foldline.protocol import NEW, BaseMessage
from foldline.view.tokens import message_tokens
from support.history import History, call, history
from support.llm import ScriptedLLM
from support.messages import tool_results

LINE = "what the command said, line after line: all is well\n"
ANALYSIS = (
    "The handler has no state check. I would add one, and a test for each state. " * 3
)


def context(
    built: History, keep: int, *, pins: frozenset[int] = frozenset()
) -> CompactionContext:
    view = built.projection().view
    return CompactionContext(
        history=tuple(item.message for item in view),
        token_count=sum(item.tokens for item in view),
        max_context_size=32_768,
        reserved_context_size=4_096,
        llm=ScriptedLLM(always="## Goal\nnotes"),
        keep_recent_tokens=keep,
        max_summary_tokens=1_600,
        pins=pins | built.projection().pins,
    )


def scores_by_index(*points: tuple[int, float]) -> Callable[[BaseMessage], float]:
    """Score units by the index of their first message; 0 for all others."""
    return lambda message: dict(points).get(message.index, 0.0)


async def view_after(
    ctx: CompactionContext, worth: Callable[[BaseMessage], float] = lambda _: 0.0
) -> list[BaseMessage] | None:
    units = units_in(ctx)
    after = await compact_units(ctx, units, [worth(unit.first) for unit in units])
    if after is not None:
        assert faults(ctx.history, after, ctx.pins) == []
    return after


def kept_indices(after: list[BaseMessage] | None) -> list[int]:
    assert after is not None
    return [message.index for message in after if message.index != NEW]


def turns(count: int, *, lines: int = 10) -> History:
    """Indices: 0 the system prompt, then 1, 2, 3, 4 for each turn: request, call, result, answer."""
    built = history().system("s")
    for nth in range(count):
        built.user(f"request {nth}").step(
            "read", LINE * lines, path=f"{nth}.py"
        ).assistant(f"answer {nth}")
    return built


async def test_the_highest_scoring_messages_are_kept_in_order() -> None:
    after = await view_after(
        context(turns(20), 1_000), scores_by_index((22, 9), (4, 8), (13, 5))
    )
    assert kept_indices(after)[:4] == [0, 4, 13, 22]


async def test_worthless_messages_are_removed_even_if_there_is_room() -> None:
    small = turns(10, lines=1)
    assert (
        kept_indices(await view_after(context(small, 100), scores_by_index((1, 1.0))))[
            1
        ]
        > 1
    )


async def test_a_group_of_parallel_calls_stays_whole() -> None:
    built = (
        history()
        .system("s")
        .user("go")
        .assistant(calls=[call("read", path=str(n)) for n in range(3)])
    )
    built.result("a").result("b").result("c")
    for nth in range(10):
        built.turn(f"request {nth}", LINE * 10)
    assert kept_indices(
        await view_after(context(built, 1_000), scores_by_index((2, 5)))
    )[1:5] == [2, 3, 4, 5]


async def test_the_newest_work_gets_half_the_budget_and_any_remainder() -> None:
    ctx = context(turns(20), 1_600)
    tokens = {message.index: message_tokens(message) for message in ctx.history}
    alone = kept_indices(await view_after(ctx))
    beside = kept_indices(
        await view_after(ctx, lambda message: 5.0 if message.index < 40 else 0.0)
    )
    assert len([index for index in beside if 0 < index < 40]) > 3
    assert 600 <= sum(tokens[index] for index in beside if index >= 40) <= 800
    assert 1_400 <= sum(tokens[index] for index in alone[1:]) <= 1_600


@pytest.mark.parametrize("keep", [400, 1_000, 3_000])
async def test_kept_messages_stay_within_the_budget(keep: int) -> None:
    ctx = context(turns(40), keep)
    after = await view_after(ctx, lambda _: 5.0)
    assert after is not None
    stays = sum(message_tokens(message) for message in after if message.index > 0)
    assert keep // 2 <= stays <= keep + keep // 4


async def test_one_giant_result_is_clipped_and_does_not_use_up_the_budget() -> None:
    built = (
        history()
        .system("s")
        .user("go")
        .step("bash", LINE * 2_000, command="make")
        .assistant("made")
    )
    for nth in range(10):
        built.turn(f"request {nth}", LINE * 10)
    after = await view_after(context(built, 4_000), scores_by_index((2, 9)))
    assert after is not None
    [result] = tool_results(after)
    assert message_tokens(result) < 1_050
    assert "history_read(3)" in result.text


async def test_a_clipped_message_is_not_clipped_again() -> None:
    built = (
        history()
        .system("s")
        .user("go")
        .step("bash", LINE * 2_000, command="make")
        .assistant("made")
    )
    for nth in range(10):
        built.turn(f"request {nth}", LINE * 10)
    ctx = context(built, 4_000)
    after = await view_after(ctx, scores_by_index((2, 9)))
    assert after is not None
    again = replace(ctx, history=[m for m in after if m.index != NEW])
    assert [m for unit in units_in(again) for m in unit.messages] == [
        m for m in again.history if m.index > 0
    ]


async def test_unseen_results_are_kept_in_full() -> None:
    built = turns(10).user("go").assistant(calls=[call("bash"), call("bash")])
    built.result(LINE * 300).result(LINE * 300)
    assert kept_indices(await view_after(context(built, 500)))[-4:] == [41, 42, 43, 44]


async def test_an_unanswered_request_is_kept_however_old() -> None:
    built = turns(3).user("do all of it")
    for nth in range(20):
        built.step("read", LINE * 10, path=f"more {nth}.py")
    assert 13 in kept_indices(await view_after(context(built, 500)))


async def test_a_typed_request_is_kept_despite_a_later_machine_note() -> None:
    built = turns(3).user("do all of it").step("read", LINE * 30, path="a.py")
    built.add(built.entries[1].model_copy(update={"origin": "machine"}))
    for nth in range(20):
        built.step("read", LINE * 10, path=f"more {nth}.py")
    assert {13, 16} <= {*kept_indices(await view_after(context(built, 500)))}


@pytest.mark.parametrize("consent", ["ok, do as you said", "好的，按你说的做"])
async def test_a_kept_consent_includes_the_message_it_agrees_to(consent: str) -> None:
    built = turns(5).user("how?").assistant(ANALYSIS).user(consent)
    for nth in range(20):
        built.step("write", LINE * 5, path=f"{nth}.py")
    stays = kept_indices(await view_after(context(built, 600)))
    assert {22, 23} <= {*stays}


async def test_a_giant_analysis_is_clipped_rather_than_dropped() -> None:
    built = turns(5).user("how?").assistant(ANALYSIS * 100).user("ok")
    for nth in range(20):
        built.step("write", LINE * 5, path=f"{nth}.py")
    after = await view_after(context(built, 2_000))
    assert after is not None
    [analysis] = [message for message in after if message.index == 22]
    assert 500 < message_tokens(analysis) < 1_100
    assert "history_read(22)" in analysis.text


async def test_pins_are_kept_outside_the_budget() -> None:
    built = turns(20)
    for index in (5, 6, 7):
        built.edit("pin", index)
    after = kept_indices(await view_after(context(built, 800)))
    assert {5, 6, 7} <= {*after}
    assert [index for index in after if index > 20] == [
        index
        for index in kept_indices(await view_after(context(turns(20), 800)))
        if index > 20
    ]


async def test_the_kept_part_never_begins_with_a_notice() -> None:
    built = turns(4).notice("a reminder of the machine")
    ctx = context(built, 1)
    assert faults(ctx.history, await view_after(ctx) or (), ctx.pins) == []


async def test_the_kept_part_begins_at_the_readers_cut() -> None:
    ctx = replace(context(turns(10), 1_000), first_kept_index=29)
    assert kept_indices(await view_after(ctx, lambda _: 9.0)) == [0, *range(29, 41)]


async def test_an_earlier_summary_is_part_of_the_new_one() -> None:
    built = turns(10)
    first = context(built, 600)
    after = await view_after(first)
    assert after is not None
    summary = next(message for message in after if message.index == NEW)
    second = replace(
        first, history=[m.model_copy(update={"index": 99}) if m is summary else m for m in after],
        keep_recent_tokens=100,
    )  # fmt: skip
    llm = second.llm
    assert isinstance(llm, ScriptedLLM)
    again = await view_after(second)
    assert again is not None
    assert "notes" in llm.prompts[-1]
    assert [message.type for message in again].count("system") == 2


async def test_a_second_compaction_right_away_finds_nothing_to_do() -> None:
    ctx = context(turns(10), 600)
    after = await view_after(ctx, scores_by_index((4, 5)))
    assert after is not None
    again = [m.model_copy(update={"index": 99}) if m.index == NEW else m for m in after]
    assert (
        await view_after(replace(ctx, history=again), scores_by_index((4, 5))) is None
    )


async def test_the_summary_mentions_gaps_only_if_there_are_any() -> None:
    def mentions_gaps(after: list[BaseMessage] | None) -> bool:
        assert after is not None
        return KEPT in dict(lists_of(unframed(after[1])))

    ctx = context(turns(10), 600)
    assert mentions_gaps(await view_after(ctx, scores_by_index((4, 5))))
    assert not mentions_gaps(await view_after(replace(ctx, first_kept_index=37)))


async def test_nothing_is_compacted_if_everything_fits() -> None:
    ctx = context(turns(3), 100_000)
    assert await view_after(ctx) is None
    assert isinstance(ctx.llm, ScriptedLLM)
    assert ctx.llm.requests == []


async def test_a_single_giant_result_is_clipped_without_a_model() -> None:
    built = (
        history()
        .system("s")
        .user("go")
        .step("bash", LINE * 3_000, command="make")
        .assistant("made")
    )
    ctx = context(built, 4_000)
    after = await view_after(ctx)
    assert kept_indices(after) == [0, 1, 2, 3, 4]
    assert isinstance(ctx.llm, ScriptedLLM)
    assert ctx.llm.requests == []


worths = st.lists(st.floats(0, 12), min_size=1, max_size=12)


@given(worths, st.integers(1, 4_000), st.sets(st.integers(1, 40), max_size=3))
def test_kept_messages_are_ordered_and_complete_for_any_scores(
    worth: list[float], keep: int, pins: set[int]
) -> None:
    ctx = context(turns(10), keep, pins=frozenset(pins))
    units = units_in(ctx)
    selection = select(
        ctx, units, [worth[place % len(worth)] for place in range(len(units))]
    )
    stays = [
        message.index for unit in selection.kept_units for message in unit.messages
    ]
    assert stays == sorted({*stays})
    assert 40 in stays
    assert pins <= {*stays}
