"""`HierarchicalCompaction`: an overview, notes on newer turns, milestones of older ones."""

from dataclasses import replace

import pytest

from foldline.compaction import (
    CompactionStrategy,
    DigestCompaction,
    HierarchicalCompaction,
    Proposal,
    RedraftOptions,
    SummaryCompaction,
    propose,
)
from foldline.compaction.strategies.hierarchical import Levels, parse_levels
from foldline.llm.offline import OfflineLLM
from foldline.view.budget import Budget
from foldline.view.rules import broken
from support.history import History, history
from support.llm import EMPTY, ScriptedLLM, Step

WORK = "what the command said, line after line: all is well\n" * 12
"""About 150 tokens."""
BUDGET = Budget(
    window=32_768,
    reserve_tokens=4_096,
    keep_recent_tokens=100,
    max_summary_tokens=1_600,
    soft_ratio=0.75,
)
TIGHT = replace(BUDGET, max_summary_tokens=400)
"""100 tokens for notes on turns."""


def session(turns: int, built: History | None = None, name: str = "request") -> History:
    built = built or history().system("You are careful.")
    for turn in range(turns):
        built.turn(f"{name} {turn}", f"raw answer to {name} {turn}. {WORK}")
    return built


def answer(overview: str, *turns: str) -> str:
    note = "### {0}\n- done: {0} as asked, in src/{0}.py, with its test\n"
    notes = "".join(note.format(turn) for turn in turns)
    return f"## Goal\n- {overview}\n\n## Turns\n{notes}"


async def make_proposal(
    built: History,
    *script: Step,
    llm: ScriptedLLM | None = None,
    strategy: CompactionStrategy | None = None,
    budget: Budget = BUDGET,
    options: RedraftOptions | None = None,
) -> Proposal:
    proposal = await propose(
        built.projection(),
        strategy=strategy or HierarchicalCompaction(),
        llm=llm or ScriptedLLM(*script),
        budget=budget,
        reason="threshold",
        options=options,
    )
    assert proposal is not None
    assert proposal.entry.rung == "strategy", proposal.troubles
    assert broken(built.add(proposal.entry).projection()) == []
    return proposal


def levels(proposal: Proposal) -> Levels:
    return parse_levels(proposal.notes)


async def test_a_summary_has_an_overview_and_one_note_per_turn() -> None:
    llm = ScriptedLLM(answer("port the shop", "cart", "till"))
    found = levels(await make_proposal(session(4), llm=llm))
    assert found.overview == "## Goal\n- port the shop"
    assert found.turns.startswith("### cart\n- done: cart as asked")
    assert found.milestones == ""
    assert "raw answer to request 0" in llm.prompts[0]


async def test_a_second_compaction_keeps_the_first_ones_notes_verbatim() -> None:
    built = session(4)
    first = levels(await make_proposal(built, answer("one", "cart")))
    llm = ScriptedLLM(answer("two", "till"))
    second = levels(await make_proposal(session(4, built, "later"), llm=llm))
    assert second.turns.startswith(first.turns)
    assert "### till" in second.turns
    assert second.overview == "## Goal\n- two"
    assert "raw answer to request 0" not in llm.prompts[0]
    assert "<previous-summary>\n## Goal\n- one\n</previous-summary>" in llm.prompts[0]


async def test_older_notes_become_milestones_when_the_notes_exceed_their_budget() -> (
    None
):
    turns = [f"turn{nth}" for nth in range(8)]
    llm = ScriptedLLM(answer("all", *turns), "### the shop\n- ported, all tests pass")
    found = levels(await make_proposal(session(12), llm=llm, budget=TIGHT))
    assert found.milestones == "### the shop\n- ported, all tests pass"
    assert "### turn7" in found.turns
    assert "### turn0" not in found.turns
    assert "### turn0" in llm.prompts[1]
    assert "raw answer" not in llm.prompts[1]


async def test_existing_milestones_are_input_for_later_milestones() -> None:
    built = session(12)
    turns = [f"turn{nth}" for nth in range(8)]
    await make_proposal(
        built, answer("all", *turns), "### the shop\n- ported", budget=TIGHT
    )
    llm = ScriptedLLM(answer("more", *turns), "### the shop\n- ported and open")
    found = levels(
        await make_proposal(session(12, built, "later"), llm=llm, budget=TIGHT)
    )
    assert (
        "<previous-summary>\n### the shop\n- ported\n</previous-summary>"
        in llm.prompts[1]
    )
    assert found.milestones == "### the shop\n- ported and open"


async def test_guidance_and_the_earlier_draft_reach_the_model() -> None:
    llm = ScriptedLLM(answer("port", "cart"))
    options = RedraftOptions(
        guidance="name the owner", earlier_draft="## Goal\n- the old draft"
    )
    await make_proposal(session(4), llm=llm, options=options)
    assert "name the owner" in llm.prompts[0]
    assert "the old draft" in llm.prompts[0]


async def test_a_chinese_conversation_gets_a_chinese_prompt() -> None:
    built = history().system("s")
    for nth in range(6):
        built.turn(f"请修改第 {nth} 个配置文件", WORK)
    llm = ScriptedLLM(answer("修改", "配置"))
    await make_proposal(built, llm=llm)
    assert "为记录中的每个回合写一条笔记" in llm.prompts[0]


async def test_a_bad_answer_is_repaired_once() -> None:
    llm = ScriptedLLM(EMPTY, answer("port", "cart"))
    await make_proposal(session(4), llm=llm)
    assert llm.prompts[1].startswith(llm.prompts[0])


@pytest.mark.parametrize("other", [SummaryCompaction(), DigestCompaction()])
async def test_the_summary_of_another_strategy_becomes_the_overview(
    other: CompactionStrategy,
) -> None:
    built = session(4)
    first = await make_proposal(built, "## Goal\n- made by another", strategy=other)
    llm = ScriptedLLM(answer("port", "cart"))
    await make_proposal(session(4, built, "later"), llm=llm)
    assert (
        first.notes.splitlines()[1] in llm.prompts[0].partition("<previous-summary>")[2]
    )


async def test_another_strategy_summarises_all_levels() -> None:
    built = session(4)
    await make_proposal(built, answer("port", "cart"))
    llm = ScriptedLLM("## Goal\n- notes")
    await make_proposal(
        session(4, built, "later"), llm=llm, strategy=SummaryCompaction()
    )
    assert (
        "### cart\n- done: cart as asked"
        in llm.prompts[0].partition("<previous-summary>")[2]
    )


async def test_the_offline_model_writes_an_overview() -> None:
    proposal = await propose(
        session(6).projection(),
        strategy=HierarchicalCompaction(),
        llm=OfflineLLM(32_768, pace=0),
        budget=BUDGET,
        reason="threshold",
    )
    assert proposal is not None
    assert "## Goal" in levels(proposal).overview


@pytest.mark.parametrize("heading", ["## Turns", "## Milestones", "# Goal"])
def test_a_heading_inside_a_note_does_not_start_a_level(heading: str) -> None:
    found = Levels("## Goal\n- port", turns="").updated(
        f"## Goal\n- port\n\n## Turns\n- a\n{heading}\n- b"
    )
    again = parse_levels(found.render())
    assert again == found
    assert f"#{heading.lstrip('#')}" in found.turns
