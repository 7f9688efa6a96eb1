"""The lines of `/status`, shown on a page or by `foldline --plain`."""

import asyncio
from collections.abc import Iterator

from foldline.agent import Agent
from foldline.compaction import strategy_name
from foldline.frontend.costs import cost_lines
from foldline.frontend.figures import Figures
from foldline.history import short_id
from foldline.history.paths import with_tilde
from foldline.past.approval_words import mode_words
from foldline.protocol import FoldlineError
from foldline.text.numbers import percent, tokens

NO_TITLE = "no title"
NOT_SAVED = "not saved to disk"


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
