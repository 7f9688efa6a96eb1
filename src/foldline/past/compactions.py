"""The effect of a compaction, in entries and tokens.

All screens, commands and pages take their descriptions from this module.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from foldline.protocol import Cause, Compaction, Kept, Reason, RequestRecord, Span
from foldline.text.numbers import many, percent, tokens
from foldline.view.budget import Size
from foldline.view.outline import CompactionOutline, MessageOutline, Outline
from foldline.view.projection import Projection

LEFT_OUT = "older entries left out"


def compacted_count(
    projection: Projection, compaction: Compaction | CompactionOutline
) -> int:
    """Count the messages replaced by a compaction's summaries.

    Earlier summaries are not counted. `Proposal.compacted` counts a proposal's messages in the same way.
    """
    spans = [span for written in compaction.written for span in written.covers]
    return messages_compacted(projection, compaction.index, spans)


def messages_compacted(
    projection: Projection, compaction: int, spans: Sequence[Span]
) -> int:
    """Count the messages within these spans, in the view before a compaction.

    If the compaction is undone or unknown, counts the messages that may have been in the view.
    """
    change = projection.change_by(compaction)
    if change is not None:
        return change.messages_within(spans)
    count = 0
    for first, last in spans:
        start = projection.count_up_to(first - 1)
        stop = projection.count_up_to(last)
        for outline in projection.entries.outlines[start:stop]:
            is_message = isinstance(outline, MessageOutline)
            count += is_message and projection.fate(outline.index).kind != "aside"
    return count


def describe_compaction(
    projection: Projection, compaction: Compaction | CompactionOutline
) -> str:
    """Describe the effect of a compaction.

    For example, `16 entries compacted` or `12 results hidden`. Entries that were altered but not replaced by
    a summary are mentioned only if no new text was written.
    """
    if compaction.written:
        return f"{many(compacted_count(projection, compaction), 'entry', 'entries')} compacted"
    pieces = (*compaction.head, *compaction.replaced)
    counts = Counter(piece.fate for piece in pieces if isinstance(piece, Kept))
    words = [
        f"{many(counts[fate], 'result')} {fate}"
        for fate in ("hidden", "clipped")
        if counts[fate]
    ]
    return ", ".join(words) or LEFT_OUT


def sizes_of(
    projection: Projection, compaction: Compaction | CompactionOutline
) -> tuple[Size, Size]:
    """Return the sizes of the entire request before and after a compaction, in tokens.

    A size of 0 is unknown. The recorded sizes are returned if there are any. Other agents record only one
    size or none. In that case, the sizes reported for the neighbouring requests are used. Without those, the
    sizes are those estimated during the replay, which only cover the text.
    """
    before = compaction.tokens_before
    after = compaction.tokens_after
    if not (before and after):
        reported_before, reported_after = _reported_around(projection, compaction.index)
        before = before or reported_before
        after = after or reported_after
    size_before = Size(before, estimated=False)
    size_after = Size(after, estimated=False)
    change = projection.change_by(compaction.index)
    estimated_before, estimated_after = (0, 0) if change is None else change.sizes
    removed = estimated_before - estimated_after
    if not before:
        size_before = Size(
            after + removed if after else estimated_before, estimated=True
        )
    if not after and estimated_after:
        size_after = Size(
            max(size_before.tokens - removed, estimated_after), estimated=True
        )
    return size_before, size_after


def _reported_around(projection: Projection, index: int) -> tuple[int, int]:
    """Return the tokens reported for the requests before and after a compaction.

    A value is 0 if there is no such request. This is used for sessions of other agents, in which answers
    represent requests. A request on the other side of another compaction is ignored.
    """
    outlines = projection.entries.all_outlines
    count = projection.count_up_to(index)
    before = _first_reported(
        outlines[position] for position in range(count - 2, -1, -1)
    )
    after = _first_reported(
        outlines[position] for position in range(count, len(outlines))
    )
    return before, after


def _first_reported(outlines: Iterable[Outline]) -> int:
    """Return the input reported for the first answer, in tokens.

    Returns 0 if a compaction comes first.
    """
    for outline in outlines:
        if isinstance(outline, CompactionOutline):
            return 0
        if isinstance(outline, MessageOutline) and outline.type == "assistant":
            return outline.usage.input if outline.usage is not None else 0
    return 0


def sizes_words(
    projection: Projection, compaction: Compaction | CompactionOutline, unit: str = ""
) -> str:
    """Describe the sizes before and after a compaction.

    For example, `116.2k → 27.4k` or `185.0k → ~25.5k`. The result is empty if the sizes are unknown.
    """
    before, after = sizes_of(projection, compaction)
    if not before.tokens:
        return ""
    before_words = tokens(before.tokens, estimated=before.estimated)
    if not after.tokens:
        return f"from {before_words} {unit}".rstrip()
    after_words = tokens(after.tokens, estimated=after.estimated)
    return f"{before_words} → {after_words} {unit}".rstrip()


BEFORE_CACHE_EXPIRY = "before cache expiry"
_CAUSES: dict[Cause | Reason, str] = {
    "asked": "you asked",
    "cache": BEFORE_CACHE_EXPIRY,
    "model": "for another model",
    "price": "before a price increase",
    "manual": "you asked",
    "overflow": "rejected as too long",
    "phase": "end of task",
    "threshold": "window full",
}


def why_compacted(projection: Projection, compaction: Compaction) -> tuple[str, str]:
    """Describe the cause of a compaction, with and without the limit.

    For example, `61% full: end of task, soft limit 60%`. Anything that was not recorded is left out.
    """
    cause = _CAUSES[compaction.cause or compaction.reason]
    size = sizes_of(projection, compaction)[0].tokens
    window = compaction.window or _window_before(projection, compaction.index)
    if not (window and size):
        return cause, cause
    full = f"{percent(size, window)} full"
    words = f"{full}: {cause}"
    limit = compaction.limit
    if compaction.cause or not limit:
        return words, words
    if compaction.reason == "threshold":
        words = full if size >= limit else f"{full} + the prompt"
        return f"{words}, limit {percent(limit, window)}", words
    condition = (
        f"soft limit {percent(limit, window)}" if size >= limit else "already worth it"
    )
    return f"{words}, {condition}", words


def _window_before(projection: Projection, index: int) -> int:
    """Return the model's window, as stated with the last request before this entry.

    Returns 0 if no window was stated.
    """
    requests = projection.meter.requests
    count = bisect_left(requests, index, key=lambda request: request.entry)
    record = projection.entry(requests[count - 1].entry) if count else None
    return record.window if isinstance(record, RequestRecord) else 0


def removed_tokens(projection: Projection) -> Size:
    """Return how many tokens the active compactions removed."""
    sizes = [
        sizes_of(projection, compaction) for compaction in projection.compactions()
    ]
    removed = sum(max(0, before.tokens - after.tokens) for before, after in sizes)
    is_estimated = any(before.estimated or after.estimated for before, after in sizes)
    return Size(removed, estimated=is_estimated)
