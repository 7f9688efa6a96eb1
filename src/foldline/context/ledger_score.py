"""How likely a name or a line is needed before the next compaction: what is known of it, and the model.

The weights were fitted to recorded sessions; only `LINE_WORTH` was chosen by trial.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import mul
from typing import Literal

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


def likelihood(seen: Seen, place: Place | None, now: int) -> float:
    if seen.kind == "line":
        return LINE_WORTH / (1 + math.exp(-sum(map(mul, LINES, line_features(seen, place, now)))))
    return 1 / (1 + math.exp(-sum(map(mul, NAMES, name_features(seen, place, now)))))


_log = cache(math.log1p)
"""There are no more counts and ages than answers in the longest session."""
_NEVER_YET = (0.0, 0.0)


@cache
def _aged(answers: int) -> tuple[float, float]:
    return 1.0, math.log1p(answers)


def _age(moment: int, now: int) -> tuple[float, float]:
    """Whether it ever happened, and how long ago, as a logarithm."""
    return _NEVER_YET if moment < 0 else _aged(now - moment)


def name_features(seen: Seen, place: Place | None, now: int) -> tuple[float, ...]:
    """As `NAME_FEATURES` names them."""
    return (
        1.0,
        float(seen.kind == "path"),
        float(seen.kind in ("url", "hash")),
        _log(seen.uses),
        *_age(seen.used, now),
        *_age(seen.used_before, now),
        _log(seen.shows),
        *_age(seen.shown, now),
        *_age(seen.shown_before, now),
        *_age(seen.asked, now),
        _log(seen.edits),
        *_age(seen.edited, now),
        float(bool(seen.defined)),
        _log(len(seen.text)),
        _log(now - seen.first),
        _log(now),
        *_age(place.edited if place else NEVER, now),
    )


def line_features(seen: Seen, place: Place | None, now: int) -> tuple[float, ...]:
    """As `LINE_FEATURES` names them."""
    return (
        1.0,
        _log(seen.uses),
        *_age(seen.used, now),
        _log(seen.shows),
        *_age(seen.shown, now),
        _log(seen.edits),
        *_age(seen.edited, now),
        float(seen.replaced),
        float(bool(seen.defined)),
        _log(len(seen.text)),
        _log(now - seen.first),
        _log(now),
        _log(place.edits if place else 0),
        *_age(place.edited if place else NEVER, now),
        *_age(place.read if place else NEVER, now),
    )


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
