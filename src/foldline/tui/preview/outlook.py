"""The view as it would be after the compaction: what stays, what goes, where a cut may be. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.compaction import Plan, Proposal
from foldline.context import numbers
from foldline.context.cut import Cut, cut_at, cut_points
from foldline.context.projection import Projection
from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.context.view import FateKind, ViewItem, is_preamble, total_tokens
from foldline.protocol import NEW
from foldline.tui.blocks.block import Key
from foldline.tui.preview.state import PreviewState
from foldline.tui.state import Weights

_GONE: Final = frozenset({"summarised", "truncated"})
_HELD_OVERHEAD: Final = 4
"""Tokens a prompt costs beyond its text, as in `context.tokens`."""


@dataclass(frozen=True, slots=True)
class Part:
    """An item of the view now, and what the compaction would make of it."""

    item: ViewItem
    position: int
    fate: FateKind
    tokens: int
    """Estimate before calibration: of what the new view holds of it, or of the item where that goes."""
    pinned: bool

    @property
    def index(self) -> int:
        return self.item.index

    @property
    def gone(self) -> bool:
        return self.fate in _GONE

    @property
    def preamble(self) -> bool:
        return is_preamble(self.item)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The difference between the view now and with the proposed entry. Sizes in tokens, calibrated unless
    said otherwise."""

    parts: tuple[Part, ...]
    cut: int | None
    """Position in the view where what is kept begins; None where the strategy knows no cut."""
    cut_points: tuple[int, ...]
    """Positions where the cut may be, in order."""
    groups: Mapping[int, tuple[int, ...]]
    """The tool group of an entry that belongs to one of several."""
    pins: frozenset[int]
    before: int
    after: int
    scale: float = 1.0
    overhead: int = 0
    """Estimate of the tool schemas, before calibration."""
    written: int = 0
    """Estimate of the new text, before calibration; of one that is not written yet, what the plan expects."""

    def size(self, parts: Iterable[Part]) -> int:
        return self.calibrated(sum(part.tokens for part in parts))

    def calibrated(self, tokens: int) -> int:
        return round(tokens * self.scale)

    @property
    def compacted(self) -> int:
        """Tokens that leave the view."""
        return self.size(part for part in self.parts if part.gone)

    @property
    def kept_below(self) -> int:
        """Tokens that stay behind the cut."""
        behind = self.parts[self.cut or 0 :]
        return self.size(part for part in behind if not (part.gone or part.pinned or part.preamble))

    def group_of(self, index: int) -> tuple[int, ...]:
        return self.groups.get(index, (index,))

    def cost_of_pinning(self, indices: Iterable[int]) -> int:
        """Tokens by which the view grows if these entries stay."""
        wanted = {each for index in indices for each in self.group_of(index)}
        return self.size(part for part in self.parts if part.gone and part.index in wanted)

    def is_cut_point(self, position: int) -> bool:
        at = bisect_left(self.cut_points, position)
        return self.cut_points[at : at + 1] == (position,)

    def cut_point_before(self, position: int) -> int | None:
        """The nearest cut point at or before this position."""
        return next((place for place in reversed(self.cut_points) if place <= position), None)

    def cut_point_beside(self, position: int, step: int) -> int | None:
        """The next cut point in a direction."""
        if step > 0:
            return next((place for place in self.cut_points if place > position), None)
        return self.cut_point_before(position - 1)

    def index_at(self, position: int) -> int:
        return self.parts[position].index

    def position_of(self, index: int) -> int | None:
        """Where in the view an entry stands."""
        return next((part.position for part in self.parts if part.index == index), None)

    def size_compacted_at(self, position: int) -> int:
        """Tokens that a cut at this point compacts."""
        cut = cut_at([part.item for part in self.parts], position, pins=self.pins)
        return 0 if cut is None else self.calibrated(total_tokens(cut.compacted + cut.previous))

    def weights_now(self) -> Weights:
        return Weights(
            system=self._system(),
            summaries=self.size(
                p for p in self.parts if not p.preamble and (p.item.written or p.item.pinned)
            ),
            compacting=self.size(p for p in self.parts if p.gone and not p.item.written),
            verbatim=self.size(
                p for p in self.parts if not (p.gone or p.preamble or p.item.written or p.item.pinned)
            ),
        )

    def weights_after(self) -> Weights:
        stay = [part for part in self.parts if not part.gone and not part.preamble]
        marked = [part for part in stay if part.pinned or part.item.written]
        return Weights(
            system=self._system(),
            summaries=self.size(marked) + self.calibrated(self.written),
            verbatim=self.size(part for part in stay if not (part.pinned or part.item.written)),
        )

    def _system(self) -> int:
        return self.size(part for part in self.parts if part.preamble) + self.calibrated(self.overhead)


def outlook_of(state: PreviewState) -> Outlook | None:
    """The outlook of the proposal, or of the plan before it; None without either."""
    if state.projection is None:
        return None
    if state.proposal is not None:
        return _proposed(state.proposal, state.projection)
    if state.plan is not None:
        return _planned(state.plan, state.projection, state.overhead)
    return None


def held_tokens(outlook: Outlook, held: str) -> int:
    """The size of the held prompt, in calibrated tokens."""
    return outlook.calibrated(estimate_tokens(held) + _HELD_OVERHEAD)


def _proposed(proposal: Proposal, projection: Projection) -> Outlook:
    pins = proposal.pinned_before | proposal.pins
    written = [message for message in proposal.after if message.index == NEW]
    # What writes no text hides or leaves out by rules of its own: no cut to move.
    cut = proposal.cut if written else None
    fates: dict[Key, FateKind] = {}
    sizes: dict[Key, int] = {}
    if proposal.state == "stale" and cut is not None:
        fates = _moved(cut, pins)
    else:
        after = projection.foreseen(proposal.entry)
        stays = {item.key: item for item in after.view}
        for item in proposal.view:
            kept = stays.get(item.key)
            fates[item.key] = kept.fate if kept is not None else after.fate(item.index).kind
            sizes[item.key] = item.tokens if kept is None else kept.tokens
    return Outlook(
        parts=_parts(proposal.view, fates, sizes, pins),
        cut=_place(cut) if cut else None,
        cut_points=_cut_points(proposal.view, pins) if cut else (),
        groups={index: group for group in proposal.groups if len(group) > 1 for index in group},
        pins=pins,
        before=proposal.entry.tokens_before,
        after=proposal.outline.tokens_after,
        scale=proposal.scale,
        overhead=proposal.overhead,
        written=sum(map(message_tokens, written)),
    )


def _planned(plan: Plan, projection: Projection, overhead: int) -> Outlook:
    view, pins = tuple(projection.view), projection.pins
    groups = {projection.group(item.index) for item in view if item.index >= 0}
    clipped = {(index, 0): tokens for index, tokens in plan.clipped.items()}
    moved = _moved(plan.cut, pins) if plan.cut else {}
    parts = _parts(view, {**moved, **dict.fromkeys(clipped, "clipped")}, clipped, pins)
    scale = projection.scale
    stays = sum(part.tokens for part in parts if not part.gone) + overhead
    return Outlook(
        parts=parts,
        cut=_place(plan.cut) if plan.cut else None,
        cut_points=_cut_points(view, pins) if plan.cut else (),
        groups={index: group for group in groups if len(group) > 1 for index in group},
        pins=pins,
        before=plan.tokens_before,
        after=plan.tokens_expected,
        scale=scale,
        overhead=overhead,
        written=max(0, round(plan.tokens_expected / scale) - stays),
    )


def _parts(
    view: Sequence[ViewItem], fates: Mapping[Key, FateKind], sizes: Mapping[Key, int], pins: frozenset[int]
) -> tuple[Part, ...]:
    return tuple(
        Part(
            item=item,
            position=position,
            fate=fates.get(item.key, item.fate),
            tokens=sizes.get(item.key, item.tokens),
            pinned=item.index in pins,
        )
        for position, item in enumerate(view)
    )


def _moved(cut: Cut[ViewItem], pins: frozenset[int]) -> dict[Key, FateKind]:
    """The fates of the items that a cut compacts."""
    return {item.key: "summarised" for item in cut.compacted + cut.previous if item.index not in pins}


def _place(cut: Cut[ViewItem]) -> int:
    """Where what is kept begins: a request with nothing compacted behind it stays with its turn."""
    return cut.position - 1 if cut.request is not None and not cut.prefix else cut.position


def _cut_points(view: Sequence[ViewItem], pins: frozenset[int]) -> tuple[int, ...]:
    """Cut points, each of which compacts something else: behind a request it would be the same as before it.
    The first ones of a view may have nothing but a request before them, and that is kept."""
    places = [place for place in cut_points(view, pins) if not _begins_answer(view, place, pins)]
    while places and cut_at(view, places[0], pins=pins) is None:
        places.pop(0)
    return tuple(places)


def _begins_answer(view: Sequence[ViewItem], place: int, pins: frozenset[int]) -> bool:
    """Whether the item answers the request right before it."""
    asked, answer = view[place - 1], view[place]
    return (asked.outline.type, answer.outline.type) == ("user", "assistant") and asked.index not in pins


_LEAST = 0.0005
"""Dollars below which a saving is not worth a word."""


def draft_cost(state: PreviewState) -> float | None:
    """The cost of the newest draft, in dollars; None if price or usage is unknown."""
    usage = state.proposal.entry.usage if state.proposal else None
    return None if usage is None or state.draft_price is None else state.draft_price.paid(usage)


def draft_words(state: PreviewState, outlook: Outlook) -> str:
    """`draft cost $0.030, 97 % from cache`; without a price `draft took 97.1k, 97 % from cache`.

    Before there is a draft, what it may cost: that much where nothing of it comes from the cache.
    """
    usage = state.proposal.entry.usage if state.proposal else None
    if state.proposal is None and state.draft_price is not None:
        most = state.draft_price.cost(outlook.before, 0, outlook.calibrated(outlook.written))
        return f"draft up to {numbers.price(most)}"
    if usage is None or not usage.input:
        return ""
    cost = draft_cost(state)
    what = f"took {numbers.tokens(usage.total)}" if cost is None else f"cost {numbers.price(cost)}"
    took = f"draft {what}"
    if not usage.cached:
        return took
    return f"{took}, {numbers.percent(usage.cached, usage.input).replace('%', ' %')} from cache"


def saving_words(state: PreviewState, outlook: Outlook) -> str:
    """`next request $0.014, then −$0.013 each`; without a price `−91.7k in every request`.

    The first request after a compaction finds only what opens it in the cache; those that follow read from
    there what they would have read without it, less what it took away.
    """
    saved = outlook.before - outlook.after
    if state.price is None:
        return f"−{numbers.tokens(saved)} in every request" if saved > 0 else ""
    opening = min(outlook.weights_after().system, outlook.after)
    about = "~" if state.proposal is None or state.proposal.state == "stale" else ""
    following = f"{about}{numbers.price(state.price.cost(outlook.after - opening, opening))}"
    each = state.price.cost(0, saved)
    later = f", then −{numbers.price(each)} each" if each >= _LEAST else ""
    return f"next request {following}{later}"


def redraft_words(state: PreviewState) -> str:
    """` ~$0.03`: what another draft will cost, by the newest one."""
    cost = draft_cost(state)
    return "" if cost is None else f" ~{numbers.price(cost)}"
