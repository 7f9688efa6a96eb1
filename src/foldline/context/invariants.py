"""What must hold of every history and its projection (docs/design/invariants.md): sentences on what does not.

`broken` looks at the view and the fates, `dangling` at what the markers refer to; both are empty when all is
well.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import get_args

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    Edit,
    Entry,
    Kept,
    Revert,
    Span,
    ToolResultMessage,
    Undo,
    Unknown,
)
from foldline.protocol.entries import Marker
from foldline.protocol.messages import MESSAGE_TYPES

from .calls import paired, pairing_faults
from .projection import Projection
from .view import IN_VIEW, Fate, ViewItem, is_preamble
from .view_state import Weighed

_CAUSES = {
    "hidden": Edit | Compaction,
    "clipped": Compaction,
    "summarised": Compaction,
    "truncated": Compaction,
    "reverted": Revert,
    "cleared": Clear,
    "dropped": Edit,
}
_KNOWN_TYPES = frozenset(kind.model_fields["type"].default for kind in (*MESSAGE_TYPES, *get_args(Marker)))


# --- the view and the fates -------------------------------------------------------------------------


def broken(projection: Projection) -> list[str]:
    """Every promise of the projection that is not kept: coverage, whole groups, sums, paired calls."""
    return [
        *_coverage(projection),
        *_groups(projection),
        *_sums(projection),
        *pairing_faults(paired(item.message for item in projection.view)),
    ]


def _coverage(projection: Projection) -> Iterator[str]:
    """Every entry has one fate, and is where its fate says."""
    places = {item.key: item for item in projection.view}
    stands_for: dict[tuple[int, int], list[Span]] = {}
    if len(places) < len(projection.view):
        yield "the view holds an item twice"
    for entry in projection.entries:
        fate = projection.fate(entry.index)
        where = f"entry {entry.index} ({entry.type}, {fate.kind})"
        yield from (f"{where} {fault}" for fault in _misplaced(entry, fate, places.get((entry.index, 0))))
        if fate.kind in _CAUSES:
            cause = None if fate.by is None else projection.entry(fate.by)
            if not isinstance(cause, _CAUSES[fate.kind]):
                yield f"{where} is so because of a {cause.type if cause else 'missing entry'}"
        if fate.kind == "summarised" and isinstance(entry, BaseMessage):
            if fate.by is None or (fate.by, fate.nth) not in places:
                yield f"{where}: its summary is not in the view"
                continue
            summary = (fate.by, fate.nth)
            if summary not in stands_for:
                stands_for[summary] = _covered(projection, *summary)
            if not _within(entry.index, stands_for[summary]):
                yield f"{where}: no chain of summaries leads to it"


def _misplaced(entry: Entry, fate: Fate, item: ViewItem | None) -> Iterator[str]:
    """Contradictions between the fate of an entry and its item in the view."""
    if (item is not None) != (fate.kind in IN_VIEW) and not isinstance(entry, Compaction | Revert):
        yield f"is {'in' if item else 'not in'} the view"
    if item is not None and item.fate != fate.kind:
        yield f"is marked {item.fate} in the view"
    if not isinstance(entry, BaseMessage):
        return
    if item is not None and item.fate == "live" and replace(item, checkpoint=None).message != entry:
        yield "is not in the view word for word"
    if is_preamble(entry) and entry.parts and fate.kind not in ("live", "clipped", "reverted"):
        yield "opens every view, but is gone"


def _covered(projection: Projection, compaction: int, nth: int) -> list[Span]:
    """What a summary of a compaction stands for, itself or through those it absorbed: spans, in order."""
    waiting = [*projection.written_by(compaction)[nth : nth + 1]]
    spans: list[Span] = []
    seen: set[int] = set()
    while waiting:
        piece = waiting.pop()
        spans += piece.covers
        for absorbed in set(piece.inputs) - seen:
            seen.add(absorbed)
            waiting += projection.written_by(absorbed)
    apart: list[Span] = []
    for first, last in sorted(spans):
        if apart and first <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(last, apart[-1][1]))
        else:
            apart.append((first, last))
    return apart


def _within(index: int, spans: Sequence[Span]) -> bool:
    place = bisect_right(spans, index, key=lambda span: span[0]) - 1
    return place >= 0 and index <= spans[place][1]


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
    weighed = Weighed(projection.tokens, projection.thinking, projection.scripts)
    if weighed != Weighed.of(projection.view):
        yield f"{weighed} is noted, {Weighed.of(projection.view)} in the view"
    for item in projection.view:
        if item.pinned != (item.index in projection.pins):
            yield f"entry {item.index} is marked {'' if item.pinned else 'not '}pinned"


# --- what markers refer to --------------------------------------------------------------------------


def dangling(projection: Projection) -> list[str]:
    """Every reference of a marker that leads nowhere, and every entry whose shape says nothing to us."""
    return [fault for entry in projection.entries for fault in _dangling(entry, projection)]


def _dangling(entry: Entry, projection: Projection) -> Iterator[str]:
    def missing(index: int) -> bool:
        return index >= entry.index or projection.entry(index) is None

    where = f"entry {entry.index} ({entry.type})"
    match entry:
        case Compaction():
            faults = _compaction_references(entry, projection, missing)
            yield from (f"{where} {fault}" for fault in faults)
        case Undo() | Edit() if missing(entry.target):
            yield f"{where} is about entry {entry.target}, which is not there"
        case Revert():
            back_to = projection.checkpoint(entry.checkpoint)
            if back_to is None or back_to > entry.index:
                yield f"{where} goes back to checkpoint {entry.checkpoint}, which is not there"
            if entry.moment not in (None, NEW) and missing(entry.moment):
                yield f"{where} goes back to entry {entry.moment}, which is not there"
            if entry.kept is not None and missing(entry.kept):
                yield f"{where} keeps entry {entry.kept}, which is not there"
        case Unknown() if entry.type in _KNOWN_TYPES:
            yield f"{where} has not the shape of its type, and counts for nothing"


def _compaction_references(
    compaction: Compaction, projection: Projection, missing: Callable[[int], bool]
) -> Iterator[str]:
    first = compaction.first_kept_index
    # A compaction that keeps nothing of the tail names the index after the newest message, used or not.
    if first > compaction.index or (missing(first) and projection.messages_within(first, compaction.index)):
        yield f"keeps the view from entry {first}, which is not there"
    for piece in (*compaction.head, *compaction.replaced):
        if isinstance(piece, Kept):
            if missing(piece.ref):
                yield f"keeps entry {piece.ref}, which is not there"
            continue
        for low, high in piece.covers:
            if low > high or missing(low) or missing(high):
                yield f"has a summary of {low}–{high}, which are not all there"
        for absorbed in piece.inputs:
            if absorbed >= compaction.index or not isinstance(projection.entry(absorbed), Compaction):
                yield f"has absorbed the summary of compaction {absorbed}, which is not there"
