"""Calibrated sizes in tokens.

All decisions and screens take their token numbers from this module.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from foldline.protocol import BaseMessage, UserMessage, text_parts

from .budget import Size
from .items import MessageInMemory, ViewItem, item_from, item_of
from .outline import MessageOutline
from .projection import Projection
from .tally import FIXED, KEPT, ItemKind
from .tokens import Scripts, message_tokens, scripts_in


def view_size(
    projection: Projection, *, overhead: int = 0, pending: Sequence[BaseMessage] = ()
) -> Size:
    """Return the size of the next request.

    This is the last reported usage, plus an estimate of everything added since then. If the view has changed
    since that report, the entire size is estimated.

    Args:
        overhead: size of the tool schemas, in estimated tokens.
        pending: messages that will be added to the request.
    """
    meter = projection.meter
    tokens = meter.counted + sum(map(message_tokens, pending))
    scripts = projection.scripts.plus(scripts_in(*pending))
    if meter.anchor is None:
        return Size(round(meter.weigh(tokens + overhead, scripts)), estimated=True)
    return Size(round(meter.grown_to(tokens, scripts)), estimated=False)


def agent_report(projection: Projection) -> int:
    """Return the tokens that another agent reported for its newest request.

    Returns 0 for Foldline's own sessions. The report includes the agent's tools and usually a system prompt,
    which are not part of the history.
    """
    meter = projection.meter
    if meter.reports_view or not meter.requests:
        return 0
    return meter.requests[-1].reported


MESSAGES_ONLY: Final = "without the parts that its agent adds, such as tools"
"""Text shown after the size of another agent's view.

The text explains that only the messages in the session file are counted.
"""


def together(weights: Iterable[Size]) -> Size:
    """Return the sum of several weights."""
    listed = list(weights)
    tokens = sum(weight.tokens for weight in listed)
    return Size(tokens, any(weight.estimated for weight in listed))


def item_weight(projection: Projection, item: ViewItem) -> Size:
    """Return the size of an item.

    For a verbatim answer, this is the reported size; for other items, an estimate.
    """
    if item.reported is not None:
        return Size(item.reported, estimated=False)
    return Size(round(item.tokens * projection.meter.scale), estimated=True)


def entry_weight(projection: Projection, message: BaseMessage) -> Size:
    """Return the size of a message's original text.

    The message need not be in the view.
    """
    outline = projection.outline(message.index)  # estimated once, when it was appended
    if isinstance(outline, MessageOutline) and outline.key == message.key:
        return item_weight(projection, item_from(outline, MessageInMemory(message)))
    return item_weight(projection, item_of(message))


@dataclass(frozen=True, slots=True)
class Categories:
    """The view in three categories, in tokens.

    Their sum is the size of the next request.
    """

    system: int
    """Size of the system prompt, the instructions and the tools."""
    summaries: int
    """Size of summaries and pinned items."""
    verbatim: int


def categories(projection: Projection, *, overhead: int = 0) -> Categories:
    """Divide the next request into three categories.

    Only the changes since the last call are counted.
    """
    tally = projection.tally
    system = overhead + tally.estimate(FIXED)
    summaries = tally.estimate(KEPT)
    total = projection.tokens + overhead
    size = view_size(projection, overhead=overhead).tokens
    scale = size / total if total else 0.0
    scaled_system = round(system * scale)
    scaled_summaries = round(summaries * scale)
    return Categories(
        scaled_system, scaled_summaries, max(0, size - scaled_system - scaled_summaries)
    )


Category = ItemKind | Literal["tools", "thinking", "difference"]
"""A category of the next request.

`tools` are the schemas of one server, or of our own tools. `difference` is the reported size minus the
estimates.
"""

_ORDER: Final[tuple[ItemKind, ...]] = tuple(
    kind for kind in get_args(ItemKind) if kind not in FIXED
)


@dataclass(frozen=True, slots=True)
class Schemas:
    """The tools of one server, which are offered with every request."""

    server: str
    """Name of the server; empty for our own tools."""
    tools: int
    """Number of tools."""
    tokens: int
    """Estimated size in tokens, without calibration."""


@dataclass(frozen=True, slots=True)
class Share:
    """One category of the next request, with its size."""

    category: Category
    items: int
    tokens: float
    """Calibrated size in tokens. It is not rounded, so the shares add up to the size of the request."""
    estimated: bool
    server: str = ""
    """Name of the server that provides the tools; empty for other categories."""


@dataclass(frozen=True, slots=True)
class RequestBreakdown:
    """The next request, divided into categories."""

    shares: tuple[Share, ...]
    """The categories that are not empty, oldest first. The difference comes last."""
    size: Size
    """The sum of the shares, which is the size shown by the meter."""


def request_breakdown(
    projection: Projection, schemas: Sequence[Schemas]
) -> RequestBreakdown:
    """Divide the next request into categories, as shown in the Inspector.

    If the size is based on a report, the difference from the estimates is a separate share. Only the changes
    since the last call are counted.
    """
    tools_count = projection.meter.habits(projection.meter.model).tools
    overhead = sum(schema.tokens for schema in schemas) if tools_count else 0
    size = view_size(projection, overhead=overhead)
    shares = list(_shares(projection, schemas, tools_count=tools_count))
    difference = size.tokens - sum(share.tokens for share in shares)
    if abs(difference) >= 1:
        shares.append(Share("difference", 0, difference, False))
    return RequestBreakdown(
        tuple(share for share in shares if share.items or share.tokens), size
    )


def _shares(
    projection: Projection, schemas: Sequence[Schemas], *, tools_count: bool
) -> Iterator[Share]:
    meter = projection.meter
    yield _share_of(projection, "system")
    yield _share_of(projection, "instructions")
    for schema in schemas:
        tokens = meter.weigh(schema.tokens, Scripts()) if tools_count else 0
        yield Share(
            "tools",
            schema.tools,
            tokens,
            True,
            schema.server,
        )
    for kind in _ORDER:
        yield _share_of(projection, kind)
    if meter.replays_reasoning:
        yield Share(
            "thinking", 0, (meter.counted - projection.tokens) * meter.scale, True
        )


def _share_of(projection: Projection, kind: ItemKind) -> Share:
    total = projection.tally.sum(kind)
    tokens = total.reported + total.estimated * projection.meter.scale
    return Share(kind, total.items, tokens, not total.exact)


def prompt_weight(projection: Projection, text: str) -> int:
    """Return how many tokens a prompt will add to the request."""
    message = UserMessage(parts=text_parts(text))
    return round(projection.meter.weigh(message_tokens(message), scripts_in(message)))
