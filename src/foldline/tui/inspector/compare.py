"""Compare requests: what two views do not share, on a screen of its own."""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.strip import Strip

from foldline.context import numbers
from foldline.context.budget import Size
from foldline.context.harmless import clean, clean_line
from foldline.context.moments import Change, Moment, Pair, difference, runs, sums, weight_of
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Piece, Span, Spans, cut_right, piece, row, to_strip
from foldline.tui.blocks.diff import DiffBlock, DiffLine
from foldline.tui.blocks.plain import RowBlock, TextBlock
from foldline.tui.blocks.styles import Styles
from foldline.tui.blocks.view import BlockView
from foldline.tui.dialogs import open_help
from foldline.tui.inspector.past import Comparison, Past
from foldline.tui.keys.table import HELP, ScreenKey, bindings, cursor_keys, hint_words, name_of, table, works
from foldline.tui.panels.bodies import PIECE_LINES, body_blocks
from foldline.tui.panels.edit_hints import change_words
from foldline.tui.panels.entry_list import EntryList, piece_key, preview_key, row_key, row_of
from foldline.tui.panels.entry_rows import ItemRow, Source, gutter_width, row_gutter
from foldline.tui.panels.frame import Panel, Text, hints_row
from foldline.tui.panels.states import signs, state_words
from foldline.tui.widgets.lines import hint

KEYS: Final[tuple["ScreenKey[CompareScreen]", ...]] = table(
    "difference",
    "Move",
    *cursor_keys(),
    ScreenKey(
        "toggle",
        ("enter",),
        "Opens or closes what is under the cursor: items that are the same, a text, what changed in it.",
        "Move",
        "open or close",
        own=True,
    ),
    ScreenKey(
        "open",
        ("o",),
        "Goes to the entry in History.",
        "Jump",
        "entry in History",
        works=lambda screen: screen.pair is not None,
    ),
    ScreenKey(
        "next-pair",
        ("d",),
        "Compares the next pair: with the marked request, before and after the compaction, with the one "
        "before.",
        "Compare",
        "next pair",
        works=lambda screen: len(screen.comparisons) > 1,
    ),
    HELP,
    ScreenKey("close", ("escape", "q"), "Back to where you were.", "Program", "close", "Esc"),
)

SIGNS: Final[dict[Change, Span]] = {
    "same": (" ", ""),
    "gone": ("−", "alert bold"),
    "new": ("+", "live bold"),
    "changed": ("±", "altered bold"),
}
_AT_FIRST: Final = 6
"""Lines of a changed text that show while it is closed."""
_LINE: Final = 4_000
"""Characters of a line that are shown: one line of megabytes must not be one piece."""
_REMARK: Final = 26
"""Cells at most for what became of an item."""
_ROOMY: Final = 76
"""Cells of a row from which on it says that."""


@dataclass(frozen=True, slots=True, eq=False)
class PairRow(Block):
    """The row of an item of either view, with what became of it."""

    source: Source
    pair: Pair
    remark: str
    room: int
    """Cells that the remarks of all rows need."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        room = self.room + 3 if self.room and width >= _ROOMY else 0
        item = ItemRow(self.key, self.source, self.pair.item).render(width - room, styles)[0]
        if not room:
            return [item]
        remark = cut_right(self.remark, self.room)
        spans = [("   ", ""), (remark, "muted"), (" " * (self.room - cell_len(remark)), "")]
        return [Strip.join([item.adjust_cell_length(width - room), to_strip(spans, styles)])]

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return f"{SIGNS[self.pair.change][0]} {ItemRow(self.key, self.source, self.pair.item).text()}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two views, compared. `after` is the later history."""

    before: Projection
    after: Projection
    pairs: tuple[Pair, ...]
    cwd: str = ""

    def rows(self, opened: Container[Key]) -> list[Block]:
        """All rows. `opened` rows show all they hold."""
        room = min(max((cell_len(self.remark(pair)) for pair in self.pairs), default=0), _REMARK)
        blocks: list[Block] = []
        for change, run in runs(self.pairs):
            if change == "same":
                total, key = sums(self.after, run)["same"], preview_key(row_key(*run[0].item.key))
                weight = numbers.tokens(total.after, estimated=total.estimated)
                words = f"… {many(total.count, 'item')} unchanged, {weight}"
                blocks.append(RowBlock(key, (), ((words, "muted"),)))
                if key not in opened:
                    continue
            for pair in run:
                blocks += self._pair_rows(pair, room, opened)
        return blocks or [TextBlock((-4, 0), "Both views are empty.", "muted", stop=False)]

    def _pair_rows(self, pair: Pair, room: int, opened: Container[Key]) -> Iterator[Block]:
        """The row of an item, and what is open below it."""
        source = Source(self.before if pair.after is None else self.after, self.cwd)
        key = row_key(*pair.item.key)
        yield PairRow(key, source, pair, self.remark(pair), room)
        if pair.change == "changed":
            yield from _changed_text(key, pair, whole=key in opened)
        elif key in opened:
            yield from body_blocks(source.projection, pair.item.message, key)

    def remark(self, pair: Pair) -> str:
        """What stands for an item now, or how it changed."""
        match pair.change:
            case "gone":
                return state_words(self.after, pair.item.index)
            case "changed":
                weight = weight_of(self.after, pair.before)
                how = f"{pair.item.fate}, " if pair.item.fate != "live" else ""
                return f"{how}was {numbers.tokens(weight.tokens, estimated=weight.estimated)}"
            case _:
                return ""

    def gutter(self, block: Block | None, key: Key, line: int, width: int) -> Spans:
        """What stands left of a line: the sign, letter and gutter sign as in the later view, the number."""
        if not isinstance(block, PairRow):
            return ()
        item, sign = block.pair.item, SIGNS[block.pair.change]
        if key != block.key or line:
            return (" ", ""), sign
        letter, gutter = signs(self.after, item.index)
        return row_gutter((sign, (" ", "") if item.written else letter), gutter, item.index, width)

    def _counted(self, change: Change) -> str:
        """`250 and 1 summary`: summaries apart, as for what a compaction compacted."""
        written = [pair.item.written for pair in self.pairs if pair.change == change]
        entries, summaries = written.count(False), written.count(True)
        parts = [str(entries)] if entries or not summaries else []
        return " and ".join([*parts, *([many(summaries, "summary", "summaries")] * bool(summaries))])

    def sum_spans(self) -> Iterator[list[Span]]:
        """What the views do not share, and last what they do, in tokens."""
        totals = sums(self.after, self.pairs)
        for change in ("gone", "new", "changed"):
            total = totals[change]
            weight = f" {change_words(total.change)}" if total.count else ""
            yield [SIGNS[change], (f" {self._counted(change)} {change}", "text"), (weight, "muted")]
        same = totals["same"]
        weight = f" {numbers.tokens(same.after, estimated=same.estimated)}" if same.count else ""
        yield [(f"{same.count} unchanged", "text"), (weight, "muted")]


# --- What changed in a text -------------------------------------------------------------------------------


def text_changes(before: str, after: str) -> tuple[DiffLine, ...]:
    """What two texts do not share, less the lines that both begin and end with: linear, however long."""
    old, new = before.split("\n"), after.split("\n")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    lines = [DiffLine("skip", 0, f"{many(start, 'line')} the same")] if start else []
    lines += [DiffLine("old", at + 1, old[at][:_LINE]) for at in range(start, len(old) - end)]
    lines += [DiffLine("new", at + 1, new[at][:_LINE]) for at in range(start, len(new) - end)]
    if end:
        lines.append(DiffLine("skip", 0, f"{many(end, 'line')} the same"))
    return tuple(lines)


def _changed_text(row: Key, pair: Pair, *, whole: bool) -> Iterator[Block]:
    assert pair.before is not None and pair.after is not None, "what changed was there before"
    lines = text_changes(clean(pair.before.message.text), clean(pair.after.message.text))
    shown = lines if whole else _first(lines)
    for number, start in enumerate(range(0, len(shown), PIECE_LINES)):
        yield DiffBlock(piece_key(row, number), shown[start : start + PIECE_LINES], stop=whole)
    if len(shown) < len(lines):
        more = f"… {many(len(lines) - len(shown), 'more line')}, Enter opens"
        yield TextBlock(preview_key(row), more, "muted", stop=False)


def _first(lines: tuple[DiffLine, ...]) -> tuple[DiffLine, ...]:
    """What says most in a few lines: what is sent now, and the start of what was sent before."""
    if len(lines) <= _AT_FIRST:
        return lines
    new = [line for line in lines if line.kind == "new"][: _AT_FIRST - 2]
    old = [line for line in lines if line.kind == "old"][: _AT_FIRST - len(new)]
    return (*old, *new)


def _is_run(key: Key) -> bool:
    """Whether this is the row of a run of items that are the same."""
    return key == preview_key(row_of(key))


class CompareScreen(Screen[int | None]):
    """Gives back the index of an entry to go to, or nothing."""

    DEFAULT_CSS: ClassVar[str] = "CompareScreen { layout: vertical; }"
    AUTO_FOCUS: ClassVar[str | None] = None
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "compare")

    def __init__(
        self,
        now: Projection,
        past: Past,
        comparisons: Sequence[Comparison],
        size_of: Callable[[Moment | None, Projection], Size],
        cwd: str = "",
    ) -> None:
        """At least one comparison; the first is shown. `size_of` a moment, and the history as it was then."""
        super().__init__()
        self._now = now
        self._past = past
        self._size_of = size_of
        self.comparisons: Sequence[Comparison] = comparisons
        self._at = 0
        self._cwd = cwd
        self.found: Difference | None = None
        """What is shown; None while it is worked out."""
        self._opened: set[Key] = set()
        self._width = gutter_width(now.last_index)
        self.list = EntryList(id="difference", gutter=self._gutter, gutter_width=self._width)
        self._header, self._sums = Text(id="header"), Text(id="sums")
        self._status, self._hints = Text(id="status"), Text(id="hints")
        self._panel = Panel(self.list, title="", above=self._sums)

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._panel
        yield self._status
        yield self._hints

    def on_mount(self) -> None:
        self.list.focus()
        self._panel.show_focus(True)
        self._compare()

    def on_resize(self) -> None:
        self.call_after_refresh(self._describe)

    def _compare(self) -> None:
        self.found = None
        self._opened.clear()
        self.list.set_blocks([TextBlock((-5, 0), "loading …", "muted", stop=False)])
        self._describe()
        self.run_worker(self._work_out(self.comparisons[self._at]), group="difference", exclusive=True)

    async def _work_out(self, wanted: Comparison) -> None:
        before, after = await self._as_of(wanted.before), await self._as_of(wanted.after)
        self.found = Difference(before, after, tuple(difference(before.view, after.view)), self._cwd)
        self.list.set_blocks(self.found.rows(self._opened))
        self.list.action_home()
        first = self.list.next_where(None, 1, lambda block: isinstance(block, PairRow))
        self.list.cursor_to(first, quiet=True)
        self._describe()

    async def _as_of(self, moment: Moment | None) -> Projection:
        return self._now.forked() if moment is None else await self._past.at(moment)

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def pair(self) -> Pair | None:
        """The item under the cursor."""
        key = self.list.cursor
        block = self.list.block(row_of(key)) if key is not None and not _is_run(key) else None
        return block.pair if isinstance(block, PairRow) else None

    def works_now(self, command: str) -> bool:
        return works(KEYS, command, self)

    def action_compare(self, command: str) -> None:
        """One of the keys of the table."""
        if not self.works_now(command):
            return
        match command:
            case "open" if self.pair is not None:
                self.dismiss(self.pair.item.index)
            case "next-pair":
                self._at = (self._at + 1) % len(self.comparisons)
                self._compare()
            case "help":
                open_help(self.app)
            case _:
                self.dismiss(None)

    @on(BlockView.Opened)
    def _toggle(self, event: BlockView.Opened) -> None:
        event.stop()
        if self.found is not None:
            key = event.key if _is_run(event.key) else row_of(event.key)
            self._opened ^= {key}
            self.list.cursor_to(key, quiet=True, scroll=False)
            self.list.set_blocks_around(key, self.found.rows(self._opened))
            self._describe()

    @on(BlockView.CursorMoved)
    def _moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        self._describe()

    # --- Words ----------------------------------------------------------------------------------------

    def _gutter(self, key: Key, line: int) -> Spans:
        if self.found is None:
            return ()
        return self.found.gutter(self.list.block(row_of(key)), key, line, self._width)

    def _describe(self) -> None:
        if not self.is_mounted:
            return
        width = self.size.width
        wanted, found = self.comparisons[self._at], self.found
        number = f"{self._at + 1} of {len(self.comparisons)}" if len(self.comparisons) > 1 else ""
        where = Piece((("Inspector", "bold"), (" ▸ ", "muted"), ("Compare requests", "text bold")))
        help_key = Piece(hint(name_of(KEYS, "help"), "help"), rank=2)
        self._header.show(row([where], [piece(number, "muted", rank=1), help_key], width))
        sizes = ""
        if found is not None:  # `26.9k → 28.6k`: of the two requests, as all panels have them
            both = self._size_of(wanted.before, found.before), self._size_of(wanted.after, found.after)
            sizes = " → ".join(numbers.tokens(size.tokens, estimated=size.estimated) for size in both)
        self._panel.head(sizes, clean_line(wanted.title))
        parts = [
            Piece(tuple(words), rank=rank) for rank, words in enumerate(found.sum_spans() if found else ())
        ]
        self._sums.show(row(parts, [], max(width - 2, 1)) if found else [])
        self._status.show(self._status_row(width))
        self._hints.show(hints_row(hint_words(KEYS, self), width))

    def _status_row(self, width: int) -> list[Span]:
        """What the cursor is on."""
        pair, found = self.pair, self.found
        if found is not None and all(each.change == "same" for each in found.pairs):
            return row([piece("Both views are the same.", "text")], [], width)
        if found is None or pair is None:
            return row([], [], width)
        index = pair.item.index
        state = f" {state_words(found.after, index)}"
        spans = ((f"{index} ", "bold"), *signs(found.after, index), (state, "text"))
        more = [piece(found.remark(pair), "muted", rank=1)] if pair.change == "changed" else []
        return row([Piece(spans, cut="right"), *more], [], width)
