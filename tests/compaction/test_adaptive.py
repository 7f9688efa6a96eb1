"""`AdaptiveCompaction`: the cheapest compaction that will do, and a summary for who asks for one."""

from foldline.compaction import (
    AdaptiveCompaction,
    Proposal,
    RedraftOptions,
    SummaryCompaction,
    propose,
    strategy_for,
)
from foldline.context.budget import Budget
from foldline.context.invariants import broken
from foldline.protocol import Reason
from support.history import History, history
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
