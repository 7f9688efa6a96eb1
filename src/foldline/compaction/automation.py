"""When automatic compaction stops until the user acts, and what is named then. Pure."""

from foldline.context.outline import CompactionOutline, MessageOutline
from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.context.view_state import ViewMarker
from foldline.protocol import BaseMessage, Entry, Revert, ToolCallPart, ToolResultMessage, Undo

INEFFECTIVE = 0.9
"""A compaction that leaves more than this share of the view was of no use."""


def pause_reason(projection: Projection) -> str:
    """Why automatic compaction stops, as a sentence; empty where it does not.

    The two newest changes of the view are automatic compactions that were of no use, or compacted the same
    messages: another would loop. A change by hand since is the user acting (docs/design/invariants.md).
    """
    newest = [marker for marker in projection.markers if not _is_dmail(marker)][-2:]
    compactions = [
        marker for marker in newest if isinstance(marker, CompactionOutline) and marker.reason != "manual"
    ]
    if len(compactions) < 2:
        return ""
    if all(each.tokens_after > INEFFECTIVE * each.tokens_before for each in compactions):
        return "Two compactions in a row freed little."
    if _covered_the_same(projection, *compactions):
        return "Two compactions in a row compacted the same steps: the work goes round in circles."
    return ""


def _covered_the_same(projection: Projection, one: CompactionOutline, other: CompactionOutline) -> bool:
    """Whether both summarised or hid the same text. Read only where the sizes agree: it may be on disk."""
    first = _covered(one)
    covered = first, _covered(other) - (first if not other.written else set())
    sizes = [
        {each.tokens for each in map(projection.outline, indices) if isinstance(each, MessageOutline)}
        for indices in covered
    ]
    if not sizes[0] or sizes[0] != sizes[1]:
        return False
    said = [{_content(projection.entry(index)) for index in indices} for indices in covered]
    return said[0] == said[1]


def _covered(marker: CompactionOutline) -> set[int]:
    """What it summarised; where it wrote nothing new, what it hid or clipped."""
    ranges = [piece for written in marker.written for piece in written.covers]
    if not ranges:
        return {kept.ref for kept in marker.replaced}
    return {index for first, last in ranges for index in range(first, last + 1)}


def _content(entry: Entry | None) -> object:
    """What a message says, without what is new each time: its number, its time, the ids of its calls."""
    if not isinstance(entry, BaseMessage):
        return None
    calls = tuple((call.name, call.arguments) for call in entry.parts if isinstance(call, ToolCallPart))
    return entry.type, entry.text, calls


def _is_dmail(marker: ViewMarker) -> bool:
    return isinstance(marker, Revert) and marker.message is not None


def compaction_undone(projection: Projection) -> bool:
    """Whether the newest change is a compaction that the user undid: it is not made again by itself."""
    newest = projection.newest_change
    return isinstance(newest, Undo) and isinstance(projection.outline(newest.target), CompactionOutline)


def no_request_since_compaction(projection: Projection) -> bool:
    """Whether no request has left since the newest compaction: another would follow without a step."""
    newest = projection.newest_change
    return isinstance(newest, CompactionOutline) and newest.index > projection.newest_request


def largest_items(projection: Projection, count: int = 3) -> str:
    """The largest items of the view, named for a person."""
    scale = projection.scale
    items = sorted(projection.view, key=lambda item: item.tokens, reverse=True)[:count]
    return ", ".join(
        f"entry {item.index} ({kind_of(item)}, {round(item.tokens * scale):,} tokens)" for item in items
    )


def kind_of(item: ViewItem) -> str:
    """What an item is, for a person: of a result the tool, else its kind."""
    return item.message.name if isinstance(item.message, ToolResultMessage) else item.kind
