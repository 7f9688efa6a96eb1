"""The view after the proposed compaction, and what the compaction costs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from foldline.compaction import Plan, Proposal
from foldline.frontend.state import ViewWeights
from foldline.protocol import NEW
from foldline.text import numbers
from foldline.tui.blocks.block import Key
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.look.fates import GONE
from foldline.view.cut import Cut, cut_at, cut_points
from foldline.view.items import FateKind, ViewItem, is_preamble, total_tokens
from foldline.view.projection import Projection
from foldline.view.tokens import message_tokens


@dataclass(frozen=True, slots=True)
class ViewForecast:
    """The items of the current view, and what the compaction does to each.

    Sizes are in calibrated tokens unless stated otherwise.
    """

    items: tuple[ViewItem, ...]
    """The current view. Kept items are as the compaction leaves them, for example hidden."""
    fates: Mapping[Key, FateKind]
    """State of each item after the compaction."""
    pins: frozenset[int]
    cut: int | None
    """Position of the first kept item; None if the strategy has no cut."""
    cut_points: tuple[int, ...]
    """Positions at which the view can be cut, in order."""
    before: int
    after: int
    scale: float
    overhead: int
    """Estimated size of the tool schemas, in tokens before calibration."""
    written: int
    """Estimated size of the new text, in tokens before calibration.

    Until the text has been written, this is the planned size.
    """

    def is_gone(self, item: ViewItem) -> bool:
        """Whether the new view no longer contains the item itself."""
        return self.fates[item.key] in GONE

    @property
    def cut_keys(self) -> frozenset[Key]:
        """The keys of the items before which the view can be cut."""
        return frozenset(self.items[point].key for point in self.cut_points)

    def size(self, items: Iterable[ViewItem], more: int = 0) -> int:
        """Return the size of items, plus `more` tokens before calibration."""
        return round((sum(item.tokens for item in items) + more) * self.scale)

    @property
    def compacted(self) -> int:
        """Number of tokens that the compaction removes from the view."""
        return self.size(filter(self.is_gone, self.items))

    def cost_of_pinning(self, group: Iterable[int]) -> int:
        """Return the number of tokens that pinning these entries would add to the view."""
        entries = set(group)
        return self.size(
            item for item in self.items if self.is_gone(item) and item.index in entries
        )

    def cut_point_before(self, position: int) -> int | None:
        """Return the nearest cut point at or before a position, if there is one."""
        points = [point for point in self.cut_points if point <= position]
        return points[-1] if points else None

    def next_cut_point(self, position: int, step: int) -> int | None:
        """Return the next cut point downwards (`step` 1) or upwards (-1), if there is one."""
        if step < 0:
            return self.cut_point_before(position - 1)
        return next((point for point in self.cut_points if point > position), None)

    def position_of(self, index: int) -> int:
        """Return the position of an entry, which must be in the view."""
        return next(at for at, item in enumerate(self.items) if item.index == index)

    def compacted_at(self, position: int) -> int:
        """Return the number of tokens that a cut at this position would compact."""
        cut = cut_at(self.items, position, pins=self.pins)
        if cut is None:
            return 0
        return round(total_tokens(cut.compacted + cut.previous) * self.scale)

    def weights(self, *, after: bool) -> ViewWeights:
        """Return the sizes of the view before or after the compaction, by category."""
        preamble = [item for item in self.items if is_preamble(item)]
        summaries: list[ViewItem] = []
        compacting: list[ViewItem] = []
        verbatim: list[ViewItem] = []
        for item in self.items[len(preamble) :]:
            if self.is_gone(item) and (after or not item.written):
                compacting.append(item)
            elif item.written or item.index in self.pins:
                summaries.append(item)
            else:
                verbatim.append(item)
        return ViewWeights(
            system=self.size(preamble, self.overhead),
            summaries=self.size(summaries, self.written if after else 0),
            compacting=0 if after else self.size(compacting),
            verbatim=self.size(verbatim),
        )


def forecast_of(state: DraftState) -> ViewForecast | None:
    """Return the forecast for the proposal or, until there is one, for the plan, if any."""
    if state.projection is None:
        return None
    if state.proposal is not None:
        return _proposed(state.proposal, state.projection)
    if state.plan is not None:
        return _planned(state.plan, state.projection, state.overhead)
    return None


def _proposed(proposal: Proposal, projection: Projection) -> ViewForecast:
    written = [message for message in proposal.after if message.index == NEW]
    # Strategies that write no text hide or drop entries by their own rules: there is no cut to move.
    cut = proposal.cut if written else None
    pins = proposal.pinned_before | proposal.pins
    items = proposal.view
    if cut is not None and proposal.state == "stale":
        fates = _fates_after_cut(items, cut, pins)
    else:
        after = projection.with_entries(proposal.entry)
        kept = {item.key: item for item in after.view}
        items = tuple(kept.get(item.key, item) for item in items)
        fates = {
            item.key: item.fate if item.key in kept else after.fate(item.index).kind
            for item in items
        }
    points = _cut_points(items, proposal.pinned_before, pins) if cut else ()
    return ViewForecast(
        items=items,
        fates=fates,
        pins=pins,
        cut=_shown_cut(cut, points),
        cut_points=points,
        before=proposal.entry.tokens_before,
        after=proposal.sizes.tokens_after,
        scale=proposal.scale,
        overhead=proposal.overhead,
        written=sum(map(message_tokens, written)),
    )


def _planned(plan: Plan, projection: Projection, overhead: int) -> ViewForecast:
    items = tuple(projection.view)
    pins = projection.pins
    fates = _fates_after_cut(items, plan.cut, pins)
    points = _cut_points(items, pins, pins) if plan.cut else ()
    scale = projection.meter.scale
    expected = round(plan.tokens_expected / scale)
    kept = [item for item in items if fates[item.key] not in GONE]
    return ViewForecast(
        items=items,
        fates=fates,
        pins=pins,
        cut=_shown_cut(plan.cut, points),
        cut_points=points,
        before=plan.tokens_before,
        after=plan.tokens_expected,
        scale=scale,
        overhead=overhead,
        written=max(0, expected - total_tokens(kept) - overhead),
    )


def _fates_after_cut(
    items: Iterable[ViewItem], cut: Cut[ViewItem] | None, pins: frozenset[int]
) -> dict[Key, FateKind]:
    """Return the states of all items after a cut has compacted some of them."""
    fates: dict[Key, FateKind] = {item.key: item.fate for item in items}
    if cut is not None:
        for item in cut.compacted + cut.previous:
            if item.index not in pins:
                fates[item.key] = "summarised"
    return fates


def _cut_points(
    items: tuple[ViewItem, ...], pinned_before: frozenset[int], pins: frozenset[int]
) -> tuple[int, ...]:
    """Return the cut points, each of which compacts different items.

    A cut right after a prompt compacts the same items as a cut right before the prompt, so it is left out.
    """
    points: list[int] = []
    for point in cut_points(items, pinned_before):
        prompt = items[point - 1]
        answers_prompt = (prompt.type, items[point].type) == ("user", "assistant")
        if answers_prompt and prompt.index not in pins:
            continue
        if points or cut_at(items, point, pins=pins) is not None:
            points.append(point)
    return tuple(points)


def _shown_cut(cut: Cut[ViewItem] | None, points: tuple[int, ...]) -> int | None:
    """Return the cut point that compacts the same items as a cut."""
    if cut is None:
        return None
    return max(
        (point for point in points if point <= cut.position), default=cut.position
    )


# --- Costs ------------------------------------------------------------------------------------------------

_LEAST: Final = 0.0005
"""Minimum saving in dollars. Smaller savings are not shown."""


def draft_cost(state: DraftState) -> float | None:
    """Return the cost of the newest draft in dollars, if known."""
    usage = state.proposal.entry.usage if state.proposal else None
    if usage is None or state.draft_price is None:
        return None
    return state.draft_price.paid(usage)


def draft_words(state: DraftState, forecast: ViewForecast) -> str:
    """Return the cost of the draft: `draft cost $0.030, 97 % from cache`.

    If the price is unknown, return the number of tokens. Before there is a draft, return its maximum cost,
    assuming that nothing comes from the cache.
    """
    if state.proposal is None and state.draft_price is not None:
        output = forecast.size((), forecast.written)
        most = state.draft_price.cost(forecast.before, 0, output)
        return f"draft up to {numbers.price(most)}"
    usage = state.proposal.entry.usage if state.proposal else None
    if usage is None or not usage.input:
        return ""
    cost = draft_cost(state)
    words = f"draft took {numbers.tokens(usage.total)}"
    if cost is not None:
        words = f"draft cost {numbers.price(cost)}"
    if usage.cached:
        share = numbers.percent(usage.cached, usage.input).replace("%", " %")
        words += f", {share} from cache"
    return words


def saving_words(state: DraftState, forecast: ViewForecast) -> str:
    """Return the savings of a compaction: `next request $0.014, then −$0.013 each`.

    If the price is unknown, return them in tokens. The first request after a compaction reads only its
    beginning from the cache. Later requests read from the cache as before, without the compacted part.
    """
    saved = forecast.before - forecast.after
    if state.price is None:
        return f"−{numbers.tokens(saved)} in every request" if saved > 0 else ""
    cached = min(forecast.weights(after=True).system, forecast.after)
    next_cost = numbers.price(state.price.cost(forecast.after - cached, cached))
    words = f"next request {'~' if state.is_estimate else ''}{next_cost}"
    saving = state.price.cost(0, saved)
    if saving >= _LEAST:
        words += f", then −{numbers.price(saving)} each"
    return words
