"""What a provider's cache should have had of each request, what it had, and why where that is less. Pure.

What was sent before is found again as far as the next request begins with it, if that comes in time. So what
should be found is what the request before took; what differs is looked for in the history between the two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from foldline.protocol import AssistantMessage, CacheTerms, Clear, Edit, RequestRecord, Revert, Undo

from .moments import HistoryPrefix, empty_prefix, replay_to, sent_alike
from .numbers import elapsed, tokens
from .outline import CompactionOutline, RequestOutline
from .projection import Projection
from .proof import RecordedRequest, recorded_request
from .view import ViewItem
from .view_state import ViewMarker

Cause = Literal[
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
_CAUSES: dict[type, Cause] = {
    CompactionOutline: "compaction",
    Undo: "undo",
    Revert: "rewind",
    Clear: "clear",
    Edit: "edit",
}
_WORDS: dict[Cause, str] = {
    "model": "model changed",
    "effort": "effort changed",
    "tools": "tools changed",
    "system": "system prompt changed",
    "provider": "the provider read less",
}
_LEAST_TOKENS = 1_024
_LEAST_SHARE = 0.02
"""A miss is more than both: rounding and templates take a little, of what llama.cpp reads up to 2.2 % where
tools are called."""


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a cache had less of a request than it should have had."""

    cause: Cause
    by: int | None = None
    """Index of the entry that changed the view."""
    differs: int | None = None
    """Index of the first message of the request before that is not sent as it was."""
    unused: float | None = None
    """Seconds between the two requests, where it was kept for fewer."""

    def __str__(self) -> str:
        if self.unused is not None:
            return f"not used for {elapsed(self.unused)}"
        return _WORDS.get(self.cause) or f"{self.cause} {self.by}"


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What became of one request. All sizes in tokens, as its provider reported them."""

    number: int
    entry: int
    """Index of its record."""
    model: str
    input: int
    cached: int
    expected: int
    """What the cache should have had: never more than was sent."""
    miss: Miss | None = None
    """None where it had that, but for a little."""

    @property
    def missed(self) -> int:
        return self.expected - self.cached if self.miss else 0

    def __str__(self) -> str:
        """`cached 41.2k of 48.0k expected · tools changed`."""
        if self.miss is None:
            return f"cached {tokens(self.cached)}" + (", as expected" if self.expected else "")
        return f"cached {tokens(self.cached)} of {tokens(self.expected)} expected · {self.miss}"


def cache_uses(history: Projection) -> Iterator[CacheUse]:
    """Yield every request with a reported usage whose provider is known to cache.

    Looks through the view once for each request and each change of it.
    """
    replayed, before = empty_prefix(history.entries), None
    for number in range(1, len(history.requests) + 1):
        now = _request(history, number)
        if now.record.usage is None or not now.record.usage.is_reported:
            continue
        if (use := cache_use(replayed, before, now)) and is_known(history, now.record):
            yield use
        before = now


def _request(history: Projection, number: int) -> RecordedRequest:
    """Return a request as recorded; other agents record none: there, as its answer reports it."""
    if history.records_requests:
        return recorded_request(history, number)
    position = history.requests[number - 1].position
    answer = history.entries[position]
    assert isinstance(answer, AssistantMessage), "without records, answers stand for requests"
    record = RequestRecord(
        index=answer.index,
        at=answer.at,
        digest="",
        model=answer.model or history.model or "",
        usage=answer.usage,
    )
    return RecordedRequest(number, record, position)


def is_known(history: Projection, record: RequestRecord) -> bool:
    """Whether there is a cache as far as is known: its provider says so, or has read something from one."""
    return record.usage is not None and (record.cache is not None or history.has_cache(record.model))


def reported_before(history: Projection, number: int) -> RecordedRequest | None:
    """The newest request before this one whose usage is known; None where there is none."""
    for earlier in range(number - 1, 0, -1):
        outline = history.entries.outlines[history.requests[earlier - 1].position]
        if isinstance(outline, RequestOutline) and outline.usage is not None and outline.usage.input:
            return recorded_request(history, earlier)
    return None


def cache_use(earlier: Projection, before: RecordedRequest | None, now: RecordedRequest) -> CacheUse:
    """What became of a request, held against the one before it. `earlier` is the history as it was when that
    left, on a `HistoryPrefix`, and is replayed up to this one."""
    usage, terms = now.record.usage, now.record.cache or CacheTerms()
    assert usage is not None, "only what is reported can be compared"
    sent = tuple(earlier.view)
    change = _change(sent, earlier, now.length)
    expected, miss = 0, None
    if before is not None and before.record.usage is not None:
        expected = terms.kept(min(before.record.usage.input, usage.input))
        if expected - usage.cached > max(_LEAST_TOKENS, _LEAST_SHARE * expected):
            miss = _miss(before.record, now.record, change, nothing=not usage.cached)
    return CacheUse(now.number, now.record.index, now.record.model, usage.input, usage.cached, expected, miss)


def _miss(before: RequestRecord, now: RequestRecord, change: Miss | None, *, nothing: bool) -> Miss:
    """Why less was found. What stands first in a request goes first; where a change leaves what opens the
    view, and `nothing` of it was found after its time, it was the time."""
    unused = _unused(before, now)
    if before.model != now.model:
        return Miss("model")
    if before.tools != now.tools and None not in (before.tools, now.tools):
        return Miss("tools")
    if change is not None and not (nothing and unused):
        return change
    if unused is not None:
        return Miss("expired", unused=unused)
    if before.cache and now.cache and before.cache.effort != now.cache.effort:
        return Miss("effort")
    return Miss("provider")


def _unused(before: RequestRecord, now: RequestRecord) -> float | None:
    """Seconds between two requests, where the first one's was kept for fewer. Old records say when they had
    ended instead of when they left."""
    last, next_use = before.left or before.at, now.left or now.at
    if last is None or next_use is None or not (before.cache and before.cache.life):
        return None
    seconds = (next_use - last).total_seconds()
    return seconds if seconds > before.cache.life else None


def _change(sent: Sequence[ViewItem], replayed: Projection, length: int) -> Miss | None:
    """What changed of these items until the history had this length; None where all go again as they were."""
    entries, alike, by = replayed.entries, len(sent), None
    assert isinstance(entries, HistoryPrefix), "what was is replayed"
    markers = [
        (position, outline)
        for position, outline in enumerate(entries.upcoming(length), start=len(entries))
        if isinstance(outline, ViewMarker | Undo)
    ]
    for position, marker in markers:
        for _ in replay_to(replayed, position + 1):
            pass
        left = _alike(sent, replayed.view)
        if left != alike:
            alike, by = left, marker
    for _ in replay_to(replayed, length):
        pass
    if by is None or alike == len(sent):
        return None
    differs = sent[alike]
    cause: Cause = "system" if differs.outline.is_preamble else _CAUSES[type(by)]
    return Miss(cause, by.index, differs.index)


def _alike(sent: Sequence[ViewItem], view: Sequence[ViewItem]) -> int:
    """How many items at the start of a view go as they were sent."""
    pairs = zip(sent, view, strict=False)
    same = takewhile(lambda pair: pair[0].key == pair[1].key and sent_alike(*pair), pairs)
    return sum(1 for _ in same)
