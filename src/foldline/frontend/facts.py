"""The lines of `/status`, shown on a page or by `foldline --plain`."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator

from foldline.agent import Agent
from foldline.compaction import strategy_name
from foldline.frontend.figures import Figures
from foldline.history import short_id
from foldline.history.paths import with_tilde
from foldline.llm.models import price_of, price_table
from foldline.past.approval_words import mode_words
from foldline.past.stats import ModelUse, stats_of
from foldline.protocol import Compaction, Entry, FoldlineError, RequestRecord
from foldline.text.numbers import many, percent, price, tokens

_COLUMNS = ("model", "requests", "input", "cached", "output", "cost")
NO_COST = "No cost yet: no requests have been sent."
NO_TITLE = "no title"
NOT_SAVED = "not saved to disk"
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


async def status_lines(agent: Agent) -> list[str]:
    """Return the state of a session, one fact per line, and its cost.

    Tests the sandbox if it has not been tested yet.
    """
    engine = await agent.state.permissions.sandbox.ready()
    sandbox = (
        f"works ({engine.name}). {engine.why}"
        if engine.holds
        else f"does not work: {engine.why}"
    )
    facts = [*_facts(agent), ("sandbox", sandbox)]
    if agent.state.tools.servers is not None:
        facts += [
            ("server", f"{server.name}: {server}")
            for server in agent.state.tools.servers.states
        ]
    cost = await asyncio.to_thread(list, cost_lines(agent.session.entries))
    return [*(f"{name:<9} {words}" for name, words in facts), "", *cost]


def _facts(agent: Agent) -> Iterator[tuple[str, str]]:
    state = agent.state
    session = agent.session
    room = Figures(state).room()
    info = state.models.llm.info
    yield (
        "session",
        f"{session.meta().title or NO_TITLE} · {short_id(session.header.id)}",
    )
    yield "folder", with_tilde(session.cwd)
    yield (
        "history",
        with_tilde(str(session.path)) if session.path is not None else NOT_SAVED,
    )
    effort = f", effort {agent.settings.effort}" if agent.settings is not None else ""
    provider = f" at {info.provider}" if info.provider else ""
    yield "model", f"{info.id}{provider}{effort}"
    assumed = " (assumed)" if room.assumed else ""
    size = tokens(room.size, estimated=room.estimated)
    filled = (
        f"{size} of {tokens(room.window)} tokens, {percent(room.size, room.window)}"
    )
    yield "window", f"{filled}{assumed}"
    try:
        threshold = f", compacts at {tokens(state.budget.limits.threshold)} tokens"
    except FoldlineError as failure:  # the window is too small
        threshold = f". {failure}"
    yield (
        "strategy",
        f"{strategy_name(state.compaction.strategy)}, {state.compaction.mode}{threshold}",
    )
    started = len(state.projection.subagents)
    if started:
        running = len(state.subagents.running) if state.subagents is not None else 0
        yield "subagents", f"{started:,}, {running} running"
    yield (
        "mode",
        f"{state.permissions.policy.mode}: {mode_words(state.permissions.policy.mode)}",
    )
