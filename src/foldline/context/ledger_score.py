"""How likely a name or a line is needed before the next compaction: what is known of it, and the model.

The weights were fitted to recorded sessions; only `LINE_WORTH` was chosen by trial.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["path", "identifier", "url", "hash", "line"]
Key = tuple[Kind, str]

NEVER = -1


@dataclass(slots=True)
class Seen:
    """One name or line, and what the session did with it. Moments are counted in answers of the model."""

    kind: Kind
    text: str
    tokens: int
    first: int
    entry: int = NEVER
    """The newest entry that showed it, a result where there is one."""
    place: str = ""
    """What that entry's call was about: a file, or the beginning of a command."""
    uses: int = 0
    """In how many answers the model used it."""
    used: int = NEVER
    used_before: int = NEVER
    shows: int = 0
    """In how many results it stood."""
    shown: int = NEVER
    shown_before: int = NEVER
    asked: int = NEVER
    """When the user said it last."""
    edits: int = 0
    """In how many edits it stood."""
    edited: int = NEVER
    replaced: bool = False
    """Whether an edit has taken this line out of its file."""
    defined: str = ""
    """The line that defines it; of a line itself, whether it defines something. `entry` is then the newest
    that shows it."""

    @property
    def is_written(self) -> bool:
        """Whether it is a line that an edit wrote, and no result has shown since."""
        return self.kind == "line" and self.edited > self.shown

    def use(self, now: int, *, in_edit: bool) -> None:
        if self.used != now:
            self.uses, self.used_before, self.used = self.uses + 1, self.used, now
        if in_edit and self.edited != now:
            self.edits, self.edited = self.edits + 1, now

    def show(self, now: int, entry: int, place: str) -> None:
        self.shows, self.shown_before, self.shown = self.shows + 1, self.shown, now
        if not self.defined:
            self.entry, self.place = entry, place


@dataclass(slots=True)
class Place:
    """A file, by what calls did to it."""

    edits: int = 0
    edited: int = NEVER
    read: int = NEVER


Score = Callable[[Seen, Place | None, int], float]
"""Given a thing, its place and the present moment: how likely it is needed, from 0 to 1."""


class _Log(dict[int, float]):
    """What a count or an age adds to a score: `there + by * log1p(n)`, worked out once for each `n`. There
    are no more of them than answers in the longest session."""

    def __init__(self, there: float, by: float) -> None:
        super().__init__()
        self._there, self._by = there, by

    def __missing__(self, n: int) -> float:
        self[n] = value = self._there + self._by * math.log1p(n)
        return value


class _Weights:
    """A row of weights, taken one after the other."""

    def __init__(self, weights: Sequence[float]) -> None:
        self.one = iter(weights).__next__

    def count(self) -> _Log:
        return _Log(0.0, self.one())

    def age(self) -> _Log:
        """Two weights: that it ever happened, and the logarithm of how long ago."""
        return _Log(self.one(), self.one())


def names_logit(weights: Sequence[float]) -> Score:
    """The log odds that a name is needed. Spelled out: a compaction scores all that is known at once."""
    take = _Weights(weights)
    flat, path, address = take.one(), take.one(), take.one()
    kinds = {"identifier": flat, "path": flat + path, "url": flat + address, "hash": flat + address}
    uses, used, used_before = take.count(), take.age(), take.age()
    shows, shown, shown_before, asked = take.count(), take.age(), take.age(), take.age()
    edits, edited, is_defined = take.count(), take.age(), take.one()
    length, first, moment, place_edited = take.count(), take.count(), take.count(), take.age()

    def logit(seen: Seen, place: Place | None, now: int) -> float:
        return (
            kinds[seen.kind]
            + uses[seen.uses]
            + (used[now - seen.used] if seen.used >= 0 else 0.0)
            + (used_before[now - seen.used_before] if seen.used_before >= 0 else 0.0)
            + shows[seen.shows]
            + (shown[now - seen.shown] if seen.shown >= 0 else 0.0)
            + (shown_before[now - seen.shown_before] if seen.shown_before >= 0 else 0.0)
            + (asked[now - seen.asked] if seen.asked >= 0 else 0.0)
            + edits[seen.edits]
            + (edited[now - seen.edited] if seen.edited >= 0 else 0.0)
            + (is_defined if seen.defined else 0.0)
            + length[len(seen.text)]
            + first[now - seen.first]
            + moment[now]
            + (place_edited[now - place.edited] if place and place.edited >= 0 else 0.0)
        )

    return logit


def lines_logit(weights: Sequence[float]) -> Score:
    """The log odds that a line is needed."""
    take = _Weights(weights)
    flat, uses, used, shows, shown = take.one(), take.count(), take.age(), take.count(), take.age()
    edits, edited, is_replaced, is_defined = take.count(), take.age(), take.one(), take.one()
    length, first, moment = take.count(), take.count(), take.count()
    place_edits, place_edited, place_read = take.count(), take.age(), take.age()

    def logit(seen: Seen, place: Place | None, now: int) -> float:
        return (
            flat
            + uses[seen.uses]
            + (used[now - seen.used] if seen.used >= 0 else 0.0)
            + shows[seen.shows]
            + (shown[now - seen.shown] if seen.shown >= 0 else 0.0)
            + edits[seen.edits]
            + (edited[now - seen.edited] if seen.edited >= 0 else 0.0)
            + (is_replaced if seen.replaced else 0.0)
            + (is_defined if seen.defined else 0.0)
            + length[len(seen.text)]
            + first[now - seen.first]
            + moment[now]
            + (place_edits[place.edits] if place else 0.0)
            + (place_edited[now - place.edited] if place and place.edited >= 0 else 0.0)
            + (place_read[now - place.read] if place and place.read >= 0 else 0.0)
        )

    return logit


def scored(names: Sequence[float], lines: Sequence[float]) -> Score:
    """The score that has these weights."""
    of_name, of_line, exp = names_logit(names), lines_logit(lines), math.exp

    def score(seen: Seen, place: Place | None, now: int) -> float:
        if seen.kind == "line":
            return LINE_WORTH / (1 + exp(-of_line(seen, place, now)))
        return 1 / (1 + exp(-of_name(seen, place, now)))

    return score


NAMES: tuple[float, ...] = (
    -0.700, 0.210, -0.291, 0.641, 0.621, -0.110, 0.413, -0.038, 0.097, 0.533, -0.689, 0.342, 0.141,
    -0.035, -0.116, -0.257, 0.233, 0.066, 0.133, -0.338, 0.191, -0.749, 0.097, 0.178,
)  # fmt: skip
LINES: tuple[float, ...] = (
    -1.943, 0.113, 0.110, 0.085, -0.036, -0.081, -0.204, 0.218, 0.239, -0.017, -0.185, 0.024, -0.245,
    -0.178, -0.679, 0.312, 0.402, 0.106, 0.004, 0.001,
)  # fmt: skip
"""Fitted on 24 November 2026 to 16 recorded sessions at 32k by `tests/bench/fit_ledger.py`, which also says
what they are worth on sessions held out (docs/decisions/0038-ledger.md)."""
LINE_WORTH = 0.5
"""Lines are needed by the block, and a block's lines are counted one by one: half of it was best."""

likelihood: Final = scored(NAMES, LINES)
