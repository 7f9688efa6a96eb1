"""Which views are compared with which. Pure."""

from dataclasses import dataclass

from foldline.context.moments import Moment, at_compaction, at_request
from foldline.context.projection import Projection


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two views to compare. Without a moment it is that of now."""

    before: Moment | None
    after: Moment | None
    title: str


def comparisons(
    now: Projection, moment: Moment | None, marked: Moment | None, fold: int | None
) -> list[Comparison]:
    """The pairs that are of interest at a moment (None is now), the most wanted first: with the `marked`
    request; before and after the `fold` under the cursor, or the one the moment is of; with the request
    before. Nothing where nothing came before."""
    found: list[Comparison] = []
    if fold is not None:
        found.append(_of_fold(now, fold))
    if marked is not None and marked != moment:
        earlier = moment is None or marked.length <= moment.length
        found.append(_of(now, *((marked, moment) if earlier else (moment, marked))))
    if moment is not None and moment.kind != "request":
        if moment.number != fold:
            found.append(_of_fold(now, moment.number))
        return found
    number = len(now.requests) + 1 if moment is None else moment.number
    if number > 1:
        found.append(_of(now, at_request(now, number - 1), moment))
    return found


def _of_fold(now: Projection, fold: int) -> Comparison:
    before, after = at_compaction(now, fold, before=True), at_compaction(now, fold)
    return Comparison(before, after, f"before and after fold {fold}")


def _of(now: Projection, before: Moment | None, after: Moment | None) -> Comparison:
    return Comparison(before, after, f"{_name(now, before)} → {_name(now, after)}")


def _name(now: Projection, moment: Moment | None) -> str:
    if moment is None:
        return f"request {len(now.requests) + 1}, the next"
    return moment.name
