"""What `/cost` and `/status` say of a session: on a page of the screen, and in `foldline --plain`."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator

from foldline.agent import Agent
from foldline.compaction import strategy_name
from foldline.context.numbers import many, percent, price, tokens
from foldline.context.permissions import mode_words
from foldline.context.stats import ModelUse, stats_of
from foldline.history import short_id
from foldline.history.paths import with_tilde
from foldline.llm.models import price_of, price_table
from foldline.protocol import Compaction, Entry, FoldlineError, RequestRecord
from foldline.tui.figures import Figures

_COLUMNS = ("model", "requests", "input", "cached", "output", "cost")


async def cost_lines(agent: Agent) -> list[str]:
    """Tokens, what of them came from a cache, and dollars, by model; compactions included."""
    return await asyncio.to_thread(lambda: list(_cost_lines(agent.session.entries)))


def _cost_lines(entries: Iterable[Entry]) -> Iterator[str]:
    paid: dict[str, float] = defaultdict(float)

    def priced() -> Iterator[Entry]:
        for entry in entries:
            match entry:
                case (RequestRecord() | Compaction()) as asked if asked.usage is not None:
                    if (known := price_of(asked.model or "")) is not None:
                        paid[asked.model or ""] += known.paid(asked.usage)
            yield entry

    stats = stats_of(priced())
    if not stats.models:
        yield "Nothing has been asked yet: it cost nothing."
        return
    rows = [_COLUMNS, *(_row(name, use, paid.get(name)) for name, use in stats.models.items())]
    if len(stats.models) > 1:
        uses = stats.models.values()
        counts = (
            sum(getattr(use, name) for use in uses) for name in ("requests", "input", "cached", "output")
        )
        rows.append(_row("together", ModelUse(*counts), sum(paid.values()) if paid else None))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *others in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((f"{name:<{widths[0]}}", *cells))
    yield ""
    yield f"{many(stats.compactions, 'compaction')}, {many(stats.failed, 'failed request')}."
    if paid:
        yield f"At the prices of {price_table().date}; what a model has no price for is not counted."


def _row(name: str, use: ModelUse, paid: float | None) -> tuple[str, ...]:
    cached = percent(use.cached, use.input) if use.input else ""
    sizes = (tokens(use.input), cached, tokens(use.output))
    return (name, f"{use.requests:,}", *sizes, "" if paid is None else price(paid))


async def status_lines(agent: Agent) -> list[str]:
    """What a session works with, and where. Tries the sandbox, where that was not done yet."""
    engine = await agent.state.sandbox.ready()
    holds = f"holds ({engine.name}). {engine.why}" if engine.holds else f"does not hold: {engine.why}"
    return [f"{name:<9} {words}" for name, words in (*_facts(agent), ("sandbox", holds), *_servers(agent))]


def _facts(agent: Agent) -> Iterator[tuple[str, str]]:
    state, session, room = agent.state, agent.session, Figures(agent.state).room()
    info, settings = state.llm.info, agent.settings
    yield "session", f"{session.meta().title or 'not named yet'} · {short_id(session.header.id)}"
    yield "folder", with_tilde(session.cwd)
    yield "history", with_tilde(str(session.path)) if session.path is not None else "not kept on disk"
    effort = f", effort {settings.effort}" if settings is not None else ""
    yield "model", f"{info.id}{f' at {info.provider}' if info.provider else ''}{effort}"
    assumed = ", which is assumed" if room.assumed else ""
    size = tokens(room.size, estimated=room.estimated)
    filled = f"{size} of {tokens(room.window)} tokens, {percent(room.size, room.window)}"
    yield "window", f"{filled}{assumed}"
    try:
        threshold = f", compacts at {tokens(state.budget.threshold)} tokens"
    except FoldlineError as failure:  # a window too small to work in
        threshold = f". {failure}"
    yield "strategy", f"{strategy_name(state.strategy)}, {state.mode}{threshold}"
    if begun := len(state.projection.subagents):
        running = len(state.subagents.running) if state.subagents is not None else 0
        yield "subagents", f"{begun:,}, {running} running"
    yield "mode", f"{state.policy.mode}: {mode_words(state.policy.mode)}"


def _servers(agent: Agent) -> Iterator[tuple[str, str]]:
    servers = agent.state.servers
    for server in servers.states if servers is not None else ():
        yield "server", f"{server.name}: {server}"
