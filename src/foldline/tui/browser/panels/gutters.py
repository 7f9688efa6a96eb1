"""The gutters of the rows, computed when drawn, so that a compaction need not rebuild the rows."""

from collections.abc import Sequence

from foldline.tui.blocks.block import Block, Key
from foldline.tui.browser.panels.entry_list import DIVIDER_KEY, TOOLS_KEY, row_of
from foldline.tui.browser.panels.entry_rows import ItemRow, SummaryPreview
from foldline.tui.browser.panels.states import signs
from foldline.tui.look.cells import Span, Spans
from foldline.tui.look.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.view.items import IN_VIEW
from foldline.view.projection import Projection


def gutter_width(last_index: int) -> int:
    """Return the gutter width, in cells, required for this largest entry number."""
    return 4 + max(5, len(str(max(last_index, 0))) + 1) + 1


def row_gutter(signs: Sequence[Span], flag: Span, index: int, width: int) -> Spans:
    """Return the gutter of a row: a cell for the cursor, then letter, symbol, flag and number."""
    return ((" ", ""), *signs, flag, (f"{index:>{width - 5}} ", "muted"))


def history_gutter(
    projection: Projection, new_from: int | None, key: Key, line: int, width: int
) -> Spans:
    """Return the gutter of a line in History.

    Args:
        new_from: index of the first new entry of the view.
    """
    index = key[0]
    if index < 0:
        return ()
    if key != row_of(key) or line:
        return (("  ", ""), signs(projection, index)[1])
    kind = projection.fate(index).kind
    is_new = kind in IN_VIEW and new_from is not None and index >= new_from
    flag = _flag(projection.is_pinned(index), is_new)
    return row_gutter((letter(kind), gutter_sign(kind)), flag, index, width)


def view_gutter(
    block: Block | None, new_from: int | None, key: Key, line: int, width: int
) -> Spans:
    """Return the gutter of a line in the LLM view.

    Args:
        block: the block to which the line belongs.
        new_from: index of the first new item.
    """
    if key == TOOLS_KEY:
        return (("  ", ""), GUTTER_SIGNS["whole"])
    if isinstance(block, SummaryPreview):
        return (
            (" " * (width - 2), ""),
            ("▷" if line in block.marked else " ", "accent"),
        )
    if key == DIVIDER_KEY or not isinstance(block, ItemRow):
        return ()
    item = block.item
    state, sign = letter(item.fate), gutter_sign(item.fate)
    if item.written:
        state, sign = (" ", ""), GUTTER_SIGNS["name"]
    if key != block.key or line:
        return (("  ", ""), sign)
    is_new = new_from is not None and item.index >= new_from
    return row_gutter((state, sign), _flag(item.pinned, is_new), item.index, width)


def with_tick(spans: Spans) -> Spans:
    """Replace the first cell of a gutter, which is reserved for the cursor, with `✓`."""
    (text, style), *others = spans
    if not text.startswith(" "):
        return spans
    return (("✓", "accent bold"), (text[1:], style), *others)


def _flag(is_pinned: bool, is_new: bool) -> Span:
    if is_pinned:
        return ("*", "accent")
    return ("+", "live") if is_new else (" ", "")
