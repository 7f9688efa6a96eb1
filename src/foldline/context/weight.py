"""The view's size in tokens: the one source of all token numbers that decisions use and screens show."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from foldline.protocol import BaseMessage, UserMessage, text_parts

from .budget import Size
from .outline import MessageOutline
from .projection import Projection
from .tally import FIXED, KEPT, Kind
from .tokens import Scripts, message_tokens, scripts_in
from .view import HeldMessage, ViewItem, item_from, item_of


def view_size(projection: Projection, *, overhead: int = 0, pending: Sequence[BaseMessage] = ()) -> Size:
    """Return the size of the next request.

    The last reported usage plus the estimate of all after it; an estimate of all if the view changed since.

    Args:
        overhead: estimated tokens of the tool schemas.
        pending: messages that come on top.
    """
    tokens = projection.counted + sum(map(message_tokens, pending))
    scripts = projection.scripts.plus(scripts_in(*pending))
    if projection.anchor is None:
        return Size(round(projection.weighed(tokens + overhead, scripts)), estimated=True)
    return Size(round(projection.grown_to(tokens, scripts)), estimated=False)


def agent_report(projection: Projection) -> int:
    """Return the tokens of another agent's newest request, as reported; 0 for a session of ours.

    The report counts that agent's tools, and mostly a system prompt, which the history does not hold.
    """
    if projection.reports_view or not projection.requests:
        return 0
    return projection.requests[-1].reported


MESSAGES_ONLY: Final = "without what its agent adds, such as tools"
"""Stands behind the size of another agent's view: only the messages of its file are counted."""


@dataclass(frozen=True, slots=True)
class Weight:
    tokens: int
    estimated: bool


def together(weights: Iterable[Weight]) -> Weight:
    """Of several messages."""
    listed = list(weights)
    return Weight(sum(each.tokens for each in listed), any(each.estimated for each in listed))


def item_weight(projection: Projection, item: ViewItem) -> Weight:
    """What is sent of one item. An answer as it came weighs what its provider reported."""
    if item.reported is not None:
        return Weight(item.reported, estimated=False)
    return Weight(round(item.tokens * projection.scale), estimated=True)


def entry_weight(projection: Projection, message: BaseMessage) -> Weight:
    """What a message weighs verbatim, wherever it is now."""
    known = projection.outline(message.index)  # weighed once, when it was appended
    if isinstance(known, MessageOutline) and known.key == message.key:
        return item_weight(projection, item_from(known, HeldMessage(message)))
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


Category = Kind | Literal["tools", "thinking", "difference"]
"""`tools` are the schemas of one server, or ours; `difference` is what was reported beside the estimates."""

_ORDER: Final[tuple[Kind, ...]] = tuple(kind for kind in get_args(Kind) if kind not in FIXED)


@dataclass(frozen=True, slots=True)
class Schemas:
    """The tools of one server as they are offered with every request."""

    server: str
    """Empty for our own."""
    tools: int
    tokens: int
    """Estimate before calibration."""


@dataclass(frozen=True, slots=True)
class Share:
    """One category of the next request."""

    category: Category
    items: int
    tokens: float
    """As decisions use them, not rounded: whoever adds them up gets the size of the request."""
    estimated: bool
    server: str = ""
    """Whose tools these are."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The next request."""

    shares: tuple[Share, ...]
    """Its parts that weigh anything, oldest first, the difference last."""
    size: Size
    """What they add up to: what the meter says."""


def usage_of(projection: Projection, schemas: Sequence[Schemas]) -> Usage:
    """The next request by category, each part as the Inspector shows its items; where a report stands behind
    the size, the difference is a share of its own, for estimates err high. Costs what has changed."""
    scale = projection.scale
    counts_tools = projection.habits(projection.model).tools
    size = view_size(projection, overhead=sum(each.tokens for each in schemas) if counts_tools else 0)
    tally = projection.tally

    def share(kind: Kind) -> Share:
        found = tally.sum(kind)
        return Share(kind, found.items, found.reported + found.estimated * scale, not found.exact)

    shares = [share("system"), share("instructions")]
    for each in schemas:
        tokens = projection.weighed(each.tokens, Scripts()) if counts_tools else 0
        shares.append(Share("tools", each.tools, tokens, True, each.server))
    shares += map(share, _ORDER)
    if projection.replays_reasoning:
        shares.append(Share("thinking", 0, (projection.counted - projection.tokens) * scale, True))
    rest = size.tokens - sum(share.tokens for share in shares)
    if abs(rest) >= 1:
        shares.append(Share("difference", 0, rest, False))
    return Usage(tuple(share for share in shares if share.items or share.tokens), size)


def prompt_weight(projection: Projection, text: str) -> int:
    """What a prompt that waits will add to the request, in tokens as decisions use them."""
    message = UserMessage(parts=text_parts(text))
    return round(projection.weighed(message_tokens(message), scripts_in(message)))
