"""The effect of each strategy on a view, as its design row describes it."""

from collections.abc import Sequence

import pytest

from foldline.compaction import (
    CompactionContext,
    HidingThenSummaryCompaction,
    Proposal,
    SimpleCompaction,
    SummaryCompaction,
    ToolResultHidingCompaction,
    load_strategy,
    propose,
    with_hidden_results,
)
from foldline.compaction.strategy import CompactionStrategy
from foldline.protocol import BaseMessage, ToolResultMessage, UserMessage
from foldline.view.budget import Budget
from foldline.view.items import is_hidden_placeholder, is_summary
from foldline.view.rules import broken
from support.hiding import HidingAllBut
from support.history import History, call, history
from support.llm import ScriptedLLM
from support.messages import tool_results

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(32_768, 4_096, 700, 1_600, 0.75)


async def run_compaction(
    built: History,
    strategy: CompactionStrategy,
    *script: str,
    llm: ScriptedLLM | None = None,
) -> Proposal | None:
    proposal = await propose(
        built.projection(),
        strategy=strategy,
        llm=llm or ScriptedLLM(*script),
        budget=BUDGET,
        reason="manual",
    )
    if proposal is not None:
        after = built.add(proposal.entry).projection()
        assert broken(after) == []
        assert [item.message.text for item in after.view] == [
            message.text for message in proposal.after
        ]
    return proposal


def steps(count: int, *, lines: int = 40) -> History:
    built = history().system("s").user("read it all")
    for nth in range(count):
        built.step("read", f"file {nth}\n" + LINE * lines, path=f"{nth}.py")
    return built.assistant("all read")


def results(built: History) -> list[ToolResultMessage]:
    view = (item.message for item in built.projection().view)
    return tool_results(view)


# --- hiding --------------------------------------------------------------------------------------------


async def test_results_older_than_the_newest_five_groups_become_placeholders() -> None:
    built = steps(8)
    before = results(built)
    await run_compaction(built, ToolResultHidingCompaction())
    after = results(built)
    assert [is_hidden_placeholder(result.text) for result in after] == [True] * 3 + [
        False
    ] * 5
    assert [result.call_id for result in after] == [result.call_id for result in before]
    assert after[3:] == before[3:]


async def test_parallel_calls_are_one_group() -> None:
    built = history().system("s").user("read")
    for nth in range(6):
        built.assistant(
            calls=[call("read", path=f"{nth}a"), call("read", path=f"{nth}b")]
        )
        built.result(LINE * 40).result(LINE * 40)
    built.assistant("read")
    await run_compaction(built, ToolResultHidingCompaction())
    assert [is_hidden_placeholder(result.text) for result in results(built)] == [
        True
    ] * 2 + [False] * 10


async def test_hiding_changes_only_results_and_a_second_run_finds_nothing_to_do() -> (
    None
):
    built = steps(8)
    others = [
        m.message
        for m in built.projection().view
        if not isinstance(m.message, ToolResultMessage)
    ]
    await run_compaction(built, ToolResultHidingCompaction())
    now = [
        m.message
        for m in built.projection().view
        if not isinstance(m.message, ToolResultMessage)
    ]
    assert now == others
    assert await run_compaction(built, ToolResultHidingCompaction()) is None


async def test_a_later_compaction_keeps_the_earlier_placeholders() -> None:
    built = steps(8)
    await run_compaction(built, ToolResultHidingCompaction())
    earlier = [result.text for result in results(built)][:3]
    for nth in range(3):
        built.step("read", LINE * 40, path=f"more {nth}.py")
    built.assistant("more")
    await run_compaction(built, ToolResultHidingCompaction())
    assert [result.text for result in results(built)][:3] == earlier


@pytest.mark.parametrize("keep", [0, 1, 5, 50])
async def test_any_number_of_groups_can_be_kept(keep: int) -> None:
    built = steps(6)
    await run_compaction(built, HidingAllBut(keep=keep))
    hidden = sum(is_hidden_placeholder(result.text) for result in results(built))
    assert hidden == max(0, 6 - keep)


# --- hiding, then a summary ----------------------------------------------------------------------------


async def test_hide_then_summary_hides_without_a_model_while_it_can() -> None:
    built, llm = steps(8), ScriptedLLM()
    proposal = await run_compaction(built, HidingThenSummaryCompaction(), llm=llm)
    assert proposal is not None
    assert (proposal.entry.summary, llm.requests) == ("", [])


async def test_hide_then_summary_summarises_if_nothing_is_left_to_hide() -> None:
    built = steps(8)
    await run_compaction(built, HidingThenSummaryCompaction())
    proposal = await run_compaction(built, HidingThenSummaryCompaction(), "notes")
    assert proposal is not None
    assert proposal.entry.summary.startswith("notes")


# --- simple --------------------------------------------------------------------------------------------


async def test_simple_keeps_the_last_two_messages_and_their_results() -> None:
    built = steps(4)
    proposal = await run_compaction(
        built, SimpleCompaction(), "<current_focus>read</current_focus>"
    )
    assert proposal is not None
    kept = [item.message.type for item in built.projection().view]
    assert kept == ["system", "system", "user", "assistant", "tool_result", "assistant"]


async def test_simple_drops_thinking_and_keeps_names_and_paths_of_calls() -> None:
    built = history().system("s").user("write it")
    built.assistant(
        "now",
        thinking="a secret thought",
        calls=[call("write", path="src/new.py", content=LINE)],
    )
    built.result("ok").turn("then?", LINE * 40).turn("and now?", "done")
    llm = ScriptedLLM("<current_focus>x</current_focus>")
    await run_compaction(built, SimpleCompaction(), llm=llm)
    [prompt] = llm.prompts
    assert "a secret thought" not in prompt
    assert "write(path='src/new.py'" in prompt
    for tag in (
        "current_focus",
        "environment",
        "completed_tasks",
        "active_issues",
        "code_state",
        "important_context",
    ):
        assert f"<{tag}>" in prompt


async def test_simple_keeps_the_earlier_summary_and_the_unanswered_request() -> None:
    built = steps(4)
    await run_compaction(
        built, SimpleCompaction(), "<current_focus>first</current_focus>"
    )
    built.user("a new request")
    for nth in range(6):
        built.step("read", LINE * 40, path=f"new {nth}.py")
    llm = ScriptedLLM("<current_focus>second</current_focus>")
    await run_compaction(built, SimpleCompaction(), llm=llm)
    assert "<current_focus>first</current_focus>" in llm.prompts[0]
    texts = [item.message.text for item in built.projection().view]
    assert "a new request" in texts
    assert sum("second" in text for text in texts) == 1


async def test_simple_finds_nothing_to_do_in_a_short_session() -> None:
    assert (
        await run_compaction(
            history().system("s").turn("hi", "hello"), SimpleCompaction()
        )
        is None
    )


async def test_a_custom_strategy_runs_through_the_same_engine() -> None:
    class Own:
        async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
            return [ctx.history[0], *ctx.history[-2:]]

    built = steps(4).user("and now?")
    proposal = await run_compaction(built, Own())
    assert proposal is not None
    assert proposal.entry.strategy == "Own"


async def test_a_result_shorter_than_its_placeholder_is_kept() -> None:
    """Both have a message frame; compared without it, hiding made views longer."""
    built = history().system("s").user("read them")
    for nth in range(9):
        built.step(
            "read",
            "ten words of a file that is short and plain, and some more of it",
            path=f"{nth}",
        )
    messages = [item.message for item in built.assistant("all read").projection().view]
    assert with_hidden_results(messages, frozenset()) is None


# --- minimum savings of a summary ----------------------------------------------------------------------


async def test_simple_compacts_no_unseen_result() -> None:
    built = history().system("s").turn("first", "seen\n" + LINE * 40).user("read it")
    built.assistant(calls=[call("read", path="a.py")]).result(LINE * 20).user(
        "one more"
    ).user("and one")
    proposal = await run_compaction(
        built, SimpleCompaction(), "<current_focus>read</current_focus>"
    )
    assert proposal is not None
    assert LINE * 20 in {message.text for message in results(built)}


@pytest.mark.parametrize(
    "name", ["summary", "simple", "hierarchical", "importance", "semantic"]
)
async def test_no_model_call_is_made_for_a_summary_that_cannot_save_tokens(
    name: str,
) -> None:
    """Frame, constraints, quotes and file lists exceed these few words, despite the plan's estimate."""
    rules = "\n".join(
        f"Never touch the table payments_{n} not even in a test." for n in range(8)
    )
    built = (
        history()
        .system("s")
        .user(rules)
        .assistant("Understood, I will not touch any of these tables.")
    )
    built.user("ok, go on").assistant("I go on.").user("and now?")
    llm = ScriptedLLM(always="## Goal\nNotes: the tables stay as they are.")
    assert await run_compaction(built, load_strategy(name), llm=llm) is None
    assert llm.requests == []


# --- access to the originals ---------------------------------------------------------------------------


class KeepsContext:
    """Strategy that stores its context."""

    async def compact(self, ctx: CompactionContext) -> None:
        self.ctx = ctx


async def test_a_strategy_reads_summarised_hidden_and_dropped_originals_by_index() -> (
    None
):
    built = steps(8)
    assert await run_compaction(built, SummaryCompaction(), "notes") is not None
    built.user("and more").step("read", LINE * 9, path="z.py").assistant("done")
    built.edit("hide", built.entries[-2].index).checkpoint(0).turn(
        "a detour", "taken"
    ).revert(0)
    gone = next(
        entry.index for entry in built.entries if isinstance(entry, UserMessage)
    )
    built.edit("drop", built.entries[-5].index)
    look = KeepsContext()
    assert await run_compaction(built, look) is None
    projection, originals = built.projection(), look.ctx.originals
    in_force = {"live", "hidden", "clipped", "summarised", "truncated"}
    kinds = {
        index: projection.fate(index).kind for index in range(projection.last_index + 1)
    }
    messages = {
        entry.index: entry for entry in built.entries if isinstance(entry, BaseMessage)
    }
    assert dict(originals) == {
        i: m for i, m in messages.items() if kinds[i] in in_force
    }
    assert len(originals) < len(messages)
    assert originals[gone].text == "read it all"
    assert gone not in {
        message.index for message in look.ctx.history if is_summary(message)
    }
    for outside in (
        -1,
        999,
        next(i for i, kind in kinds.items() if kind == "reverted"),
    ):
        assert outside not in originals
    with pytest.raises(TypeError):
        originals[gone] = messages[gone]  # type: ignore[index]


async def test_the_originals_are_a_snapshot_from_the_strategys_start() -> None:
    built = steps(3)
    projection, look = built.projection(), KeepsContext()
    await propose(
        projection, strategy=look, llm=ScriptedLLM(), budget=BUDGET, reason="manual"
    )
    before = list(look.ctx.originals)
    projection.append(built.user("later").entries[-1])
    assert list(look.ctx.originals) == before
