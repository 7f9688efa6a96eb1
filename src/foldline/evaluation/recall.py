"""Grounded recall: of what the recorded assistant really used next, how much its request would have held.

What was used is counted word for word, so it is a floor for summaries that paraphrase. `Needs` belong to the
session: no strategy changes them.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import fmean
from typing import Literal, NamedTuple

from foldline.protocol import AssistantMessage, BaseMessage

from .atoms import USABLE, Atom, AtomKind, Form, atoms, needed, said, sought
from .per_message import PerMessage, Presence
from .record import Meter, Run

LONG_RANGE = 20_000
"""A need is a long-range one where its last mention lies more tokens back than this."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a step used and that the session had said before."""

    step: int
    """Index of the answer that used it."""
    atom: Atom
    source: BaseMessage
    """The newest message before the step that holds it."""
    distance: int
    """Tokens between the source and the step."""
    forms: tuple[Form, ...]
    """Any of which in a view says it."""


class Needs:
    """All needs of a session, and which messages hold what is needed. Made once, for all its runs."""

    def __init__(
        self,
        found: Sequence[Need],
        history: Sequence[BaseMessage],
        read: Sequence[frozenset[Form]],
        meter: Meter,
    ) -> None:
        self.all = tuple(found)
        self.by_step: dict[int, list[Need]] = {}
        for need in found:
            self.by_step.setdefault(need.step, []).append(need)
        self._wanted = frozenset(form for need in found for form in need.forms)
        self._originals = {message.key: message for message in history}
        self.tokens = PerMessage(meter.tokens)
        known = zip(history, (forms & self._wanted for forms in read), strict=True)
        self.held_by = PerMessage(self._held_by, known)
        """The needed forms that a message says."""
        self.behind = PerMessage(self._behind)
        """The needed forms that a stub or a clip leads to."""

    def _held_by(self, message: BaseMessage) -> frozenset[Form]:
        return said(atoms(message, USABLE)) & self._wanted

    def _behind(self, message: BaseMessage) -> frozenset[Form]:
        replaced = self._originals.get(message.key)
        if replaced is None or replaced.type != message.type or replaced.parts == message.parts:
            return frozenset()
        handles = {int(handle[1]) for handle in _HANDLE.finditer(message.text)}
        shown = (self._originals.get((handle, 0)) for handle in handles - _handles(replaced))
        return frozenset().union(*(self.held_by(message) for message in shown if message is not None))


_HANDLE = re.compile(r"history_read\((\d{1,9})\)")
"""How stubs and clips tell the model to read an entry again (context.stubs)."""


def _handles(message: BaseMessage) -> set[int]:
    """Handles in the recorded text itself: they are no handles into this session."""
    return {int(handle[1]) for handle in _HANDLE.finditer(message.text)}


def needs(history: Sequence[BaseMessage], meter: Meter) -> Needs:
    """What each answer used of what was said before it. Linear in the text."""
    before = list(accumulate(map(meter.tokens, history), initial=0))
    read = [said(atoms(message, USABLE)) for message in history]
    newest: dict[Form, int] = {}
    found: list[Need] = []
    for position, message in enumerate(history):
        for atom in needed(message) if isinstance(message, AssistantMessage) else ():
            forms = sought(atom)
            source = max((newest[form] for form in forms if form in newest), default=None)
            if source is not None:
                distance = before[position] - before[source + 1]
                found.append(Need(message.index, atom, history[source], distance, forms))
        newest.update(dict.fromkeys(read[position], position))
    return Needs(found, history, read, meter)


State = Literal["retained", "recoverable", "lost"]


@dataclass(frozen=True, slots=True)
class Tally:
    """Where needed things were when they were needed."""

    retained: int = 0
    """In the view."""
    recoverable: int = 0
    """The block that held them stands in the view as a stub or a clip, with a handle that leads to them."""
    lost: int = 0

    @property
    def needs(self) -> int:
        return self.retained + self.recoverable + self.lost

    def share(self, state: State) -> float | None:
        """None where nothing was needed."""
        count: int = getattr(self, state)
        return count / self.needs if self.needs else None


@dataclass(frozen=True, slots=True)
class Recall:
    """How well the requests of one run would have served the recorded answers."""

    all: Tally
    long_range: Tally
    by_kind: Mapping[AtomKind, Tally]
    refetch_tokens: int
    """Tokens to read again, at the least: each message once in each compaction epoch."""
    refetch_calls: int

    @property
    def grounded(self) -> float | None:
        """GR: 1 for the raw session, by construction."""
        return self.all.share("retained")

    @property
    def long_range_grounded(self) -> float | None:
        return self.long_range.share("retained")


def recall(run: Run, needs: Needs, *, long_range: int = LONG_RANGE) -> Recall:
    """Each need of each step held against the request that the step answered."""
    counted = _Counts()
    refetched: dict[tuple[int, tuple[int, int]], BaseMessage] = {}
    retained, behind = Presence(needs.held_by), Presence(needs.behind)
    for step in answered_steps(run):
        retained.show(step.messages)
        behind.show(step.messages)
        for need in needs.by_step.get(step.answer, ()):
            state: State = "lost"
            if any(form in retained for form in need.forms):
                state = "retained"
            elif any(form in behind for form in need.forms):
                state = "recoverable"
            counted.add(need, state, is_long=need.distance > long_range)
            if state != "retained":
                refetched[step.epoch, need.source.key] = need.source
    return Recall(
        all=_tally(counted.all),
        long_range=_tally(counted.long),
        by_kind={kind: _tally(states) for kind, states in counted.by_kind.items()},
        refetch_tokens=sum(map(needs.tokens, refetched.values())),
        refetch_calls=len(refetched),
    )


class Step(NamedTuple):
    """A request that a recorded answer belongs to."""

    answer: int
    messages: Sequence[BaseMessage]
    epoch: int
    """How many folds had been committed when it left."""


def answered_steps(run: Run) -> Iterator[Step]:
    """The steps of a run, in order; of one that was sent again, the last request."""
    last = {sent.answer: place for place, sent in enumerate(run.requests) if sent.kind == "step"}
    folds = sorted(fold.requests for fold in run.folds)
    epoch = 0
    for place, sent in enumerate(run.requests):
        while epoch < len(folds) and folds[epoch] <= place:
            epoch += 1
        if sent.kind == "step" and sent.answer is not None and last[sent.answer] == place:
            yield Step(sent.answer, sent.messages, epoch)


@dataclass(slots=True)
class _Counts:
    all: Counter[State] = field(default_factory=Counter)
    long: Counter[State] = field(default_factory=Counter)
    by_kind: dict[AtomKind, Counter[State]] = field(default_factory=dict)

    def add(self, need: Need, state: State, *, is_long: bool) -> None:
        self.all[state] += 1
        self.by_kind.setdefault(need.atom.kind, Counter())[state] += 1
        if is_long:
            self.long[state] += 1


def _tally(states: Mapping[State, int]) -> Tally:
    return Tally(states.get("retained", 0), states.get("recoverable", 0), states.get("lost", 0))


LEAST_SESSIONS = 10
"""Below this many no interval is given: a handful of sessions says nothing about the next one."""
_DRAWS = 2_000
_SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class Difference:
    """A strategy's figure less the reference's, mean over sessions, with a 95 % interval."""

    strategy: str
    figure: str
    sessions: int
    mean: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.low > 0 or self.high < 0


def difference(
    strategy: str, figure: str, ours: Mapping[str, float | None], reference: Mapping[str, float | None]
) -> Difference | None:
    """Paired bootstrap over the sessions that both have a figure for; None where they are too few."""
    pairs = [
        (value, base)
        for session, value in ours.items()
        if value is not None and (base := reference.get(session)) is not None
    ]
    if len(pairs) < LEAST_SESSIONS:
        return None
    differences = [value - base for value, base in pairs]
    low, high = _interval(differences)
    return Difference(strategy, figure, len(differences), fmean(differences), low, high)


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the means of samples drawn from these values with replacement."""
    chance = random.Random(_SEED)
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(_DRAWS))
    return means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS) - 1]
