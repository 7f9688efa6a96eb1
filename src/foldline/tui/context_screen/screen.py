"""The Context screen: what fills the window, by category and by item, with edits that free some of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from foldline.context.projection import Projection
from foldline.tui.blocks import Block, BlockView, Key, Span, Spans
from foldline.tui.blocks.cells import piece, row
from foldline.tui.context_screen import rows
from foldline.tui.context_screen.rows import Row
from foldline.tui.context_screen.state import KEYS, ContextReader, ContextState, Item, PromptKind
from foldline.tui.keys.table import bindings
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.panels import edit_hints
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel, Text
from foldline.tui.panels.workbench import Workbench
from foldline.tui.widgets.lines import cover_if_too_small

if TYPE_CHECKING:
    from foldline.protocol.events import Event
    from foldline.tui.app import FoldlineApp
    from foldline.tui.presenter import Shown

EVERY: Final = 0.2
"""Seconds between two looks, at least, while the agent works."""
WIDE: Final = 120
"""Columns from which both panels stand side by side."""
_USE_WIDTH: Final = 46
_ROWS_FOR_ALL: Final = 18
"""Rows below which header and the rows on compactions give theirs to the panels; as in the chat."""
_ROWS_AROUND: Final = 6
"""Header, bar, two rows on compactions, status, hints."""
_LEAST_BELOW: Final = 8
"""Rows the lower panel needs where both stand one above the other."""
USE, LARGEST = 0, 1


class ContextPanels(Workbench):
    """Use and Largest. What the reader wants done is posted as `OperationWanted`."""

    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "context")
    DEFAULT_CSS: ClassVar[str] = """
    ContextPanels > #panels { layout: vertical; }
    ContextPanels > #panels.-wide { layout: horizontal; }
    """

    class ScreenRequested(Message):
        """Another screen: the Inspector, at an entry where there is one, or the preview."""

        def __init__(self, command: str, entry: int | None = None) -> None:
            super().__init__()
            self.command = command
            self.entry = entry

    def __init__(self, projection: Projection, state: ContextState) -> None:
        self._heading = Text(id="heading")
        use = EntryList(id="use")
        items = EntryList(id="largest", gutter_width=rows.ITEM_GUTTER, gutter=self._gutter)
        super().__init__(Panel(use, title="1 Use", above=self._heading), Panel(items, title="2 Largest"))
        self._projection = projection
        self.state = state
        self.active = LARGEST
        self._rows: dict[Key, Row] = {}
        self._items: dict[Key, Item] = {}
        self._edit_hints = edit_hints.HintWorker(self, edit_hints.Limits(), self.describe)

    def on_mount(self) -> None:
        self.show(self.state)
        if not self._both_fit():
            self.active = USE
        self.lay_out()
        self.active_view.focus()

    def show(self, state: ContextState) -> None:
        """Show this; lists that are the same are left alone."""
        before, self.state = self.state, state
        self._edit_hints.limits = edit_hints.Limits(state.overhead, state.room.threshold)
        found = rows.use_rows(state)
        if list(self._rows.values()) != found:
            self._rows = {each.key: each for each in found}
            self._fill(USE, rows.use_blocks(found))
        if not self._items or state.items != before.items:
            self._items = {item.key: item for item in state.items}
            self._fill(LARGEST, rows.item_blocks(state.items))
        self.lay_out()

    def _fill(self, number: int, blocks: Sequence[Block]) -> None:
        """Other rows; the cursor stays on its own, or where that was."""
        view = self.panels[number].view
        cursor, at = view.cursor, None if view.cursor is None else view.index_of(view.cursor)
        view.set_blocks(blocks)
        if cursor is not None and view.index_of(cursor) is None and view.count:
            view.cursor_to(view.block_at(min(at or 0, view.count - 1)).key, quiet=True)

    # --- Where things are -----------------------------------------------------------------------------

    @property
    def item(self) -> Item | None:
        """The item under the cursor."""
        cursor = self.panels[LARGEST].view.cursor
        return self._items.get(cursor) if cursor is not None and self.active == LARGEST else None

    @property
    def row(self) -> Row | None:
        """The row of Use under the cursor."""
        cursor = self.panels[USE].view.cursor
        return self._rows.get(cursor) if cursor is not None and self.active == USE else None

    @property
    def on_entry(self) -> bool:
        """Whether the cursor is on an entry of the history."""
        return self.item is not None and self.item.entry is not None

    @property
    def editable(self) -> bool:
        """Whether edits apply to what is under the cursor."""
        return self.on_entry and self.item is not None and not self.item.advice

    @property
    def undoable(self) -> bool:
        """Whether anything that changed the view is in force."""
        return edit_hints.undo_target(self._projection) is not None

    @property
    def priced(self) -> bool:
        """Whether it is known what the keys would do at the cursor."""
        return self._edit_hints.known

    def _gutter(self, key: Key, line: int) -> Spans:
        return rows.item_marks(self._items.get(key)) if line == 0 else ()

    def lay_out(self) -> None:
        wide, both = self.size.width >= WIDE, self._both_fit()
        self.query("#panels").set_class(wide, "-wide")  # none, where it is closed before it was there
        use = self.panels[USE].styles
        use.width = _USE_WIDTH if wide else "1fr"
        use.height = self._use_height if both and not wide else "1fr"
        self.show_panels(*((USE, LARGEST) if both else (self.active,)))
        self.describe()

    def _both_fit(self) -> bool:
        """Whether both panels are shown at a time."""
        width, height = self.screen.size
        return width >= WIDE or height - _ROWS_AROUND >= self._use_height + _LEAST_BELOW

    @property
    def _use_height(self) -> int:
        """Rows that all of Use takes: frame, heading and the rule above the total included."""
        return len(self._rows) + 4

    def relink(self) -> None:
        """`▷` on the counterpart of the cursor: the category of an item, the largest item of a category."""
        chosen, item = self.row, self.item
        if item is not None:
            found = (key for key, each in self._rows.items() if _belongs(item, each))
            self.panels[USE].view.show_counterpart(next(found, None))
        elif chosen is not None:
            self.panels[LARGEST].view.show_counterpart(self._largest_of(chosen))

    def _largest_of(self, chosen: Row) -> Key | None:
        return next((key for key, item in self._items.items() if _belongs(item, chosen)), None)

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self) -> None:
        self.relink()
        use, items = self.panels
        self._heading.show(rows.use_heading((use.size.width or _USE_WIDTH) - 2))
        use.head("~ estimated")
        items.head("░ a compaction now would take it" if self.state.compaction is not None else "")
        use.foot("Enter shows its largest" if self.active == USE else "")
        items.foot("Enter opens it in the Inspector" if self.on_entry else "")

    def status_row(self, width: int) -> list[Span]:
        item = self.item
        if self.editable and item is not None:
            hints = self._edit_hints.at(self._projection, item.entry)
            if hints is not None and (hints.keys or hints.refused):
                later = bool(self.state.doing)
                return edit_hints.edit_row(self._projection, hints, self.key, later=later, width=width)
        said = item.advice if item is not None else self.row.about if self.row is not None else ""
        return row([piece(said, cut="right")], [], width)

    # --- Keys -----------------------------------------------------------------------------------------

    def action_context(self, command: str) -> None:
        """One of the keys of the table."""
        self.news = ""
        if self.works_now(command):
            self.act(command)
        elif command in ("pin", "hide", "drop", "restore", "open"):
            no_entry = self.item.advice if self.item is not None else ""
            self.news = no_entry or f"{self.key('panel-2')} goes to the entries."
        self.describe()

    def act(self, command: str) -> None:
        entry = self.item.entry if self.item is not None else None
        later = bool(self.state.doing)
        match command:
            case "pin" | "hide" | "drop" | "restore" if entry is not None:
                self.ask_for(edit_hints.edit(self._projection, entry, command, self.key, later=later))
            case "undo":
                self.ask_for(edit_hints.undo(self._projection, later=later))
            case "open" | "inspector" | "preview":
                self.post_message(self.ScreenRequested(command, entry))
            case _:
                super().act(command)

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        chosen = self.row
        if event.view is self.panels[LARGEST].view:
            if self.on_entry:
                self.act("open")
        elif chosen is not None:
            key = self._largest_of(chosen)
            if key is None:
                self.news = f"None of the {len(self._items)} largest items is among: {chosen.name}."
            else:
                self.go(LARGEST)
                self.active_view.cursor_to(key)
        self.describe()


def _belongs(item: Item, chosen: Row) -> bool:
    """Whether an item counts in a row of Use."""
    return item.category == chosen.category and item.server == chosen.server


class ContextScreen(LeftOnce[None]):
    """The panels below the header, the meter and what a compaction would give; kept up to date while open."""

    DEFAULT_CSS: ClassVar[str] = "ContextScreen { layout: vertical; background: ansi_default; }"
    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(self, program: "FoldlineApp", shown: "Shown") -> None:
        super().__init__()
        self._program = program
        self._shown = shown
        agent_state = shown.runner.agent.state
        self._reader = ContextReader(agent_state)
        self._stale = False
        self._title = f"{program.state.workdir} ▸ {program.state.title or 'new session'}"
        self._top = tuple(Text(id=name) for name in ("header", "bar", "compaction", "automatic"))
        self.panels = ContextPanels(agent_state.projection, self._now())

    def compose(self) -> ComposeResult:
        yield from self._top
        yield self.panels

    def on_mount(self) -> None:
        self._unsubscribe = self._shown.runner.agent.executor.subscribe(self._on_event)
        self._look()

    def on_unmount(self) -> None:
        self._unsubscribe()

    @property
    def state(self) -> ContextState:
        """What is shown."""
        return self.panels.state

    def _now(self) -> ContextState:
        program = self._program.state
        held, typed = program.waiting.held, self._program.chat.prompt.editor.text
        prompts: dict[PromptKind, Sequence[str]] = {
            "held": (held,) if held else (),
            "queued": program.waiting.queued,
            "written": (typed,) if typed.strip() else (),
        }
        return self._reader.state(self._shown.figures.room(), prompts, program.doing)

    def _on_event(self, event: "Event") -> None:
        """Whatever changes a number, or what the agent does. What streams in changes neither."""
        from foldline.protocol.events import TextDelta, ThinkingDelta, ToolOutput

        if not self._stale and not isinstance(event, TextDelta | ThinkingDelta | ToolOutput):
            self._stale = True
            self.app.set_timer(EVERY, self._look)  # the screen's own would rest while another covers it

    def _look(self) -> None:
        """Show what is now, and work out what a compaction would give."""
        self._stale = False
        if self.is_attached:
            self._show()
            self.run_worker(self._reader.plan_anew(self._show), group="plan")

    def _show(self) -> None:
        if self.panels.is_attached:
            self.panels.show(self._now())
            self._draw_top()

    def on_resize(self, event: events.Resize) -> None:
        cover_if_too_small(self, event.size)
        for number, widget in enumerate(self._top):
            widget.display = event.size.height >= _ROWS_FOR_ALL or number == 1
        self._draw_top()

    def _draw_top(self) -> None:
        width, state = self.size.width, self.state
        for widget, line in zip(self._top, rows.top_rows(self._title, state, width), strict=True):
            widget.show(line)

    @on(ContextPanels.ScreenRequested)
    def _open_screen(self, event: ContextPanels.ScreenRequested) -> None:
        event.stop()
        if event.command == "preview":
            self._shown.previewing.open()
        elif event.entry is None:
            self._shown.inspecting.open(self._program.state)
        else:
            self._shown.inspecting.open_at(event.entry, self._program.state)
