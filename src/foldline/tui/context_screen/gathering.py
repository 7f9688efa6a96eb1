"""What the Context screen shows, read from the agent_state. Long views are planned beside the event loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from foldline.agent.auto_compact import auto_compact_blocker
from foldline.agent.mcp.servers import ServerTool
from foldline.agent.state import AgentState
from foldline.compaction import plan
from foldline.context.budget import Budget
from foldline.context.projection import Projection
from foldline.context.weight import Schemas, prompt_weight, usage_of
from foldline.llm import ToolSpec
from foldline.llm.base import spec_tokens
from foldline.protocol import FoldlineError
from foldline.tui.context_screen.largest import Outcome, largest
from foldline.tui.context_screen.state import ContextState, FoldNow, PromptKind, PromptShare
from foldline.tui.figures import view_moment
from foldline.tui.state import Room

LONG: Final = 500
"""Items of the view from which on a fold is planned in a thread."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts that wait to be sent, and the one that is being written."""

    held: str | None = None
    queued: tuple[str, ...] = ()
    written: str = ""


@dataclass(frozen=True, slots=True)
class _Planned:
    outcome: Outcome
    now: FoldNow | None


class Gathering:
    """Gathers one state after the other from one agent_state."""

    def __init__(self, agent_state: AgentState) -> None:
        self._agent_state = agent_state
        self._planned: _Planned | None = None
        self._planned_for: object = None
        self._planning = False

    def state(self, room: Room, prompts: Prompts, doing: str) -> ContextState:
        """As it is now, with the newest plan there is. Costs what has changed in the view."""
        agent_state = self._agent_state
        projection = agent_state.projection
        schemas = schemas_of(agent_state)
        planned = self._planned or _Planned(Outcome(), None)
        return ContextState(
            usage=usage_of(projection, schemas),
            room=_with_fold(room, planned.now),
            prompts=tuple(_shares(projection, prompts)),
            items=largest(projection, schemas, planned.outcome, agent_state.session.cwd),
            fold=planned.now,
            planned=self._planned is not None,
            mode=agent_state.mode,
            stopped=auto_compact_blocker(agent_state) or "",
            trouble=self._trouble(),
            model=agent_state.llm.info.id,
            doing=doing,
        )

    async def plan_anew(self, changed: Callable[[], None]) -> None:
        """Work out what a fold would give, until that is true of the view as it is; `changed` is called when
        there is something new to show. One call at a time works, others return at once."""
        if self._planning:
            return
        self._planning = True
        try:
            while (moment := self._moment()) not in (None, self._planned_for):
                self._planned = await self._plan()
                self._planned_for = moment
                changed()
        except FoldlineError:
            pass  # the limits went while it was worked out: `trouble` says why
        finally:
            self._planning = False

    def _moment(self) -> object:
        """Equal for views whose folds are planned alike; None where there are no limits."""
        try:
            return view_moment(self._agent_state.projection, self._agent_state.budget)
        except FoldlineError:
            return None

    async def _plan(self) -> _Planned:
        projection, budget, overhead = (
            self._agent_state.projection,
            self._agent_state.budget,
            self._agent_state.overhead,
        )
        if len(projection.view) <= LONG:
            return _plan(projection, budget, overhead)
        frozen = projection.foreseen()  # the history may grow while another thread reads it
        return await asyncio.to_thread(_plan, frozen, budget, overhead)

    def _trouble(self) -> str:
        try:
            self._agent_state.budget  # noqa: B018
        except FoldlineError as failure:
            return str(failure)
        return ""


def schemas_of(agent_state: AgentState) -> list[Schemas]:
    """The tools that go with every request, by who lends them: together `AgentState.overhead`."""
    counted: dict[str, tuple[str, ToolSpec]] = {}
    waiting = (
        agent_state.servers.tools if agent_state.offered is None and agent_state.servers is not None else []
    )
    for tool in (*agent_state.tools, *waiting):
        server = tool.server.name if isinstance(tool, ServerTool) else ""
        counted[tool.spec.name] = (server, tool.spec)
    by_server: dict[str, list[int]] = {}
    for server, spec in counted.values():
        by_server.setdefault(server, []).append(spec_tokens(spec))
    return [Schemas(server, len(sizes), sum(sizes)) for server, sizes in by_server.items()]


def _plan(projection: Projection, budget: Budget, overhead: int) -> _Planned:
    """What a fold by hand would do. Linear in the view."""
    planned = plan(projection, budget, "manual", overhead=overhead)
    if planned is None:
        return _Planned(Outcome(), None)
    cut = planned.cut
    taken = frozenset(message.key for message in (*cut.compacted, *cut.previous)) if cut else frozenset()
    clipped = frozenset((index, 0) for index in planned.clipped)
    scale = projection.calibration.scale(projection.model)
    gone = sum(item.tokens for item in projection.view if item.key in taken and not item.written)
    now = FoldNow(
        planned.tokens_before, planned.tokens_expected, planned.folded, len(clipped), round(gone * scale)
    )
    return _Planned(Outcome(taken, clipped), now)


def _with_fold(room: Room, fold: FoldNow | None) -> Room:
    """The meter with what the fold would take, and where it would cut."""
    if fold is None or room.weights.folding:
        return room
    weights = room.weights
    gone = min(fold.taken, weights.verbatim)
    shown = replace(weights, folding=gone, verbatim=weights.verbatim - gone)
    return replace(room, weights=shown, cut=weights.system + weights.summaries + gone)


def _shares(projection: Projection, prompts: Prompts) -> list[PromptShare]:
    kinds: list[tuple[PromptKind, tuple[str, ...]]] = [
        ("held", (prompts.held,) if prompts.held else ()),
        ("queued", prompts.queued),
        ("written", (prompts.written,) if prompts.written.strip() else ()),
    ]
    return [
        PromptShare(kind, len(texts), sum(prompt_weight(projection, text) for text in texts))
        for kind, texts in kinds
        if texts
    ]
