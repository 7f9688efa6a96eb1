"""The cost of a session by model, as lines of text."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from foldline.llm.models import price_of, price_table
from foldline.past.stats import ModelUse, stats_of
from foldline.protocol import Compaction, Entry, RequestRecord
from foldline.text.numbers import many, percent, price, tokens

_COLUMNS = ("model", "requests", "input", "cached", "output", "cost")
NO_COST = "No cost yet: no requests have been sent."
PRICES_OF = "Prices as of {date}. Models without a known price are not included."


def cost_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the cost of each model, and the compactions.

    The costs are a table of tokens, cached percentage and dollars.
    """
    paid: dict[str, float] = defaultdict(float)

    def add_prices() -> Iterator[Entry]:
        for entry in entries:
            if (
                isinstance(entry, RequestRecord | Compaction)
                and entry.usage is not None
            ):
                model = entry.model or ""
                model_price = price_of(model)
                if model_price is not None:
                    paid[model] += model_price.paid(entry.usage)
            yield entry

    stats = stats_of(add_prices())
    if not stats.models:
        yield NO_COST
        return
    rows = [
        _COLUMNS,
        *(_row(name, use, paid.get(name)) for name, use in stats.models.items()),
    ]
    if len(stats.models) > 1:
        uses = stats.models.values()
        names = ("requests", "input", "cached", "output")
        total = ModelUse(*(sum(getattr(use, name) for use in uses) for name in names))
        rows.append(_row("total", total, sum(paid.values()) if paid else None))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *others in rows:
        cells = (
            f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)
        )
        yield "  ".join((f"{name:<{widths[0]}}", *cells))
    yield ""
    yield f"{many(stats.compactions, 'compaction')}, {many(stats.failed, 'failed request')}."
    if paid:
        yield PRICES_OF.format(date=price_table().date)


def _row(name: str, use: ModelUse, paid: float | None) -> tuple[str, ...]:
    cached = percent(use.cached, use.input) if use.input else ""
    sizes = (tokens(use.input), cached, tokens(use.output))
    return (name, f"{use.requests:,}", *sizes, "" if paid is None else price(paid))
