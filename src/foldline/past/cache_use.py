"""The cache use of each request: tokens read from the cache, tokens expected, and causes of misses.

If a request is sent soon enough, the provider finds the prefix that it shares with the previous request. The
request should therefore find as many tokens as the previous one took. If it finds fewer, the cause is
searched for in the history between the two requests. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from foldline.protocol import (
    AssistantMessage,
    CacheTerms,
    Clear,
    Edit,
    RequestRecord,
    Revert,
    Undo,
)
from foldline.text.numbers import elapsed, tokens
from foldline.view.items import ViewItem
from foldline.view.outline import CompactionOutline, RequestOutline
from foldline.view.projection import Projection
from foldline.view.state import ViewMarker

from .moments import HistoryPrefix, empty_prefix, replay_to, sent_alike
from .proof import RecordedRequest, recorded_request

MissCause = Literal[
    "model",
    "effort",
    "tools",
    "system",
    "compaction",
    "undo",
    "rewind",
    "clear",
    "edit",
    "expired",
    "provider",
]
_CAUSES: dict[type, MissCause] = {
    CompactionOutline: "compaction",
    Undo: "undo",
    Revert: "rewind",
    Clear: "clear",
    Edit: "edit",
}
_WORDS: dict[MissCause, str] = {
    "model": "model changed",
    "effort": "effort changed",
    "tools": "tools changed",
    "system": "system prompt changed",
    "provider": "the provider read less",
}
_LEAST_TOKENS = 1_024
_LEAST_SHARE = 0.02
"""Fraction of the expected tokens that the shortfall must exceed to count as a miss.

The shortfall must also exceed `_LEAST_TOKENS`. Smaller shortfalls are due to rounding and templates.

With llama.cpp, the difference is up to 2.2 % after tool calls.
"""


@dataclass(frozen=True, slots=True)
class Miss:
    """The reason why a request found less in the cache than it should have."""

    cause: MissCause
    by: int | None = None
    """Index of the entry that changed the view; None if no entry did."""
    differs: int | None = None
    """Index of the previous request's first message that was changed or not sent again."""
    unused: float | None = None
    """Time between the two requests, in seconds, if it exceeds the lifetime of the provider's cache."""

    def __str__(self) -> str:
        if self.unused is not None:
            return f"not used for {elapsed(self.unused)}"
        return _WORDS.get(self.cause) or f"{self.cause} {self.by}"


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The cache use of one request.

    Sizes are in tokens, as reported by the provider.
    """

    number: int
    entry: int
    """Index of the request's record."""
    model: str
    input: int
    cached: int
    expected: int
    """Number of tokens that the cache should have contained, at most the number sent."""
    miss: Miss | None = None
    """The miss; None if, apart from a small difference, the cache contained the expected tokens."""

    @property
    def missed(self) -> int:
        return self.expected - self.cached if self.miss else 0

    def __str__(self) -> str:
        """Return a line like `cached 41.2k of 48.0k expected · tools changed`."""
        if self.miss is None:
            return f"cached {tokens(self.cached)}" + (
                ", as expected" if self.expected else ""
            )
        return f"cached {tokens(self.cached)} of {tokens(self.expected)} expected · {self.miss}"


def cache_uses(history: Projection) -> Iterator[CacheUse]:
    """Yield the cache use of each request that was reported and sent to a provider with a cache.

    Scans the view once for each request and for each change of the view.
    """
    replayed = empty_prefix(history.entries)
    before: RecordedRequest | None = None
    for number in range(1, len(history.meter.requests) + 1):
        now = _request(history, number)
        if now.record.usage is None or not now.record.usage.is_reported:
            continue
        use = cache_use(replayed, before, now)
        if is_known(history, now.record):
            yield use
        before = now


def _request(history: Projection, number: int) -> RecordedRequest:
    """Return a request as recorded, or as reported with its answer.

    Other agents record only answers.
    """
    meter = history.meter
    if meter.records_requests:
        return recorded_request(history, number)
    position = meter.requests[number - 1].position
    answer = history.entries[position]
    assert isinstance(answer, AssistantMessage), (
        "without records, answers stand for requests"
    )
    record = RequestRecord(
        index=answer.index,
        at=answer.at,
        digest="",
        model=answer.model or meter.model or "",
        usage=answer.usage,
    )
    return RecordedRequest(number, record, position)


def is_known(history: Projection, record: RequestRecord) -> bool:
    """Return whether the provider is known to have a cache.

    This is known from the provider's terms, or because the cache has been read before.
    """
    if record.usage is None:
        return False
    return record.cache is not None or history.meter.has_cache(record.model)


def reported_before(history: Projection, number: int) -> RecordedRequest | None:
    """Return the newest request before this one for which usage was reported."""
    requests = history.meter.requests
    for earlier in range(number - 1, 0, -1):
        outline = history.entries.outlines[requests[earlier - 1].position]
        if (
            isinstance(outline, RequestOutline)
            and outline.usage is not None
            and outline.usage.input
        ):
            return recorded_request(history, earlier)
    return None


def cache_use(
    earlier: Projection, before: RecordedRequest | None, now: RecordedRequest
) -> CacheUse:
    """Compare a request with the previous one.

    Args:
        earlier: the history up to the previous request, on a `HistoryPrefix`. This function replays it up to
            this request.
        before: the previous request; None for the first request.
    """
    record = now.record
    usage = record.usage
    assert usage is not None, "only a reported request can be compared"
    sent_before = tuple(earlier.view)
    change = _change_since(sent_before, earlier, now.length)
    expected = 0
    miss: Miss | None = None
    cached = usage.cached
    if before is not None and before.record.usage is not None:
        terms = record.cache or CacheTerms()
        expected = terms.kept(min(before.record.usage.input, usage.input))
        if expected - cached > max(_LEAST_TOKENS, _LEAST_SHARE * expected):
            miss = _miss(before.record, record, change, is_total=not cached)
    return CacheUse(
        now.number, record.index, record.model, usage.input, cached, expected, miss
    )


def _miss(
    before: RequestRecord, now: RequestRecord, change: Miss | None, *, is_total: bool
) -> Miss:
    """Return the cause of a miss.

    If there are several causes, returns the one that affects the earliest part of the request. If the cache
    had expired and not even the unchanged beginning of the view was found, the cause is the time that has
    passed.
    """
    unused = _unused_seconds(before, now)
    if before.model != now.model:
        return Miss("model")
    if before.tools != now.tools and None not in (before.tools, now.tools):
        return Miss("tools")
    if change is not None and not (is_total and unused):
        return change
    if unused is not None:
        return Miss("expired", unused=unused)
    if before.cache and now.cache and before.cache.effort != now.cache.effort:
        return Miss("effort")
    return Miss("provider")


def _unused_seconds(before: RequestRecord, now: RequestRecord) -> float | None:
    """Return the time between two requests, in seconds.

    Returns None if the cache did not expire in between. Old records contain the time when a request ended
    instead of the time when it was sent.
    """
    last_use = before.left or before.at
    next_use = now.left or now.at
    if last_use is None or next_use is None or not (before.cache and before.cache.life):
        return None
    seconds = (next_use - last_use).total_seconds()
    return seconds if seconds > before.cache.life else None


def _change_since(
    sent_before: Sequence[ViewItem], replayed: Projection, length: int
) -> Miss | None:
    """Replay up to `length`, and return the change that affected these items.

    Returns None if all items are sent again unchanged.
    """
    entries = replayed.entries
    assert isinstance(entries, HistoryPrefix), "an earlier moment is a prefix"
    markers = [
        (position, outline)
        for position, outline in enumerate(entries.upcoming(length), start=len(entries))
        if isinstance(outline, ViewMarker | Undo)
    ]
    alike = len(sent_before)
    last_change: ViewMarker | Undo | None = None
    for position, marker in markers:
        for _ in replay_to(replayed, position + 1):
            pass
        alike_now = _alike(sent_before, replayed.view)
        if alike_now != alike:
            alike = alike_now
            last_change = marker
    for _ in replay_to(replayed, length):
        pass
    if last_change is None or alike == len(sent_before):
        return None
    differs = sent_before[alike]
    cause: MissCause = (
        "system" if differs.outline.is_preamble else _CAUSES[type(last_change)]
    )
    return Miss(cause, last_change.index, differs.index)


def _alike(sent_before: Sequence[ViewItem], view: Sequence[ViewItem]) -> int:
    """Count the items at the start of the view that are sent again unchanged."""
    count = 0
    for old, new in zip(sent_before, view, strict=False):
        if old.key != new.key or not sent_alike(old, new):
            break
        count += 1
    return count
