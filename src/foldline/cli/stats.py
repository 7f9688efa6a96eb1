"""`foldline stats`: prints requests, tokens, tools and compactions.

With `--cache`, prints cache misses instead.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from foldline.frontend.costs import cost_lines
from foldline.llm.models import price_of, price_table
from foldline.past.cache_use import CacheUse, cache_uses
from foldline.past.compactions import removed_tokens
from foldline.past.files import file_lists
from foldline.past.stats import Stats, stats_of
from foldline.protocol import Entry
from foldline.text.numbers import many, percent, price, tokens
from foldline.text.numbers import seconds as duration
from foldline.view.projection import Projection
from foldline.view.weight import MESSAGES_ONLY, agent_report, view_size

from .output import Cell, Column, entries_of, say, say_heading, say_json, say_table
from .sources import SourceSession, read_source


def stats(source: str, cache: bool, as_json: bool, format_name: str | None) -> int:
    session = read_source(source, format_name)
    projection = session.project()
    if cache:
        show_cache(projection, session.name, as_json)
        return 0
    stats = stats_of(session.entries)
    files = file_lists(projection)
    size = view_size(projection)
    removed = removed_tokens(projection)
    report = agent_report(projection)
    _, *children = session.tree()
    if as_json:
        subagents = [
            {"id": child.header.id, **asdict(stats_of(child.entries))}
            for child in children
        ]
        say_json(
            {
                **asdict(stats),
                "tokens": size.tokens,
                "view_items": len(projection.view),
                "taken_out": removed.tokens,
                "agent_tokens": report,
                **files.model_dump(),
                "subagents": subagents,
            }
        )
        return 0
    prompts = many(stats.prompts, "prompt")
    say_heading(
        f"{entries_of(stats.entries)}, {prompts}, {many(stats.answers, 'answer')}"
    )
    if stats.first is not None and stats.last is not None:
        say(f"from {_minute(stats.first)} to {_minute(stats.last)}")
    if report:
        say(f"reported     {tokens(report)} tokens in the agent's last request")
    view = f"{tokens(size.tokens, estimated=size.estimated)} tokens in {len(projection.view):,} items"
    say(f"view         {view}{f', {MESSAGES_ONLY}' if report else ''}")
    undone = stats.compactions - len(projection.compactions())
    compactions = f"{stats.compactions:,}{f', {undone:,} undone' if undone else ''}"
    removed_words = tokens(removed.tokens, estimated=removed.estimated)
    say(f"compactions  {compactions}, {removed_words} tokens removed from the view")
    say(
        f"files        {len(files.modified_files):,} modified, {len(files.read_files):,} read"
    )
    if children:
        say(f"subagents    {len(children):,}, {_subagent_use(children)}")
    say_uses(stats, session.entries)
    return 0


def _minute(time: datetime) -> str:
    return time.astimezone().strftime("%Y-%m-%d %H:%M")


def _subagent_use(sessions: Sequence[SourceSession]) -> str:
    models = [
        model
        for session in sessions
        for model in stats_of(session.entries).models.values()
    ]
    requests = many(sum(model.requests for model in models), "request")
    read = tokens(sum(model.input for model in models))
    written = tokens(sum(model.output for model in models))
    return f"{requests}, {read} tokens read and {written} written"


def say_uses(stats: Stats, entries: Sequence[Entry]) -> None:
    if stats.models:
        say()
        for line in cost_lines(entries):
            say(line)
    if stats.tools:
        rows = []
        for name, tool in sorted(stats.tools.items(), key=lambda item: -item[1].calls):
            errors = f"{tool.errors:,}" if tool.errors else ""
            took = duration(tool.seconds) if tool.seconds else ""
            rows.append([name, f"{tool.calls:,}", errors, took])
        say()
        titles = ("calls", "errors", "took")
        columns = [Column("tool"), *(Column(title, right=True) for title in titles)]
        say_table(columns, rows)


# --- foldline stats --cache --------------------------------------------------------------------------

NO_CACHE_REPORTED = "No request in {name} reports cache use."
_COLUMNS = (
    *(
        Column(title, right=True)
        for title in ("request", "entry", "input", "cached", "expected", "cost")
    ),
    Column("reason", grows=True),
)


def cost_of_miss(use: CacheUse) -> float | None:
    """Return the extra cost of a cache miss in dollars.

    Returns None if the model's price is unknown.
    """
    model_price = price_of(use.model)
    if model_price is None:
        return None
    uncached = use.input - use.cached
    expected_cost = model_price.cost(uncached - use.missed, use.cached + use.missed)
    return model_price.cost(uncached, use.cached) - expected_cost


def cache_json(use: CacheUse) -> dict[str, object]:
    return {
        **asdict(use),
        "missed": use.missed,
        "dollars": cost_of_miss(use),
        "words": str(use),
    }


def show_cache(history: Projection, name: str, as_json: bool) -> None:
    """Print the requests that missed the cache, with totals."""
    uses = [*cache_uses(history)]
    missed = [use for use in uses if use.miss]
    dollars = sum(cost_of_miss(use) or 0.0 for use in missed)
    if as_json:
        causes: Counter[str] = Counter()
        for use in missed:
            causes[use.miss.cause if use.miss else ""] += use.missed
        sums = {field: sum(getattr(use, field) for use in uses) for field in _SUMMED}
        totals = {"requests": len(uses), **sums, "dollars": dollars, "by_cause": causes}
        prices = price_table().date.isoformat()
        say_json(
            {
                "requests": [cache_json(use) for use in uses],
                "totals": totals,
                "prices": prices,
            }
        )
        return
    if not uses:
        say(NO_CACHE_REPORTED.format(name=name))
        return
    _say_totals(uses, missed, dollars)
    if missed:
        say()
        say_table(_COLUMNS, [_row(use) for use in missed])


_SUMMED = ("input", "cached", "expected", "missed")


def _say_totals(
    uses: Sequence[CacheUse], missed: Sequence[CacheUse], dollars: float
) -> None:
    sent = sum(use.input for use in uses)
    cached = sum(use.cached for use in uses)
    share = percent(cached, sent)
    say_heading(
        f"{many(len(uses), 'request')}, {tokens(cached)} of {tokens(sent)} tokens cached ({share})"
    )
    if not missed:
        say("No request missed the cache.")
        return
    missed_tokens = tokens(sum(use.missed for use in missed))
    cost = ""
    if dollars:
        cost = f": {price(dollars)} at the prices of {price_table().date}"
    say(
        f"{missed_tokens} fewer cached tokens than expected, in {many(len(missed), 'request')}{cost}"
    )


def _row(use: CacheUse) -> list[Cell | str]:
    cost = cost_of_miss(use)
    reason = str(use.miss)
    if use.miss is not None and use.miss.differs is not None:
        reason += f", from entry {use.miss.differs} on"
    sizes = (tokens(size) for size in (use.input, use.cached, use.expected))
    return [
        f"{use.number:,}",
        f"{use.entry:,}",
        *sizes,
        "" if cost is None else price(cost),
        reason,
    ]
