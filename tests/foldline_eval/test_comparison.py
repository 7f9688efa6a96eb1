"""A comparison omits no bad result of an arm, and reports at once what it cannot compare."""

from pathlib import Path

import pytest

from foldline.protocol import FoldlineError
from foldline_eval.arms import NO_STRATEGY
from foldline_eval.comparison import (
    Comparison,
    EvalSetup,
    check_arms,
    compare,
)
from foldline_eval.record import RecordedSession
from foldline_eval.replay import PREAMBLE_TOO_LARGE, recorded_messages
from support.history import History, history

WINDOW = 8_192


async def run_comparison(
    built: History, *arms: str, window: int = WINDOW
) -> Comparison:
    subject = RecordedSession("made", recorded_messages(built.entries), Path("/"))
    return await compare(subject, EvalSetup(arms=arms, windows=[window]))


async def test_a_session_no_compaction_can_help_does_not_count_as_never_full() -> None:
    giant = history().system("s").user("words of mine " * 6_000).assistant("ok")
    found = await run_comparison(giant, "summary", "hide")
    assert [(cell.strategy, cell.over) for cell in found.rows] == [
        ("raw", 1),
        ("summary", 1),
        ("hide", 1),
    ]


async def test_an_arm_without_a_reason_to_compact_ends_the_comparison_at_that_window() -> (
    None
):
    found = await run_comparison(
        history().system("s").user("q").assistant("a"), "summary", "hide"
    )
    assert (len(found.rows), len(found.not_compared)) == (0, 1)


def test_an_arm_that_cannot_be_built_is_reported_before_any_replay() -> None:
    setup = EvalSetup(arms=["summary", "magic-compaction"], windows=[WINDOW])
    with pytest.raises(
        FoldlineError,
        match=NO_STRATEGY.partition(".")[0].format(name="magic-compaction"),
    ):
        check_arms(setup, Path("/"))


async def test_a_custom_strategy_gets_the_folder_it_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session's working folder, as with `compact` and the agent."""
    code = "from pathlib import Path\nclass InFolder:\n    def __init__(self, folder: Path) -> None: ...\n"
    (tmp_path / "in_folder.py").write_text(
        f"{code}    async def compact(self, ctx): return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = await run_comparison(
        history().user("q").assistant("a"), "in_folder:InFolder"
    )
    assert (len(found.rows), len(found.not_compared)) == (0, 1)


async def test_a_window_filled_by_the_system_prompt_is_skipped_without_blaming_an_arm() -> (
    None
):
    built = history().system("rule " * 6_000)
    for turn in range(4):
        built.turn(f"request {turn}", "answer " * 400)
    found = await run_comparison(built, "hide", "digest")
    assert [cell.why for cell in found.not_compared] == [PREAMBLE_TOO_LARGE]
    assert found.rows == []
