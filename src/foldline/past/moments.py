"""Earlier points in a history.

Provides the view at each point, and the differences between two views.
"""

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
from foldline.view.budget import RequestSize, Size
from foldline.view.items import Key, ViewItem
from foldline.view.outline import CompactionOutline, Entries, MessageOutline, Outline
from foldline.view.projection import Projection
from foldline.view.state import ViewMarker
from foldline.view.weight import agent_report, item_weight

from .compactions import sizes_of
from .proof import RecordedRequest, recorded_request


@dataclass(frozen=True, slots=True)
class Moment:
    """An earlier point in the history, given by the projection of the first `length` entries."""

    kind: Literal["request", "compaction", "before"]
    """The kind of point: when a request was sent, right after a compaction, or right before one."""
    number: int
    """For a request, its number, counted from 1; otherwise the index of the compaction or of the last entry.
    """
    length: int
    request: RequestSize | None = None
    """The request; None for other kinds."""
    recorded: RecordedRequest | None = None
    """The same request as recorded, if the history contains a record of it."""

    @property
    def name(self) -> str:
        match self.kind:
            case "request":
                return f"request {self.number}"
            case "compaction":
                return f"compaction {self.number}"
            case "before":
                return f"before compaction {self.number}"


def at_request(projection: Projection, number: int) -> Moment:
    """Return the point in the history at which request `number` was sent, counted from 1.

    Raises:
        IndexError: there is no such request.
    """
    requests = projection.meter.requests
    if not 1 <= number <= len(requests):
        raise IndexError(f"no request {number}")
    request = requests[number - 1]
    if not projection.meter.records_requests:
        # Other agents record only answers. Each answer ends its request.
        return Moment("request", number, request.position, request)
    recorded = recorded_request(projection, number)
    return Moment("request", number, recorded.length, request, recorded)


def size_at(now: Projection, moment: Moment) -> Size | None:
    """Return the size of the view at an earlier point.

    For a recorded request, this is the reported size, or the estimate made before the request was sent. For a
    compaction, see `sizes_of`. For other agents, whose reports include more than the items in a view, see
    `report_at`. Returns None if the size can be determined only by replaying the history.
    """
    return _recorded_size(now, moment) if now.meter.reports_view else None


def report_at(now: Projection, moment: Moment | None) -> int:
    """Return the tokens that another agent reported at an earlier point, or now.

    Returns 0 if nothing was reported.

    Args:
        moment: None for the current view.
    """
    if moment is None:
        return agent_report(now)
    size = None if now.meter.reports_view else _recorded_size(now, moment)
    return 0 if size is None or size.estimated else size.tokens


def _recorded_size(now: Projection, moment: Moment) -> Size | None:
    if moment.request is not None:
        return Size(moment.request.tokens, moment.request.is_estimated)
    compaction = now.outline(moment.number)
    if not isinstance(compaction, CompactionOutline):
        return None
    before, after = sizes_of(now, compaction)
    size = before if moment.kind == "before" else after
    return size if size.tokens else None


def at_compaction(
    projection: Projection, index: int, *, before: bool = False
) -> Moment:
    """Return the point right after a compaction, or right before it."""
    length = projection.count_up_to(index)
    if before:
        return Moment("before", index, length - 1)
    return Moment("compaction", index, length)


def requests_before(requests: Sequence[RequestSize], length: int) -> int:
    """Count the requests recorded before the history reached `length` entries."""
    return bisect_left(requests, length, key=lambda request: request.position)


def first_entry(projection: Projection, moment: Moment | None) -> int | None:
    """Return the index of the first new message in a request.

    Returns None if the request contained no new message. For a compaction, returns the compaction's own
    index.

    Args:
        moment: None for the next request.
    """
    if moment is None:
        number = len(projection.meter.requests) + 1
        stop = len(projection.entries)
    elif moment.kind == "request":
        number = moment.number
        stop = moment.length
    else:
        return moment.number
    start = at_request(projection, number - 1).length if number > 1 else 0
    for outline in projection.entries.outlines[start:stop]:
        if isinstance(outline, MessageOutline):
            return outline.index
    return None


@dataclass(frozen=True, slots=True)
class SinceRequest:
    """How a view differs from the view of an earlier request."""

    number: int
    """Number of the earlier request."""
    added: int
    """Number of items added after the earlier request."""
    changed_by: tuple[int, ...]
    """Indices of the markers that changed the items of the earlier request."""


def since_request(projection: Projection, number: int, since: int) -> SinceRequest:
    """Compare the view with that of request `number`.

    Takes time linear in the number of entries since then.

    Args:
        since: number of entries in the history when the request was sent.
    """
    outlines = projection.entries.outlines
    last_sent = outlines[since - 1].index if since else NEW
    added = 0
    for item in reversed(projection.view):
        if item.index <= last_sent:
            break
        added += not item.written
    markers = (
        outline.index
        for outline in outlines[since:]
        if isinstance(outline, ViewMarker | Undo)
    )
    return SinceRequest(number, added, tuple(markers))


SLICE: Final = 1_000
"""Number of entries replayed at a time. This takes about 6 ms."""


class HistoryPrefix(Entries):
    """The first entries of a longer history, without copying them.

    The prefix can be extended but not shortened.
    """

    def __init__(self, full_history: Entries, length: int = 0) -> None:
        self._full_history = full_history
        self.outlines = full_history.outlines[:length]

    def lengthen(self, length: int) -> None:
        """Extend the prefix to this length."""
        self.outlines += self.upcoming(length)

    def upcoming(self, length: int) -> Sequence[Outline]:
        """Return the outlines that must be added to reach this length."""
        return self._full_history.outlines[len(self.outlines) : length]

    @property
    def all_outlines(self) -> Sequence[Outline]:
        return self._full_history.all_outlines

    def append(self, entry: Entry) -> None:
        raise ValueError("an earlier moment cannot be appended to")

    def message(self, outline: MessageOutline) -> BaseMessage:
        return self._full_history.message(outline)

    def __len__(self) -> int:
        return len(self.outlines)

    def __iter__(self) -> Iterator[Entry]:
        return (self._full_history[position] for position in range(len(self)))

    @overload
    def __getitem__(self, position: int) -> Entry: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Entry]: ...
    def __getitem__(self, position: int | slice) -> Entry | Sequence[Entry]:
        positions = range(len(self))[position]
        if isinstance(positions, int):
            return self._full_history[positions]
        if positions.step > 0:
            return self._full_history[positions.start : positions.stop : positions.step]
        return [self._full_history[at] for at in positions]

    def __copy__(self) -> Self:
        return type(self)(self._full_history, len(self))


def empty_prefix(full_history: Entries) -> Projection:
    """Return an empty projection on a prefix, as a starting point for `replay_to`."""
    return Projection(HistoryPrefix(full_history))


def replay_to(projection: Projection, length: int) -> Iterator[None]:
    """Replay a projection on a `HistoryPrefix`, in slices.

    Between two slices, the projection shows an earlier point in the history.
    """
    prefix = projection.entries
    assert isinstance(prefix, HistoryPrefix), "only a prefix grows without an append"
    while len(prefix) < length:
        prefix.lengthen(min(len(prefix) + SLICE, length))
        projection.follow()
        yield


def entry_text(entry: Entry, *, without_calls: Collection[str] = ()) -> str | None:
    """Return the full text of a message, summary or D-Mail.

    Returns None for other entries.

    Args:
        without_calls: names of tools whose calls are left out.
    """
    match entry:
        case AssistantMessage():
            texts: list[str] = []
            if entry.thinking:
                texts.append(f"[thinking]\n{entry.thinking}")
            if entry.text:
                texts.append(
                    f"[answer]\n{entry.text}" if entry.thinking else entry.text
                )
            texts += [
                _call_text(call)
                for call in entry.calls
                if call.name not in without_calls
            ]
            return "\n".join(texts)
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
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        space = "\n" if "\n" in text else " "
        lines.append(f"{name}:{space}{text}")
    if len(lines) == 1:
        lines.append(call.arguments)
    return "\n".join(lines)


ItemChange = Literal["same", "gone", "new", "changed"]


@dataclass(frozen=True, slots=True)
class ItemPair:
    """An item in the earlier view, paired with the matching item in the later view."""

    change: ItemChange
    before: ViewItem | None
    after: ViewItem | None

    @property
    def item(self) -> ViewItem:
        """The later item, or the earlier one if there is no later one."""
        item = self.after or self.before
        assert item is not None, "a pair has at least one item"
        return item


def difference(before: Sequence[ViewItem], after: Sequence[ViewItem]) -> list[ItemPair]:
    """Pair the items of two views, in the order of the later view.

    Removed items keep their position. Takes time linear in the number of items.
    """
    positions = {item.key: position for position, item in enumerate(before)}
    kept = {item.key for item in after}
    pairs: list[ItemPair] = []
    done = 0
    for item in after:
        position = positions.get(item.key)
        if position is None:
            pairs.append(ItemPair("new", None, item))
            continue
        pairs += _gone(before[done : position + 1], kept)
        done = max(done, position + 1)
        change: ItemChange = "same" if sent_alike(before[position], item) else "changed"
        pairs.append(ItemPair(change, before[position], item))
    return [*pairs, *_gone(before[done:], kept)]


def _gone(items: Iterable[ViewItem], kept: set[Key]) -> Iterator[ItemPair]:
    return (ItemPair("gone", item, None) for item in items if item.key not in kept)


def sent_alike(one: ViewItem, other: ViewItem) -> bool:
    """Return whether two items with the same key are sent with the same content."""
    return (one.fate, one.content, one.checkpoint) == (
        other.fate,
        other.content,
        other.checkpoint,
    )


def runs(pairs: Iterable[ItemPair]) -> Iterator[tuple[ItemChange, list[ItemPair]]]:
    """Group neighbouring pairs that have the same kind of change."""
    for change, run in groupby(pairs, key=lambda pair: pair.change):
        yield change, list(run)


@dataclass(frozen=True, slots=True)
class ChangeSum:
    """The number of items, and their sizes before and after, in tokens.

    Both sizes are based on the same projection.
    """

    count: int = 0
    before: int = 0
    after: int = 0
    estimated: bool = False
    """Whether any of the added sizes is an estimate."""

    @property
    def change(self) -> int:
        return self.after - self.before


def weight_of(projection: Projection, item: ViewItem | None) -> Size:
    """Return the size of an item.

    For None, the size is zero.
    """
    return Size(0, estimated=False) if item is None else item_weight(projection, item)


def sums(
    projection: Projection, pairs: Iterable[ItemPair]
) -> dict[ItemChange, ChangeSum]:
    """Add up the pairs by kind of change, with sizes based on the later projection.

    The later total therefore equals the earlier total, minus removed items, plus new items, plus the change
    in the others.
    """
    totals: dict[ItemChange, ChangeSum] = dict.fromkeys(
        ("gone", "new", "changed", "same"), ChangeSum()
    )
    for pair in pairs:
        before = weight_of(projection, pair.before)
        after = weight_of(projection, pair.after)
        total = totals[pair.change]
        totals[pair.change] = ChangeSum(
            total.count + 1,
            total.before + before.tokens,
            total.after + after.tokens,
            total.estimated or before.estimated or after.estimated,
        )
    return totals
