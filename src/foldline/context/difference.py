"""What two views of one history do not share: items gone, items new, items sent otherwise. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from .projection import Projection
from .view import ViewItem
from .weight import Weight, item_weight

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
    Linear in both."""
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
    """Whether two items of the same entry, or the same message of a fold, are sent alike."""
    return (one.fate, one.content, one.checkpoint) == (other.fate, other.content, other.checkpoint)


def runs(pairs: Iterable[Pair]) -> Iterator[tuple[Change, list[Pair]]]:
    """Neighbours that changed alike, together."""
    for change, run in groupby(pairs, key=lambda pair: pair.change):
        yield change, list(run)


@dataclass(frozen=True, slots=True)
class Sum:
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


def sums(projection: Projection, pairs: Iterable[Pair]) -> dict[Change, Sum]:
    """The sum of each kind of change. Both views are weighed by the same `projection`, the later one: so the
    later total is the earlier one, less what is gone, plus what is new, plus what changed by."""
    found: dict[Change, Sum] = {"gone": Sum(), "new": Sum(), "changed": Sum(), "same": Sum()}
    for pair in pairs:
        before, after, known = (
            weight_of(projection, pair.before),
            weight_of(projection, pair.after),
            found[pair.change],
        )
        found[pair.change] = Sum(
            known.count + 1,
            known.before + before.tokens,
            known.after + after.tokens,
            known.estimated or before.estimated or after.estimated,
        )
    return found
