"""Where a fold cuts the view: what is folded, what is kept. Pure, and legal for the API (invariant 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage, UserMessage

from .tokens import message_tokens
from .view import is_preamble, is_summary

LEAST_FOLD = 200
"""Estimated tokens below which a fold cannot pay: its frame alone takes about 150."""
_LEAST_GIANT = 512


@dataclass(frozen=True, slots=True)
class Cut:
    """A division of the messages of a view. The positions are those of the list it was made for."""

    position: int
    """Where the verbatim tail begins."""
    first_kept_index: int
    previous: tuple[BaseMessage, ...]
    """Earlier summaries: inputs of the new one. Pinned ones stay and are none of them."""
    history: tuple[BaseMessage, ...]
    """Folded whole turns."""
    request: UserMessage | None
    """The request of a split turn: kept verbatim."""
    prefix: tuple[BaseMessage, ...]
    """The folded part of the split turn, its request left out."""
    tail: tuple[BaseMessage, ...]

    @property
    def folded(self) -> tuple[BaseMessage, ...]:
        return self.history + self.prefix


def legal_positions(messages: Sequence[BaseMessage], pins: frozenset[int] = frozenset()) -> list[int]:
    """Where the tail may begin: at a user or assistant message, with something foldable before it.

    So never at a tool result or a developer message, and never inside a tool group.
    """
    start = _first_foldable(messages, pins)
    return [
        position
        for position, message in enumerate(messages)
        if position > start
        and message.index not in pins
        and isinstance(message, UserMessage | AssistantMessage)
    ]


def find_cut(
    messages: Sequence[BaseMessage], keep_tokens: int, *, pins: frozenset[int] = frozenset()
) -> Cut | None:
    """The cut that keeps at least `keep_tokens` (an estimate before calibration), or None.

    Walks back from the newest message; the cut is the nearest legal place at or before where the sum is
    reached. None where that leaves nothing worth folding. A result that no request has carried yet is
    never folded (invariant 7).
    """
    position = min(_reach(messages, keep_tokens), unseen_from(messages))
    legal = [place for place in legal_positions(messages, pins) if place <= position]
    cut = cut_at(messages, legal[-1], pins=pins) if legal else None
    return cut if cut is not None and can_pay(cut.folded) else None


def can_pay(folded: Sequence[BaseMessage]) -> bool:
    """Whether a fold of these messages is worth its frame. Looks no further than it has to: what is folded
    may be nearly all of a large window.
    """
    return any(size >= LEAST_FOLD for size in accumulate(map(message_tokens, folded)))


def cut_at(
    messages: Sequence[BaseMessage], position: int, *, pins: frozenset[int] = frozenset()
) -> Cut | None:
    """The division at a legal position; None where it would fold nothing but a request that is kept."""
    turn = _turn_start(messages, position)
    history = _foldable(messages[:turn], pins)
    prefix = _foldable(messages[turn:position], pins)
    request = None
    if prefix and isinstance(prefix[0], UserMessage):
        request, prefix = prefix[0], prefix[1:]
    if not history and not prefix:
        return None
    return Cut(
        position=position,
        first_kept_index=messages[position].index,
        previous=tuple(
            message for message in messages[:position] if is_summary(message) and message.index not in pins
        ),
        history=history,
        request=request,
        prefix=prefix,
        tail=tuple(message for message in messages[position:] if message.index not in pins),
    )


def cut_before(
    messages: Sequence[BaseMessage], first_kept: int, *, pins: frozenset[int] = frozenset()
) -> Cut | None:
    """The division with this entry as the first one kept; None where it is not here, or nothing is folded."""
    place = next((at for at, message in enumerate(messages) if message.index == first_kept), None)
    return None if place is None else cut_at(messages, place, pins=pins)


def _reach(messages: Sequence[BaseMessage], keep_tokens: int) -> int:
    kept = 0
    for position in range(len(messages) - 1, -1, -1):
        kept += message_tokens(messages[position])
        if kept >= keep_tokens:
            return position
    return 0


def unseen_from(messages: Sequence[BaseMessage]) -> int:
    """Where the newest answer stands if results came after it, and no request has carried them yet; else the
    end."""
    for position in range(len(messages) - 1, -1, -1):
        if isinstance(messages[position], AssistantMessage):
            unseen = any(isinstance(message, ToolResultMessage) for message in messages[position:])
            return position if unseen else len(messages)
    return len(messages)


def _first_foldable(messages: Sequence[BaseMessage], pins: frozenset[int]) -> int:
    """Folding starts at the first item that is no preamble, summary or pin (DESIGN §4)."""
    for position, message in enumerate(messages):
        if not (is_preamble(message) or is_summary(message) or message.index in pins):
            return position
    return len(messages)


def _turn_start(messages: Sequence[BaseMessage], position: int) -> int:
    """Where the turn begins that a cut at `position` divides; `position` where it divides none."""
    if isinstance(messages[position], UserMessage):
        return position
    for start in range(position - 1, -1, -1):
        if isinstance(messages[start], UserMessage):
            return start
    return position


def _foldable(messages: Sequence[BaseMessage], pins: frozenset[int]) -> tuple[BaseMessage, ...]:
    return tuple(
        message
        for message in messages
        if not (is_preamble(message) or is_summary(message) or message.index in pins)
    )


def seen_up_to(messages: Sequence[BaseMessage]) -> int:
    """The position before which a request has carried every message: that of the newest answer, or 0."""
    for position in range(len(messages) - 1, -1, -1):
        if isinstance(messages[position], AssistantMessage):
            return position
    return 0


def giant_limit(keep_tokens: int, window: int) -> int:
    """Estimated tokens above which a single result is a giant: more than all that is kept, and no trifle."""
    return max(keep_tokens, window // 16, _LEAST_GIANT)


def clip_limit(giant: int) -> int:
    """Estimated tokens to which a result is clipped that exceeds the limit of `giant` ones."""
    return giant // 2


def giant_results(
    messages: Sequence[BaseMessage], limit: int, *, pins: frozenset[int] = frozenset()
) -> list[ToolResultMessage]:
    """Results of more than `limit` estimated tokens that a request has carried: they may be clipped."""
    return [
        message
        for message in messages[: seen_up_to(messages)]
        if isinstance(message, ToolResultMessage)
        and message.index not in pins
        and message_tokens(message) > limit
    ]
