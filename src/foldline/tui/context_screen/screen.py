"""The Context screen: what fills the window, and its heaviest items with what can be done about each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen

from foldline.context.projection import Projection
from foldline.tui.blocks import Block, BlockView, Gutter, Key, clean_line
from foldline.tui.blocks.cells import Piece, Span, Spans, piece, row
from foldline.tui.context_screen import words
from foldline.tui.context_screen.opening import KEYS, Facts
from foldline.tui.context_screen.rows import (
    ITEM_GUTTER,
    USE_GUTTER,
    Row,
    bar_row,
    empty_block,
    item_blocks,
    item_marks,
    use_blocks,
    use_heading,
    use_rows,
)
from foldline.tui.context_screen.state import ContextState, Item
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import bindings, hint_words, name_of, works
from foldline.tui.messages import EditWanted, UndoWanted
from foldline.tui.panels.edit_hints import (
    EditKey,
    HintWorker,
    Limits,
    action_of,
    edit_row,
    entries_words,
    nothing_to,
    undo_target,
    undo_words,
)
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel, Text
from foldline.tui.panels.search import find
from foldline.tui.widgets.fields import OneLine
from foldline.tui.widgets.lines import LEAST, TooSmall

WIDE: Final = 120
"""Columns from which both panels stand side by side."""
_USE_WIDTH: Final = 46
_ROWS_AROUND: Final = 6
"""Header, bar, two rows on folds, status, hints."""
_ROWS_FOR_ALL: Final = 18
"""Rows below which header and the rows on folds give theirs to the panels; as in the chat."""
_LEAST_BELOW: Final = 8
"""Rows the lower panel needs where both stand one above the other."""
USE, LARGEST = 0, 1


class ContextScreen(Screen[None]):
    """Shows a `ContextState`. The owner calls `show` whenever something changed; what the reader wants done
    is posted as `EditWanted` and `UndoWanted`."""

    DEFAULT_CSS: ClassVar[str] = """
    ContextScreen { layout: vertical; background: ansi_default; }
    ContextScreen > #panels { height: 1fr; width: 1fr; layout: vertical; }
    ContextScreen > #panels.-wide { layout: horizontal; }
    """
    AUTO_FOCUS: ClassVar[str | None] = ""
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "context")

    def __init__(
        self,
        title: str,
        projection: Projection,
        state: ContextState,
        *,
        overhead: int,
        inspect: Callable[[int | None], None],
        preview: Callable[[], None],
    ) -> None:
        """`title` stands before `▸ Context`. `inspect` shows an entry, `preview` a fold."""
        super().__init__()
        self._title = title
        self._projection = projection
        self.state = state
        """What is shown."""
        self._inspect = inspect
        self._preview = preview
        self._active = LARGEST
        self._needle = ""
        self._news = ""
        self._rows: dict[Key, Row] = {}
        self._items: dict[Key, Item] = {}
        self._ready = False
        self._too_small = TooSmall()
        self._top = tuple(Text(id=name) for name in ("header", "bar", "fold", "automatic"))
        self._heading = Text(id="heading")
        use = _list("use", USE_GUTTER, lambda key, line: ())
        items = _list("largest", ITEM_GUTTER, self._marks)
        self._panels = (
            Panel(use, title="1 Use", above=self._heading),
            Panel(items, title="2 Largest"),
        )
        self._status = Text(id="status")
        self._hints = Text(id="hints")
        self._one_line = OneLine()
        limits = Limits(overhead, state.room.threshold)
        self._prices = HintWorker(self, limits, self._describe)
        self._do: dict[str, Callable[[], None]] = {
            "next-panel": lambda: self._go(1 - self._active),
            "previous-panel": lambda: self._go(1 - self._active),
            "panel-1": lambda: self._go(USE),
            "panel-2": lambda: self._go(LARGEST),
            "open": self._open_entry,
            "pin": lambda: self._edit("pin"),
            "hide": lambda: self._edit("hide"),
            "drop": lambda: self._edit("drop"),
            "restore": lambda: self._edit("restore"),
            "undo": self._undo,
            "search": self._ask_search,
            "next-match": lambda: self._search(1),
            "previous-match": lambda: self._search(-1),
            "inspector": lambda: self._inspect(self.item.entry if self.item else None),
            "preview": self._preview,
            "help": lambda: open_help(self.app),
            "close": self._close,
        }

    def compose(self) -> ComposeResult:
        yield self._too_small
        yield from self._top
        with Container(id="panels"):
            yield from self._panels
        yield self._status
        yield self._one_line
        yield self._hints

    def on_mount(self) -> None:
        self._ready = True
        self.show(self.state, self._prices.limits.overhead)
        if not self._both_fit():
            self._active = USE
        self._lay_out()
        self.active_view.focus()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()
        self.call_after_refresh(self._describe)

    # --- what the owner tells it --------------------------------------------------------------------------

    def show(self, state: ContextState, overhead: int) -> None:
        """Show this; lists that are the same are left alone."""
        before, self.state = self.state, state
        self._prices.limits = Limits(overhead, state.room.threshold)
        if not self._ready:
            return
        rows = use_rows(state)
        if list(self._rows.values()) != rows:
            self._rows = {each.key: each for each in rows}
            self._fill(USE, use_blocks(rows))
        if not self._items or state.items != before.items:
            self._items = {item.key: item for item in state.items}
            self._fill(LARGEST, item_blocks(state.items) or [empty_block()])
        self._lay_out()
        self._describe()

    def tell(self, sentence: str) -> None:
        """Say something in the status row, until the cursor moves."""
        self._news = clean_line(sentence)
        self._describe()

    def _fill(self, number: int, blocks: Sequence[Block]) -> None:
        """Other rows; the cursor stays on its own, or where that was."""
        view = self._panels[number].view
        cursor, at = view.cursor, None if view.cursor is None else view.index_of(view.cursor)
        view.set_blocks(blocks)
        if cursor is not None and view.index_of(cursor) is None and view.count:
            view.cursor_to(view.block_at(min(at or 0, view.count - 1)).key, quiet=True)

    # --- where things are ---------------------------------------------------------------------------------

    @property
    def active_view(self) -> EntryList:
        return self._panels[self._active].view

    @property
    def item(self) -> Item | None:
        """The item under the cursor."""
        cursor = self._panels[LARGEST].view.cursor
        return self._items.get(cursor) if cursor is not None and self._active == LARGEST else None

    @property
    def row(self) -> Row | None:
        """The row of Use under the cursor."""
        cursor = self._panels[USE].view.cursor
        return self._rows.get(cursor) if cursor is not None and self._active == USE else None

    @property
    def facts(self) -> Facts:
        item = self.item
        on_entry = item is not None and item.entry is not None
        return Facts(
            on_entry=on_entry,
            editable=on_entry and item is not None and not item.advice,
            undoable=undo_target(self._projection) is not None,
        )

    @property
    def priced(self) -> bool:
        """Whether it is known what the keys would do at the cursor."""
        return self._prices.known

    def works_now(self, command: str) -> bool:
        """Whether a key of the table would do something."""
        return works(KEYS, command, self.facts)

    def _marks(self, key: Key, line: int) -> Spans:
        return item_marks(self._items.get(key)) if line == 0 else ()

    def _lay_out(self) -> None:
        width, height = self.size
        fits = width >= LEAST[0] and height >= LEAST[1]
        roomy = fits and height >= _ROWS_FOR_ALL
        wide, both = width >= WIDE, self._both_fit()
        self._too_small.display = not fits
        for number, widget in enumerate(self._top):
            widget.display = roomy or (fits and number == 1)
        panels = self.query_one("#panels")
        panels.display = self._hints.display = fits
        self._status.display = fits and not self._one_line.display
        panels.set_class(wide, "-wide")
        for number, panel in enumerate(self._panels):
            panel.display = both or number == self._active
            panel.show_focus(number == self._active)
        use = self._panels[USE].styles
        use.width = _USE_WIDTH if wide else "1fr"
        use.height = self._use_height if both and not wide else "1fr"

    def _both_fit(self) -> bool:
        """Whether both panels are shown at a time."""
        width, height = self.size
        return width >= WIDE or height - _ROWS_AROUND >= self._use_height + _LEAST_BELOW

    @property
    def _use_height(self) -> int:
        """Rows that all of Use takes: frame, heading and the rule above the total included."""
        return len(self._rows) + 4

    def _go(self, number: int) -> None:
        """Focus a panel."""
        if number != self._active:
            self.active_view.set_search("")
            self.active_view.give_cursor()
            self._active = number
            self.active_view.take_cursor()
            self.active_view.set_search(self._needle)
            self._lay_out()
        self.active_view.focus()
        self._describe()

    # --- words --------------------------------------------------------------------------------------------

    def _describe(self) -> None:
        """Everything that is said around the lists."""
        if not self._ready or self.size.width <= 0:
            return
        self._relink()
        state, width = self.state, self.size.width
        lines = (
            words.header_row(self._title, state, width),
            bar_row(state, width),
            *words.fold_rows(state, width),
        )
        for widget, line in zip(self._top, lines, strict=True):
            widget.show(line)
        use, items = self._panels
        inner = use.size.width - 2 if use.size.width else _USE_WIDTH - 2
        self._heading.show(use_heading(inner))
        use.head("~ estimated")
        items.head("░ a fold now would take it" if state.fold is not None else "")
        use.foot("Enter shows its largest" if self._active == USE else "")
        items.foot("Enter opens it in the Inspector" if self.facts.on_entry else "")
        self._status.show(self._status_line(width))
        closes = "ends the search" if self._needle else "close"
        self._hints.show(_hints_row(self.facts, closes, width))

    def _relink(self) -> None:
        """`▷` on the counterpart of the cursor: the category of an item, the largest item of a category."""
        chosen, item = self.row, self.item
        if item is not None:
            rows = (key for key, each in self._rows.items() if _belongs(item, each))
            self._panels[USE].view.show_counterpart(next(rows, None))
        elif chosen is not None:
            self._panels[LARGEST].view.show_counterpart(self._largest_of(chosen))

    def _largest_of(self, chosen: Row) -> Key | None:
        return next((key for key, item in self._items.items() if _belongs(item, chosen)), None)

    def _status_line(self, width: int) -> list[Span]:
        item = self.item
        if not self._news and item is not None and item.entry is not None:
            offers = self._prices.at(self._projection, item.entry)
            if offers is not None and (offers.keys or offers.refused) and not item.advice:
                return edit_row(self._projection, offers, _name, later=bool(self.state.doing), width=width)
        said = self._news or (item.advice if item is not None else words.about_row(self.state, self.row))
        return row([piece(said, "text", cut="right")], [], width)

    @on(BlockView.CursorMoved)
    def _moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        self._news = ""
        self._describe()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The mouse, too, chooses a panel."""
        for number, panel in enumerate(self._panels):
            if event.widget is panel.view and number != self._active:
                self._go(number)

    # --- keys ---------------------------------------------------------------------------------------------

    def action_context(self, command: str) -> None:
        """One of the keys in `keys.KEYS`."""
        self._news = ""
        if self.works_now(command):
            self._do[command]()
        elif command in ("pin", "hide", "drop", "restore", "open"):
            no_entry = self.item.advice if self.item is not None else ""
            self._news = no_entry or f"{_name('panel-2')} goes to the entries."
        self._describe()

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        if event.view is self._panels[LARGEST].view:
            if self.facts.on_entry:
                self._open_entry()
        elif self.row is not None:
            self._to_largest(self.row)
        self._describe()

    def _to_largest(self, chosen: Row) -> None:
        """Go to the heaviest item of a category."""
        key = self._largest_of(chosen)
        if key is None:
            self._news = f"None of the {len(self._items)} largest items is among: {chosen.name}."
            return
        self._go(LARGEST)
        self.active_view.cursor_to(key)

    def _open_entry(self) -> None:
        if self.item is not None and self.item.entry is not None:
            self._inspect(self.item.entry)

    def _edit(self, key: EditKey) -> None:
        """Ask for an edit of the entry under the cursor, or say why there is none."""
        assert self.item is not None and self.item.entry is not None, "the key works on entries only"
        index = self.item.entry
        action = action_of(self._projection, index, key)
        if action is None:
            self._news = nothing_to(self._projection, index, key, _name)
            return
        self._later(f"{action} {entries_words(self._projection.group(index))}")
        self.post_message(EditWanted(index, action))

    def _undo(self) -> None:
        marker = undo_target(self._projection)
        refusal = None if marker is None else self._projection.undo_refusal(marker.index)
        if marker is None:
            self._news = "Nothing to undo: no fold, edit, clear or rewind is in force."
        elif refusal is not None:
            self._news = refusal
        else:
            self._later(f"undo {undo_words(self._projection, marker)}")
            self.post_message(UndoWanted(marker.index))

    def _later(self, what: str) -> None:
        """A key that acts at once needs no words: the lists show it."""
        self._news = f"{what}: after this turn" if self.state.doing else ""

    def _close(self) -> None:
        """One step outwards."""
        if self._one_line.display:
            self._end_line()
        elif self._needle:
            self._needle = ""
            self.active_view.set_search("")
        else:
            self.dismiss()

    # --- search -------------------------------------------------------------------------------------------

    def _ask_search(self) -> None:
        def start(text: str) -> None:
            self._end_line()
            self._needle = text
            self.active_view.set_search(text)
            if text:
                self._search(1)

        self._status.display = False
        self._one_line.ask("find in this panel", self._needle, start)

    def _end_line(self) -> None:
        self._one_line.close()
        self._status.display = True
        self.active_view.focus()

    def _search(self, step: int) -> None:
        if self._needle:
            self.run_worker(self._look(self._needle, step), group="search", exclusive=True)
        else:
            self._news = f"Nothing to look for yet: {_name('search')} asks."

    async def _look(self, needle: str, step: int) -> None:
        view = self.active_view
        key, _ = await find(view, needle, view.cursor, step, lambda block: block.text())
        if key is not None:
            view.cursor_to(key, quiet=True)
        else:
            self._news = f"“{clean_line(needle)}” is nowhere in this panel."
        self._describe()


def _list(name: str, gutter_width: int, gutter: Gutter) -> EntryList:
    return EntryList(gutter=gutter, gutter_width=gutter_width, faded=lambda _: False, follow=False, id=name)


def _name(command: str) -> str:
    return name_of(KEYS, command)


def _belongs(item: Item, chosen: Row) -> bool:
    """Whether an item counts in a row of Use."""
    return item.category == chosen.category and item.server == chosen.server


def _hints_row(facts: Facts, closes: str, width: int) -> list[Span]:
    """The keys that work now; how to leave stands at the right end, and stays longest."""
    parts = {
        word: Piece(
            ((name, "accent"), (f" {closes if word == 'close' else word}", "muted")), rank=rank, gap=2
        )
        for rank, (name, word) in enumerate(hint_words(KEYS, facts), 2)
    }
    close, keys = parts.pop("close"), parts.pop("keys")
    return row([*parts.values(), replace(keys, rank=1)], [replace(close, rank=0)], width)
