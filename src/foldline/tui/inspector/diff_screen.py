"""The difference of two views on a screen: Esc gives everything back as it was."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from foldline.context.difference import Pair, difference
from foldline.context.moments import Moment
from foldline.context.projection import Projection
from foldline.tui.blocks import BlockView, Key, Span, Spans, TextBlock, clean_line
from foldline.tui.help import open_help
from foldline.tui.inspector import describe
from foldline.tui.inspector.comparing import Comparison
from foldline.tui.inspector.diff_keys import KEYS, Facts
from foldline.tui.inspector.diff_rows import (
    Difference,
    PairRow,
    is_run,
    opened_row,
    pair_marks,
    remark_of,
    rows,
    sum_spans,
    total_words,
)
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.marks import gutter_width
from foldline.tui.inspector.panel import Panel, Text
from foldline.tui.inspector.past import Past
from foldline.tui.inspector.places import fate_words, marks, row_of
from foldline.tui.keys.table import bindings, hint_words, name_of, works
from foldline.tui.widgets.rows import Piece, piece, row


class DiffScreen(Screen[int | None]):
    """Gives back the index of an entry to go to, or nothing."""

    DEFAULT_CSS: ClassVar[str] = """
    DiffScreen { layout: vertical; background: ansi_default; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "differ")

    def __init__(self, now: Projection, past: Past, comparisons: Sequence[Comparison], cwd: str = "") -> None:
        """At least one comparison; the first is shown."""
        super().__init__()
        self._now = now
        self._past = past
        self._comparisons = comparisons
        self._at = 0
        self._cwd = cwd
        self._found: Difference | None = None
        self._opened: set[Key] = set()
        self._header = Text(id="header")
        self._sums = Text(id="sums")
        self._status = Text(id="status")
        self._hints = Text(id="hints")
        self._width = gutter_width(now.last_index)
        self.list = EntryView(
            gutter=self._gutter,
            gutter_width=self._width,
            faded=lambda _: False,
            follow=False,
            id="difference",
        )
        self._panel = Panel(self.list, title="", above=self._sums)
        self._do: dict[str, Callable[[], object]] = {
            "open": self._open_entry,
            "next-pair": self._next,
            "help": lambda: open_help(self.app),
            "close": lambda: self.dismiss(None),
        }

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._panel
        yield self._status
        yield self._hints

    def on_mount(self) -> None:
        self.list.focus()
        self._panel.focus_is_inside(True)
        self._compare()

    def on_resize(self) -> None:
        self.call_after_refresh(self._describe)

    @property
    def found(self) -> Difference | None:
        """What is shown; None while it is worked out."""
        return self._found

    # --- Comparing ------------------------------------------------------------------------------------

    def _compare(self) -> None:
        self._found = None
        self._opened.clear()
        self.list.set_blocks([TextBlock((-5, 0), "Both views are being put together …", "muted", stop=False)])
        self._describe()
        self.run_worker(self._work_out(self._comparisons[self._at]), group="difference", exclusive=True)

    async def _work_out(self, wanted: Comparison) -> None:
        before, after = await self._fold(wanted.before), await self._fold(wanted.after)
        pairs = difference(before.view, after.view)
        self._found = Difference(before, after, tuple(pairs), self._cwd)
        self.list.set_blocks(rows(self._found, self._opened))
        self.list.action_home()
        first = self.list.stop_where(None, 1, lambda block: isinstance(block, PairRow))
        self.list.cursor_to(first, quiet=True)
        self._describe()

    async def _fold(self, moment: Moment | None) -> Projection:
        return self._now.forked() if moment is None else await self._past.fold(moment)

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def _facts(self) -> Facts:
        return Facts(self._entry is not None, len(self._comparisons) > 1)

    @property
    def _pair(self) -> Pair | None:
        """The item under the cursor."""
        key = self.list.cursor
        block = self.list.block(row_of(key)) if key is not None and not is_run(key) else None
        return block.pair if isinstance(block, PairRow) else None

    @property
    def _entry(self) -> int | None:
        return None if self._pair is None else self._pair.item.index

    def works_now(self, command: str) -> bool:
        return works(KEYS, command, self._facts)

    def action_differ(self, command: str) -> None:
        """What a key of the table does."""
        if self.works_now(command):
            self._do[command]()

    def _open_entry(self) -> None:
        self.dismiss(self._entry)

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._comparisons)
        self._compare()

    @on(BlockView.Opened)
    def _toggle(self, event: BlockView.Opened) -> None:
        event.stop()
        if self._found is None:
            return
        key = opened_row(event.key)
        self._opened ^= {key}
        self.list.cursor_to(key, quiet=True, scroll=False)
        self.list.set_blocks_around(key, rows(self._found, self._opened))
        self._describe()

    @on(BlockView.CursorMoved)
    def _moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        self._describe()

    # --- Words ----------------------------------------------------------------------------------------

    def _gutter(self, key: Key, line: int) -> Spans:
        if self._found is None:
            return ()
        return pair_marks(self._found, self.list.block(row_of(key)), key, line, self._width)

    def _describe(self) -> None:
        if not self.is_mounted:
            return
        width = self.size.width
        wanted, found = self._comparisons[self._at], self._found
        number = f"{self._at + 1} of {len(self._comparisons)}" if len(self._comparisons) > 1 else ""
        where = Piece((("Inspector", "bold"), (" ▸ ", "muted"), ("What two views do not share", "text bold")))
        help_key = Piece(((name_of(KEYS, "help"), "accent"), (" help", "muted")), rank=2)
        self._header.show([row([where], [piece(number, "muted", rank=1), help_key], width)])
        self._panel.head(f"items {total_words(found)}" if found else "", clean_line(wanted.title))
        if found is not None:
            parts = [Piece(tuple(words), rank=rank) for rank, words in enumerate(sum_spans(found))]
            self._sums.show([row(parts, [], max(width - 2, 1))])
        else:
            self._sums.show([[]])
        self._status.show([self._about(width)])
        self._hints.show([describe.hints_row(width, tuple(hint_words(KEYS, self._facts)))])

    def _about(self, width: int) -> list[Span]:
        """What the cursor is on."""
        pair, found = self._pair, self._found
        if found is not None and found.equal:
            return row([piece("Both views are the same.", "text")], [], width)
        if found is None or pair is None:
            return row([], [], width)
        index = pair.item.index
        spans = (
            (f"{index} ", "bold"),
            *marks(found.after, index),
            (f" {fate_words(found.after, index)}", "text"),
        )
        more = [piece(remark_of(found, pair), "muted", rank=1)] if pair.change == "changed" else []
        return row([Piece(spans, cut="right"), *more], [], width)
