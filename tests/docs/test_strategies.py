"""The page of strategies: its table is complete, and its examples match the example packages."""

import re
from pathlib import Path

import pytest

from foldline.compaction import BUILT_IN, CompactionStrategy, load_strategy, propose
from foldline.view.budget import Budget
from foldline.view.rules import broken
from support.history import call, history
from support.llm import ScriptedLLM

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "strategies.md"
EXAMPLES = DOCS / "examples"


def test_the_table_lists_every_built_in_strategy_in_its_order() -> None:
    listed = re.findall(
        r"^\| `([\w-]+)` \| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed == [(name, kind.__name__) for name, kind in BUILT_IN.items()]


def test_the_page_shows_the_current_code_of_the_packages() -> None:
    shown = re.findall(
        r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    packages = [
        EXAMPLES / f"foldline-{name}/src/foldline_{name}"
        for name in ("questions", "verbatim")
    ]
    assert shown == [
        (package / "__init__.py").read_text(encoding="utf-8") for package in packages
    ]


@pytest.fixture
def verbatim(monkeypatch: pytest.MonkeyPatch) -> CompactionStrategy:
    monkeypatch.syspath_prepend(EXAMPLES / "foldline-verbatim" / "src")
    return load_strategy("foldline_verbatim:Verbatim")


async def test_verbatim_quotes_user_text_and_one_line_per_call_without_nested_quotes(
    verbatim: CompactionStrategy,
) -> None:
    built = history().system("s").instructions("Run the linter.")
    built.user("Fix the import.\nNever touch schema.sql.").step(
        "read", "line\n" * 900, path="src/a.py"
    )
    built.assistant(calls=[call("bash", command="pytest -q")])
    built.result("E   ImportError: no module named shop\nexit 1", error=True).assistant(
        "Fixed."
    )
    built.turn("and b", "text\n" * 900).turn("and c", "text\n" * 900)
    for _ in range(2):
        budget = Budget(32_768, 4_096, 700, 1_600, 0.75)
        llm = ScriptedLLM()
        proposal = await propose(
            built.projection(),
            strategy=verbatim,
            llm=llm,
            budget=budget,
            reason="manual",
        )
        assert proposal is not None
        built.add(proposal.entry)
        projection = built.projection()
        assert broken(projection) == []
        [summary] = [item.message.text for item in projection.view if item.written]
        assert summary.count("Never touch schema.sql.") == 1
        assert "\n[read · entry 3] {" in summary
        assert 'pytest -q"} → failed: exit 1' in summary
        assert summary.count("Quoted from the earlier session") == 1
        built.turn("more", "text\n" * 900).turn("still more", "text\n" * 900)
