"""A comparison leaves nothing out that went against an arm, and says at once what it cannot compare."""

from pathlib import Path

import pytest

from foldline.evaluation.comparison import Cell, NotCompared, Setup, Subject, compare
from foldline.evaluation.replay import recorded_messages
from foldline.protocol import FoldlineError
from support.compared import METER
from support.history import History, history

WINDOW = 8_192


async def compared(built: History, *arms: str, window: int = WINDOW) -> list[Cell | NotCompared]:
    subject = Subject("made", recorded_messages(built.entries), Path("/"))
    return [cell async for cell in compare([subject], Setup(arms=arms, windows=[window], meter=METER))]


async def test_a_session_that_no_fold_can_help_is_no_session_that_was_never_full() -> None:
    giant = history().system("s").user("words of mine " * 6_000).assistant("ok")
    found = await compared(giant, "summary", "hide")
    assert [(cell.run.strategy, cell.figures.over) for cell in found if isinstance(cell, Cell)] == [
        ("summary", 1),
        ("hide", 1),
    ]


async def test_an_arm_that_had_no_reason_to_fold_ends_the_comparison_at_that_window() -> None:
    found = await compared(history().system("s").user("q").assistant("a"), "summary", "hide")
    assert [type(cell) for cell in found] == [NotCompared]


async def test_an_arm_that_cannot_be_made_is_told_before_anything_is_played() -> None:
    subject = Subject("made", recorded_messages(history().user("q").assistant("a").entries), Path("/"))
    played: list[str] = []
    setup = Setup(arms=["summary", "magic-fold"], windows=[WINDOW], meter=METER)
    with pytest.raises(FoldlineError, match="There is no strategy magic-fold"):
        async for _ in compare([subject], setup, lambda what, _count: played.append(what)):
            pass
    assert played == []


async def test_a_strategy_of_ones_own_is_given_the_folder_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `compact` and the agent give it: the one the session was held in."""
    code = "from pathlib import Path\nclass InFolder:\n    def __init__(self, folder: Path) -> None: ...\n"
    (tmp_path / "in_folder.py").write_text(f"{code}    async def compact(self, ctx): return None\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = await compared(history().user("q").assistant("a"), "in_folder:InFolder")
    assert [type(cell) for cell in found] == [NotCompared]


async def test_a_window_that_the_system_prompt_fills_is_not_compared_and_blames_no_strategy() -> None:
    built = history().system("rule " * 6_000)
    for turn in range(4):
        built.turn(f"request {turn}", "answer " * 400)
    [found] = await compared(built, "hide", "digest")
    assert isinstance(found, NotCompared)
    assert "fill the window" in found.why
