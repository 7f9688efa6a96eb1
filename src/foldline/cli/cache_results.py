"""What `foldline stats --cache` and `view --request` say of what providers had in their caches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from foldline.context.cache_use import CacheUse, cache_uses
from foldline.context.numbers import many, percent, price, tokens
from foldline.context.projection import Projection
from foldline.llm.models import price_of, price_table

from .output import Cell, Column, say, say_heading, say_json, say_table

_COLUMNS = (
    *(Column(title, right=True) for title in ("request", "entry", "input", "cached", "expected", "cost")),
    Column("why it had less", grows=True),
)


def cost_of_miss(use: CacheUse) -> float | None:
    """Dollars that a request cost more than it should have; None where the model's price is not known."""
    known = price_of(use.model)
    if known is None:
        return None
    new, missed = use.input - use.cached, use.missed
    return known.cost(new, use.cached) - known.cost(new - missed, use.cached + missed)


def cache_json(use: CacheUse) -> dict[str, object]:
    return {**asdict(use), "missed": use.missed, "dollars": cost_of_miss(use), "words": str(use)}


def show_cache(history: Projection, name: str, as_json: bool) -> None:
    """The requests whose cache had less than it should, and what all of them come to."""
    uses = [*cache_uses(history)]
    missed = [use for use in uses if use.miss]
    dollars = sum(cost_of_miss(use) or 0.0 for use in missed)
    if as_json:
        causes: Counter[str] = Counter()
        for use in missed:
            causes[use.miss.cause if use.miss else ""] += use.missed
        sums = {what: sum(getattr(use, what) for use in uses) for what in _SUMMED}
        totals = {"requests": len(uses), **sums, "dollars": dollars, "by_cause": causes}
        prices = price_table().date.isoformat()
        say_json({"requests": [cache_json(use) for use in uses], "totals": totals, "prices": prices})
        return
    if not uses:
        say(f"Nothing is known of a cache: no request of {name} says that there was one.")
        return
    _say_totals(uses, missed, dollars)
    if missed:
        say()
        say_table(_COLUMNS, [_row(use) for use in missed])


_SUMMED = ("input", "cached", "expected", "missed")


def _say_totals(uses: Sequence[CacheUse], missed: Sequence[CacheUse], dollars: float) -> None:
    sent, cached = sum(use.input for use in uses), sum(use.cached for use in uses)
    share = percent(cached, sent)
    say_heading(f"{many(len(uses), 'request')}, {tokens(cached)} of {tokens(sent)} tokens cached ({share})")
    if not missed:
        say("Each cache had what it should have had.")
        return
    lost = tokens(sum(use.missed for use in missed))
    priced = any(cost_of_miss(use) is not None for use in missed)
    at = f": {price(dollars)} at the prices of {price_table().date}" if priced else ""
    say(f"{lost} tokens less than expected, in {many(len(missed), 'request')}{at}")


def _row(use: CacheUse) -> list[Cell | str]:
    cost, miss = cost_of_miss(use), use.miss
    where = "" if miss is None or miss.differs is None else f", from entry {miss.differs} on"
    sizes = (tokens(size) for size in (use.input, use.cached, use.expected))
    paid = "" if cost is None else price(cost)
    return [f"{use.number:,}", f"{use.entry:,}", *sizes, paid, f"{miss}{where}"]
