"""`/status`: what it counts, and what it says of a session."""

from pathlib import Path

from foldline.compaction import BUILT_IN, strategy_name
from foldline.frontend.costs import NO_COST, PRICES_OF, cost_lines
from foldline.llm.models import price_of, price_table
from foldline.protocol import Compaction, RequestRecord, Usage
from foldline.tui.lists.page import TextScreen
from support.history import history
from support.live import live

OPUS, OWN = "claude-opus-4-5", "my-own-model"


def asked(model: str, **usage: int) -> RequestRecord:
    return RequestRecord(digest="0" * 64, model=model, usage=Usage(**usage))


def test_cost_is_by_model_and_counts_compactions() -> None:
    price = price_of(OPUS)
    assert price is not None
    used, compacted = (
        Usage(input=100_000, cached=80_000, output=1_000),
        Usage(input=20_000, output=500),
    )
    made = (
        history()
        .system("s")
        .add(asked(OPUS, **used.model_dump(exclude_unset=True)))
        .add(asked(OWN, input=900))
    )
    made.add(
        Compaction(
            summary="all",
            model=OPUS,
            usage=compacted,
            reason="manual",
            first_kept_index=1,
        )
    )
    head, *rows = list(cost_lines(made.entries))
    assert head.split() == ["model", "requests", "input", "cached", "output", "cost"]
    dollars = f"${price.paid(used) + price.paid(compacted):.2f}"
    assert rows[0].split() == [OPUS, "2", "120.0k", "67%", "1.5k", dollars]
    assert rows[1].split() == [OWN, "1", "0.9k", "0%", "0"], (
        "what has no price has no cost"
    )
    assert rows[2].split() == ["total", "3", "120.9k", "66%", "1.5k", dollars]
    assert rows[4].startswith("1 compaction, 0 failed requests.") and rows[
        5
    ] == PRICES_OF.format(date=price_table().date)


def test_of_a_session_without_requests_it_says_that_it_cost_nothing() -> None:
    assert list(cost_lines(history().system("s").entries)) == [NO_COST]


async def test_the_page_opens_over_the_chat_and_closes_again(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", "an answer") as running:
        await running.ask("hello")
        await running.enter("/status")
        await running.until(lambda: isinstance(running.app.screen, TextScreen))
        await running.until(lambda: "compacts at" in running.text)
        page = running.app.screen
        assert isinstance(page, TextScreen) and page.at == 0
        assert " follow" not in running.text and "requests" in running.text
        facts = [
            "session",
            "folder",
            "history",
            "model",
            "window",
            "strategy",
            "mode",
            "sandbox",
        ]
        assert [name for name in facts if f"{name:<9} " not in running.text] == []
        assert "strategy  summary, auto" in running.text
        await running.press("escape")
        assert running.app.screen is running.app.chat


async def test_a_strategy_is_picked_from_a_list_that_says_all_of_each(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", "an answer") as running:
        await running.ask("hello")
        await running.enter("/strategy")
        await running.until(lambda: "Switch the compaction strategy" in running.text)
        assert all(name in running.text for name in BUILT_IN)
        await running.press(*"digest", "enter")
        await running.until(
            lambda: strategy_name(running.agent.state.compaction.strategy) == "digest"
        )
