"""What stands left of every line of History and LLM view: letter, rail, flag, number.

Read when drawn, so that a fold changes rails without rebuilding a block.
"""

from foldline.context.outline import CompactionOutline
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW
from foldline.tui.blocks import Block, Key, Spans
from foldline.tui.inspector.places import DIVIDER_KEY, RAILS, TOOLS_KEY, letter, rail, row_of
from foldline.tui.inspector.rows import ItemRow
from foldline.tui.inspector.summaries import SummaryPreview
from foldline.tui.inspector.timeline import News


def gutter_width(last_index: int) -> int:
    """Cursor, letter, rail, flag, the largest number with a blank before it, a blank; at least 10 cells."""
    return 4 + max(5, len(str(max(last_index, 0))) + 1) + 1


def history_marks(projection: Projection, news: News | None, key: Key, line: int, width: int) -> Spans:
    """The gutter of a line in History."""
    index = key[0]
    if index < 0:
        return ()
    fate = projection.fate(index)
    if key != row_of(key) or line:
        summary = isinstance(projection.outline(index), CompactionOutline)
        return (("  ", ""), RAILS["name"] if summary and fate.kind in IN_VIEW else rail(fate.kind))
    fresh = news is not None and index >= news.first_index and fate.kind in IN_VIEW
    flag = _flag(projection.is_pinned(index), fresh)
    return ((" ", ""), letter(fate.kind), rail(fate.kind), flag, _number(index, width))


def view_marks(block: Block | None, news: News | None, key: Key, line: int, width: int) -> Spans:
    """The gutter of a line in the LLM view. `block` is that of the row the line belongs to."""
    if key == TOOLS_KEY:
        return (("  ", ""), RAILS["whole"])
    if key == DIVIDER_KEY:
        return ()
    if isinstance(block, SummaryPreview):
        return ((" " * (width - 2), ""), ("▷" if line in block.marked else " ", "accent"))
    if not isinstance(block, ItemRow):
        return ()
    item = block.item
    signs = RAILS["name"] if item.written else rail(item.fate)
    if key != block.key or line:
        return (("  ", ""), signs)
    fresh = news is not None and item.index >= news.first_index
    sign = (" ", "") if item.written else letter(item.fate)
    return ((" ", ""), sign, signs, _flag(item.pinned, fresh), _number(item.index, width))


def picked_mark(spans: Spans) -> Spans:
    """The gutter of a row that is marked: `✓` where the cursor would stand."""
    first, *others = spans
    return (("✓", "accent bold"), (first[0][1:], first[1]), *others) if first[0][:1] == " " else spans


def _flag(pinned: bool, fresh: bool) -> tuple[str, str]:
    return ("*", "accent") if pinned else ("+", "live") if fresh else (" ", "")


def _number(index: int, width: int) -> tuple[str, str]:
    return (f"{index:>{width - 5}} ", "muted")
