"""The gates of docs/eval.md, on one recorded session: no strategy forgets more than it did, breaks a
rule, or loses the provider's cache more often.

After a change that makes a strategy better, write the new figures down here.
"""

import pytest

from foldline.compaction import BUILT_IN
from foldline.evaluation.cost import churn, cost
from foldline.evaluation.recall import Needs, needs, recall
from foldline.evaluation.replay import UNLIMITED, recorded_messages
from foldline.evaluation.safety import violations
from foldline.evaluation.survival import Known, survival
from foldline.formats import read_foreign
from foldline.protocol import BaseMessage
from support.compared import METER, replayed
from support.recorded import SHARED, needs_recorded

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
def known(history: tuple[BaseMessage, ...]) -> Needs:
    return needs(history, METER)


def test_every_strategy_has_a_baseline() -> None:
    assert list(RECALL) == list(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
async def test_no_strategy_has_become_worse(
    name: str, history: tuple[BaseMessage, ...], known: Needs
) -> None:
    run = await replayed(history, name, window=WINDOW)
    raw = await replayed(history, "raw", window=UNLIMITED)
    assert run.failures == ()
    assert violations(run, METER) == []
    assert (recall(run, known).grounded or 0) >= RECALL[name] - DROP
    kept = survival(run, Known(history, METER))
    assert kept.constraints_throughout.value == 1.0
    times = churn(cost(run, METER), cost(raw, METER))
    assert times is not None
    assert times <= CHURN
