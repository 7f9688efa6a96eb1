"""The rows of the LLM view while two points in the history are compared."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.past.describe import size_words
from foldline.past.moments import ItemChange, ItemPair, runs, sums, weight_of
from foldline.sequences import same_start
from foldline.text import numbers
from foldline.text.harmless import clean
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.diff import DiffBlock, DiffLine
from foldline.tui.blocks.plain import RowBlock, TextBlock
from foldline.tui.browser.panels.bodies import PIECE_LINES, body_blocks
from foldline.tui.browser.panels.edit_hints import change_words
from foldline.tui.browser.panels.entry_list import (
    piece_key,
    preview_key,
    row_key,
    row_of,
)
from foldline.tui.browser.panels.entry_rows import ItemRow, RowSource
from foldline.tui.browser.panels.gutters import row_gutter
from foldline.tui.browser.panels.states import signs, state_words
from foldline.tui.look.cells import (
    RowPiece,
    Span,
    Spans,
    crop,
    cut_right,
    row,
    to_strip,
)
from foldline.tui.look.styles import Styles
from foldline.view.projection import Projection

SIGNS: Final[dict[ItemChange, Span]] = {
    "same": (" ", ""),
    "gone": ("−", "alert bold"),
    "new": ("+", "live bold"),
    "changed": ("±", "altered bold"),
}
_CHANGES: Final[tuple[ItemChange, ...]] = ("gone", "new", "changed")
BOTH_EMPTY: Final = "Both views are empty."
BOTH_SAME: Final = "Both views are identical."
_AT_FIRST: Final = 6
"""Maximum number of lines shown of an item's text while its row is collapsed."""
_LINE: Final = 4_000
"""Maximum number of characters shown per line, because a line can be megabytes long."""
_REMARK: Final = 26
"""Maximum width of a row's remark, in cells. The end of a longer remark is cut off."""
_ROOMY: Final = 76
"""Minimum width of a row, in cells, at which its remark is shown."""


@dataclass(frozen=True, slots=True, eq=False)
class PairRow(ItemRow):
    """The row of an item from either of the two views.

    A remark gives the item's state or size.
    """

    change: ItemChange = field(kw_only=True)
    remark: str = field(kw_only=True)
    room: int = field(kw_only=True)
    """Width of the remark column, in cells; 0 if there are no remarks."""

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        if not self.room or width < _ROOMY:
            return ItemRow.render(self, width, styles)
        item_width = width - self.room - 3
        item = ItemRow.render(self, item_width, styles)[0]
        remark = f"   {cut_right(self.remark, self.room)}"
        spans = crop([(remark, "muted")], self.room + 3)
        return [
            Strip.join([item.adjust_cell_length(item_width), to_strip(spans, styles)])
        ]


@dataclass(frozen=True, slots=True)
class ViewDifference:
    """The differences between two views of the same history.

    `before` and `after` are the history at two points in time.
    """

    before: Projection
    after: Projection
    pairs: tuple[ItemPair, ...]
    cwd: str = ""

    def rows(self, opened: Container[Key]) -> list[Block]:
        """Return all rows, with the bodies of those in `opened`."""
        remarks = [cell_len(self.remark(pair)) for pair in self.pairs]
        room = min(max(remarks, default=0), _REMARK)
        blocks: list[Block] = []
        for change, run in runs(self.pairs):
            if change == "same":
                key = preview_key(row_key(*run[0].item.key))
                blocks.append(self._unchanged_row(key, run))
                if key not in opened:
                    continue
            for pair in run:
                blocks += self._pair_rows(pair, room, opened)
        return blocks or [TextBlock((-4, 0), BOTH_EMPTY, "muted", stop=False)]

    def _unchanged_row(self, key: Key, run: Sequence[ItemPair]) -> Block:
        total = sums(self.after, run)["same"]
        weight = numbers.tokens(total.after, estimated=total.estimated)
        words = f"… {many(total.count, 'item')} unchanged, {weight}"
        return RowBlock(key, (), ((words, "muted"),))

    def _pair_rows(
        self, pair: ItemPair, room: int, opened: Container[Key]
    ) -> Iterator[Block]:
        """Yield the row of an item and, if expanded, its body."""
        view = self.before if pair.after is None else self.after
        source = RowSource(view, self.cwd)
        key = row_key(*pair.item.key)
        yield PairRow(
            key,
            source,
            pair.item,
            change=pair.change,
            remark=self.remark(pair),
            room=room,
        )
        if pair.change == "changed":
            yield from _changed_text(key, pair, is_open=key in opened)
        elif key in opened:
            yield from body_blocks(source.projection, pair.item.message, key)

    def remark(self, pair: ItemPair) -> str:
        """Return the remark of a row.

        This is the state of a removed item, or the earlier size of a changed item.
        """
        match pair.change:
            case "gone":
                return state_words(self.after, pair.item.index)
            case "changed":
                weight = weight_of(self.after, pair.before)
                was = f"was {size_words(weight)}"
                fate = pair.item.fate
                return was if fate == "live" else f"{fate}, {was}"
            case _:
                return ""

    def gutter(self, block: Block | None, key: Key, line: int, width: int) -> Spans:
        """Return the gutter of a line: change, state in the later view, and entry number."""
        if not isinstance(block, PairRow):
            return ()
        item = block.item
        sign = SIGNS[block.change]
        if key != block.key or line:
            return (" ", ""), sign
        letter, gutter = signs(self.after, item.index)
        if item.written:
            letter = (" ", "")
        return row_gutter((sign, letter), gutter, item.index, width)

    def _counted(self, change: ItemChange) -> str:
        """Return the number of items with this change: `250 and 1 summary`."""
        is_summary = [pair.item.written for pair in self.pairs if pair.change == change]
        entries = is_summary.count(False)
        summaries = many(is_summary.count(True), "summary", "summaries")
        if not any(is_summary):
            return str(entries)
        return f"{entries} and {summaries}" if entries else summaries

    def sums_row(self, width: int) -> list[Span]:
        """Return the numbers and sizes of the removed, new, changed and unchanged items."""
        totals = sums(self.after, self.pairs)
        if all(totals[change].count == 0 for change in _CHANGES):
            return row([RowPiece(((BOTH_SAME, "text"),))], [], width)
        pieces: list[RowPiece] = []
        for rank, change in enumerate(_CHANGES):
            total = totals[change]
            weight = f" {change_words(total.change)}" if total.count else ""
            counted = (f" {self._counted(change)} {change}", "text")
            spans = (SIGNS[change], counted, (weight, "muted"))
            pieces.append(RowPiece(spans, rank=rank))
        same = totals["same"]
        weight = numbers.tokens(same.after, estimated=same.estimated)
        unchanged = ((f"{same.count} unchanged", "text"), (f" {weight}", "muted"))
        pieces.append(RowPiece(unchanged, rank=len(pieces)))
        return row(pieces, [], width)


# --- The changes in a text ----------------------------------------------------------------------------------


def text_changes(before: str, after: str) -> tuple[DiffLine, ...]:
    """Return the lines that differ between two strings.

    Lines that both strings have in common at the start and end are left out. Takes linear time.
    """
    old, new = before.split("\n"), after.split("\n")
    start = same_start(old, new)
    end = same_start(old[start:][::-1], new[start:][::-1])
    lines: list[DiffLine] = []
    if start:
        lines.append(_unchanged_lines(start))
    lines += [
        DiffLine("old", at + 1, old[at][:_LINE]) for at in range(start, len(old) - end)
    ]
    lines += [
        DiffLine("new", at + 1, new[at][:_LINE]) for at in range(start, len(new) - end)
    ]
    if end:
        lines.append(_unchanged_lines(end))
    return tuple(lines)


def _unchanged_lines(count: int) -> DiffLine:
    return DiffLine("skip", 0, f"{many(count, 'line')} unchanged")


def _changed_text(row: Key, pair: ItemPair, *, is_open: bool) -> Iterator[Block]:
    assert pair.before is not None and pair.after is not None, (
        "a changed item is in both views"
    )
    lines = text_changes(
        clean(pair.before.message.text), clean(pair.after.message.text)
    )
    shown = lines if is_open else _first_lines(lines)
    for number, start in enumerate(range(0, len(shown), PIECE_LINES)):
        yield DiffBlock(
            piece_key(row, number), shown[start : start + PIECE_LINES], stop=is_open
        )
    hidden = len(lines) - len(shown)
    if hidden:
        more = f"… {many(hidden, 'more line')}, Enter opens"
        yield TextBlock(preview_key(row), more, "muted", stop=False)


def _first_lines(lines: tuple[DiffLine, ...]) -> tuple[DiffLine, ...]:
    """Return the first lines of a change.

    At least half of them come from the new text if it is long enough.
    """
    if len(lines) <= _AT_FIRST:
        return lines
    new = [line for line in lines if line.kind == "new"][: _AT_FIRST - 2]
    old = [line for line in lines if line.kind == "old"][: _AT_FIRST - len(new)]
    return (*old, *new)


def is_run(key: Key) -> bool:
    """Whether this is the row that stands for several unchanged items."""
    return key == preview_key(row_of(key))
