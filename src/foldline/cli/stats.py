"""`foldline stats`: what a session took; with `--cache`, what providers had in their caches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from foldline.context.cache_use import CacheUse, cache_uses
from foldline.context.compactions import taken_out
from foldline.context.files import file_lists
from foldline.context.numbers import many, percent, price, tokens
from foldline.context.numbers import seconds as duration
from foldline.context.projection import Projection
from foldline.context.stats import Stats, stats_of
from foldline.context.weight import MESSAGES_ONLY, agent_report, view_size
from foldline.llm.models import price_of, price_table

from .output import Cell, Column, entries_of, say, say_heading, say_json, say_table
from .sources import Source, read_source


def stats(source: str, cache: bool, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    projection = found.project()
    if cache:
        show_cache(projection, found.name, as_json)
        return 0
    stats, files = stats_of(found.entries), file_lists(projection)
    size, away, report = view_size(projection), taken_out(projection), agent_report(projection)
    _, *children = found.tree()
    if as_json:
        view = {"tokens": size.tokens, "view_items": len(projection.view), "taken_out": away.tokens}
        view["agent_tokens"] = report
        below = [{"id": child.header.id, **asdict(stats_of(child.entries))} for child in children]
        say_json({**asdict(stats), **view, **files.model_dump(), "subagents": below})
        return 0
    counted = (entries_of(stats.entries), many(stats.prompts, "prompt"), many(stats.answers, "answer"))
    say_heading(", ".join(counted))
    if stats.first is not None and stats.last is not None:
        first, last = (at.astimezone().strftime("%Y-%m-%d %H:%M") for at in (stats.first, stats.last))
        say(f"from {first} to {last}")
    undone = stats.compactions - len(projection.compactions())
    made = f"{stats.compactions:,}" + (f", {undone:,} undone" if undone else "")
    if report:
        say(f"its agent    {tokens(report)} tokens in its last request, as reported")
    weight = tokens(size.tokens, estimated=size.estimated)
    beside = f", {MESSAGES_ONLY}" if report else ""
    say(f"view         {weight} tokens in {len(projection.view):,} items{beside}")
    gone = f"{tokens(away.tokens, estimated=away.estimated)} tokens taken out of the view"
    say(f"compactions  {made}, {gone}")
    say(f"files        {len(files.modified_files):,} modified, {len(files.read_files):,} read")
    if children:
        requests, read, written = _worked(children)
        worked = f"{many(requests, 'request')}, {tokens(read)} tokens read and {tokens(written)} written"
        say(f"subagents    {len(children):,}, {worked}")
    say_uses(stats)
    return 0


def _worked(sources: Sequence[Source]) -> tuple[int, int, int]:
    """Requests, and tokens of input and output, as the histories of these sessions say."""
    models = [model for source in sources for model in stats_of(source.entries).models.values()]
    return (
        sum(model.requests for model in models),
        sum(model.input for model in models),
        sum(model.output for model in models),
    )


def say_uses(stats: Stats) -> None:
    if stats.models:
        rows = []
        for name, model in stats.models.items():
            cached = percent(model.cached, model.input) if model.input else ""
            rows.append([name, f"{model.requests:,}", tokens(model.input), cached, tokens(model.output)])
        _say_counts(("model", "requests", "input", "cached", "output"), rows)
        if stats.failed:
            say(f"{stats.failed:,} of the requests ended in an error.")
    if stats.tools:
        rows = []
        for name, tool in sorted(stats.tools.items(), key=lambda item: -item[1].calls):
            errors = f"{tool.errors:,}" if tool.errors else ""
            took = duration(tool.seconds) if tool.seconds else ""
            rows.append([name, f"{tool.calls:,}", errors, took])
        _say_counts(("tool", "calls", "errors", "took"), rows)


def _say_counts(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    say()
    say_table([Column(titles[0]), *(Column(title, right=True) for title in titles[1:])], rows)


# --- foldline stats --cache --------------------------------------------------------------------------

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
