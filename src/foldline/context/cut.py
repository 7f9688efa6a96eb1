"""Where a compaction cuts the view: what is compacted, what is kept. Pure, and legal for the API.

A view is cut as its items, none of whose text is read, or as its messages, which is what strategies have.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import Generic, TypeVar

from foldline.protocol import BaseMessage

from .tokens import message_tokens
from .view import ViewItem, is_preamble, is_summary

LEAST_COMPACTED = 200
"""Estimated tokens below which a compaction cannot pay: its frame alone takes about 150."""
_LEAST_GIANT = 512

Piece = TypeVar("Piece", BaseMessage, ViewItem)
"""What a view is made of."""


@dataclass(frozen=True)
class Cut(Generic[Piece]):
    """A division of a view. Its parts are gathered when they are looked at."""

    view: Sequence[Piece]
    """What is divided; nobody changes it."""
    position: int
    """Where the verbatim tail begins."""
    turn: int
    """Where the turn begins that is split; `position` where none is."""
    pins: frozenset[int]

    @property
    def first_kept_index(self) -> int:
        return self.view[self.position].index

    @cached_property
    def previous(self) -> tuple[Piece, ...]:
        """Earlier summaries: inputs of the new one. Pinned ones stay and are none of them."""
        before = islice(self.view, self.position)
        return tuple(piece for piece in before if is_summary(piece) and piece.index not in self.pins)

    @cached_property
    def history(self) -> tuple[Piece, ...]:
        """Compacted whole turns."""
        return tuple(self._movable(0, self.turn))

    @cached_property
    def request(self) -> Piece | None:
        """The request of a split turn: kept verbatim."""
        first = next(self._movable(self.turn, self.position), None)
        return first if first is not None and _type(first) == "user" else None

    @cached_property
    def prefix(self) -> tuple[Piece, ...]:
        """The compacted part of the split turn, its request left out."""
        return tuple(self._prefix())

    @cached_property
    def tail(self) -> tuple[Piece, ...]:
        """What is kept behind the cut, pins left out."""
        kept = islice(self.view, self.position, None)
        return tuple(piece for piece in kept if piece.index not in self.pins)

    @cached_property
    def compacted(self) -> tuple[Piece, ...]:
        return self.history + self.prefix

    @property
    def compacts_something(self) -> bool:
        """Whether more goes than a request, which is kept."""
        return next(self._pieces(), None) is not None

    @property
    def pays(self) -> bool:
        """Whether what is compacted is worth the frame of a compaction."""
        return can_pay(self._pieces())

    def _pieces(self) -> Iterator[Piece]:
        return chain(self._movable(0, self.turn), self._prefix())

    def _prefix(self) -> Iterator[Piece]:
        return islice(self._movable(self.turn, self.position), self.request is not None, None)

    def _movable(self, start: int, stop: int) -> Iterator[Piece]:
        return (piece for piece in islice(self.view, start, stop) if _is_movable(piece, self.pins))


def cut_points(view: Sequence[Piece], pins: frozenset[int] = frozenset()) -> list[int]:
    """Where the tail may begin: at a user or assistant message with something compactable before it, never
    inside a tool group."""
    start = _first_movable(view, pins)
    return [place for place in range(start + 1, len(view)) if _may_begin(view[place], pins)]


def find_cut(
    view: Sequence[Piece], keep_tokens: int, *, pins: frozenset[int] = frozenset()
) -> Cut[Piece] | None:
    """The cut that keeps at least `keep_tokens` (an estimate before calibration), or None where that leaves
    nothing worth compacting.

    The nearest cut point at or before where the sum is reached from the end. A result that no request has
    carried yet is never compacted. Costs what is kept, and what stands above all that may go.
    """
    position = min(_reach(view, keep_tokens), unseen_from(view), len(view) - 1)
    start = _first_movable(view, pins)
    legal = (place for place in range(position, start, -1) if _may_begin(view[place], pins))
    place = next(legal, None)
    cut = None if place is None else cut_at(view, place, pins=pins)
    return cut if cut is not None and cut.pays else None


def can_pay(pieces: Iterable[Piece]) -> bool:
    """Whether compacting these is worth its frame. Looks no further than it has to."""
    return any(size >= LEAST_COMPACTED for size in accumulate(map(_tokens, pieces)))


def cut_at(view: Sequence[Piece], position: int, *, pins: frozenset[int] = frozenset()) -> Cut[Piece] | None:
    """The division at a legal position; None where it would compact nothing but a request that is kept."""
    cut = Cut(view, position, _turn_start(view, position), pins)
    return cut if cut.compacts_something else None


def cut_before(
    view: Sequence[Piece], first_kept: int, *, pins: frozenset[int] = frozenset()
) -> Cut[Piece] | None:
    """The division with this entry as the first kept one; None where it is absent, or nothing goes."""
    place = next((at for at, piece in enumerate(view) if piece.index == first_kept), None)
    return None if place is None else cut_at(view, place, pins=pins)


def _reach(view: Sequence[Piece], keep_tokens: int) -> int:
    kept = 0
    for position in range(len(view) - 1, -1, -1):
        kept += _tokens(view[position])
        if kept >= keep_tokens:
            return position
    return 0


def unseen_from(view: Sequence[Piece]) -> int:
    """Where the newest answer stands if no request has carried the results after it; else the end."""
    unseen = False
    for position in range(len(view) - 1, -1, -1):
        kind = _type(view[position])
        if kind == "assistant":
            return position if unseen else len(view)
        unseen = unseen or kind == "tool_result"
    return len(view)


def seen_up_to(view: Sequence[Piece]) -> int:
    """The position before which a request has carried every message: that of the newest answer, or 0."""
    return next((at for at in range(len(view) - 1, -1, -1) if _type(view[at]) == "assistant"), 0)


def groups_from(view: Sequence[Piece], groups: int, most: int | None = None) -> int:
    """Where the newest `groups` tool groups begin, as far as their results take no more than `most` estimated
    tokens together; never behind the newest answer, whose results no request may have carried yet."""
    found, tokens, start = 0, 0, len(view)
    for position in range(len(view) - 1, -1, -1):
        if _type(view[position]) == "tool_result":
            tokens += _tokens(view[position])
        elif _calls(view[position]):
            found += 1
            if found > groups or (most is not None and tokens > most):
                break
            start = position
    return min(start, seen_up_to(view))


def giant_limit(keep_tokens: int, window: int) -> int:
    """Estimated tokens above which a single result is a giant: more than all that is kept, and no trifle."""
    return max(keep_tokens, window // 16, _LEAST_GIANT)


def clip_limit(giant: int) -> int:
    """Estimated tokens to which a result is clipped that exceeds the limit of `giant` ones."""
    return giant // 2


def giant_results(view: Sequence[Piece], limit: int, *, pins: frozenset[int] = frozenset()) -> list[Piece]:
    """Results of more than `limit` estimated tokens that a request has carried: they may be clipped."""
    return [
        piece
        for piece in islice(view, seen_up_to(view))
        if _type(piece) == "tool_result" and piece.index not in pins and _tokens(piece) > limit
    ]


def oversized(
    view: Sequence[Piece], room: int, *, talk: bool, pins: frozenset[int] = frozenset()
) -> list[Piece]:
    """What takes more than `room` estimated tokens, all that is left in a view: no request can carry it
    whole. User and model only with `talk`: a prompt is the user's to shorten, an answer summarised later."""
    room = max(room, _LEAST_GIANT)
    large = (piece for piece in view if _is_movable(piece, pins) and _tokens(piece) > room)
    return [piece for piece in large if talk or not _is_talk(piece)]


def _first_movable(view: Sequence[Piece], pins: frozenset[int]) -> int:
    return next((at for at, piece in enumerate(view) if _is_movable(piece, pins)), len(view))


def _turn_start(view: Sequence[Piece], position: int) -> int:
    backwards = range(position, -1, -1)
    return next((start for start in backwards if _type(view[start]) == "user"), position)


def _may_begin(piece: Piece, pins: frozenset[int]) -> bool:
    return _type(piece) in ("user", "assistant") and piece.index not in pins


def _is_movable(piece: Piece, pins: frozenset[int]) -> bool:
    return not (is_preamble(piece) or is_summary(piece) or piece.index in pins)


def _type(piece: Piece) -> str:
    return piece.outline.type if isinstance(piece, ViewItem) else piece.type


def _is_talk(piece: Piece) -> bool:
    said = piece.outline if isinstance(piece, ViewItem) else piece
    return said.type == "assistant" or (said.type == "user" and getattr(said, "origin", "") == "typed")


def _calls(piece: Piece) -> bool:
    said = piece.outline if isinstance(piece, ViewItem) else piece
    return said.type == "assistant" and bool(getattr(said, "calls", ()))


def _tokens(piece: Piece) -> int:
    return piece.tokens if isinstance(piece, ViewItem) else message_tokens(piece)
