"""The gates of docs/evaluation.md on one recorded session: no strategy forgets more than before, breaks a
rule, or loses the provider's cache more often.

After an improvement of a strategy, update the figures here.
"""

import pytest

from foldline.compaction import BUILT_IN
from foldline.formats import read_foreign
from foldline.protocol import BaseMessage
from foldline_eval.cost import churn, cost
from foldline_eval.recall import Needs, recall
from foldline_eval.replay import UNLIMITED, recorded_messages
from foldline_eval.survival import KnownFacts, survival
from support.recordings import SHARED, needs_recorded
from support.replays import replay_session
from support.safety import violations

pytestmark = [needs_recorded, pytest.mark.slow]
SESSION = SHARED / "claude-code" / "entire-manual-compact.jsonl"
WINDOW = 32_768
RECALL = {
    "adaptive": 0.954,
    "summary": 0.938,
    "simple": 0.924,
    "hide": 0.957,
    "hide-then-summary": 0.954,
    "ladder": 0.938,
    "importance": 0.932,
    "semantic": 0.927,
    "hierarchical": 0.938,
    "digest": 0.938,
}
"""Grounded recall, by strategy."""
DROP, CHURN = 0.01, 1.5


@pytest.fixture(scope="module")
def history() -> tuple[BaseMessage, ...]:
    return recorded_messages(read_foreign(SESSION).entries)


@pytest.fixture(scope="module")
def session_needs(history: tuple[BaseMessage, ...]) -> Needs:
    return Needs(history)


def test_every_strategy_has_a_baseline() -> None:
    assert list(RECALL) == list(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
async def test_no_strategy_has_become_worse(
    name: str, history: tuple[BaseMessage, ...], session_needs: Needs
) -> None:
    run = await replay_session(history, name, window=WINDOW)
    raw = await replay_session(history, "raw", window=UNLIMITED)
    assert run.failures == []
    assert violations(run) == []
    assert (recall(run, session_needs).grounded or 0) >= RECALL[name] - DROP
    kept = survival(run, KnownFacts(history))
    assert kept.constraints_throughout.value == 1.0
    times = churn(cost(run), cost(raw))
    assert times is not None
    assert times <= CHURN
