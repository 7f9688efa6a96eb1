"""Moments of a history that can be gone back to, the view as it was then, and what differs since."""

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, Self, overload

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    Revert,
    ToolCallPart,
    Undo,
)

from .budget import RequestSize, Size
from .compactions import sizes_of
from .outline import CompactionOutline, Entries, MessageOutline, Outline
from .projection import Projection
from .proof import RecordedRequest, recorded_request
from .view import ViewItem
from .view_state import ViewMarker
from .weight import Weight, agent_report, item_weight


@dataclass(frozen=True, slots=True)
class Moment:
    """The history was `length` entries long then; their projection is all there is to it."""

    kind: Literal["request", "compaction", "before", "branch"]
    """As a request left; right after a compaction; right before it; where another branch was left."""
    number: int
    """Of the request, counted from 1; of a compaction, or of the last entry of a branch, its index."""
    length: int
    asked: RequestSize | None = None
    """The request."""
    sent: RecordedRequest | None = None
    """Its record, where the history holds one."""

    @property
    def name(self) -> str:
        match self.kind:
            case "request":
                return f"request {self.number}"
            case "compaction":
                return f"compaction {self.number}"
            case "before":
                return f"before compaction {self.number}"
            case "branch":
                return f"branch up to {self.number}"


def at_request(projection: Projection, number: int) -> Moment:
    """The moment request `number` left, counted from 1: what `foldline view --request` shows. Raises
    IndexError."""
    if not 1 <= number <= len(projection.requests):
        raise IndexError(f"no request {number}")
    asked = projection.requests[number - 1]
    if not projection.records_requests:  # other agents record answers only: what was sent ended before each
        return Moment("request", number, asked.position, asked)
    sent = recorded_request(projection, number)
    return Moment("request", number, sent.length, asked, sent)


def size_at(now: Projection, moment: Moment) -> Size | None:
    """Return the size of the view at a moment; None if only its replay can tell.

    Of a request on record: as reported, else as estimated before it left. Of a compaction: see `sizes_of`.
    Other agents report more than the items of a view: see `report_at`.
    """
    if not now.reports_view:
        return None
    if moment.asked is not None:
        return Size(moment.asked.tokens, moment.asked.is_estimated)
    compaction = now.outline(moment.number)
    if not isinstance(compaction, CompactionOutline):
        return None
    before, after = sizes_of(now, compaction)
    size = before if moment.kind == "before" else after
    return size if size.tokens else None


def report_at(now: Projection, moment: Moment | None) -> int:
    """Return the tokens that another agent reported at a moment; 0 for none. None is now."""
    if moment is None:
        return agent_report(now)
    if now.reports_view:
        return 0
    if moment.asked is not None:
        return moment.asked.reported
    compaction = now.outline(moment.number)
    if not isinstance(compaction, CompactionOutline):
        return 0
    before, after = sizes_of(now, compaction)
    size = before if moment.kind == "before" else after
    return 0 if size.estimated else size.tokens


def at_compaction(projection: Projection, index: int, *, before: bool = False) -> Moment:
    """The moment right after the compaction with this index, or right before it."""
    length = projection.count_up_to(index)
    return Moment("before", index, length - 1) if before else Moment("compaction", index, length)


def requests_before(requests: Sequence[RequestSize], position: int) -> int:
    """How many requests had been recorded when the history was so many entries long."""
    return bisect_left(requests, position, key=lambda asked: asked.position)


def first_entry(projection: Projection, moment: Moment | None) -> int | None:
    """Index of the first message that this request, or the next one, sent and the one before did not; of a
    compaction its own. None where nothing was added."""
    if moment is not None and moment.kind != "request":
        return moment.number
    number = len(projection.requests) + 1 if moment is None else moment.number
    stop = len(projection.entries) if moment is None else moment.length
    start = at_request(projection, number - 1).length if number > 1 else 0
    said = (o.index for o in projection.entries.outlines[start:stop] if isinstance(o, MessageOutline))
    return next(said, None)


@dataclass(frozen=True, slots=True)
class SinceRequest:
    """How a view differs from that of the request before, as far as its markers say."""

    number: int
    """Of the request before."""
    added: int
    """Items that came after it."""
    changed_by: tuple[int, ...]
    """Indices of the markers that changed what stands above."""


def since_request(projection: Projection, number: int, since: int) -> SinceRequest:
    """What a view has that request `number` had not, which left at `since` entries. Linear in what came
    since."""
    last = projection.entries.outlines[since - 1].index if since else NEW
    added = 0
    for item in reversed(projection.view):
        if item.index <= last:
            break
        added += not item.written
    markers = tuple(o.index for o in projection.entries.outlines[since:] if isinstance(o, ViewMarker | Undo))
    return SinceRequest(number, added, markers)


SLICE: Final = 1_000
"""Entries replayed at a time: about 6 ms."""


class HistoryPrefix(Entries):
    """The first entries of a longer history, read where they are kept. It only grows towards the whole."""

    def __init__(self, whole: Entries, length: int = 0) -> None:
        self._whole = whole
        self.outlines = whole.outlines[:length]

    def lengthen(self, length: int) -> None:
        """Take in the entries up to this length."""
        self.outlines += self.upcoming(length)

    def upcoming(self, length: int) -> Sequence[Outline]:
        """The outlines of those that are still missing up to this length."""
        return self._whole.outlines[len(self.outlines) : length]

    @property
    def all_outlines(self) -> Sequence[Outline]:
        return self._whole.all_outlines

    def append(self, entry: Entry) -> None:
        raise ValueError("what was cannot be added to")

    def message(self, outline: MessageOutline) -> BaseMessage:
        return self._whole.message(outline)

    def __len__(self) -> int:
        return len(self.outlines)

    def __iter__(self) -> Iterator[Entry]:
        return (self._whole[position] for position in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(place, int):
            return self._whole[range(len(self))[place]]
        start, stop, step = place.indices(len(self))
        if step > 0:
            return self._whole[start : max(start, stop) : step]
        return [self._whole[position] for position in range(start, stop, step)]

    def __copy__(self) -> Self:
        return type(self)(self._whole, len(self))


def empty_prefix(whole: Entries) -> Projection:
    """The projection of none of these entries: where `replay_to` starts."""
    return Projection(HistoryPrefix(whole))


def replay_to(projection: Projection, length: int) -> Iterator[None]:
    """Replay `HistoryPrefix` entries up to this length, in slices; in between, all is true so far."""
    earlier = projection.entries
    assert isinstance(earlier, HistoryPrefix), "only what was grows without an append"
    while len(earlier) < length:
        earlier.lengthen(min(len(earlier) + SLICE, length))
        projection.follow()
        yield


def entry_text(entry: Entry, *, without_calls: Collection[str] = ()) -> str | None:
    """The text of a message, a summary or a D-Mail, nothing shortened, without the calls of some tools; else
    None."""
    match entry:
        case AssistantMessage():
            calls = [_call_text(call) for call in entry.calls if call.name not in without_calls]
            thinking = [f"[thinking]\n{entry.thinking}"] if entry.thinking else []
            label = "[answer]\n" if thinking else ""
            return "\n".join([*thinking, *([label + entry.text] if entry.text else []), *calls])
        case BaseMessage():
            return entry.text
        case Compaction():
            return entry.summary
        case Revert():
            return entry.text or None
        case _:
            return None


def _call_text(call: ToolCallPart) -> str:
    lines = [f"[call {call.name}]"]
    for name, value in call.parsed().items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name}:\n{shown}" if "\n" in shown else f"{name}: {shown}")
    return "\n".join(lines if len(lines) > 1 else [*lines, call.arguments])


Change = Literal["same", "gone", "new", "changed"]


@dataclass(frozen=True, slots=True)
class Pair:
    """One item, as it stood in the view before and in the one after."""

    change: Change
    before: ViewItem | None
    after: ViewItem | None

    @property
    def item(self) -> ViewItem:
        """The item as it is, or as it last was."""
        found = self.after or self.before
        assert found is not None, "a pair is of something"
        return found


def difference(before: Sequence[ViewItem], after: Sequence[ViewItem]) -> list[Pair]:
    """Every item of both views once, in the order of the later one; what is gone stands where it stood.
    Linear."""
    places = {item.key: place for place, item in enumerate(before)}
    kept = {item.key for item in after}
    pairs: list[Pair] = []
    done = 0
    for item in after:
        place = places.get(item.key)
        if place is None:
            pairs.append(Pair("new", None, item))
            continue
        pairs += _gone(before[done : place + 1], kept)
        done = max(done, place + 1)
        pairs.append(Pair("same" if sent_alike(before[place], item) else "changed", before[place], item))
    return [*pairs, *_gone(before[done:], kept)]


def _gone(items: Iterable[ViewItem], kept: set[tuple[int, int]]) -> Iterator[Pair]:
    return (Pair("gone", item, None) for item in items if item.key not in kept)


def sent_alike(one: ViewItem, other: ViewItem) -> bool:
    """Whether two items of the same entry, or the same message of a compaction, are sent alike."""
    return (one.fate, one.content, one.checkpoint) == (other.fate, other.content, other.checkpoint)


def runs(pairs: Iterable[Pair]) -> Iterator[tuple[Change, list[Pair]]]:
    """Neighbours that changed alike, together."""
    for change, run in groupby(pairs, key=lambda pair: pair.change):
        yield change, list(run)


@dataclass(frozen=True, slots=True)
class ChangeSum:
    """How many items, and what they weigh before and after; both in the measure of one projection."""

    count: int = 0
    before: int = 0
    after: int = 0
    estimated: bool = False

    @property
    def change(self) -> int:
        return self.after - self.before


def weight_of(projection: Projection, item: ViewItem | None) -> Weight:
    """An item that is not there weighs nothing."""
    return Weight(0, estimated=False) if item is None else item_weight(projection, item)


def sums(projection: Projection, pairs: Iterable[Pair]) -> dict[Change, ChangeSum]:
    """The sum of each kind of change, both views weighed by the later `projection`: so the later total is the
    earlier one, less what is gone, plus what is new, plus what changed by."""
    found: dict[Change, ChangeSum] = dict.fromkeys(("gone", "new", "changed", "same"), ChangeSum())
    for pair in pairs:
        before, after = weight_of(projection, pair.before), weight_of(projection, pair.after)
        known = found[pair.change]
        found[pair.change] = ChangeSum(
            known.count + 1,
            known.before + before.tokens,
            known.after + after.tokens,
            known.estimated or before.estimated or after.estimated,
        )
    return found
