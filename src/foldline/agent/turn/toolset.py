"""Selects the tools to offer to the model.

Tools are part of the prefix of every request, which the provider caches. They change only between two turns,
or after the model has searched for tools.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from foldline.agent.extensions.mcp.connection import START_SECONDS
from foldline.agent.extensions.mcp.servers import ServerTool
from foldline.agent.session.state import AgentState
from foldline.history import Session
from foldline.llm.base import ToolSpec
from foldline.protocol import NoticeRecord, RequestRecord, events
from foldline.text.numbers import some
from foldline.view.outline import MessageOutline, RequestOutline

PATIENCE = 5.0
"""Maximum time that the first turn waits for tool servers, in seconds.

This applies if there is a user. Without a user, the limit is `START_SECONDS`.
"""
CHANGED = "{change}.{remark}"
BY_SEARCH = " A search has found them. The next request is not in the provider's cache."
OTHER_TOOLS = "The tools have changed"
OTHER_ORDER = "The tools are in a different order"


def tools_digest(specs: Sequence[ToolSpec]) -> str:
    """Return the SHA-256 of the offered tools.

    Each tool is hashed as one line of canonical JSON.
    """
    digest = hashlib.sha256()
    for spec in specs:
        fields = [spec.name, spec.description, spec.parameters]
        line = json.dumps(fields, sort_keys=True, ensure_ascii=False)
        digest.update(line.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


async def wait_for_servers(state: AgentState) -> None:
    """Wait a limited time for tool servers to connect."""
    servers = state.servers
    if servers is None:
        return
    servers.start()
    if awaited := servers.awaited:
        state.emit(events.ServersAwaited(servers=awaited))
        await servers.settled(PATIENCE if state.is_interactive else START_SECONDS)


async def take_tools(state: AgentState) -> None:
    """Offer the current tools from now on.

    A change is recorded in the history. If server tools take up too much of the window, the model has to
    search for them for the rest of the session.
    """
    await wait_for_servers(state)
    if not state.searches_tools and state.has_too_many_tools:
        state.searches_tools = True
        for outline in state.session.entries.outlines:
            if isinstance(outline, MessageOutline) and outline.name:
                state.discovered_tools.add(outline.name)
    await _offer(state)
    if state.servers is not None:
        state.servers.begin_turn()


async def offer_found(state: AgentState) -> None:
    """Offer the tools that a search in this step has found."""
    if not state.searches_tools:
        return
    offered = {tool.spec.name for tool in state.tools}
    if any(tool.spec.name not in offered for tool in state.server_tools):
        await _offer(state, BY_SEARCH)


async def _offer(state: AgentState, remark: str = "") -> None:
    specs_before = state.specs
    if state.servers is not None:
        own_tools = [tool for tool in state.tools if not isinstance(tool, ServerTool)]
        state.tools = [*own_tools, *state.server_tools]
    digest = tools_digest(state.specs)
    offered_before = state.offered or _last_offered(state.session)
    if offered_before is not None and offered_before != digest:
        change = OTHER_TOOLS
        if (
            state.offered and specs_before != state.specs
        ):  # otherwise, the window caused the change
            change = _difference(specs_before, state.specs)
        text = CHANGED.format(change=change, remark=remark)
        notice = NoticeRecord(text=text, tools=digest)
        await state.session.append(notice)
    state.offered = digest


def _last_offered(session: Session) -> str | None:
    """Return the digest of the tools that were offered last, if it is known."""
    entries = session.entries
    for position in reversed(range(len(entries.outlines))):
        if isinstance(entries.outlines[position], RequestOutline):
            record = entries[position]
            return record.tools if isinstance(record, RequestRecord) else None
    return None


def _difference(before: Sequence[ToolSpec], after: Sequence[ToolSpec]) -> str:
    """Describe which tools were added, removed and changed, without a full stop."""
    old = _by_name(before)
    new = _by_name(after)
    changes = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and old[name] != new[name]],
    }
    clauses = [f"{change}: {some(names)}" for change, names in changes.items() if names]
    return f"Tools {'; '.join(clauses)}" if clauses else OTHER_ORDER


def _by_name(specs: Sequence[ToolSpec]) -> Mapping[str, ToolSpec]:
    return {spec.name: spec for spec in specs}
