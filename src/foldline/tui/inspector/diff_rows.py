"""The rows of the difference of two views: what is the same in one line, what is not item by item. Pure."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.context.difference import Change, Pair, Sum, runs, sums, weight_of
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.protocol import BaseMessage
from foldline.tui import numbers
from foldline.tui.blocks import Block, DiffBlock, DiffLine, Key, RowBlock, Span, Styles, TextBlock, clean
from foldline.tui.blocks.cells import Spans, cut_right, to_strip
from foldline.tui.inspector.bodies import body_blocks
from foldline.tui.inspector.places import fate_words, marks, piece_key, preview_key, row_key, row_of
from foldline.tui.inspector.rows import ItemRow, Source

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
    def sums(self) -> dict[Change, Sum]:
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
