"""/context: what fills the window, by category and by item, with edits that free some of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from foldline.agent.auto_compact import auto_compact_blocker
from foldline.agent.state import AgentState
from foldline.compaction import Plan
from foldline.compaction.automation import INEFFECTIVE
from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.context.tally import FIXED, KEPT, kind_of
from foldline.context.view import ViewItem, total_tokens
from foldline.context.weight import Category, Share, prompt_weight, usage_of
from foldline.protocol import FoldlineError
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Piece, Span, Spans, piece, row, width_of, wrap_spans
from foldline.tui.blocks.plain import Column, RowBlock, RuleBlock, TextBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.figures import view_moment
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import (
    HELP,
    ScreenKey,
    bindings,
    cursor_keys,
    name_of,
    panel_keys,
    search_keys,
    table,
)
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.panels import edit_hints
from foldline.tui.panels.entry_list import EntryList, row_key
from foldline.tui.panels.entry_rows import ItemRow, Source, gutter_width, view_gutter
from foldline.tui.panels.frame import Panel, Text
from foldline.tui.panels.workbench import Workbench
from foldline.tui.state import Room
from foldline.tui.widgets.lines import cover_if_too_small, hint
from foldline.tui.widgets.meter import GLYPHS, PART_STYLES, Part, bar_spans

if TYPE_CHECKING:
    from foldline.protocol.events import Event
    from foldline.tui.presenter import Shown

LISTED: Final = 20
"""How many items are listed."""
USE_WIDTH: Final = 46
TOTAL_KEY: Final[Key] = (1, 0)
"""The row of the next request, below the rule."""


class ContextState:
    """What fills the window, read once; costs what has changed in the view. Sizes in tokens, as decisions use
    them."""

    def __init__(
        self,
        agent: AgentState,
        room: Room,
        prompts: Sequence[str],
        plan: Plan | None = None,
        doing: str = "",
        saved: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        """
        Args:
            room: as the meter has it.
            prompts: those that are not in the next request yet.
            plan: what a compaction by hand would do now.
            doing: what the agent does just now.
            saved: of subagents, how many worked, the tokens they worked, and those of them in the view.
        """
        self.agent, self.plan, self.doing, self.subagents = agent, plan, doing, saved
        self.projection = agent.projection
        self.usage = usage_of(agent.projection, agent.schemas)
        self.items = agent.projection.tally.heaviest(LISTED, agent.projection.scale)
        self.prompts = prompts
        self.waiting = sum(prompt_weight(agent.projection, text) for text in prompts)
        """What the prompts that wait will add."""
        self.trouble = trouble_of(agent)
        """Why there are no limits, as a sentence: the window is too small."""
        cut = plan.cut if plan is not None else None
        self.room = room
        if cut is not None and not room.weights.compacting:
            weights = room.weights
            gone = min(round(total_tokens(cut.compacted) * agent.projection.scale), weights.verbatim)
            weights = replace(weights, compacting=gone, verbatim=weights.verbatim - gone)
            self.room = replace(room, weights=weights, cut=weights.system + weights.summaries + gone)
        used, threshold = room.size + self.waiting, room.threshold
        self.reserve = None if threshold is None else max(0, room.window - max(used, threshold))
        """What is kept free behind the threshold, for the answer. None where there is no limit."""
        self.free = room.window - used - (self.reserve or 0)
        """What neither the next request takes, nor the prompts that wait, nor the answer. Negative where they
        are larger than the window."""


def trouble_of(agent: AgentState) -> str:
    """Why there are no limits, as a sentence; empty where there are."""
    try:
        agent.budget  # noqa: B018
    except FoldlineError as failure:
        return str(failure)
    return ""


# --- Use: the window by category ------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of Use, and what its category is and what can be done about it, as a sentence."""

    block: RowBlock
    about: str
    share: Share | None = None

    @property
    def name(self) -> str:
        return self.block.main[0][0]


_CATEGORIES: Final[dict[Category, tuple[str, str]]] = {
    "system": ("system prompt", "Opens every request; prompts/system.md in the config folder replaces it."),
    "instructions": ("instruction files", "AGENTS.md and CLAUDE.md go with every request: keep them short."),
    "tools": ("tools of Foldline", "The schemas of Foldline's own tools go with every request."),
    "summaries": ("summaries", "What compactions wrote. The next one takes it in and writes it anew."),
    "pins": ("pins", "Compactions keep them word for word. {pin} on one of them unpins it."),
    "skills": ("skills", "Loaded instructions, never compacted. /skill lists and unloads them."),
    "user": ("your prompts", "Compactions take older prompts and quote standing constraints."),
    "assistant": ("answers and calls", "What the model said. {drop} on one takes its results along."),
    "results": ("tool results", "What tools gave back: first to be hidden, and what a compaction shortens."),
    "images": ("pictures", "A picture weighs by its size. A compaction puts words in its place."),
    "clipped": ("clipped results", "Long results of which head and tail are sent."),
    "hidden": ("hidden, placeholders", "What is left of hidden results: a line each that names them."),
    "notes": (
        "notes of the program",
        "What the program tells the model: rewinds, moved folders, other tools.",
    ),
    "thinking": (
        "thinking, sent back",
        "This provider wants the reasoning back. A compaction takes the older.",
    ),
    "difference": (
        "estimated too {}",
        "Parts are estimates, the whole was reported: this lies between them.",
    ),
}
_COUNT, _TOKENS, _SHARE = 5, 8, 5


def use_rows(state: ContextState) -> list[Row]:
    """The next request by category, what waits, what is free."""
    room, size = state.room, state.usage.size
    rows: list[Row] = []

    def add(
        key: Key,
        name: str,
        tokens: float,
        shown: str,
        about: str,
        items: int = 0,
        sign: Span = (" ", ""),
        style: str = "text",
        share: Share | None = None,
    ) -> None:
        whole = room.window or (room.size if share else 0)
        percent = numbers.percent(round(tokens), whole) if whole > 0 and tokens >= 0 else ""
        columns = (
            Column(f"{items:,}" if items else "", _COUNT, "muted", space=1, drop="first"),
            Column(shown, _TOKENS, style, space=1),
            Column(percent, _SHARE, "muted", space=1, drop="last"),
        )
        rows.append(Row(RowBlock(key, (sign, (" ", "")), ((name, style),), columns, roomy=16), about, share))

    for at, share in enumerate(state.usage.shares):
        name, about = _words_of(share)
        count = round(share.tokens)
        shown = (
            f"−{numbers.tokens(-count)}" if count < 0 else numbers.tokens(count, estimated=share.estimated)
        )
        look: tuple[Span, str] = (_glyph(_part_of(share.category)), "text")
        if share.category == "difference":
            look = ((" ", ""), "muted")
        add((0, at), name, share.tokens, shown, about, share.items, *look, share)
    about = "What the next request sends, as the meter says it. Looking here costs nothing."
    if room.assumed:
        about = "Nobody says how large this model's window is: it is assumed. context.window sets it."
    shown = numbers.tokens(size.tokens, estimated=size.estimated)
    add(TOTAL_KEY, "next request", size.tokens, shown, about, style=_size_style(room))
    if state.prompts:
        about = "Not in the request yet: held for the compaction, in the queue, or being written."
        shown = f"~{numbers.tokens(state.waiting)}"
        add((2, 0), "+ prompts that wait", state.waiting, shown, about, len(state.prompts))
    if room.window > 0 > state.free:
        about = "It does not fit: compact, hide or drop something, or take a larger window."
        shown = numbers.tokens(-state.free)
        add((3, 0), "over the window", state.free, shown, about, sign=("!", "alert"), style="alert")
    elif room.window > 0:
        about = "May be filled before a compaction is due."
        shown = numbers.tokens(state.free)
        add((3, 0), "free", state.free, shown, about, sign=_glyph("free"), style="muted")
    if state.reserve:
        about = "Kept free for the answer: compaction.reserve_tokens sets it."
        shown, sign = numbers.tokens(state.reserve), _glyph("threshold")
        add((4, 0), "kept for the answer", state.reserve, shown, about, sign=sign, style="muted")
    count, worked, kept = state.subagents
    if count:
        done, view = f"{numbers.short_tokens(worked)} worked", numbers.tokens(kept)
        about = f"{many(count, 'subagent')}: {done}, {view} in your view, among tool results and notes."
        add((5, 0), f"subagents, {done}", kept, view, about, count, style="muted")
    return rows


def use_heading(width: int) -> list[Span]:
    """The names of the columns; a scrollbar takes the last cell."""
    head = f"{'items':>{_COUNT}} {'tokens':>{_TOKENS}} {'share':>{_SHARE}} "
    return [(f"{head:>{width}}"[-width:] if width > 0 else "", "muted")]


def _words_of(share: Share) -> tuple[str, str]:
    name, about = _CATEGORIES[share.category]
    if server := clean_line(share.server):
        name = f"tools of {server}"
        about = f"enabled = false in [mcp.{server}] takes these tools out of every request."
    return name.format("low" if share.tokens > 0 else "high"), about.format(
        pin=_key("pin"), drop=_key("drop")
    )


def _part_of(category: Category) -> Part:
    if category in KEPT:
        return "summaries"
    return "system" if category in FIXED or category == "tools" else "verbatim"


def _glyph(part: Part) -> Span:
    return GLYPHS[part], PART_STYLES[part]


def _size_style(room: Room) -> str:
    return "alert bold" if room.past_threshold else "text bold"


# --- Largest: the heaviest items of the next request ----------------------------------------------------


# --- Above the panels -----------------------------------------------------------------------------------


def top_rows(title: str, state: ContextState, width: int) -> list[list[Span]]:
    """Header, bar, and two rows on compactions: what one now would give, and when one comes automatically; or
    why there are no limits."""
    if state.trouble:
        lines = wrap_spans([(f"! {clean_line(state.trouble)}", "alert")], max(width - 2, 1))
        below = [row([Piece(tuple(line), cut="right")], [], width) for line in (*lines, [])][:2]
    else:
        below = [_now_row(state, width), _automatic_row(state, width)]
    return [_header_row(title, state, width), _bar_row(state, width), *below]


def _header_row(title: str, state: ContextState, width: int) -> list[Span]:
    """` shop-api ▸ Idempotent orders ▸ Context          running bash · kimi-k2 · F1 help `."""
    name = ((clean_line(title), "bold"), (" ▸ ", "muted"), ("Context", "text bold"))
    right = [piece(f"{clean_line(state.doing)} ·", "text", rank=2)] if state.doing else []
    right.append(piece(clean_line(state.agent.llm.info.id), "muted", rank=1, gap=1))
    right.append(Piece(((" · ", "muted"), *hint(key_of("help"), "help")), rank=3, gap=0))
    return row([Piece(name, cut="left", least=width // 3)], right, width)


def _bar_row(state: ContextState, width: int) -> list[Span]:
    """`▐▓▓▓▒▒░░░░░███████·····┆···┃···▌ 116.2k of 131k  89%`: the meter, as wide as the screen."""
    room, size, style = state.room, state.usage.size, _size_style(state.room)
    words: list[Span] = [(numbers.tokens(size.tokens, estimated=size.estimated), style)]
    if room.window:
        words.append((f" of {numbers.short_tokens(room.window, estimated=room.assumed)}  ", "muted"))
        words.append((numbers.percent(size.tokens, room.window), style))
    bar = bar_spans(room, max(width - 5 - width_of(words), 4))
    return row([Piece((("▐", "muted"), *bar, ("▌", "muted"))), Piece(tuple(words), gap=1)], [], width)


def _labelled(part: Part, label: str, width: int, *parts: Piece) -> list[Span]:
    return row([Piece((_glyph(part), (f" {label:<13}", "muted"))), *parts], [], width)


def _now_row(state: ContextState, width: int) -> list[Span]:
    """` ░ compact now   116.2k → ~27k · 123 entries into one summary · F3 shows it first `."""
    plan = state.plan
    if plan is None:
        return _labelled("compacting", "compact now", width, piece("nothing is old enough", gap=0))
    change = f"{numbers.tokens(plan.tokens_before)} → {numbers.about_tokens(plan.tokens_expected)}"
    if plan.tokens_expected > INEFFECTIVE * plan.tokens_before:  # what clipping frees is not planned
        change = "by its plan that frees next to nothing"
    clips = f"{many(len(plan.clipped), 'large result')} clipped" if plan.clipped else ""
    into = f"{many(plan.compacted, 'entry', 'entries')} into one summary" if plan.compacted else clips
    shows = hint(_key("preview"), "shows it first", of_keys="muted")
    first = Piece((("· ", "muted"), *shows), gap=1, rank=2)
    parts = [piece(change, gap=0), piece(f"· {into}", gap=1, rank=1), first]
    return _labelled("compacting", "compact now", width, *parts)


def _automatic_row(state: ContextState, width: int) -> list[Span]:
    """` ┃ automatic    in about 12.3k, at 114.7k · from 86.0k on where a turn ends `."""
    room = state.room
    if room.threshold is None:
        return row([], [], width)
    if stopped := auto_compact_blocker(state.agent):
        why = piece(f"not now: {clean_line(stopped)}", "altered", gap=0, cut="right")
        return _labelled("threshold", "automatic", width, why)
    until, at = room.threshold - room.size - state.waiting, numbers.tokens(room.threshold)
    when = f"in about {numbers.tokens(until)}, at {at}"
    if until <= 0:
        when = f"before the next request: {numbers.tokens(-until)} past {at}"
    asked = "you are asked " if state.agent.mode == "ask" else ""
    parts = [piece(f"{asked}{when}", gap=0)]
    if (tier := state.agent.tier) is not None:
        words = f"· at {numbers.short_tokens(tier.above)}, where the price rises, if that pays"
        parts.append(piece(words, "muted", gap=1, rank=2))
    return _labelled("threshold", "automatic", width, *parts)


# --- Keys -----------------------------------------------------------------------------------------------


def _on_entry(id: str, key: str, help: str, hint: str = "") -> "ScreenKey[ContextPanels]":
    works: Callable[[ContextPanels], bool] = lambda panels: panels.item is not None  # noqa: E731
    return ScreenKey(id, (key,), help, "Panels" if id == "open" else "Edit", hint, works=works)


KEYS: Final[tuple["ScreenKey[ContextPanels]", ...]] = table(
    "context",
    "Panels",
    *cursor_keys(hint=""),
    *panel_keys("Use: the window by category", "Largest: the heaviest items of the next request"),
    ScreenKey(
        "enter",
        ("enter",),
        "In Use: goes to the largest item of this category. In Largest: opens it in the Inspector.",
        own=True,
    ),
    _on_entry("open", "o", "Opens the entry in the Inspector.", "open"),
    _on_entry("pin", "p", "Pins an entry and its tool group: compactions keep them. Again, unpins.", "pin"),
    _on_entry("hide", "z", "Replaces a tool result with a placeholder; again, shows it.", "hide"),
    _on_entry("drop", "x", "Takes an entry and its tool group out of the view.", "drop"),
    _on_entry("restore", "r", "Brings an entry and its tool group back verbatim."),
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

_key = partial(name_of, KEYS)


EVERY: Final = 0.2
"""Seconds between two looks, at least, while the agent works."""
WIDE: Final = 120
"""Columns from which both panels stand side by side."""
_ROWS_FOR_ALL: Final = 18
"""Rows below which header and the rows on compactions give theirs to the panels; as in the chat."""
_EMPTY: Final = "Nothing is in the window yet: the first prompt brings system prompt and instruction files."
USE, LARGEST = 0, 1


class ContextPanels(Workbench):
    """Use and Largest below the header, the meter and what a compaction would give; kept up to date."""

    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "context")

    def __init__(self, shown: "Shown") -> None:
        self._chat, self._shown = shown.chat, shown
        self._agent = shown.runner.agent
        self._plan: Plan | None = None
        self._planned_for: object = None
        self._stale = False
        self.state = self._now()
        self._title = shown.chat.where
        self._top = tuple(Text(id=name) for name in ("header", "bar", "compaction", "automatic"))
        self._heading = Text(id="heading")
        use = EntryList(id="use")
        self._gutter_width = gutter_width(self.state.projection.last_index)
        items = EntryList(id="largest", gutter_width=self._gutter_width, gutter=self._gutter)
        super().__init__(Panel(use, title="1 Use", above=self._heading), Panel(items, title="2 Largest"))
        self.active = LARGEST
        self._rows: dict[Key, Row] = {}
        self._items: dict[Key, ViewItem] = {}
        self._edit_hints = edit_hints.HintWorker(self, edit_hints.Limits(), self.describe)

    def compose(self) -> ComposeResult:
        yield from self._top
        yield from super().compose()

    def on_mount(self) -> None:
        self._unsubscribe = self._agent.executor.subscribe(self._on_event)
        self._show_now()
        if self.screen.size.width < WIDE:
            self.active = USE
        self.lay_out()
        self.active_view.focus()

    def on_unmount(self) -> None:
        self._unsubscribe()

    # --- What is shown --------------------------------------------------------------------------------

    def _now(self) -> ContextState:
        state = self._chat.presenter.state
        typed = self._chat.prompt.editor.text
        prompts = [text for text in (state.waiting.held, *state.waiting.queued, typed.strip()) if text]
        agent = self._agent.state
        if trouble_of(agent):
            self._plan = None
        elif (moment := view_moment(agent.projection, agent.budget)) != self._planned_for:
            self._plan, self._planned_for = agent.plan("manual"), moment
        room, saved = self._shown.figures.room(), self._shown.transcript.children.saved()
        return ContextState(agent, room, prompts, self._plan, state.doing, saved)

    def _on_event(self, event: "Event") -> None:
        """Whatever changes a number, or what the agent does. What streams in changes neither."""
        from foldline.protocol.events import TextDelta, ThinkingDelta, ToolOutput

        if not self._stale and not isinstance(event, TextDelta | ThinkingDelta | ToolOutput):
            self._stale = True
            self.app.set_timer(EVERY, self._show_now)  # the screen's own would rest while another covers it

    def _show_now(self) -> None:
        """Show what is now."""
        self._stale = False
        if not self.is_attached:
            return
        state = self.state = self._now()
        self._edit_hints.limits = edit_hints.Limits(state.agent.overhead, state.room.threshold)
        self._rows = {each.block.key: each for each in use_rows(state)}
        use: list[Block] = [each.block for each in self._rows.values()]
        use.insert(list(self._rows).index(TOTAL_KEY), RuleBlock((-1, 0), "", "muted", stop=False, wide=False))
        self.panels[USE].view.set_blocks(use)
        self._items = {row_key(*item.key): item for item in state.items}
        items = self.panels[LARGEST].view
        self._gutter_width = gutter_width(state.projection.last_index)
        items.widen_gutter(self._gutter_width)
        source = Source(state.projection, state.agent.session.cwd)
        rows = [ItemRow(key, source, item) for key, item in self._items.items()]
        items.set_blocks(rows or [TextBlock((-1, 1), _EMPTY, "muted", stop=False)])
        self.lay_out()

    def _gutter(self, key: Key, line: int) -> Spans:
        """As in the LLM view."""
        view = self.panels[LARGEST].view
        if key not in self._items:
            return ()
        return tuple(view_gutter(view.block(key), None, key, line, self._gutter_width))

    # --- Where things are -----------------------------------------------------------------------------

    @property
    def item(self) -> ViewItem | None:
        """The item under the cursor."""
        cursor = self.panels[LARGEST].view.cursor
        return self._items.get(cursor) if cursor is not None and self.active == LARGEST else None

    @property
    def row(self) -> Row | None:
        """The row of Use under the cursor."""
        cursor = self.panels[USE].view.cursor
        return self._rows.get(cursor) if cursor is not None and self.active == USE else None

    @property
    def undoable(self) -> bool:
        """Whether anything that changed the view is in force."""
        return edit_hints.undo_target(self.state.projection) is not None

    @property
    def priced(self) -> bool:
        """Whether it is known what the keys would do at the cursor."""
        return self._edit_hints.known

    def lay_out(self) -> None:
        is_wide = self.size.width >= WIDE
        for number, widget in enumerate(self._top):
            widget.display = self.size.height >= _ROWS_FOR_ALL or number == 1
        self.panels[USE].styles.width = USE_WIDTH if is_wide else "1fr"
        self.show_panels(*((USE, LARGEST) if is_wide else (self.active,)))
        self.describe()

    def _largest_of(self, chosen: Row) -> Key | None:
        wanted = chosen.share.category if chosen.share is not None else None
        return next((key for key, item in self._items.items() if kind_of(item) == wanted), None)

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self) -> None:
        for widget, line in zip(self._top, top_rows(self._title, self.state, self.size.width), strict=True):
            widget.show(line)
        use, items = self.panels
        self._heading.show(use_heading((use.size.width or USE_WIDTH) - 2))
        use.head("~ estimated")
        items.head("the heaviest first")
        use.foot("Enter shows its largest" if self.active == USE else "")

    def status_row(self, width: int) -> list[Span]:
        projection, item = self.state.projection, self.item
        hints = self._edit_hints.at(projection, item.index) if item is not None else None
        if hints is not None:
            later = bool(self.state.doing)
            return edit_hints.edit_row(projection, hints, self.key, later=later, width=width)
        return row([piece(self.row.about if self.row is not None else "", cut="right")], [], width)

    # --- Keys -----------------------------------------------------------------------------------------

    def action_context(self, command: str) -> None:
        """One of the keys of the table."""
        self.news = ""
        if self.works_now(command):
            self.act(command)
        elif command != "undo":
            self.news = f"{self.key('panel-2')} goes to the entries."
        self.describe()

    def act(self, command: str) -> None:
        projection, later = self.state.projection, bool(self.state.doing)
        match command:
            case "pin" | "hide" | "drop" | "restore" if self.item is not None:
                answer = edit_hints.edit(projection, self.item.index, command, self.key, later=later)
                self.ask_for(answer)
            case "undo":
                self.ask_for(edit_hints.undo(projection, later=later))
            case "open" | "inspector" if self.item is not None:
                self._shown.inspecting.open_at(self.item.index)
            case "inspector":
                self._shown.inspecting.open()
            case "preview":
                self._shown.previewing.open()
            case _:
                super().act(command)

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        chosen = self.row
        if chosen is None:
            self.act("open")
        elif (key := self._largest_of(chosen)) is None:
            self.news = f"None of the {len(self._items)} largest items is among: {chosen.name}."
        else:
            self.go(LARGEST)
            self.active_view.cursor_to(key)
        self.describe()


def open_context(shown: "Shown") -> None:
    if not isinstance(shown.chat.front, ContextScreen):  # else its key was pressed twice
        shown.chat.push_screen(ContextScreen(shown))


class ContextScreen(LeftOnce[None]):
    """The panels on a screen of their own."""

    DEFAULT_CSS: ClassVar[str] = "ContextScreen { layout: vertical; }"
    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(self, shown: "Shown") -> None:
        super().__init__()
        self.panels = ContextPanels(shown)

    def compose(self) -> ComposeResult:
        yield self.panels

    def on_resize(self, event: events.Resize) -> None:
        cover_if_too_small(self, event.size)
