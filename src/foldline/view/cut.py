"""The cut of a compaction: which part of a view is compacted and which is kept. Pure.

Every cut leaves a message list that the API accepts. The view can be a list of items, whose text is not read,
or a list of messages, with which strategies work.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import Generic, TypeVar

from foldline.protocol import BaseMessage

from .items import ViewItem, is_preamble, is_summary
from .tokens import message_tokens

LEAST_COMPACTED = 200
"""Size, in estimated tokens, below which a compaction cannot be worthwhile.

The frame of a summary alone takes about 150 tokens.
"""
_LEAST_GIANT = 512

Element = TypeVar("Element", BaseMessage, ViewItem)
"""An element of a view."""


@dataclass(frozen=True)
class Cut(Generic[Element]):
    """A division of a view into messages to compact and messages to keep.

    The parts are computed on access.
    """

    view: Sequence[Element]
    position: int
    """Position at which the part that is kept verbatim starts."""
    turn: int
    """Position at which the split turn starts. Equals `position` if no turn is split."""
    pins: frozenset[int]

    @property
    def first_kept_index(self) -> int:
        return self.view[self.position].index

    @cached_property
    def previous(self) -> tuple[Element, ...]:
        """Earlier summaries, which the new summary absorbs.

        Pinned summaries are not included, because they stay in the view.
        """
        before = islice(self.view, self.position)
        return tuple(
            element
            for element in before
            if is_summary(element) and element.index not in self.pins
        )

    @cached_property
    def history(self) -> tuple[Element, ...]:
        """The complete turns that are compacted."""
        return tuple(self._movable(0, self.turn))

    @cached_property
    def request(self) -> Element | None:
        """The user's request in a split turn, which is kept verbatim."""
        first = next(self._movable(self.turn, self.position), None)
        return first if first is not None and first.type == "user" else None

    @cached_property
    def prefix(self) -> tuple[Element, ...]:
        """The compacted part of the split turn, without its request."""
        return tuple(self._prefix())

    @cached_property
    def tail(self) -> tuple[Element, ...]:
        """The part that is kept after the cut, without pinned items."""
        kept = islice(self.view, self.position, None)
        return tuple(element for element in kept if element.index not in self.pins)

    @cached_property
    def compacted(self) -> tuple[Element, ...]:
        return self.history + self.prefix

    @property
    def compacts_something(self) -> bool:
        """Whether the cut compacts anything besides the user's prompt, which is kept in any case."""
        return next(self._compacted(), None) is not None

    @property
    def pays(self) -> bool:
        """Whether the compaction removes more than its frame adds."""
        return can_pay(self._compacted())

    def _compacted(self) -> Iterator[Element]:
        return chain(self._movable(0, self.turn), self._prefix())

    def _prefix(self) -> Iterator[Element]:
        return islice(
            self._movable(self.turn, self.position), self.request is not None, None
        )

    def _movable(self, start: int, stop: int) -> Iterator[Element]:
        return (
            element
            for element in islice(self.view, start, stop)
            if is_movable(element, self.pins)
        )


def cut_points(
    view: Sequence[Element], pins: frozenset[int] = frozenset()
) -> list[int]:
    """Return the positions at which the kept part may begin.

    These are user and assistant messages that are preceded by something compactable and do not lie inside a
    tool group.
    """
    start = _first_movable(view, pins)
    return [
        position
        for position in range(start + 1, len(view))
        if _may_begin(view[position], pins)
    ]


def find_cut(
    view: Sequence[Element], keep_tokens: int, *, pins: frozenset[int] = frozenset()
) -> Cut[Element] | None:
    """Find the last cut that keeps at least `keep_tokens`, estimated without calibration.

    A result that no request has sent yet is never compacted. Returns None if the compaction would not be
    worthwhile. The running time depends on the length of the kept part and of the part before the first
    compactable element.
    """
    position = min(
        _reach(view, keep_tokens),
        unseen_from(view),
        len(view) - 1,
    )
    start = _first_movable(view, pins)
    for candidate in range(position, start, -1):
        if _may_begin(view[candidate], pins):
            cut = cut_at(view, candidate, pins=pins)
            return cut if cut is not None and cut.pays else None
    return None


def can_pay(elements: Iterable[Element]) -> bool:
    """Return whether compacting these elements removes more than the frame adds.

    Stops reading as soon as the answer is known.
    """
    return any(size >= LEAST_COMPACTED for size in accumulate(map(_tokens, elements)))


def cut_at(
    view: Sequence[Element], position: int, *, pins: frozenset[int] = frozenset()
) -> Cut[Element] | None:
    """Cut at a valid position.

    Returns None if only a request would be compacted, because a request is kept anyway.
    """
    cut = Cut(view, position, _turn_start(view, position), pins)
    return cut if cut.compacts_something else None


def cut_before(
    view: Sequence[Element], first_kept: int, *, pins: frozenset[int] = frozenset()
) -> Cut[Element] | None:
    """Cut before the entry with index `first_kept`.

    Returns None if the entry is not in the view, or nothing would be compacted.
    """
    for position, element in enumerate(view):
        if element.index == first_kept:
            return cut_at(view, position, pins=pins)
    return None


def _reach(view: Sequence[Element], keep_tokens: int) -> int:
    kept = 0
    for position in range(len(view) - 1, -1, -1):
        kept += _tokens(view[position])
        if kept >= keep_tokens:
            return position
    return 0


def unseen_from(view: Sequence[Element]) -> int:
    """Return the position of the newest answer with unseen results.

    Returns the length of the view if there is no such answer. A result is unseen until a request has sent it.
    """
    has_results = False
    for position in range(len(view) - 1, -1, -1):
        kind = view[position].type
        if kind == "assistant":
            return position if has_results else len(view)
        has_results = has_results or kind == "tool_result"
    return len(view)


def seen_up_to(view: Sequence[Element]) -> int:
    """Return the position of the newest answer, or 0.

    Everything before this position has been sent in a request.
    """
    for position in range(len(view) - 1, -1, -1):
        if view[position].type == "assistant":
            return position
    return 0


def groups_from(view: Sequence[Element], groups: int, limit: int | None = None) -> int:
    """Return the position at which the newest tool groups start.

    At most `groups` groups are included, with results of at most `limit` estimated tokens. The position is
    never after the newest answer, because its results may not have been sent yet.
    """
    count = 0
    tokens = 0
    start = len(view)
    for position in range(len(view) - 1, -1, -1):
        if view[position].type == "tool_result":
            tokens += _tokens(view[position])
        elif _has_calls(view[position]):
            count += 1
            if count > groups or (limit is not None and tokens > limit):
                break
            start = position
    return min(start, seen_up_to(view))


def giant_limit(keep_tokens: int, window: int) -> int:
    """Return the size, in estimated tokens, above which a result counts as a giant.

    A giant is larger than everything that is kept verbatim, and fills a considerable part of the window.
    """
    return max(keep_tokens, window // 16, _LEAST_GIANT)


def clip_limit(giant: int) -> int:
    """Return the size, in estimated tokens, to which giant results are clipped."""
    return giant // 2


def giant_results(
    view: Sequence[Element], limit: int, *, pins: frozenset[int] = frozenset()
) -> list[Element]:
    """Return the results larger than `limit` estimated tokens, except unseen ones."""
    return [
        element
        for element in islice(view, seen_up_to(view))
        if element.type == "tool_result"
        and element.index not in pins
        and _tokens(element) > limit
    ]


def oversized(
    view: Sequence[Element],
    room: int,
    *,
    talk: bool,
    pins: frozenset[int] = frozenset(),
) -> list[Element]:
    """Return the elements larger than `room` estimated tokens.

    No request has room for any of them in full.

    Args:
        talk: whether to include prompts and answers. They can be left out, because the user can shorten a
            prompt and an answer is summarised later.
    """
    room = max(room, _LEAST_GIANT)
    large = (
        element
        for element in view
        if is_movable(element, pins) and _tokens(element) > room
    )
    return [element for element in large if talk or not _is_talk(element)]


def _first_movable(view: Sequence[Element], pins: frozenset[int]) -> int:
    for position, element in enumerate(view):
        if is_movable(element, pins):
            return position
    return len(view)


def _turn_start(view: Sequence[Element], position: int) -> int:
    for start in range(position, -1, -1):
        if view[start].type == "user":
            return start
    return position


def _may_begin(element: Element, pins: frozenset[int]) -> bool:
    return element.type in ("user", "assistant") and element.index not in pins


def is_movable(element: Element, pins: frozenset[int]) -> bool:
    """Return whether a compaction may remove an element.

    It must not remove the preamble, summaries or pinned elements.
    """
    return not (is_preamble(element) or is_summary(element) or element.index in pins)


def _is_talk(element: Element) -> bool:
    message = element.outline if isinstance(element, ViewItem) else element
    return message.type == "assistant" or getattr(message, "origin", "") == "typed"


def _has_calls(element: Element) -> bool:
    message = element.outline if isinstance(element, ViewItem) else element
    return bool(getattr(message, "calls", ()))


def _tokens(element: Element) -> int:
    return element.tokens if isinstance(element, ViewItem) else message_tokens(element)
