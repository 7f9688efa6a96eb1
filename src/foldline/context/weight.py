"""What the view weighs: the one kitchen of all token numbers that decisions use and screens show."""

from collections.abc import Sequence
from dataclasses import dataclass

from foldline.protocol import BaseMessage

from .budget import Size
from .outline import MessageOutline
from .projection import Projection
from .tally import FIXED, KEPT
from .tokens import message_tokens
from .view import Held, ViewItem, item_from, item_of


def view_size(projection: Projection, *, overhead: int = 0, pending: Sequence[BaseMessage] = ()) -> Size:
    """The size of the next request: last reported usage plus the estimate of all after it.

    `overhead` is the estimate of the tool schemas, before calibration; `pending` messages are not in the
    history yet. Without a usage newer than the last change of the view, all of it is estimated.
    """
    scale = projection.calibration.scale(projection.model)
    waiting = sum(message_tokens(message) for message in pending)
    anchor = projection.anchor
    if anchor is None:
        return Size(round((projection.sent + overhead + waiting) * scale), estimated=True)
    after = projection.sent - anchor.estimated + waiting
    return Size(anchor.reported + round(max(0, after) * scale), estimated=False)


@dataclass(frozen=True, slots=True)
class Weight:
    tokens: int
    estimated: bool


def item_weight(projection: Projection, item: ViewItem) -> Weight:
    """What is sent of one item. An answer as it came weighs what its provider reported."""
    if item.reported is not None:
        return Weight(item.reported, estimated=False)
    return Weight(round(item.tokens * projection.calibration.scale(projection.model)), estimated=True)


def entry_weight(projection: Projection, message: BaseMessage) -> Weight:
    """What a message weighs verbatim, wherever it is now."""
    known = projection.outline(message.index)  # weighed once, when it was appended
    if isinstance(known, MessageOutline) and known.key == message.key:
        return item_weight(projection, item_from(known, Held(message)))
    return item_weight(projection, item_of(message))


@dataclass(frozen=True, slots=True)
class Categories:
    """The view by category, in tokens, oldest first; together the size of the next request."""

    system: int
    summaries: int
    verbatim: int


def categories(projection: Projection, *, overhead: int = 0) -> Categories:
    """System prompt, instructions and tools; summaries and pins; the rest. Costs what has changed."""
    tally = projection.tally
    system, summaries = overhead + tally.estimate(FIXED), tally.estimate(KEPT)
    verbatim = projection.tokens + overhead - system - summaries
    total = system + summaries + verbatim
    size = view_size(projection, overhead=overhead).tokens
    scale = size / total if total else 0.0
    first, second = round(system * scale), round(summaries * scale)
    return Categories(first, second, max(0, size - first - second))
