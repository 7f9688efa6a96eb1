"""The blocks of a whole history, read before the screen shows them."""

import pytest

from foldline.tui.blocks import BlockView, RuleBlock
from foldline.tui.transcript import Transcript, feed
from support.history import History, call, history


def turns(count: int) -> History:
    made = history().system("s")
    for turn in range(count):
        made.user(f"prompt {turn}").assistant(calls=[call("read", path="a.py")]).result("text " * 50)
        made.assistant(f"answer {turn}")
    return made


def test_of_a_very_long_history_the_newest_turns_are_read_and_the_rest_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    projection = turns(20).projection()
    monkeypatch.setattr(feed, "_SHOWN", projection.tokens // 4)
    transcript = Transcript(BlockView(), projection)
    rule, *shown = transcript.read(projection.entries)
    assert isinstance(rule, RuleBlock)
    first = transcript.prompts[0]
    assert shown[0].key == first
    assert rule.label == f"{first[0]} earlier entries: in the inspector"
    assert len(transcript.prompts) == 5
    assert [block.key[0] for block in shown] == sorted(block.key[0] for block in shown)


def test_any_other_history_is_read_whole() -> None:
    projection = turns(20).projection()
    transcript = Transcript(BlockView(), projection)
    assert not any(isinstance(block, RuleBlock) for block in transcript.read(projection.entries))
    assert len(transcript.prompts) == 20
