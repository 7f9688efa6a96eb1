"""The Context screen: what fills the window, by category and by item, with edits that free some of it."""

from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from foldline.compaction import Plan
from foldline.context.tally import kind_of
from foldline.context.view import ViewItem
from foldline.tui.blocks import Block, BlockView, Key, RuleBlock, Span, Spans, TextBlock
from foldline.tui.blocks.cells import piece, row
from foldline.tui.context_screen import rows
from foldline.tui.context_screen.rows import KEYS, TOTAL_KEY, ContextState, Row
from foldline.tui.figures import view_moment
from foldline.tui.keys.table import bindings
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.panels import edit_hints
from foldline.tui.panels.entry_list import EntryList, row_key
from foldline.tui.panels.entry_rows import gutter_width, view_gutter
from foldline.tui.panels.frame import Panel, Text
from foldline.tui.panels.workbench import Workbench
from foldline.tui.widgets.lines import cover_if_too_small

if TYPE_CHECKING:
    from foldline.protocol.events import Event
    from foldline.tui.presenter import Shown

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
        if rows.trouble_of(agent):
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
        self._rows = {each.block.key: each for each in rows.use_rows(state)}
        use: list[Block] = [each.block for each in self._rows.values()]
        use.insert(list(self._rows).index(TOTAL_KEY), RuleBlock((-1, 0), "", "muted", stop=False, wide=False))
        self.panels[USE].view.set_blocks(use)
        self._items = {row_key(*item.key): item for item in state.items}
        items = self.panels[LARGEST].view
        self._gutter_width = gutter_width(state.projection.last_index)
        items.widen_gutter(self._gutter_width)
        items.set_blocks(rows.large_rows(state) or [TextBlock((-1, 1), _EMPTY, "muted", stop=False)])
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
        self.panels[USE].styles.width = rows.USE_WIDTH if is_wide else "1fr"
        self.show_panels(*((USE, LARGEST) if is_wide else (self.active,)))
        self.describe()

    def _largest_of(self, chosen: Row) -> Key | None:
        wanted = chosen.share.category if chosen.share is not None else None
        return next((key for key, item in self._items.items() if kind_of(item) == wanted), None)

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self) -> None:
        for widget, line in zip(
            self._top, rows.top_rows(self._title, self.state, self.size.width), strict=True
        ):
            widget.show(line)
        use, items = self.panels
        self._heading.show(rows.use_heading((use.size.width or rows.USE_WIDTH) - 2))
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

    DEFAULT_CSS: ClassVar[str] = "ContextScreen { layout: vertical; background: $role-background; }"
    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(self, shown: "Shown") -> None:
        super().__init__()
        self.panels = ContextPanels(shown)

    def compose(self) -> ComposeResult:
        yield self.panels

    def on_resize(self, event: events.Resize) -> None:
        cover_if_too_small(self, event.size)
