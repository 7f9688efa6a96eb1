"""What the view weighs, by kind, and its heaviest items; counted again only where the view has changed."""

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from .view import ViewItem

Kind = Literal[
    "system",
    "instructions",
    "summaries",
    "pins",
    "skills",
    "user",
    "assistant",
    "results",
    "images",
    "clipped",
    "hidden",
    "notes",
]
"""`notes` is what the program itself says to the model; `images` are those of what is there verbatim."""

FIXED: Final[frozenset[Kind]] = frozenset({"system", "instructions"})
"""Opens every view and is never compacted."""
KEPT: Final[frozenset[Kind]] = frozenset({"summaries", "pins", "skills"})
"""What compactions wrote, and what they may not take."""

_BY_TYPE: Final[dict[str, Kind]] = {"user": "user", "assistant": "assistant", "tool_result": "results"}
_TOP: Final = 64
"""Heaviest items that are held ready: more than a screen lists, so that edits of a few need no new count."""


class KindSum(NamedTuple):
    """The items of one kind, in tokens: what providers reported, and the estimate of all others."""

    items: int = 0
    reported: int = 0
    estimated: int = 0

    @property
    def exact(self) -> bool:
        """Whether all of it was reported."""
        return not self.estimated


def kind_of(item: ViewItem) -> Kind:
    """What an item of the view counts as, its images apart."""
    if item.is_preamble:
        return "system" if item.outline.type == "system" else "instructions"
    if item.pinned:
        return "skills" if item.outline.origin == "skill" else "pins"
    if item.written:
        return "summaries"
    if item.fate != "live":
        return item.fate
    return _BY_TYPE.get(item.outline.type, "notes")


class Tally:
    """One per projection, which says from where on its view is another than when it was counted last."""

    def __init__(self) -> None:
        self.looked_at = 0
        """Items that were counted, or taken out again, all in all: what keeping this up to date has cost."""
        self._counted: list[ViewItem] = []
        self._sums: dict[Kind, list[int]] = {}
        self._tops: tuple[_Top, _Top] | None = None
        """The heaviest whose weight was reported, and the heaviest of the others; None before they are asked
        for: their order stays the same however the estimate is calibrated."""

    def catch_up(self, view: Sequence[ViewItem], same: int) -> None:
        """Count what has changed behind the first `same` items."""
        if same == len(self._counted) == len(view):
            return
        same = _common_head(self._counted, view, same)
        gone, came = self._counted[same:], view[same:]
        tail = _common_tail(gone, came)
        gone, came = gone[: len(gone) - tail], came[: len(came) - tail]
        self._counted[same:] = view[same:]
        self.looked_at += len(gone) + len(came)
        for item in gone:
            self._count(item, -1)
        for item in came:
            self._count(item, 1)
        if self._tops is not None:
            self._update(self._tops, gone, came)

    def sum(self, kind: Kind) -> KindSum:
        """The items of a kind."""
        return KindSum(*self._sums.get(kind, ())[:3])

    def estimate(self, kinds: Iterable[Kind]) -> int:
        """Estimate of all items of these kinds, reported or not, before calibration, in tokens."""
        return sum(self._sums[kind][3] for kind in kinds if kind in self._sums)

    def heaviest(self, count: int, scale: float) -> list[ViewItem]:
        """The items that weigh most, `scale` times what is estimated; at most 64."""
        if self._tops is None or any(top.wants(count) for top in self._tops):
            self._tops = (_Top(), _Top())
            self.looked_at += len(self._counted)
            self._update(self._tops, (), self._counted)
        reported, estimated = self._tops
        ranked = [(float(item.reported or 0), item) for item in reported.items]
        ranked += [(item.tokens * scale, item) for item in estimated.items]
        ranked.sort(key=lambda pair: -pair[0])
        return [item for _, item in ranked[:count]]

    def _count(self, item: ViewItem, sign: int) -> None:
        kind, tokens = kind_of(item), item.tokens
        images = item.outline.images if item.fate == "live" else 0
        if images and kind in ("user", "results", "notes"):
            self._add("images", sign, 0, images, images)
            tokens -= images
        reported = item.reported
        if reported is None:
            self._add(kind, sign, 0, tokens, tokens)
        else:
            self._add(kind, sign, reported, 0, tokens)

    def _add(self, kind: Kind, sign: int, reported: int, estimated: int, all_estimated: int) -> None:
        sums = self._sums.setdefault(kind, [0, 0, 0, 0])
        sums[0] += sign
        sums[1] += sign * reported
        sums[2] += sign * estimated
        sums[3] += sign * all_estimated

    @staticmethod
    def _update(tops: "tuple[_Top, _Top]", gone: Iterable[ViewItem], came: Iterable[ViewItem]) -> None:
        for item in gone:
            tops[item.reported is None].remove(item)
        for item in came:
            tops[item.reported is None].add(item)


class _Top:
    """The heaviest items, heaviest first."""

    def __init__(self) -> None:
        self.items: list[ViewItem] = []
        self._all = True
        """Whether there are no others."""

    def wants(self, count: int) -> bool:
        """Whether it has too few for the `count` heaviest."""
        return not self._all and len(self.items) < count

    def add(self, item: ViewItem) -> None:
        items = self.items
        if not self._all and (not items or _lightness(item) >= _lightness(items[-1])):
            return
        insort(items, item, key=_lightness)
        if len(items) > _TOP:
            items.pop()
            self._all = False

    def remove(self, item: ViewItem) -> None:
        if self.items and (self._all or _lightness(item) <= _lightness(self.items[-1])):
            self.items = [each for each in self.items if each is not item]


def _lightness(item: ViewItem) -> int:
    return -(item.reported or item.tokens)


def _common_head(one: Sequence[ViewItem], other: Sequence[ViewItem], known: int) -> int:
    """How many items both begin with, of which so many are known. Items are never changed, only replaced."""
    most = min(len(one), len(other))
    while known < most and one[known] is other[known]:
        known += 1
    return known


def _common_tail(one: Sequence[ViewItem], other: Sequence[ViewItem]) -> int:
    count, most = 0, min(len(one), len(other))
    while count < most and one[-1 - count] is other[-1 - count]:
        count += 1
    return count
