"""`AdaptiveCompaction`: the cheapest compaction that will do, and a summary for who asks for one."""

from foldline.compaction import (
    AdaptiveCompaction,
    Proposal,
    RedraftOptions,
    SummaryCompaction,
    plan_early,
    propose,
    strategy_for,
)
from foldline.context.budget import Budget, budget_for
from foldline.context.invariants import broken
from foldline.protocol import Reason, Usage
from support.history import History, call, history
from support.llm import ScriptedLLM

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(32_768, 4_096, 700, 1_600, 0.75)


def read(count: int, lines: int, answers: int = 0) -> History:
    """Reads of `lines` lines each, after as many turns of talk as `answers`."""
    built = history().system("s")
    for nth in range(answers):
        built.turn(f"question {nth}", LINE * 40)
    built.user("read it all")
    for nth in range(count):
        built.step("read", f"file {nth}\n" + LINE * lines, path=f"{nth}.py")
    return built.assistant("all read")


async def folded(
    built: History, llm: ScriptedLLM, reason: Reason = "threshold", options: RedraftOptions | None = None
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


async def test_where_stubs_free_a_quarter_no_model_is_asked() -> None:
    llm = ScriptedLLM()
    proposal = await folded(read(12, 60), llm)
    assert (proposal.entry.summary, llm.requests) == ("", [])
    assert proposal.entry.tokens_after <= 0.75 * proposal.entry.tokens_before


async def test_where_stubs_free_little_the_view_as_it_is_is_extracted_and_no_model_is_asked() -> None:
    llm = ScriptedLLM()
    proposal = await folded(read(7, 10, answers=12), llm)
    assert "## Goal" in proposal.entry.summary
    assert "question 0" in proposal.entry.summary
    assert llm.requests == []


async def test_a_second_fold_extracts_what_the_first_one_hid() -> None:
    built = read(12, 60)
    await folded(built, ScriptedLLM())
    proposal = await folded(built, ScriptedLLM())
    assert "read it all" in proposal.entry.summary


async def test_a_fold_by_hand_is_a_summary() -> None:
    proposal = await folded(read(12, 60), ScriptedLLM("notes"), "manual")
    assert (proposal.entry.strategy, proposal.entry.summary[:5]) == ("SummaryCompaction", "notes")


async def test_wishes_of_a_reader_are_followed_by_a_summary() -> None:
    options = RedraftOptions(guidance="say more of file 3", earlier_draft="")
    proposal = await folded(read(12, 60), ScriptedLLM("notes"), options=options)
    assert proposal.entry.summary.startswith("notes")


def test_a_strategy_that_was_chosen_makes_the_folds_by_hand_too() -> None:
    chosen = SummaryCompaction()
    assert strategy_for(chosen, "manual") is chosen
    assert strategy_for(chosen, "threshold") is chosen


async def test_before_the_window_is_full_a_plan_says_what_is_left_placeholders_and_ledger_included() -> None:
    built = history().system("s").user("read it all")
    for nth in range(14):
        code = "\n".join(f"def area_{nth}_{row}(width): return width * {row}" for row in range(450))
        size = Usage(input=6_460 * nth + 100, output=20)
        built.assistant(calls=[call("read", path=f"{nth}.py")], usage=size, model="m").asked().result(code)
    built.assistant("all read", usage=Usage(input=6_460 * 14 + 100, output=20), model="m").asked()
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
    placeholders = [item.message.text for item in built.add(made.entry).projection().view]
    assert any("hidden to save context" in text and "area_" in text for text in placeholders)
    assert abs(planned.tokens_expected - made.entry.tokens_after) < 0.02 * planned.tokens_before
