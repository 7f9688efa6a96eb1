"""What the Context screen shows, read from the agent's state: the window, the heaviest items of the next
request, what a compaction would give. Sizes in tokens, as decisions use them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from foldline.agent.auto_compact import auto_compact_blocker
from foldline.agent.mcp.servers import ServerTool
from foldline.agent.state import AgentState
from foldline.compaction import plan
from foldline.context.budget import Budget
from foldline.context.numbers import many
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.context.tally import kind_of as category_of
from foldline.context.view import IN_VIEW, ViewItem, hidden_placeholder, item_from
from foldline.context.weight import Category, Schemas, Usage, item_weight, prompt_weight, usage_of
from foldline.llm import ToolSpec
from foldline.llm.base import spec_tokens
from foldline.protocol import BaseMessage, DeveloperMessage, FoldlineError, ToolResultMessage
from foldline.tui.blocks import Key, Span, clean_line, cut_left
from foldline.tui.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.tui.figures import view_moment
from foldline.tui.keys.table import HELP, ScreenKey, cursor_keys, name_of, panel_keys, search_keys, table
from foldline.tui.panels.edit_hints import change_words
from foldline.tui.panels.words import call_of, call_title, kind_of, message_words
from foldline.tui.state import Room

if TYPE_CHECKING:
    from foldline.tui.context_screen.screen import ContextPanels

LONG: Final = 500
"""Items of the view from which on a compaction is planned in a thread."""
PromptKind = Literal["held", "queued", "written"]
"""The prompt a compaction is made for, those that are queued, the one that is being written."""
LISTED: Final = 20
"""How many items are listed."""
_PATH: Final = 18
"""Cells that the path of an instruction file has."""
_TOOLS: Final = -2
"""Keys of tool schemas are this number and those below it."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a compaction by hand would give now, by its plan. Sizes in tokens."""

    before: int
    after: int
    entries: int
    """How many would leave the view."""
    taken: Collection[Key] = ()
    """Items it would take."""
    clipped: Collection[Key] = ()
    """Large results it would shorten."""
    taken_tokens: int = 0
    """What of the request it would take away, its summary not counted."""


@dataclass(frozen=True, slots=True)
class Item:
    """One of the heaviest things in the next request, and what can be done about it."""

    key: Key
    """(entry, nth); of tool schemas a number below -1."""
    number: str
    """The entry's, as it is shown; empty where it is none."""
    signs: tuple[Span, Span]
    """Letter and gutter sign of its state."""
    kind: str
    words: str
    is_path: bool
    tokens: int
    estimated: bool
    remedy: str
    """What can be done, in a few words: `z hides −8.5k`."""
    advice: str = ""
    """The same in a sentence, where no key is to be priced."""
    taken: bool = False
    """Whether a compaction now would take it."""
    category: Category = "notes"
    """The row of the table it counts in, its pictures apart."""
    server: str = ""
    """Of tool schemas: who lends them; empty for our own."""

    @property
    def entry(self) -> int | None:
        """The entry it is."""
        return self.key[0] if self.key[0] >= 0 else None


@dataclass(frozen=True, slots=True)
class PromptShare:
    """Prompts that are not in the next request yet."""

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
    overhead: int = 0
    """Estimate of the tool schemas, before calibration."""

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

    def state(self, room: Room, prompts: Mapping[PromptKind, Sequence[str]], doing: str = "") -> ContextState:
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
            prompts=tuple(
                PromptShare(kind, len(texts), sum(prompt_weight(projection, text) for text in texts))
                for kind, texts in prompts.items()
                if texts
            ),
            items=largest(projection, schemas, self._compaction, agent_state.session.cwd),
            compaction=self._compaction,
            planned=self._planned_for is not None,
            mode=agent_state.mode,
            stopped=auto_compact_blocker(agent_state) or "",
            trouble=trouble,
            model=agent_state.llm.info.id,
            doing=doing,
            overhead=agent_state.overhead,
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
    scale = projection.scale
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
    if planned is None or weights.compacting:
        return room
    gone = min(planned.taken_tokens, weights.verbatim)
    shown = replace(weights, compacting=gone, verbatim=weights.verbatim - gone)
    return replace(room, weights=shown, cut=weights.system + weights.summaries + gone)


# --- The heaviest items of the next request; reads the few entries it lists and no others -------------


def largest(
    projection: Projection,
    schemas: Sequence[Schemas],
    planned: Planned | None,
    cwd: str = "",
    count: int = LISTED,
) -> tuple[Item, ...]:
    """The heaviest first."""
    scale = projection.scale
    newest = _newest_request(projection)
    found = [
        _item(projection, item, newest, planned, scale, cwd)
        for item in projection.tally.heaviest(count, scale)
    ]
    found += [_tools(each, number, scale) for number, each in enumerate(schemas)]
    return tuple(sorted(found, key=lambda item: -item.tokens)[:count])


def server_advice(server: str) -> str:
    """How to do without the tools of a server."""
    if not server:
        return "The schemas of Foldline's own tools go with every request."
    name = clean_line(server)
    return f"enabled = false in [mcp.{name}] takes these tools out of every request."


def _tools(schemas: Schemas, number: int, scale: float) -> Item:
    whose = clean_line(schemas.server)
    return Item(
        key=(_TOOLS - number, 0),
        number="",
        signs=((" ", ""), GUTTER_SIGNS["whole"]),
        kind="tools",
        words=many(schemas.tools, "schema") + (f" of the server {whose}" if whose else " of Foldline"),
        is_path=False,
        tokens=round(schemas.tokens * scale),
        estimated=True,
        remedy=f"off: [mcp.{whose}]" if whose else "in every request",
        advice=server_advice(schemas.server),
        category="tools",
        server=schemas.server,
    )


def _item(
    projection: Projection,
    item: ViewItem,
    newest: Key | None,
    planned: Planned | None,
    scale: float,
    cwd: str,
) -> Item:
    message, weight = item.message, item_weight(projection, item)
    kind, words, is_path = _words(projection, message, cwd)
    remedy, advice = _remedy(projection, item, message, newest, scale)
    if planned is not None and item.key in planned.clipped:
        remedy = f"{remedy} · compaction clips"
    sign = GUTTER_SIGNS["name"] if item.written else gutter_sign(item.fate)
    return Item(
        key=item.key,
        number=str(item.index),
        signs=((" ", "") if item.written else letter(item.fate), sign),
        kind=kind,
        words=words,
        is_path=is_path,
        tokens=weight.tokens,
        estimated=weight.estimated,
        remedy=remedy,
        advice=advice,
        taken=planned is not None and item.key in planned.taken,
        category=category_of(item),
    )


def _words(projection: Projection, message: BaseMessage, cwd: str) -> tuple[str, str, bool]:
    """Kind, text, and whether the text is a path."""
    if isinstance(message, ToolResultMessage):
        title, is_path = call_title(call_of(projection, message), cwd)
        return clean_line(message.name)[:12] or "result", title, is_path
    return kind_of(message), message_words(message)[0], False


def _remedy(
    projection: Projection, item: ViewItem, message: BaseMessage, newest: Key | None, scale: float
) -> tuple[str, str]:
    """What can be done about an item in a few words, and as a sentence where that is not a key."""
    if item.is_preamble:
        return _about_preamble(message)
    if item.written:
        return "rewritten next time", f"{item.index} is a summary: the next compaction writes it anew."
    if item.pinned:
        return f"{_key('pin')} unpins", ""
    if item.key == newest:
        return "the request, always kept", ""
    if isinstance(message, ToolResultMessage):
        placeholder = item.outline.tokens_with(hidden_placeholder(message))
        if item.fate != "live":
            return f"{_key('hide')} shows {_change(item.outline.tokens - item.tokens, scale)}", ""
        if placeholder < item.tokens:  # it may be longer than a short result
            return f"{_key('hide')} hides {_change(placeholder - item.tokens, scale)}", ""
    return f"{_key('drop')} drops {change_words(-_group(projection, item))}", ""


def _about_preamble(message: BaseMessage) -> tuple[str, str]:
    if isinstance(message, DeveloperMessage):
        path = clean_line(message.source or "its file")
        advice = f"{path} goes with every request; a shorter one helps each new session."
        return f"shorten {cut_left(path, _PATH)}", advice
    return "opens every request", "The system prompt opens every request: no edit applies to it."


def _group(projection: Projection, item: ViewItem) -> int:
    """What the view has of the item's tool group weighs, as the rows say it."""
    return sum(_weighed(projection, index, item) for index in projection.group(item.index))


def _weighed(projection: Projection, index: int, item: ViewItem) -> int:
    if index == item.index:
        return item_weight(projection, item).tokens
    fate, outline = projection.fate(index).kind, projection.outline(index)
    if fate == "live" and isinstance(outline, MessageOutline):
        return item_weight(projection, item_from(outline, projection.entries)).tokens
    if fate not in IN_VIEW:
        return 0
    found = next((each for each in projection.view if each.index == index), None)
    return 0 if found is None else item_weight(projection, found).tokens


def _newest_request(projection: Projection) -> Key | None:
    """What the user asked last: a compaction keeps it verbatim."""
    return next((item.key for item in reversed(projection.view) if item.outline.type == "user"), None)


def _change(tokens: int, scale: float) -> str:
    return change_words(round(tokens * scale))


def _key(command: str) -> str:
    return name_of(KEYS, command)


# --- Keys -------------------------------------------------------------------------------------------


def _edit_key(id: str, key: str, help: str, hint: str = "") -> "ScreenKey[ContextPanels]":
    return ScreenKey(id, (key,), help, "Edit", hint, works=lambda panels: panels.editable)


KEYS: Final[tuple["ScreenKey[ContextPanels]", ...]] = table(
    "context",
    "Panels",
    *cursor_keys(hint=""),
    *panel_keys("Use: the window by category", "Largest: the heaviest items of the next request", mark="row"),
    ScreenKey(
        "enter",
        ("enter",),
        "In Use: goes to the largest item of this category. In Largest: opens it in the Inspector.",
        own=True,
    ),
    ScreenKey(
        "open", ("o",), "Opens the entry in the Inspector.", hint="open", works=lambda panels: panels.on_entry
    ),
    _edit_key("pin", "p", "Pins an entry and its tool group: compactions keep them. Again, unpins.", "pin"),
    _edit_key("hide", "z", "Replaces a tool result with a placeholder; again, shows it.", "hide"),
    _edit_key("drop", "x", "Takes an entry and its tool group out of the view.", "drop"),
    _edit_key("restore", "r", "Brings an entry and its tool group back verbatim."),
    ScreenKey(
        "undo",
        ("u",),
        "Takes back the newest change of the view, then the one before.",
        "Edit",
        "undo",
        works=lambda panels: panels.undoable,
    ),
    "Search",
    *search_keys(),
    "Program",
    ScreenKey("inspector", ("f2",), "The Inspector, at the entry under the cursor."),
    ScreenKey("preview", ("f3",), "The Compact preview: what would be done.", hint="preview"),
    HELP,
    ScreenKey("close", ("escape", "f4"), "Ends the search, else closes.", hint="close", shown="Esc"),
)
