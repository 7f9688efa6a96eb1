"""How likely a name or a line is needed before the next compaction: what is known of it, and the model.

The weights were fitted to recorded sessions; only `LINE_WORTH` was chosen by trial.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
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
    weights = LINES if seen.kind == "line" else NAMES
    features = line_features if seen.kind == "line" else name_features
    power = sum(map(float.__mul__, weights, features(seen, place, now)))
    likely = 1 / (1 + math.exp(-power))
    return LINE_WORTH * likely if seen.kind == "line" else likely


_LOGS = [math.log1p(count) for count in range(4_096)]


def _log(count: int) -> float:
    return _LOGS[count] if count < len(_LOGS) else math.log1p(count)


def _age(moment: int, now: int) -> tuple[float, float]:
    """Whether it ever happened, and how long ago, as a logarithm."""
    return (0.0, 0.0) if moment < 0 else (1.0, _log(now - moment))


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
    -2.472, 0.278, -1.071, 1.161, 1.527, -0.274, 0.611, -0.154, -0.325, 2.042, -0.738, 0.999, -0.092,
    -0.082, -0.369, -0.777, 0.369, 0.109, 0.147, -0.311, 0.397, -0.750, -0.315, 0.327,
)  # fmt: skip
LINES: tuple[float, ...] = (
    -2.380, 0.343, -0.068, 0.208, -0.396, 0.011, -0.194, -0.051, 0.656, -0.169, -1.739, -0.312, -0.272,
    -0.183, -0.625, 0.087, 1.618, 0.025, 0.091, 0.123,
)  # fmt: skip
"""Fitted on 24 November 2026 to all cases of 16 recorded sessions at 32k; `tests/bench/fit_ledger.py`, which
prints such a table, fits to a sample of them (docs/decisions/0038-ledger.md)."""
LINE_WORTH = 0.5
"""Lines are needed by the block, and a block's lines are counted one by one: half of it was best."""
