"""Which tools the model is offered. They belong to every request's prefix: others only between two turns, or
where the model has searched for some."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from foldline.agent.mcp.servers import ServerTool
from foldline.context.numbers import some
from foldline.context.outline import MessageOutline, RequestOutline
from foldline.history import Session
from foldline.llm.base import ToolSpec
from foldline.protocol import NoticeRecord, RequestRecord, events

from .mcp.connection import START_SECONDS
from .state import AgentState

PATIENCE = 5.0
"""Seconds the first turn waits for starting tool servers where somebody looks on."""


def tools_digest(specs: Sequence[ToolSpec]) -> str:
    """SHA-256 of tools as they are offered, one canonical JSON line each."""
    digest = hashlib.sha256()
    for spec in specs:
        sent = [spec.name, spec.description, spec.parameters]
        digest.update(json.dumps(sent, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


async def wait_for_servers(state: AgentState) -> None:
    """Those that start with the first turn have a moment for it."""
    servers = state.servers
    if servers is None:
        return
    servers.start()
    if awaited := servers.awaited:
        state.emit(events.ServersAwaited(servers=awaited))
        await servers.settled(PATIENCE if state.choices.interactive else START_SECONDS)


async def take_tools(state: AgentState) -> None:
    """From here on, offer what our tools and those of the servers are now. Where the last request offered
    others, the history says so: it is a change of the view. Where those of the servers would take too much
    of the window, they are searched instead, for the rest of the session."""
    await wait_for_servers(state)
    if not state.searches_tools and state.has_too_many_tools:
        state.searches_tools = True
        outlines = state.session.entries.outlines
        called = {each.name for each in outlines if isinstance(each, MessageOutline) and each.name}
        state.found_tools |= called
    await _offer(state)
    if state.servers is not None:
        state.servers.begin_turn()


async def offer_found(state: AgentState) -> None:
    """Offer the tools that were found in this step, behind its results: the next request has them."""
    if state.searches_tools and {tool.spec.name for tool in state.lent} - {t.spec.name for t in state.tools}:
        await _offer(state, " They were found by a search. No provider has the next request in its cache.")


async def _offer(state: AgentState, more: str = "") -> None:
    before = state.specs
    if state.servers is not None:
        ours = [tool for tool in state.tools if not isinstance(tool, ServerTool)]
        state.tools = [*ours, *state.lent]
    digest = tools_digest(state.specs)
    offered = state.offered or _last_offered(state.session)
    if offered is not None and offered != digest:
        known = state.offered and before != state.specs  # else they are others because the window is
        what = _difference(before, state.specs) if known else "the tools are others than before"
        await state.session.append(NoticeRecord(text=f"From here on, {what}.{more}", tools=digest))
    state.offered = digest


def _last_offered(session: Session) -> str | None:
    """What the newest request of the session offered; None where there is none, or it does not say."""
    entries = session.entries
    for place in reversed(range(len(entries.outlines))):
        if isinstance(entries.outlines[place], RequestOutline):
            record = entries[place]
            return record.tools if isinstance(record, RequestRecord) else None
    return None


def _difference(before: Sequence[ToolSpec], after: Sequence[ToolSpec]) -> str:
    """What came, left and changed, in words that follow "From here on"."""
    old, new = _by_name(before), _by_name(after)
    came = [name for name in new if name not in old]
    left = [name for name in old if name not in new]
    changed = [name for name, spec in new.items() if name in old and old[name] != spec]
    said = [
        f"{'there is' if len(came) == 1 else 'there are'} {some(came)}" if came else "",
        f"there is no {some(left)}" if left else "",
        f"{some(changed)} {'is' if len(changed) == 1 else 'are'} described otherwise" if changed else "",
    ]
    return "; ".join(filter(None, said)) or "the tools stand in another order"


def _by_name(specs: Sequence[ToolSpec]) -> Mapping[str, ToolSpec]:
    return {spec.name: spec for spec in specs}
