"""Checks the invariants of a history and its projection (docs/design/invariants.md).

`broken` checks the view and the fates; `dangling` checks the references in markers. Each violation is a
sentence.
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
    Undo,
    Unknown,
)
from foldline.protocol.entries import Marker
from foldline.protocol.messages import MESSAGE_TYPES
from foldline.sequences import merged_spans

from .calls import paired, pairing_faults
from .counted_view import Totals
from .items import IN_VIEW, Fate, ViewItem, is_preamble
from .projection import Projection

_CAUSES = {
    "hidden": Edit | Compaction,
    "clipped": Compaction,
    "summarised": Compaction,
    "truncated": Compaction,
    "reverted": Revert,
    "cleared": Clear,
    "dropped": Edit,
}
DOES_NOT_EXIST = "which does not exist"
WRONG_FIELDS = "does not have the fields that its type requires, so it is ignored"
_KNOWN_TYPES = frozenset(
    kind.model_fields["type"].default for kind in (*MESSAGE_TYPES, *get_args(Marker))
)


# --- the view and the fates -------------------------------------------------------------------------


def broken(projection: Projection) -> list[str]:
    """Return all violations of the projection's invariants."""
    return [
        *_coverage(projection),
        *_groups(projection),
        *_sums(projection),
        *pairing_faults(paired(item.message for item in projection.view)),
    ]


def _coverage(projection: Projection) -> Iterator[str]:
    """Check that an entry is in the view, or covered by a summary in the view, if its fate says so."""
    view = projection.view
    items = {item.key: item for item in view}
    covered = {}
    if len(items) < len(view):
        yield "the view contains an item twice"
    for entry in projection.entries:
        index = entry.index
        fate = projection.fate(index)
        where = f"entry {index} ({entry.type}, {fate.kind})"
        for fault in _misplaced(entry, fate, items.get((index, 0))):
            yield f"{where} {fault}"
        by = fate.by
        cause = None if by is None else projection.entry(by)
        if fate.kind in _CAUSES and not isinstance(cause, _CAUSES[fate.kind]):
            yield f"{where} has the wrong cause: {cause.type if cause else 'a missing entry'}"
        if fate.kind != "summarised" or not isinstance(entry, BaseMessage):
            continue
        if by is None or (by, fate.nth) not in items:
            yield f"{where}: its summary is missing from the view"
            continue
        summary = (by, fate.nth)
        if summary not in covered:
            covered[summary] = _covered_by(projection, *summary)
        if not _is_within(index, covered[summary]):
            yield f"{where}: no summary in the view covers it"


def _misplaced(entry: Entry, fate: Fate, item: ViewItem | None) -> Iterator[str]:
    """Yield contradictions between an entry's fate and its item."""
    if (item is not None) != (fate.kind in IN_VIEW) and not isinstance(
        entry, Compaction | Revert
    ):
        yield f"is {'in' if item else 'not in'} the view"
    if item is not None and item.fate != fate.kind:
        yield f"is marked {item.fate} in the view"
    if not isinstance(entry, BaseMessage):
        return
    if (
        item is not None
        and item.fate == "live"
        and replace(item, checkpoint=None).message != entry
    ):
        yield "is live, but the view does not contain it unchanged"
    if (
        is_preamble(entry)
        and entry.parts
        and fate.kind not in ("live", "clipped", "reverted")
    ):
        yield "belongs to the preamble, but is missing from the view"


def _covered_by(projection: Projection, compaction: int, nth: int) -> list[Span]:
    """Return the spans covered by a summary and by all summaries that it absorbed.

    The spans are sorted and merged.
    """
    stack = [*projection.written_by(compaction)[nth : nth + 1]]
    spans: list[Span] = []
    seen: set[int] = set()
    while stack:
        summary = stack.pop()
        spans += summary.covers
        for absorbed in set(summary.inputs) - seen:
            seen.add(absorbed)
            stack += projection.written_by(absorbed)
    return merged_spans(sorted(spans))


def _is_within(index: int, spans: Sequence[Span]) -> bool:
    position = bisect_right(spans, index, key=lambda span: span[0]) - 1
    return position >= 0 and index <= spans[position][1]


def _groups(projection: Projection) -> Iterator[str]:
    """Check that tool groups are complete, except for reverted results."""
    positions = {}
    for position, item in enumerate(projection.view):
        index = item.index
        if not item.written:
            positions[index] = position
        if item.type == "tool_result" and projection.group(index)[0] == index:
            yield f"entry {index} at {position} is a result without a call"
    for entry in projection.entries:
        if not isinstance(entry, AssistantMessage):
            continue
        group = [
            i
            for i in projection.group(entry.index)
            if projection.fate(i).kind != "reverted"
        ]
        in_view = sorted(positions[i] for i in group if i in positions)
        if in_view and in_view != list(range(in_view[0], in_view[0] + len(group))):
            yield f"the tool group of entry {entry.index} is torn: {in_view}"


def _sums(projection: Projection) -> Iterator[str]:
    totals = Totals.of(projection.view)
    if projection.totals != totals:
        yield f"the totals are {projection.totals}, but the view has {totals}"
    for item in projection.view:
        if item.pinned != (item.index in projection.pins):
            yield f"entry {item.index} is marked {'' if item.pinned else 'not '}pinned"


# --- references of markers ----------------------------------------------------------------------------


def dangling(projection: Projection) -> list[str]:
    """Return all references to missing entries, and to entries of the wrong type."""
    return [
        fault for entry in projection.entries for fault in _dangling(entry, projection)
    ]


def _dangling(entry: Entry, projection: Projection) -> Iterator[str]:
    def missing(index: int) -> bool:
        return index >= entry.index or projection.entry(index) is None

    where = f"entry {entry.index} ({entry.type})"
    match entry:
        case Compaction():
            faults = _compaction_references(entry, projection, missing)
            yield from (f"{where} {fault}" for fault in faults)
        case Undo() | Edit() if missing(entry.target):
            yield f"{where} refers to {_missing_entry(entry.target)}"
        case Revert():
            back_to = projection.checkpoint(entry.checkpoint)
            if back_to is None or back_to > entry.index:
                yield f"{where} goes back to checkpoint {entry.checkpoint}, {DOES_NOT_EXIST}"
            if entry.moment not in (None, NEW) and missing(entry.moment):
                yield f"{where} goes back to {_missing_entry(entry.moment)}"
            if entry.kept is not None and missing(entry.kept):
                yield f"{where} keeps {_missing_entry(entry.kept)}"
        case Unknown() if entry.type in _KNOWN_TYPES:
            yield f"{where} {WRONG_FIELDS}"


def _missing_entry(index: int | None) -> str:
    return f"entry {index}, {DOES_NOT_EXIST}"


def _compaction_references(
    compaction: Compaction, projection: Projection, missing: Callable[[int], bool]
) -> Iterator[str]:
    first = compaction.first_kept_index
    # A compaction that keeps no tail names the index after the newest message, even if that is unused.
    if first > compaction.index or (
        missing(first) and projection.messages_within(first, compaction.index)
    ):
        yield f"keeps the view from {_missing_entry(first)}"
    for piece in (*compaction.head, *compaction.replaced):
        if isinstance(piece, Kept):
            if missing(piece.ref):
                yield f"keeps {_missing_entry(piece.ref)}"
            continue
        for low, high in piece.covers:
            if low > high or missing(low) or missing(high):
                yield f"has a summary of entries {low}–{high}, but some of them do not exist"
        for absorbed in piece.inputs:
            if absorbed >= compaction.index or not isinstance(
                projection.entry(absorbed), Compaction
            ):
                yield f"replaced the summary by compaction {absorbed}, {DOES_NOT_EXIST}"
