"""Requirements of the five designs, row by row, that no other test is named after."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.settings.schema import CompactionSettings
from foldline.compaction import (
    CompactionContext,
    CompactionStrategy,
    SimpleCompaction,
    SummaryCompaction,
    ToolResultHidingCompaction,
    load_strategy,
    propose,
)
from foldline.history import Session
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    ToolResultMessage,
    events,
    text_parts,
)
from foldline.text.numbers import tokens
from foldline.view.budget import Budget, BudgetSettings, budget_for
from foldline.view.items import is_summary
from foldline.view.tokens import estimate_text_tokens, image_tokens, message_tokens
from support.agents import PlayedLLM, agent_in
from support.history import History, call, history
from support.llm import ScriptedLLM
from support.messages import tool_results

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(32_768, 4_096, 700, 1_600, 0.75)


def work(count: int, lines: int = 40) -> History:
    built = history().system("s").instructions("Run the linter.")
    for nth in range(count):
        built.turn(f"request {nth}", LINE * lines)
    return built


async def run_compaction(
    built: History, strategy: CompactionStrategy, *script: str
) -> Compaction | None:
    proposal = await propose(
        built.projection(),
        strategy=strategy,
        llm=ScriptedLLM(*script),
        budget=BUDGET,
        reason="manual",
    )
    if proposal is None:
        return None
    built.add(proposal.entry)
    return proposal.entry


# --- kimi-cli, proposal 13 -----------------------------------------------------------------------------


async def test_returning_none_is_a_no_op_and_a_manual_compaction_reports_it(
    tmp_path: Path,
) -> None:
    class Idle:
        async def compact(self, ctx: CompactionContext) -> None: ...

    agent, watch = agent_in(tmp_path, PlayedLLM("ok"), compaction=Idle())
    await agent.prompt("hello")
    before = list(agent.session.entries)
    await agent.compact()
    assert list(agent.session.entries) == before
    [end] = watch.of(events.CompactionEnd)
    assert (end.nothing, end.error) == (True, None)
    await agent.aclose()


async def test_messages_may_be_dropped_replaced_and_merged_and_tool_messages_keep_call_ids() -> (
    None
):
    class Merges:
        async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
            system, rules, first, answer, second, _, *rest = ctx.history
            merged = SystemMessage(
                origin="summary", parts=text_parts(f"{first.text} {answer.text[:20]}")
            )
            results = tool_results(rest)
            short = {
                m.key: m.model_copy(update={"parts": text_parts("short")})
                for m in results
            }
            return [
                system,
                rules,
                merged,
                *(short.get(m.key, m) for m in rest if m is not second),
            ]

    built = work(3)
    built.step("read", LINE * 30, path="a.py").assistant("done")
    before = {m.call_id for m in built.entries if isinstance(m, ToolResultMessage)}
    assert await run_compaction(built, Merges()) is not None
    view = [item.message for item in built.projection().view]
    assert {m.call_id for m in view if isinstance(m, ToolResultMessage)} == before
    assert "request 1" not in {m.text for m in view}
    merged = next(m for m in view if is_summary(m))
    assert merged.text.startswith("request 0 what the command")


def test_settings_pass_no_parameters_so_other_parameters_need_another_class() -> None:
    fields = set(CompactionSettings.model_fields)
    assert "strategy" in fields
    assert not {"keep", "strategy_options", "parameters", "arguments"} & fields
    assert type(load_strategy("hide")) is ToolResultHidingCompaction


@pytest.mark.parametrize("compaction", [None, "adaptive"])
async def test_a_manual_compaction_writes_a_summary_by_default_and_with_compaction_none(
    tmp_path: Path, compaction: str | None
) -> None:
    notes = "## Goal\nthe notes of a model"
    llm = PlayedLLM("ok", LINE * 60, "yes", summaries=(notes,))
    agent, _ = agent_in(tmp_path, llm, compaction=compaction)
    for prompt in ("hello", "more", "and?"):
        await agent.prompt(prompt)
    await agent.compact()
    [entry] = agent.session.projection.all_compactions
    found = agent.session.projection.entry(entry.index)
    assert isinstance(found, Compaction)
    assert (found.strategy, found.summary.startswith("## Goal\nthe notes")) == (
        "SummaryCompaction",
        True,
    )
    await agent.aclose()


async def test_hiding_is_bounded_by_assistant_messages_not_by_the_last_user_message() -> (
    None
):
    """User-role messages may be injected in the middle of the work."""
    built = history().system("s").user("read it all")
    for nth in range(8):
        built.step("read", LINE * 20, path=f"{nth}.py").notice(
            "a user-role message nobody typed"
        )
    built.user("a prompt in between").step("read", LINE * 20, path="last.py").assistant(
        "done"
    )
    assert await run_compaction(built, ToolResultHidingCompaction()) is not None
    texts = [
        i.message.text
        for i in built.projection().view
        if isinstance(i.message, ToolResultMessage)
    ]
    assert [text == LINE * 20 for text in texts] == [False] * 4 + [True] * 5


# --- Kimi's context compaction -------------------------------------------------------------------------


@pytest.mark.parametrize("window", [16_384, 32_768, 200_000])
def test_compaction_triggers_when_tokens_plus_reserve_reach_the_window(
    window: int,
) -> None:
    budget = budget_for(window)
    assert budget.threshold + budget.reserve_tokens == window
    chosen = budget_for(window, None, BudgetSettings(reserve_tokens=3_000))
    assert chosen.threshold == window - 3_000


async def test_simple_leaves_the_messages_unchanged_if_there_is_nothing_to_compact() -> (
    None
):
    built = history().system("s").user(LINE * 40).assistant(LINE * 40)
    assert await run_compaction(built, SimpleCompaction()) is None


async def test_a_web_project_of_ten_turns_goes_from_5000_to_800_tokens() -> None:
    """The design's example: 84 % fewer tokens, with the last two messages and all six sections."""
    built = history().system("You are a web developer.")
    for nth in range(10):
        built.user(
            f"Step {nth}: set up page {nth} of the site with its route, its form and its test."
        )
        built.assistant(
            f"Page {nth} is done: "
            + "the route checks the form and the test passes. " * 48
        )
    before = built.projection().tokens
    assert 4_500 < before < 5_500
    parts = "\n".join(
        f"<{tag}>Pages 0 to 8 are done, each with route, form and test.</{tag}>"
        for tag in ("current_focus", "environment", "completed_tasks", "active_issues", "code_state",
                    "important_context")
    )  # fmt: skip
    assert await run_compaction(built, SimpleCompaction(), parts) is not None
    after = built.projection()
    assert after.tokens / before < 0.25
    assert [item.message.text[:7] for item in after.view[-2:]] == ["Step 9:", "Page 9 "]


async def test_the_begin_event_comes_first_and_the_end_event_reports_the_new_size(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(
        tmp_path, PlayedLLM("ok", LINE * 90, "yes"), compaction="digest"
    )
    for prompt in ("hello", "more", "and?"):
        await agent.prompt(prompt)
    await agent.compact()
    kinds = [
        type(e)
        for e in watch.events
        if isinstance(e, events.CompactionStart | events.CompactionEnd)
    ]
    assert kinds == [events.CompactionStart, events.CompactionEnd]
    [start], [end] = watch.of(events.CompactionStart), watch.of(events.CompactionEnd)
    assert (start.reason, end.reason, end.aborted, end.will_retry) == (
        "manual",
        "manual",
        False,
        False,
    )
    assert end.tokens_before == start.tokens_before > end.tokens_after > 0
    assert tokens(5_000) == "5.0k"
    await agent.aclose()


async def test_a_checkpoint_after_a_compaction_points_at_the_compacted_state() -> None:
    built = work(4)
    assert (
        await run_compaction(built, SummaryCompaction(), "## Goal\nnotes") is not None
    )
    built.checkpoint(0).user("later").assistant("done")
    before = [item.key for item in built.projection().view][:-2]
    built.revert(0)
    assert [item.key for item in built.projection().view] == before


# --- agentkit ------------------------------------------------------------------------------------------


def test_the_plain_rule_is_exported_and_an_image_of_unknown_size_counts_1200() -> None:
    import foldline

    assert foldline.estimate_text_tokens is estimate_text_tokens
    assert image_tokens(ImagePart(media_type="image/png", data="aW1hZ2U=")) == 1_200


# --- klaude-code's plan --------------------------------------------------------------------------------


async def test_every_compaction_appends_an_entry_and_deletes_nothing() -> None:
    built = work(4)
    said = list(built.entries)
    await run_compaction(built, SummaryCompaction(), "## Goal\nfirst notes")
    built.turn("more", LINE * 60).turn("yet more", LINE * 40)
    await run_compaction(built, SummaryCompaction(), "## Goal\nsecond notes")
    assert built.entries[: len(said)] == said
    assert sum(isinstance(entry, Compaction) for entry in built.entries) == 2


async def test_the_view_is_the_last_summary_and_everything_after_the_cut() -> None:
    """A developer message at the start would attach to nothing and be lost."""
    built = work(4)
    entry = await run_compaction(built, SummaryCompaction(), "## Goal\nnotes")
    assert entry is not None
    view = [item.message for item in built.projection().view]
    preamble = [m for m in view if isinstance(m, DeveloperMessage) or m.index == 0]
    summary, *tail = view[len(preamble) :]
    assert isinstance(summary, SystemMessage)
    assert tail[0].index == entry.first_kept_index
    assert not any(isinstance(m, Compaction) for m in view)


def test_tool_arguments_are_counted() -> None:
    short, long = (
        history().assistant(calls=[call("write", body="x " * n)]).entries[-1]
        for n in (1, 500)
    )
    assert isinstance(long, AssistantMessage)
    assert isinstance(short, AssistantMessage)
    assert message_tokens(long) - message_tokens(short) > 150


async def test_a_cancelled_manual_compaction_writes_nothing_and_ends_as_aborted(
    tmp_path: Path,
) -> None:
    class Waits:
        async def compact(self, ctx: CompactionContext) -> None:
            await asyncio.Event().wait()

    session = Session.create(tmp_path, home=tmp_path / "home")
    agent = Agent(session, llm=PlayedLLM("ok"), compaction=Waits())
    ended: list[events.CompactionEnd] = []
    agent.executor.subscribe(
        lambda e: ended.append(e) if isinstance(e, events.CompactionEnd) else None
    )
    await agent.prompt("hello")
    before = list(agent.session.entries)
    task = asyncio.create_task(agent.compact())
    while not agent.state.compaction.review.drafting:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await agent.aclose()
    assert list(agent.session.entries) == before
    assert [(end.aborted, end.reason) for end in ended] == [(True, "manual")]
