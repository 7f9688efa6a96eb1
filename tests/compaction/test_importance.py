"""`ImportanceCompaction` as its design row describes it, run through the whole engine."""

import pytest

from foldline.compaction import ImportanceCompaction, Proposal, propose
from foldline.protocol import Reason
from foldline.view.budget import Budget
from foldline.view.rules import broken
from support.history import History, history, modified
from support.llm import ScriptedLLM

LINE = "what the command said, line after line: all is well\n"
FAILURE = "E   AssertionError: expected 200, got 503\n1 failed in 0.2s"
ANALYSIS = (
    "The cause is that the handler ignores the state. I would check it first because a paid order must not "
    "be cancelled, then write a test for each state."
)
CHINESE = (
    "问题的原因是处理函数没有检查状态。我建议先检查状态，因为已付款的订单不能取消，"
    "然后为每个状态写测试。再补充说明文档。"
)
BUDGET = Budget(32_768, 4_096, 900, 1_600, 0.75)


async def run_compaction(
    built: History, *, reason: Reason = "threshold", draft: str = "## Goal\nnotes"
) -> Proposal | None:
    proposal = await propose(
        built.projection(),
        strategy=ImportanceCompaction(),
        llm=ScriptedLLM(draft),
        budget=BUDGET,
        reason=reason,
    )
    if proposal is not None:
        assert proposal.entry.rung == "strategy"
        after = built.add(proposal.entry).projection()
        assert broken(after) == []
        assert after.tokens < sum(item.tokens for item in proposal.view)
    return proposal


def texts(built: History) -> list[str]:
    return [item.message.text for item in built.projection().view]


def with_work(built: History, steps: int = 12, first: int = 0) -> History:
    """Append steps that only read, then end the turn."""
    for nth in range(first, first + steps):
        built.step("read", f"file {nth}\n" + LINE * 12, path=f"{nth}.py")
    return built.assistant("read")


@pytest.mark.parametrize(
    ("analysis", "consent"),
    [(ANALYSIS, "ok, do as you said"), (CHINESE, "好的，按你说的做")],
)
async def test_an_agreed_analysis_is_kept_and_a_completed_consent_is_not(
    analysis: str, consent: str
) -> None:
    built = (
        with_work(history().system("s").user("why?"))
        .user("and?")
        .assistant(analysis)
        .user(consent)
    )
    with_work(built).user("now the docs")
    with_work(built, first=20)
    await run_compaction(built)
    assert analysis in texts(built)
    assert consent not in texts(built)


@pytest.mark.parametrize(
    ("analysis", "consent"),
    [(ANALYSIS, "ok, do as you said"), (CHINESE, "好的，按你说的做")],
)
async def test_a_consent_still_in_effect_is_kept_with_its_analysis(
    analysis: str, consent: str
) -> None:
    built = (
        with_work(history().system("s").user("why?"))
        .user("and?")
        .assistant(analysis)
        .user(consent)
    )
    for nth in range(20):
        built.step("read", LINE * 12, path=f"more {nth}.py")
    await run_compaction(built)
    said = texts(built)
    assert said.index(analysis) + 1 == said.index(consent)


async def test_errors_decisions_constraints_and_final_code_outlive_exploration() -> (
    None
):
    built = with_work(
        history().system("s").user("Cancel orders. Never touch schema.sql.")
    )
    built.step("bash", FAILURE, command="pytest tests/test_orders.py")
    built.step(
        "write",
        "first try",
        files=[modified("orders.py")],
        path="orders.py",
        content="x = 1",
    )
    built.step(
        "write",
        "final",
        files=[modified("orders.py")],
        path="orders.py",
        content="x = 2",
    )
    built.assistant(
        "I decided to check the state first, because a paid order must stay."
    )
    with_work(built.user("and now look around"), steps=20)
    await run_compaction(built)
    said = texts(built)
    for piece in ("Cancel orders. Never touch schema.sql.", FAILURE, "final"):
        assert piece in said
    assert any("because a paid order" in text for text in said)
    assert "first try" not in said
    assert not any(text.startswith("file 3\n") for text in said)


async def test_open_todos_are_kept() -> None:
    built = history().system("s").user("go")
    built.step(
        "todo", "noted", todos=[{"content": "write the docs", "status": "pending"}]
    )
    await run_compaction(with_work(built, steps=24))
    assert "noted" in texts(built)


async def test_kept_messages_are_in_causal_order() -> None:
    built = history().system("s")
    for nth in range(6):
        built.user(f"Rule {nth}: never touch file {nth}.")
        with_work(built, steps=4, first=10 * nth)
    await run_compaction(built)
    rules = [text for text in texts(built) if text.startswith("Rule")]
    assert len(rules) > 3
    assert rules == sorted(rules)


async def test_a_second_compaction_selects_again_among_the_kept_messages() -> None:
    built = with_work(
        history().system("s").user("Cancel orders. Never touch schema.sql.")
    )
    built.step("bash", FAILURE, command="pytest tests")
    with_work(built.user("go on, please, with the docs"), steps=20)
    await run_compaction(built)
    assert FAILURE in texts(built)
    built.user("again")
    built.step("bash", "3 passed", command="pytest tests")
    for nth in range(4):
        built.step(
            "bash", FAILURE.replace("503", f"{nth}"), command=f"pytest tests/{nth}.py"
        )
    with_work(built, steps=20, first=40)
    await run_compaction(built, draft="## Goal\nnewer notes")
    said = texts(built)
    assert FAILURE not in said, "its command has run since"
    assert FAILURE.replace("503", "2") in said
    assert "Cancel orders. Never touch schema.sql." in said
    assert sum("newer notes" in text for text in said) == 1


async def test_a_manual_compaction_keeps_less_than_an_automatic_one() -> None:
    def session() -> History:
        return with_work(history().system("s").user("go"), steps=10)

    by_hand, by_itself = (
        await run_compaction(session(), reason="manual"),
        await run_compaction(session()),
    )
    assert by_hand is not None
    assert by_itself is not None
    assert by_hand.entry.tokens_after < by_itself.entry.tokens_after


async def test_a_short_session_has_nothing_to_compact() -> None:
    assert await run_compaction(history().system("s").turn("hi", "hello")) is None
