"""The page of strategies: its table is what there is, its example works as it stands."""

import re
import sys
from pathlib import Path

import pytest

from foldline.compaction import BUILT_IN, load_strategy, propose
from foldline.context.budget import Budget
from support.history import history
from support.invariants import broken
from support.llm import ScriptedLLM

PAGE = Path(__file__).parents[2] / "docs" / "strategies.md"


def test_the_table_lists_every_built_in_strategy() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert dict(listed) == {name: kind.__name__ for name, kind in BUILT_IN.items()}


async def test_the_example_folds_as_an_importable_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    (tmp_path / "their_questions.py").write_text(code[1])
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        strategy = load_strategy("their_questions:OnlyQuestions", {Path: tmp_path})
    finally:
        sys.modules.pop("their_questions", None)
    built = history().system("s")
    for turn in range(5):
        built.turn(f"question {turn}", "a long answer " * 200)
    proposal = await propose(
        built.projection(),
        strategy=strategy,
        llm=ScriptedLLM(),
        budget=Budget(16_384, 2_048, 700, 1_600, 0.75),
        reason="manual",
    )
    assert proposal is not None
    assert (proposal.entry.strategy, proposal.entry.rung) == ("OnlyQuestions", "strategy")
    after = built.add(proposal.entry).projection()
    assert broken(after) == []
    asked = [item.message.text for item in after.view if item.kind == "user"]
    assert asked == [f"question {turn}" for turn in range(5)]
