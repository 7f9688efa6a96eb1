"""What must hold of every projection (DESIGN §5), as one list of broken promises: empty when all is well."""

from collections.abc import Iterator

from foldline.context.pairing import paired, pairing_faults
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW, ViewItem, is_preamble, total_tokens
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    Edit,
    Revert,
    ToolResultMessage,
    Written,
)

CAUSES = {
    "hidden": Edit | Compaction,
    "clipped": Compaction,
    "summarised": Compaction,
    "truncated": Compaction,
    "reverted": Revert,
    "cleared": Clear,
    "dropped": Edit,
}


def broken(projection: Projection) -> list[str]:
    return [
        *_coverage(projection),
        *_groups(projection),
        *_sums(projection),
        *pairing_faults(paired(item.message for item in projection.view)),
    ]


def _coverage(projection: Projection) -> Iterator[str]:
    places: dict[tuple[int, int], ViewItem] = {item.key: item for item in projection.view}
    if len(places) < len(projection.view):
        yield "the view holds an item twice"
    for entry in projection.entries:
        fate = projection.fate(entry.index)
        where = f"entry {entry.index} ({entry.type}, {fate})"
        item = places.get((entry.index, 0))
        if (item is not None) != (fate.kind in IN_VIEW) and not isinstance(entry, Compaction | Revert):
            yield f"{where} is {'in' if item else 'not in'} the view"
        if item is not None and item.fate != fate.kind:
            yield f"{where} is marked {item.fate} in the view"
        if (
            item is not None
            and item.fate == "live"
            and isinstance(entry, BaseMessage)
            and item.message != entry
        ):
            yield f"{where} is live, but not verbatim"
        opens = isinstance(entry, BaseMessage) and is_preamble(entry) and entry.parts
        if opens and fate.kind not in ("live", "reverted"):
            yield f"{where} opens every view, but is gone"
        if fate.kind in CAUSES:
            cause = None if fate.by is None else projection.entry(fate.by)
            if not isinstance(cause, CAUSES[fate.kind]):
                yield f"{where} names {cause and cause.type}"
        if fate.kind == "summarised" and isinstance(entry, BaseMessage):
            if fate.by is None or (fate.by, fate.nth) not in places:
                yield f"{where}: its summary is not in the view"
            elif not _stands_for(projection, fate.by, fate.nth, entry.index):
                yield f"{where}: no chain of summaries leads to it"


def _stands_for(projection: Projection, fold: int, nth: int | None, index: int) -> bool:
    """Whether a summary of this fold covers the entry, itself or through the summaries it absorbed."""
    marker = projection.entry(fold)
    assert isinstance(marker, Compaction)
    written = [piece for piece in marker.head if isinstance(piece, Written)]
    return any(
        any(first <= index <= last for first, last in piece.covers)
        or any(_stands_for(projection, absorbed, None, index) for absorbed in piece.inputs)
        for position, piece in enumerate(written)
        if nth in (None, position)
    )


def _groups(projection: Projection) -> Iterator[str]:
    """Groups stay together, but for results that came after a checkpoint gone back to."""
    positions = {item.index: place for place, item in enumerate(projection.view) if not item.written}
    for entry in projection.entries:
        if not isinstance(entry, AssistantMessage):
            continue
        group = [i for i in projection.group(entry.index) if projection.fate(i).kind != "reverted"]
        here = sorted(positions[index] for index in group if index in positions)
        if here and here != list(range(here[0], here[0] + len(group))):
            yield f"the tool group of entry {entry.index} is torn: {here}"
    for place, item in enumerate(projection.view):
        if isinstance(item.message, ToolResultMessage) and projection.group(item.index)[0] == item.index:
            yield f"entry {item.index} at {place} is a result without a call"


def _sums(projection: Projection) -> Iterator[str]:
    if projection.tokens != total_tokens(projection.view):
        yield f"{projection.tokens} tokens noted, {total_tokens(projection.view)} in the view"
    for item in projection.view:
        if item.pinned != (item.index in projection.pins):
            yield f"entry {item.index} is marked {'' if item.pinned else 'not '}pinned"
