"""Moments of a history that can be gone back to: as a request left, right before a fold, right after it."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from foldline.protocol import NEW, Undo

from .asked import Asked
from .outline import MessageOutline
from .projection import Projection
from .proof import Sent, request_on_record
from .undoing import ViewMarker


@dataclass(frozen=True, slots=True)
class Moment:
    """The history was `length` entries long then; the fold of these is all there is to it."""

    kind: Literal["request", "fold", "before"]
    """As a request left; right after a fold; right before it."""
    number: int
    """Of the request, counted from 1; of a fold its index."""
    length: int
    asked: Asked | None = None
    """The request."""
    sent: Sent | None = None
    """Its record, where the history holds one."""

    @property
    def name(self) -> str:
        match self.kind:
            case "request":
                return f"request {self.number}"
            case "fold":
                return f"fold {self.number}"
            case "before":
                return f"before fold {self.number}"


def as_of_request(projection: Projection, number: int) -> Moment:
    """The moment request `number` left, the first being 1: what `foldline view --request` shows.

    Raises:
        IndexError: there was no such request.
    """
    if not 1 <= number <= len(projection.requests):
        raise IndexError(f"no request {number}")
    asked = projection.requests[number - 1]
    if not projection.records_requests:  # other agents record answers only: what was sent ended before each
        return Moment("request", number, asked.position, asked)
    sent = request_on_record(projection, number)
    return Moment("request", number, sent.length, asked, sent)


def as_of_fold(projection: Projection, index: int, *, before: bool = False) -> Moment:
    """The moment right after the fold with this index, or right before it."""
    length = projection.count_up_to(index)
    return Moment("before", index, length - 1) if before else Moment("fold", index, length)


def requests_before(requests: Sequence[Asked], position: int) -> int:
    """How many requests had been recorded when the history was so many entries long."""
    return bisect_left(requests, position, key=lambda asked: asked.position)


def first_entry(projection: Projection, moment: Moment | None) -> int | None:
    """Index of the first message that this request sent and the one before did not; of a fold its own.

    Without a moment it is the next request. None where nothing was added.
    """
    if moment is not None and moment.kind != "request":
        return moment.number
    number = len(projection.requests) + 1 if moment is None else moment.number
    stop = len(projection.entries) if moment is None else moment.length
    start = as_of_request(projection, number - 1).length if number > 1 else 0
    said = (o.index for o in projection.entries.outlines[start:stop] if isinstance(o, MessageOutline))
    return next(said, None)


@dataclass(frozen=True, slots=True)
class Against:
    """How a view differs from that of the request before, as far as the fold's markers tell."""

    number: int
    """Of the request before."""
    added: int
    """Items that came after it."""
    changed_by: tuple[int, ...]
    """Indices of the markers that changed what stands above."""


def against_before(projection: Projection, number: int, since: int) -> Against:
    """What a view has that request `number` had not, which left when there were `since` entries.
    Linear in what came since."""
    last = projection.entries.outlines[since - 1].index if since else NEW
    added = 0
    for item in reversed(projection.view):
        if item.index <= last:
            break
        added += not item.written
    markers = tuple(o.index for o in projection.entries.outlines[since:] if isinstance(o, ViewMarker | Undo))
    return Against(number, added, markers)
