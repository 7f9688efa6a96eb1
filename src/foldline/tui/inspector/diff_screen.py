"""The difference of two views on a screen: Esc gives everything back as it was."""

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
from foldline.context.moments import Change, ChangeSum, Moment, Pair, difference, runs, sums, weight_of
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.protocol import BaseMessage
from foldline.tui.blocks import (
    Block,
    BlockView,
    DiffBlock,
    DiffLine,
    Key,
    RowBlock,
    Span,
    Spans,
    Styles,
    TextBlock,
    clean,
    clean_line,
)
from foldline.tui.blocks.cells import Piece, cut_right, piece, row, to_strip
from foldline.tui.dialogs import open_help
from foldline.tui.inspector import describe
from foldline.tui.inspector.bodies import body_blocks
from foldline.tui.inspector.comparing import Comparison
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.marks import gutter_width
from foldline.tui.inspector.panel import Panel, Text
from foldline.tui.inspector.past import Past
from foldline.tui.inspector.places import fate_words, marks, piece_key, preview_key, row_key, row_of
from foldline.tui.inspector.rows import ItemRow, Source
from foldline.tui.keys.table import ScreenKey, bindings, hint_words, name_of, table, works


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides which keys work."""

    on_entry: bool = False
    """Whether the cursor is on an item."""
    others: bool = False
    """Whether there is another pair to compare."""


KEYS: Final[tuple[ScreenKey[Facts], ...]] = table(
    "difference",
    ScreenKey("move", ("up", "down", "k", "j"), "Moves the cursor.", "Move", "move", "↑↓", own=True),
    ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first row, the last one.",
        "Move",
        own=True,
    ),
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
        works=lambda f: f.on_entry,
    ),
    ScreenKey(
        "next-pair",
        ("d",),
        "Compares the next pair: with the marked request, before and after the fold, with the one before.",
        "Compare",
        "next pair",
        works=lambda f: f.others,
    ),
    ScreenKey("help", ("?", "f1"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "q"), "Back to where you were.", "Program", "close", "Esc"),
    title="Inspector: difference",
)


SIGNS: Final[dict[Change, Span]] = {
    "same": (" ", ""),
    "gone": ("−", "alert bold"),
    "new": ("+", "live bold"),
    "changed": ("±", "altered bold"),
}
_AT_FIRST: Final = 6
"""Lines of a changed text that show while it is closed."""
_PIECE: Final = 40
_LINE: Final = 4_000
"""Characters of a line that are shown: one line of megabytes must not be one piece."""
_REMARK: Final = 26
"""Cells at most for what became of an item."""
_ROOMY: Final = 76
"""Cells of a row from which on it says that."""
_NOTHING: Final[Key] = (-4, 0)


@dataclass(frozen=True, slots=True, eq=False)
class PairRow(Block):
    """An item of either view, with what became of it."""

    source: Source
    pair: Pair
    remark: str
    room: int
    """Cells that the remarks of all rows need."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        room = self.room + 3 if self.room and width >= _ROOMY else 0
        row = ItemRow(self.key, self.source, self.pair.item).render(width - room, styles)[0]
        if not room:
            return [row]
        remark = cut_right(self.remark, self.room)
        spans = [("   ", ""), (remark, "muted"), (" " * (self.room - cell_len(remark)), "")]
        return [Strip.join([row.adjust_cell_length(width - room), to_strip(spans, styles)])]

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

    @property
    def sums(self) -> dict[Change, ChangeSum]:
        return sums(self.after, self.pairs)

    @property
    def equal(self) -> bool:
        return all(pair.change == "same" for pair in self.pairs)


def rows(found: Difference, opened: Container[Key]) -> list[Block]:
    """All rows. `opened` rows show all they hold."""
    room = min(max((cell_len(remark_of(found, pair)) for pair in found.pairs), default=0), _REMARK)
    blocks: list[Block] = []
    for change, run in runs(found.pairs):
        if change == "same":
            head = same_row(found, run)
            blocks.append(head)
            if head.key not in opened:
                continue
        for pair in run:
            blocks += pair_rows(found, pair, room, opened)
    if not blocks:
        blocks.append(TextBlock(_NOTHING, "Both views are empty.", "muted", stop=False))
    return blocks


def same_row(found: Difference, run: Sequence[Pair]) -> RowBlock:
    """`… 41 items the same, 18.2k`."""
    total = sums(found.after, run)["same"]
    weight = numbers.tokens(total.after, estimated=total.estimated)
    words = f"… {many(total.count, 'item')} the same, {weight}"
    return RowBlock(preview_key(row_key(*run[0].item.key)), (), ((words, "muted"),))


def pair_rows(found: Difference, pair: Pair, room: int, opened: Container[Key]) -> Iterator[Block]:
    """The row of an item, and what is open below it."""
    source = Source(found.before if pair.after is None else found.after, found.cwd)
    key = row_key(*pair.item.key)
    yield PairRow(key, source, pair, remark_of(found, pair), room)
    if pair.change == "changed":
        yield from _changed_text(key, pair, whole=key in opened)
    elif key in opened:
        yield from body_blocks(source.projection, pair.item.message, key)


def pair_marks(found: Difference, block: Block | None, key: Key, line: int, width: int) -> Spans:
    """What stands left of a line: the sign, letter and rail as they are in the later view, the number."""
    if not isinstance(block, PairRow):
        return ()
    item, sign = block.pair.item, SIGNS[block.pair.change]
    if key != block.key or line:
        return (" ", ""), sign
    letter, rail = marks(found.after, item.index)
    return (
        (" ", ""),
        sign,
        (" ", "") if item.written else letter,
        rail,
        (f"{item.index:>{width - 5}} ", "muted"),
    )


def sum_spans(found: Difference) -> Iterator[list[Span]]:
    """What both views do not share, and last what they do, in tokens."""
    for change, total in found.sums.items():
        if change == "same":
            continue
        words = f" {total.count} {change}"
        yield [SIGNS[change], (words, "text"), (f" {_signed(total.change)}" if total.count else "", "muted")]
    same = found.sums["same"]
    weight = numbers.tokens(same.after, estimated=same.estimated)
    yield [(f"{same.count} the same", "text"), (f" {weight}" if same.count else "", "muted")]


def total_words(found: Difference) -> str:
    """`26.9k → 28.6k`: the items of both views."""
    total = found.sums.values()
    before, after = sum(part.before for part in total), sum(part.after for part in total)
    estimated = any(part.estimated for part in total)
    return f"{numbers.tokens(before, estimated=estimated)} → {numbers.tokens(after, estimated=estimated)}"


def _signed(tokens: int) -> str:
    if not tokens:
        return "±0"
    return f"{'+' if tokens > 0 else '−'}{numbers.tokens(abs(tokens))}"


def remark_of(found: Difference, pair: Pair) -> str:
    """What stands for an item now, or how it changed."""
    match pair.change:
        case "gone":
            return fate_words(found.after, pair.item.index)
        case "changed":
            weight = weight_of(found.after, pair.before)
            how = f"{pair.item.fate}, " if pair.item.fate != "live" else ""
            return f"{how}was {numbers.tokens(weight.tokens, estimated=weight.estimated)}"
        case _:
            return ""


# --- What changed in a text ---------------------------------------------------------------------------


def text_changes(before: str, after: str) -> tuple[DiffLine, ...]:
    """What two texts do not share, less the lines that both begin and end with: linear, however long."""
    old, new = before.split("\n"), after.split("\n")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    lines = [DiffLine("skip", 0, _same(start))] if start else []
    lines += [DiffLine("old", at + 1, old[at][:_LINE]) for at in range(start, len(old) - end)]
    lines += [DiffLine("new", at + 1, new[at][:_LINE]) for at in range(start, len(new) - end)]
    return (*lines, *((DiffLine("skip", 0, _same(end)),) if end else ()))


def _same(count: int) -> str:
    return f"{many(count, 'line')} the same"


def _changed_text(row: Key, pair: Pair, *, whole: bool) -> Iterator[Block]:
    assert pair.before is not None and pair.after is not None, "what changed was there before"
    lines = text_changes(_text(pair.before.message), _text(pair.after.message))
    shown = lines if whole else _first(lines)
    for number, start in enumerate(range(0, len(shown), _PIECE)):
        yield DiffBlock(piece_key(row, number), shown[start : start + _PIECE], stop=whole)
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


def _text(message: BaseMessage) -> str:
    return clean(message.text)


def opened_row(key: Key) -> Key:
    """The row that Enter opens or closes: a piece stands for its row, a run of the same for itself."""
    return key if is_run(key) else row_of(key)


def is_run(key: Key) -> bool:
    """Whether this is the row of a run of items that are the same."""
    return key == preview_key(row_of(key))


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
