"""The preview as a picture. Look at it before accepting it: `pytest … --snapshot-update`, then svg2png."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from foldline.compaction import Proposal, plan
from foldline.frontend.state import RetryWait
from foldline.llm.models import Price
from foldline.protocol import Usage
from foldline.tui.browser.draft.state import Drafting, DraftState
from foldline.view.budget import BudgetSettings, budget_for
from support.llm import answer
from support.previews import (
    BUDGET,
    CHINESE_NOTES,
    NOTES,
    PreviewApp,
    chinese_orders,
    orders,
    proposal_for,
)
from support.scenes import WINDOW, shop_api

pytestmark = pytest.mark.slow

Compare = Callable[..., bool]

PRICE = Price(input=0.6, cached=0.15, write=1, output=2.5)
SUMMARY = """## Goal
POST /orders and /orders/{id}/cancel idempotent per customer
## Constraints & Preferences
- "Find out why before changing anything." (44)
## Progress · Done
- src/shop/api/deps.py: idempotency_key() reads and hashes the header
- cause: service.py looks the key up in one transaction and inserts in another; retries 200 ms apart both pass
## Progress · In Progress
- unique (customer_id, idempotency_key), insert first
## Key Decisions
- keys in Postgres, not Redis: they must outlive a restart
- 24 h retention by a nightly job, as in the contract
## Next Steps
1. same for cancel   2. docs, changelog   3. one commit
## Critical Context
- staging log of 11 June: 37 double orders, all from mobile"""
HELD = "Now the same for POST /orders/{id}/cancel (@src/shop/api/cancel.py), with a test of 20 requests"


def shop() -> DraftState:
    """Picture (c): a threshold compaction of the web shop waits, one prompt is held."""
    story = shop_api()
    draft = answer(SUMMARY, usage=Usage(input=97_000, cached=94_000, output=900))
    budget = budget_for(WINDOW, None, BudgetSettings())
    made = asyncio.run(
        proposal_for(story, draft, budget=budget, overhead=2_900, model="kimi-k2")
    )
    return replace(_waiting(made, story, WINDOW), price=PRICE, draft_price=PRICE)


def small_shop() -> DraftState:
    """A session with more to lose."""
    story = orders()
    return _waiting(asyncio.run(proposal_for(story)), story, BUDGET.window)


def _waiting(made: Proposal, story: Any, window: int) -> DraftState:
    return DraftState(
        reason="threshold",
        proposal=made,
        projection=story.projection(),
        waits=True,
        held=HELD,
        window=window,
    )


def taken(
    compare: Compare, state: DraftState, size: tuple[int, int], *keys: str
) -> bool:
    async def press(pilot: Pilot[None]) -> None:
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()

    return compare(PreviewApp(state), terminal_size=size, run_before=press)


@pytest.mark.quick
def test_preview(snap_compare: Compare) -> None:
    assert taken(snap_compare, shop(), (120, 36))


def test_preview_with_a_moved_cut(snap_compare: Compare) -> None:
    assert taken(snap_compare, shop(), (120, 36), "+", "+", "+")


@pytest.mark.quick
def test_preview_while_drafting(snap_compare: Compare) -> None:
    projection = orders().projection()
    state = DraftState(
        reason="manual",
        plan=plan(projection, BUDGET, "manual"),
        projection=projection,
        drafting=Drafting(88.0, NOTES[:120]),
        window=BUDGET.window,
        strategy="SummaryCompaction",
        model="kimi-k2",
    )
    assert taken(snap_compare, state, (120, 36))


def test_preview_while_its_draft_waits_for_a_retry(snap_compare: Compare) -> None:
    projection = orders().projection()
    sentence = "https://api.example.com/v1 limits how often kimi-k2 can be used (429): wait and send again."
    state = DraftState(
        reason="manual",
        plan=plan(projection, BUDGET, "manual"),
        projection=projection,
        drafting=Drafting(88.0, NOTES[:120], RetryWait(108.0, sentence, 1, 3)),
        window=BUDGET.window,
        strategy="SummaryCompaction",
        model="kimi-k2",
    )
    assert taken(snap_compare, state, (80, 24))


@pytest.mark.quick
def test_preview_in_a_small_terminal(snap_compare: Compare) -> None:
    assert taken(snap_compare, shop(), (80, 24))


def test_audit_in_a_small_terminal(snap_compare: Compare) -> None:
    assert taken(snap_compare, small_shop(), (80, 24), "3")


def test_preview_in_a_large_terminal(snap_compare: Compare) -> None:
    assert taken(snap_compare, small_shop(), (200, 60), "e")


def test_chinese_preview(snap_compare: Compare) -> None:
    story = chinese_orders()
    draft = answer(CHINESE_NOTES, usage=Usage(input=2_000, output=200))
    state = _waiting(asyncio.run(proposal_for(story, draft)), story, BUDGET.window)
    assert taken(snap_compare, state, (120, 36), "3")


def test_preview_without_colour(
    snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    assert taken(snap_compare, small_shop(), (120, 36), "3", "end", "space", "home")


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["small", "large"])
def test_preview_of_a_ledger_with_a_pinned_line(
    snap_compare: Compare, size: tuple[int, int]
) -> None:
    story = orders()
    made = asyncio.run(proposal_for(story, reason="manual", ledger=True))
    assert taken(
        snap_compare, _waiting(made, story, BUDGET.window), size, "2", "end", "up", "p"
    )
