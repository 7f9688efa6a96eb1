"""What fills the window, by category: the parts of the next request, and what may be added to them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from foldline.protocol import UserMessage, text_parts

from .budget import Size
from .projection import Projection
from .tally import FIXED, Kind
from .tokens import message_tokens
from .weight import view_size

Category = Kind | Literal["tools", "thinking", "difference"]
"""`tools` are the schemas of one server, or our own. `difference` is what the provider reported beside the
estimates of the parts."""

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
    """The next request by category. Costs what has changed in the view since this was asked last.

    A part weighs what its items weigh one by one, as the Inspector shows them. Where a report stands behind
    the size, that is another sum, for estimates err high: the difference is a share of its own.
    """
    scale = projection.calibration.scale(projection.model)
    size = view_size(projection, overhead=sum(each.tokens for each in schemas))
    tally = projection.tally

    def share(kind: Kind) -> Share:
        found = tally.sum(kind)
        return Share(kind, found.items, found.reported + found.estimated * scale, not found.exact)

    shares = [share("system"), share("instructions")]
    shares += [Share("tools", each.tools, each.tokens * scale, True, each.server) for each in schemas]
    shares += map(share, _ORDER)
    if projection.replays_reasoning:
        shares.append(Share("thinking", 0, projection.thinking * scale, True))
    rest = size.tokens - sum(share.tokens for share in shares)
    if abs(rest) >= 1:
        shares.append(Share("difference", 0, rest, False))
    return Usage(tuple(share for share in shares if share.items or share.tokens), size)


def prompt_weight(projection: Projection, text: str) -> int:
    """What a prompt that waits will add to the request, in tokens as decisions use them."""
    message = UserMessage(parts=text_parts(text))
    return round(message_tokens(message) * projection.calibration.scale(projection.model))
