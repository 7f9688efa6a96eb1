"""`AdaptiveCompaction`: the cheapest sufficient compaction, and a summary when the user asks for one."""

from foldline.compaction import (
    AdaptiveCompaction,
    Proposal,
    RedraftOptions,
    SummaryCompaction,
    plan_early,
    propose,
    strategy_for,
)
from foldline.protocol import Reason, Usage
from foldline.view.budget import Budget, budget_for
from foldline.view.rules import broken
from support.history import History, call, history
from support.llm import ScriptedLLM

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(32_768, 4_096, 700, 1_600, 0.75)


def read(count: int, lines: int, answers: int = 0) -> History:
    """Build `answers` turns of talk, then file reads of `lines` lines each."""
    built = history().system("s")
    for nth in range(answers):
        built.turn(f"question {nth}", LINE * 40)
    built.user("read it all")
    for nth in range(count):
        built.step("read", f"file {nth}\n" + LINE * lines, path=f"{nth}.py")
    return built.assistant("all read")


async def run_compaction(
    built: History,
    llm: ScriptedLLM,
    reason: Reason = "threshold",
    options: RedraftOptions | None = None,
) -> Proposal:
    proposal = await propose(
        built.projection(),
        strategy=strategy_for(AdaptiveCompaction(), reason),
        llm=llm,
        budget=BUDGET,
        reason=reason,
        options=options,
    )
    assert proposal is not None
    assert broken(built.add(proposal.entry).projection()) == []
    return proposal


async def test_no_model_is_called_if_placeholders_free_a_quarter() -> None:
    llm = ScriptedLLM()
    proposal = await run_compaction(read(12, 60), llm)
    assert (proposal.entry.summary, llm.requests) == ("", [])
    assert proposal.entry.tokens_after <= 0.75 * proposal.entry.tokens_before


async def test_the_view_is_extracted_without_a_model_if_placeholders_free_little() -> (
    None
):
    llm = ScriptedLLM()
    proposal = await run_compaction(read(7, 10, answers=12), llm)
    assert "## Goal" in proposal.entry.summary
    assert "question 0" in proposal.entry.summary
    assert llm.requests == []


async def test_a_second_compaction_extracts_what_the_first_one_hid() -> None:
    built = read(12, 60)
    await run_compaction(built, ScriptedLLM())
    proposal = await run_compaction(built, ScriptedLLM())
    assert "read it all" in proposal.entry.summary


async def test_a_manual_compaction_is_a_summary() -> None:
    proposal = await run_compaction(read(12, 60), ScriptedLLM("notes"), "manual")
    assert (proposal.entry.strategy, proposal.entry.summary[:5]) == (
        "SummaryCompaction",
        "notes",
    )


async def test_redraft_options_lead_to_a_summary() -> None:
    options = RedraftOptions(guidance="say more of file 3", earlier_draft="")
    proposal = await run_compaction(read(12, 60), ScriptedLLM("notes"), options=options)
    assert proposal.entry.summary.startswith("notes")


def test_a_chosen_strategy_also_runs_manual_compactions() -> None:
    chosen = SummaryCompaction()
    assert strategy_for(chosen, "manual") is chosen
    assert strategy_for(chosen, "threshold") is chosen


async def test_a_plan_counts_placeholders_and_ledger_in_the_remaining_size() -> None:
    built = history().system("s").user("read it all")
    for nth in range(14):
        code = "\n".join(
            f"def area_{nth}_{row}(width): return width * {row}" for row in range(450)
        )
        size = Usage(input=6_460 * nth + 100, output=20)
        built.assistant(
            calls=[call("read", path=f"{nth}.py")], usage=size, model="m"
        ).asked().result(code)
    built.assistant(
        "all read", usage=Usage(input=6_460 * 14 + 100, output=20), model="m"
    ).asked()
    projection, budget = built.projection(), budget_for(131_072)
    planned = plan_early(projection, budget, 0.1)
    assert planned is not None
    made = await propose(
        projection,
        strategy=AdaptiveCompaction(),
        llm=ScriptedLLM(),
        budget=budget,
        reason="phase",
        planned=planned,
    )
    assert made is not None
    placeholders = [
        item.message.text for item in built.add(made.entry).projection().view
    ]
    assert any(
        "hidden to save context" in text and "area_" in text for text in placeholders
    )
    assert (
        abs(planned.tokens_expected - made.entry.tokens_after)
        < 0.02 * planned.tokens_before
    )
