"""What the Context screen shows, read from the agent's state. Sizes in tokens, as decisions use them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.agent.auto_compact import auto_compact_blocker
from foldline.agent.mcp.servers import ServerTool
from foldline.agent.state import AgentState
from foldline.compaction import plan
from foldline.context.budget import Budget
from foldline.context.projection import Projection
from foldline.context.weight import Schemas, Usage, prompt_weight, usage_of
from foldline.llm import ToolSpec
from foldline.llm.base import spec_tokens
from foldline.protocol import FoldlineError
from foldline.tui.context_screen.largest import Item, Planned, largest
from foldline.tui.figures import view_moment
from foldline.tui.state import Room

LONG: Final = 500
"""Items of the view from which on a compaction is planned in a thread."""
PromptKind = Literal["held", "queued", "written"]


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts that wait to be sent, and the one that is being written."""

    held: str | None = None
    queued: tuple[str, ...] = ()
    written: str = ""


@dataclass(frozen=True, slots=True)
class PromptShare:
    """Prompts that are not in the next request yet: the one a compaction is made for, those that are queued,
    the one that is being written."""

    kind: PromptKind
    items: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextState:
    """Everything the screen is told."""

    usage: Usage
    room: Room
    """As the meter has it; with a compaction planned, what that would take."""
    prompts: tuple[PromptShare, ...] = ()
    items: tuple[Item, ...] = ()
    compaction: Planned | None = None
    planned: bool = False
    """Whether it has been worked out what a compaction would give."""
    mode: str = "auto"
    """Who compacts a full window: `auto`, `ask`, `off`."""
    stopped: str = ""
    """Why a full window is not compacted without a word of the user, as a sentence."""
    trouble: str = ""
    """Why there are no limits, as a sentence: the window is too small."""
    model: str = ""
    doing: str = ""
    """What the agent does just now."""

    @property
    def waiting(self) -> int:
        """What the prompts that wait will add."""
        return sum(share.tokens for share in self.prompts)

    @property
    def reserve(self) -> int | None:
        """What is kept free behind the threshold, for the answer. None where there is no limit."""
        room = self.room
        return None if room.threshold is None else max(0, room.window - max(self._used, room.threshold))

    @property
    def free(self) -> int:
        """What neither the next request takes, nor the prompts that wait, nor the answer. Negative where they
        are larger than the window."""
        return self.room.window - self._used - (self.reserve or 0)

    @property
    def _used(self) -> int:
        return self.room.size + self.waiting


class ContextReader:
    """Reads one state after the other from the agent's."""

    def __init__(self, agent_state: AgentState) -> None:
        self._agent_state = agent_state
        self._compaction: Planned | None = None
        self._planned_for: object = None
        self._planning = False

    def state(self, room: Room, prompts: Prompts, doing: str) -> ContextState:
        """As it is now, with the newest plan there is. Costs what has changed in the view."""
        agent_state = self._agent_state
        projection, schemas = agent_state.projection, schemas_of(agent_state)
        trouble = ""
        try:
            agent_state.budget  # noqa: B018
        except FoldlineError as failure:
            trouble = str(failure)
        return ContextState(
            usage=usage_of(projection, schemas),
            room=_with_compaction(room, self._compaction),
            prompts=tuple(_shares(projection, prompts)),
            items=largest(projection, schemas, self._compaction, agent_state.session.cwd),
            compaction=self._compaction,
            planned=self._planned_for is not None,
            mode=agent_state.mode,
            stopped=auto_compact_blocker(agent_state) or "",
            trouble=trouble,
            model=agent_state.llm.info.id,
            doing=doing,
        )

    async def plan_anew(self, changed: Callable[[], None]) -> None:
        """Work out what a compaction would give, until that is true of the view as it is; `changed` is called
        when there is something new to show. One call at a time works, others return at once."""
        if self._planning:
            return
        self._planning = True
        try:
            while (moment := self._moment()) not in (None, self._planned_for):
                self._compaction = await self._plan()
                self._planned_for = moment
                changed()
        except FoldlineError:
            pass  # the limits went while it was worked out: `trouble` says why
        finally:
            self._planning = False

    def _moment(self) -> object:
        """Equal for views whose compactions are planned alike; None where there are no limits."""
        try:
            return view_moment(self._agent_state.projection, self._agent_state.budget)
        except FoldlineError:
            return None

    async def _plan(self) -> Planned | None:
        projection, budget = self._agent_state.projection, self._agent_state.budget
        overhead = self._agent_state.overhead
        if len(projection.view) <= LONG:
            return _plan(projection, budget, overhead)
        frozen = projection.foreseen()  # the history may grow while another thread reads it
        return await asyncio.to_thread(_plan, frozen, budget, overhead)


def schemas_of(agent_state: AgentState) -> list[Schemas]:
    """The tools that go with every request, by who lends them: together `AgentState.overhead`."""
    counted: dict[str, tuple[str, ToolSpec]] = {}
    servers = agent_state.servers
    waiting = servers.tools if agent_state.offered is None and servers is not None else []
    for tool in (*agent_state.tools, *waiting):
        server = tool.server.name if isinstance(tool, ServerTool) else ""
        counted[tool.spec.name] = (server, tool.spec)
    by_server: dict[str, list[int]] = {}
    for server, spec in counted.values():
        by_server.setdefault(server, []).append(spec_tokens(spec))
    return [Schemas(server, len(sizes), sum(sizes)) for server, sizes in by_server.items()]


def _plan(projection: Projection, budget: Budget, overhead: int) -> Planned | None:
    """What a compaction by hand would do. Linear in the view."""
    planned = plan(projection, budget, "manual", overhead=overhead)
    if planned is None:
        return None
    cut = planned.cut
    taken = frozenset(message.key for message in (*cut.compacted, *cut.previous)) if cut else frozenset()
    scale = projection.calibration.scale(projection.model)
    gone = sum(item.tokens for item in projection.view if item.key in taken and not item.written)
    return Planned(
        planned.tokens_before,
        planned.tokens_expected,
        planned.folded,
        taken,
        frozenset((index, 0) for index in planned.clipped),
        round(gone * scale),
    )


def _with_compaction(room: Room, planned: Planned | None) -> Room:
    """The meter with what the compaction would take, and where it would cut."""
    weights = room.weights
    if planned is None or weights.folding:
        return room
    gone = min(planned.taken_tokens, weights.verbatim)
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
