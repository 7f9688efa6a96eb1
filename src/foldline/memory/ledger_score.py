"""The score of a ledger item.

It is the likelihood that the item will be needed before the next compaction, computed by a logistic
regression over the item's uses, appearances and edits. The weights were fitted to recorded sessions. Only
`LINE_WORTH` was chosen by trial.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log1p
from typing import Final, Literal, NamedTuple

ItemKind = Literal["path", "identifier", "url", "hash", "line"]
ItemKey = tuple[ItemKind, str]

NEVER = -1


@dataclass(slots=True)
class TrackedItem:
    """A name or line, with its history.

    Times are counted in answers by the model.
    """

    kind: ItemKind
    text: str
    tokens: int
    first: int
    """Time at which the item first appeared."""
    entry: int = NEVER
    """Index of the newest entry that contained the item, preferably a tool result."""
    place: str = ""
    """Subject of the call that belongs to that entry: a file, or the beginning of a command."""
    uses: int = 0
    """Number of answers that used the item."""
    used: int = NEVER
    used_before: int = NEVER
    """Times of the last two uses."""
    shows: int = 0
    """Number of results that contained the item."""
    shown: int = NEVER
    shown_before: int = NEVER
    """Times of the last two results that contained the item."""
    requested: int = NEVER
    """Time of the last prompt that named the item."""
    edits: int = 0
    """Number of edits that contained the item."""
    edited: int = NEVER
    replaced: bool = False
    """For a line, whether an edit has removed the line from its file."""
    defined: str = ""
    """For a name, the line that defines it; for a line, not empty if it defines something.

    If this is not empty, `entry` is the entry that contains the definition.
    """

    @property
    def is_written(self) -> bool:
        """Whether the item is a line written by an edit, and no result has shown the line since."""
        return self.kind == "line" and self.edited > self.shown

    def use(self, now: int, *, in_edit: bool) -> None:
        if self.used != now:
            self.uses += 1
            self.used_before = self.used
            self.used = now
        if in_edit:
            self.edit(now)

    def edit(self, now: int) -> None:
        if self.edited != now:
            self.edits += 1
            self.edited = now

    def show(self, now: int, entry: int, place: str) -> None:
        self.shows += 1
        self.shown_before = self.shown
        self.shown = now
        if not self.defined:
            self.entry = entry
            self.place = place


@dataclass(slots=True)
class FileActivity:
    """The calls that concern a file.

    Contains the number of edits, and the times of the last edit and the last read.
    """

    edits: int = 0
    edited: int = NEVER
    read: int = NEVER


Score = Callable[[TrackedItem, FileActivity | None, int], float]
"""Takes an item, the activity on its file and the current time; returns a likelihood from 0 to 1."""


class ScoreWeights(NamedTuple):
    """Weights for computing the log odds that an item will be needed.

    Each kind of event has two weights: one that is added if the event ever happened, and `..._age`, which
    multiplies the logarithm of the time since the event.
    """

    base: float = 0.0
    path: float = 0.0
    address: float = 0.0
    """Weight added for URLs and hashes."""
    uses: float = 0.0
    used: float = 0.0
    used_age: float = 0.0
    used_before: float = 0.0
    used_before_age: float = 0.0
    shows: float = 0.0
    shown: float = 0.0
    shown_age: float = 0.0
    shown_before: float = 0.0
    shown_before_age: float = 0.0
    requested: float = 0.0
    requested_age: float = 0.0
    edits: float = 0.0
    edited: float = 0.0
    edited_age: float = 0.0
    replaced: float = 0.0
    defined: float = 0.0
    length: float = 0.0
    first_age: float = 0.0
    now: float = 0.0
    file_edits: float = 0.0
    file_edited: float = 0.0
    file_edited_age: float = 0.0
    file_read: float = 0.0
    file_read_age: float = 0.0


def logit(w: ScoreWeights) -> Score:
    """Return a function that computes log odds with these weights."""

    def odds_of(item: TrackedItem, file: FileActivity | None, now: int) -> float:
        def since(event: int, happened: float, age: float) -> float:
            return happened + age * log1p(now - event) if event >= 0 else 0.0

        odds = w.base + _weight_of_kind(w, item.kind)
        odds += w.uses * log1p(item.uses)
        odds += since(item.used, w.used, w.used_age)
        odds += since(item.used_before, w.used_before, w.used_before_age)
        odds += w.shows * log1p(item.shows)
        odds += since(item.shown, w.shown, w.shown_age)
        odds += since(item.shown_before, w.shown_before, w.shown_before_age)
        odds += since(item.requested, w.requested, w.requested_age)
        odds += w.edits * log1p(item.edits)
        odds += since(item.edited, w.edited, w.edited_age)
        odds += w.replaced * item.replaced
        odds += w.defined if item.defined else 0.0
        odds += w.length * log1p(len(item.text))
        odds += w.first_age * log1p(now - item.first)
        odds += w.now * log1p(now)
        if file:
            odds += w.file_edits * log1p(file.edits)
            odds += since(file.edited, w.file_edited, w.file_edited_age)
            odds += since(file.read, w.file_read, w.file_read_age)
        return odds

    return odds_of


def _weight_of_kind(w: ScoreWeights, kind: ItemKind) -> float:
    if kind == "path":
        return w.path
    return w.address if kind in ("url", "hash") else 0.0


def score_with(names: ScoreWeights, lines: ScoreWeights) -> Score:
    """Return a score function with these weights.

    Args:
        names: weights for names.
        lines: weights for lines.
    """
    name_odds = logit(names)
    line_odds = logit(lines)

    def score(item: TrackedItem, file: FileActivity | None, now: int) -> float:
        if item.kind == "line":
            return LINE_WORTH / (1 + exp(-line_odds(item, file, now)))
        return 1 / (1 + exp(-name_odds(item, file, now)))

    return score


NAMES = ScoreWeights(
    base=-0.700,
    path=0.210,
    address=-0.291,
    uses=0.641,
    used=0.621,
    used_age=-0.110,
    used_before=0.413,
    used_before_age=-0.038,
    shows=0.097,
    shown=0.533,
    shown_age=-0.689,
    shown_before=0.342,
    shown_before_age=0.141,
    requested=-0.035,
    requested_age=-0.116,
    edits=-0.257,
    edited=0.233,
    edited_age=0.066,
    defined=0.133,
    length=-0.338,
    first_age=0.191,
    now=-0.749,
    file_edited=0.097,
    file_edited_age=0.178,
)
LINES = ScoreWeights(
    base=-1.943,
    uses=0.113,
    used=0.110,
    used_age=0.085,
    shows=-0.036,
    shown=-0.081,
    shown_age=-0.204,
    edits=0.218,
    edited=0.239,
    edited_age=-0.017,
    replaced=-0.185,
    defined=0.024,
    length=-0.245,
    first_age=-0.178,
    now=-0.679,
    file_edits=0.312,
    file_edited=0.402,
    file_edited_age=0.106,
    file_read=0.004,
    file_read_age=0.001,
)
"""Weights for lines. Together with `NAMES`, they are the default weights.

They were fitted on 24 November 2026 to 16 recorded sessions at 32k by `tests/bench/fit_ledger.py`, which also
reports recall on held-out sessions (docs/decisions/0038-ledger.md).
"""
LINE_WORTH = 0.5
"""Factor for the scores of lines, which are needed in blocks but scored one by one.

In trials, one half worked best.
"""

likelihood: Final = score_with(NAMES, LINES)
