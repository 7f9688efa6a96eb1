"""Decides when automatic compaction pauses until the user acts. Pure."""

from foldline.protocol import (
    BaseMessage,
    Entry,
    Revert,
    ToolCallPart,
    ToolResultMessage,
    Undo,
)
from foldline.view.items import ViewItem
from foldline.view.outline import CompactionOutline, MessageOutline
from foldline.view.projection import Projection
from foldline.view.undo import ViewMarker

FREED_LITTLE = "Two compactions in a row freed little."
SAME_STEPS = "Two compactions in a row compacted the same steps, so the agent is going in circles."
INEFFECTIVE = 0.9
"""A compaction is considered useless if it leaves more than this fraction of the view."""


def pause_reason(projection: Projection) -> str:
    """Return the reason why automatic compaction pauses; empty if it does not pause.

    Automatic compaction pauses if the two newest changes of the view are automatic compactions that freed
    little or compacted the same messages, because a third one would start a loop. Any manual change of the
    view resumes it (docs/design/invariants.md).
    """
    markers = [marker for marker in projection.markers if not _is_dmail(marker)]
    compactions = [
        marker for marker in markers[-2:] if isinstance(marker, CompactionOutline)
    ]
    compactions = [marker for marker in compactions if marker.reason != "manual"]
    if len(compactions) < 2:
        return ""
    if all(map(_freed_little, compactions)):
        return FREED_LITTLE
    return SAME_STEPS if _covered_the_same(projection, *compactions) else ""


def _freed_little(marker: CompactionOutline) -> bool:
    return marker.tokens_after > INEFFECTIVE * marker.tokens_before


def _covered_the_same(
    projection: Projection, first: CompactionOutline, second: CompactionOutline
) -> bool:
    """Return whether both compactions summarised or hid the same messages.

    Messages are read, possibly from disk, only if they have the same size.
    """
    first_covered = _covered(first)
    second_covered = _covered(second)
    if not second.written:
        second_covered -= first_covered
    sizes = _sizes(projection, first_covered)
    if not sizes or sizes != _sizes(projection, second_covered):
        return False
    return _contents(projection, first_covered) == _contents(projection, second_covered)


def _covered(marker: CompactionOutline) -> set[int]:
    """Return the indexes of the entries that a compaction summarised.

    If the compaction wrote no summary, returns the indexes of the entries that it hid or clipped.
    """
    covered: set[int] = set()
    for text in marker.written:
        for first, last in text.covers:
            covered.update(range(first, last + 1))
    return covered or {kept.ref for kept in marker.replaced}


def _sizes(projection: Projection, indices: set[int]) -> set[int]:
    outlines = map(projection.outline, indices)
    return {
        outline.tokens for outline in outlines if isinstance(outline, MessageOutline)
    }


def _contents(projection: Projection, indices: set[int]) -> set[object]:
    return {_content(projection.entry(index)) for index in indices}


def _content(entry: Entry | None) -> object:
    """Return a message's content without index, time and call ids.

    Returns None if the entry is not a message.
    """
    if not isinstance(entry, BaseMessage):
        return None
    calls = tuple(
        (call.name, call.arguments)
        for call in entry.parts
        if isinstance(call, ToolCallPart)
    )
    return entry.type, entry.text, calls


def _is_dmail(marker: ViewMarker) -> bool:
    return isinstance(marker, Revert) and marker.message is not None


def compaction_undone(projection: Projection) -> bool:
    """Return whether the newest change of the view undid a compaction.

    A compaction that the user has undone is not repeated automatically.
    """
    newest = projection.newest_change
    return isinstance(newest, Undo) and isinstance(
        projection.outline(newest.target), CompactionOutline
    )


def no_request_since_compaction(projection: Projection) -> bool:
    """Return whether no request was sent after the newest compaction.

    Another automatic compaction would then start a loop.
    """
    newest = projection.newest_change
    return (
        isinstance(newest, CompactionOutline)
        and newest.index > projection.meter.newest_request
    )


_LARGEST = 3


def largest_items(projection: Projection) -> str:
    """Describe the largest items in the view."""
    items = sorted(projection.view, key=lambda item: item.tokens, reverse=True)
    descriptions = []
    for item in items[:_LARGEST]:
        tokens = round(item.tokens * projection.meter.scale)
        descriptions.append(f"entry {item.index} ({kind_of(item)}, {tokens:,} tokens)")
    return ", ".join(descriptions)


def kind_of(item: ViewItem) -> str:
    """Describe the kind of an item."""
    if isinstance(item.message, ToolResultMessage):
        return item.message.name
    return item.kind
