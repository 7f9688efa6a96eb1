"""What a compaction did, in entries and tokens: all screens, commands and pages say it with these."""

from bisect import bisect_left
from collections.abc import Iterable

from foldline.protocol import Cause, Compaction, Kept, Reason, RequestRecord

from .budget import Size
from .numbers import many, percent, tokens
from .outline import CompactionOutline, MessageOutline, Outline
from .projection import Projection


def compacted_count(projection: Projection, compaction: Compaction | CompactionOutline) -> int:
    """The entries a compaction compacted: messages it found in the view whose place its summaries take,
    earlier summaries apart. Of a proposal, `Proposal.compacted` counts so."""
    spans = [span for piece in compaction.written for span in piece.covers]
    return projection.compacted(compaction.index, spans)


def describe_compaction(projection: Projection, compaction: Compaction | CompactionOutline) -> str:
    """What a compaction did, in a few words: `16 entries compacted`, `12 results hidden`. Entries that were
    altered in place are named where no new text was written: they are all it did."""
    if compaction.written:
        return f"{many(compacted_count(projection, compaction), 'entry', 'entries')} compacted"
    pieces = (*compaction.head, *compaction.replaced)
    fates = [piece.fate for piece in pieces if isinstance(piece, Kept)]
    counts = ((fate, fates.count(fate)) for fate in ("hidden", "clipped"))
    return ", ".join(f"{many(n, 'result')} {fate}" for fate, n in counts if n) or "older entries left out"


def sizes_of(projection: Projection, compaction: Compaction | CompactionOutline) -> tuple[Size, Size]:
    """The request before and after it, in tokens; 0 for what is not known.

    As recorded; else as the requests around it were reported, for other agents record one size or neither;
    else by the estimates of its replay, which say how much it removed and not what was sent beside the text.
    """
    before = Size(compaction.tokens_before, estimated=False)
    after = Size(compaction.tokens_after, estimated=False)
    if before.tokens and after.tokens:
        return before, after
    reported_before, reported_after = _reported_around(projection, compaction.index)
    before = Size(before.tokens or reported_before, estimated=False)
    after = Size(after.tokens or reported_after, estimated=False)
    estimated_before, estimated_after = projection.estimated_around(compaction.index)
    removed = estimated_before - estimated_after
    if not before.tokens:
        before = Size(after.tokens + removed if after.tokens else estimated_before, estimated=True)
    if not after.tokens and estimated_after:
        after = Size(max(before.tokens - removed, estimated_after), estimated=True)
    return before, after


def _reported_around(projection: Projection, index: int) -> tuple[int, int]:
    """Reported tokens of the requests right before and after a compaction; 0 if there is none.

    For sessions whose answers stand for requests. A request on the other side of another compaction does not
    count.
    """
    outlines, place = projection.entries.all_outlines, projection.count_up_to(index)
    before = _first_reported(outlines[position] for position in range(place - 2, -1, -1))
    after = _first_reported(outlines[position] for position in range(place, len(outlines)))
    return before, after


def _first_reported(outlines: Iterable[Outline]) -> int:
    """Reported input tokens of the first answer of these outlines, if it comes before a compaction."""
    for outline in outlines:
        if isinstance(outline, CompactionOutline):
            return 0
        if isinstance(outline, MessageOutline) and outline.type == "assistant":
            return outline.usage.input if outline.usage is not None else 0
    return 0


def sizes_words(projection: Projection, compaction: Compaction | CompactionOutline, unit: str = "") -> str:
    """What it made of the next request: `116.2k → 27.4k`, `185.0k → ~25.5k`; empty where that is unknown."""
    before, after = sizes_of(projection, compaction)
    if not before.tokens:
        return ""
    was = tokens(before.tokens, estimated=before.estimated)
    is_now = tokens(after.tokens, estimated=after.estimated)
    return f"{was} → {is_now} {unit}".rstrip() if after.tokens else f"from {was} {unit}".rstrip()


_CAUSES: dict[Cause | Reason, str] = {
    "asked": "you asked",
    "cache": "before the cache ends",
    "model": "for another model",
    "price": "before a higher price",
    "manual": "you asked",
    "overflow": "refused as too long",
    "phase": "end of task",
    "threshold": "window full",
}


def why_compacted(projection: Projection, compaction: Compaction) -> tuple[str, str]:
    """Why it was made, with how full the window was and the limit it was held against, as far as that is on
    record: `61% full: end of task, soft limit 60%`; and without the limit."""
    why, size = _CAUSES[compaction.cause or compaction.reason], sizes_of(projection, compaction)[0].tokens
    window, limit = compaction.window or _window_before(projection, compaction.index), compaction.limit
    if not (window and size):
        return why, why
    full = f"{percent(size, window)} full"
    if compaction.cause or not limit:
        return f"{full}: {why}", f"{full}: {why}"
    if compaction.reason == "threshold":
        prompt = "" if size >= limit else " + the prompt"
        return f"{full}{prompt}, limit {percent(limit, window)}", f"{full}{prompt}"
    what = f"soft limit {percent(limit, window)}" if size >= limit else "already worth it"
    return f"{full}: {why}, {what}", f"{full}: {why}"


def _window_before(projection: Projection, index: int) -> int:
    """The window its server had stated with the request before this entry; 0 where it had not."""
    requests = projection.requests
    at = bisect_left(requests, index, key=lambda request: request.entry)
    record = projection.entry(requests[at - 1].entry) if at else None
    return record.window if isinstance(record, RequestRecord) else 0


def taken_out(projection: Projection) -> Size:
    """The tokens that the compactions in force took out of the view together."""
    pairs = [sizes_of(projection, each) for each in projection.compactions()]
    tokens = sum(max(0, before.tokens - after.tokens) for before, after in pairs)
    return Size(tokens, estimated=any(size.estimated for pair in pairs for size in pair))
