"""Grounded recall: of what the recorded assistant really used next, how much its request would have held.

What was used is counted in atoms: paths, identifiers, addresses, hashes, and the lines an edit has to
repeat exactly, found word for word by versioned rules. So it is a floor for summaries that paraphrase.
`Needs` belong to the session: no strategy changes them.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from foldline.context import facts
from foldline.context.facts import path_parts
from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart
from foldline.sequences import grouped

from .record import Messages, Meter, PerMessage, Presence, Run, Share

ATOMS_VERSION = 2
"""Of these rules and of the regular expressions behind them. Figures of different versions do not compare."""

AtomKind = Literal["path", "identifier", "url", "hash", "line"]
"""What an answer can be seen to use."""


class Atom(NamedTuple):
    kind: AtomKind
    text: str


def atoms(message: BaseMessage) -> tuple[Atom, ...]:
    """The atoms of a message as they stand there, none twice. Thinking is not looked at."""
    text = "\n".join(facts.texts(message))
    return tuple(dict.fromkeys([*_names(text), *_lines(text)]))


def needed(message: AssistantMessage) -> tuple[Atom, ...]:
    """What an answer used: paths, identifiers, addresses and hashes of its text and of its calls'
    arguments, and the lines that an edit says are in the file."""
    text = "\n".join(facts.texts(message))
    replaced = [line for call in message.calls for old in old_texts(call) for line in _lines(old)]
    return tuple(dict.fromkeys([*_names(text), *replaced]))


def _names(text: str) -> list[Atom]:
    return [Atom(kind, name) for kind, find in _FINDERS for name in find(text)]


def _lines(text: str) -> list[Atom]:
    return [Atom("line", line) for line in lines(text)]


def lines(text: str) -> Iterator[str]:
    """Lines long enough to be told from others, without what is blank around them."""
    return (stripped for line in text.splitlines() if len(stripped := line.strip()) >= facts.SHORTEST_LINE)


_FINDERS: tuple[tuple[AtomKind, Callable[[str], Iterable[str]]], ...] = (
    ("path", facts.paths),
    ("identifier", facts.identifiers),
    ("url", facts.urls),
    ("hash", facts.hashes),
)


# -- the arguments of calls ------------------------------------------------------------------------
#
# The second judge: which arguments of the recorded next call could have been written from the view alone. One
# could where *all* stands in the request that it takes from what was said before: the lines of a text to
# replace, the names in the others. What it says for the first time is the model's own and asked of no view;
# an argument that says nothing from before is not counted.

Argument = Literal["path", "old text", "command", "pattern"]
_PATTERNS = ("pattern", "query", "regex")
_PATCHED = ("*** Update File: ", "*** Delete File: ")


def arguments(message: AssistantMessage) -> Iterator[tuple[Argument, str]]:
    """The arguments of an answer's calls, each with its text."""
    for call in message.calls:
        given = call.parsed()
        yield from (
            ("path", path) for name in facts.PLACE_ARGUMENTS if isinstance(path := given.get(name), str)
        )
        yield from (("pattern", text) for name in _PATTERNS if isinstance(text := given.get(name), str))
        yield from (("command", line) for line in facts.command_arguments(given) if facts.PATCH not in line)
        yield from (("old text", old) for old in old_texts(call))
        yield from (("path", path) for patch in facts.patches(given) for path in _patched(patch))


def old_texts(call: ToolCallPart) -> Iterator[str]:
    """What an edit says is in the file: each replacement, each hunk of a patch."""
    given = call.parsed()
    yield from facts.named(given, facts.OLD_ARGUMENTS)
    for patch in facts.patches(given):
        hunk: list[str] = []
        for line in [*patch.splitlines(), "@@"]:
            if line[:1] in ("-", " "):
                hunk.append(line[1:])
            elif line.startswith(("@@", "***")) and hunk:
                yield "\n".join(hunk)
                hunk = []


def _patched(patch: str) -> Iterator[str]:
    for line in patch.splitlines():
        for sign in _PATCHED:
            if line.startswith(sign):
                yield line[len(sign) :].strip()


# -- forms -----------------------------------------------------------------------------------------

Form = tuple[str, str]
"""A kind and a text, ready to be compared: what a person would accept as the same has one form in common."""

_ABBREVIATED = range(7, 13)
"""Digits of a commit id that people and git write."""


def said(found: Iterable[Atom]) -> frozenset[Form]:
    """Every form that a text with these atoms says."""
    return frozenset(form for atom in found for form in _forms(atom))


def sought(atom: Atom) -> tuple[Form, ...]:
    """The forms of which one is enough for a reader who needs this atom.

    A path is there where one of the view ends in it; an absolute one also where it is told from a folder
    further down, by two names or more.
    """
    if atom.kind != "path":
        return ((atom.kind, atom.text),)
    path = path_parts(atom.text)
    below = range(1, len(path) - 1) if atom.text.startswith(("/", "~")) else ()
    return (_tail(path), *(_whole(path[start:]) for start in below))


def _forms(atom: Atom) -> Iterator[Form]:
    kind, text = atom
    if kind == "path":
        path = path_parts(text)
        yield _whole(path)
        yield from (_tail(path[start:]) for start in range(len(path)))
        return
    yield atom
    if kind == "hash":
        yield from ((kind, text[:digits]) for digits in _ABBREVIATED if digits < len(text))
    if kind == "line" and text[0] in "+-":
        yield kind, text[1:].strip()
    if kind == "line" and (number := facts.NUMBERED.match(text)):
        yield kind, text[number.end() :].strip()


def _whole(path: tuple[str, ...]) -> Form:
    return "path", "/".join(path)


def _tail(path: tuple[str, ...]) -> Form:
    return "end of a path", "/".join(path)


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
        history: Messages,
        read: Sequence[frozenset[Form]],
        meter: Meter,
    ) -> None:
        self.all = tuple(found)
        self.by_step = grouped((need.step, need) for need in found)
        self.arguments = {
            message.index: self._arguments(message)
            for message in history
            if isinstance(message, AssistantMessage) and message.index in self.by_step
        }
        """By step: the arguments of its calls, each with what it takes from what was said before."""
        self._wanted = frozenset(form for need in found for form in need.forms)
        self._originals = {message.key: message for message in history}
        self.tokens = PerMessage(meter.tokens)
        known = zip(history, (forms & self._wanted for forms in read), strict=True)
        self.held_by = PerMessage(self._held_by, known)
        """The needed forms that a message says."""
        self.behind = PerMessage(self._behind)
        """The needed forms that a placeholder or a clip leads to."""

    def _arguments(self, message: AssistantMessage) -> list[tuple[Argument, frozenset[Atom]]]:
        known = {need.atom for need in self.by_step[message.index]}
        taken = (
            (kind, known.intersection(_lines(text) if kind == "old text" else _names(text)))
            for kind, text in arguments(message)
        )
        return [(kind, frozenset(atoms)) for kind, atoms in taken if atoms]

    def _held_by(self, message: BaseMessage) -> frozenset[Form]:
        return said(atoms(message)) & self._wanted

    def _behind(self, message: BaseMessage) -> frozenset[Form]:
        replaced = self._originals.get(message.key)
        if replaced is None or replaced.type != message.type or replaced.parts == message.parts:
            return frozenset()
        # Handles in the recorded text itself are none into this session.
        led_to = _handles(message) - _handles(replaced)
        shown = (self._originals.get((handle, 0)) for handle in led_to)
        return frozenset().union(*(self.held_by(message) for message in shown if message is not None))


_HANDLE = re.compile(r"history_read\((\d{1,9})\)")
"""How placeholders and clips tell the model to read an entry again (context.view)."""


def _handles(message: BaseMessage) -> set[int]:
    """Return the indices of the entries that the text offers to read again."""
    return {int(handle[1]) for handle in _HANDLE.finditer(message.text)}


def needs(history: Messages, meter: Meter) -> Needs:
    """What each answer used of what was said before it. Linear in the text."""
    before = list(accumulate(map(meter.tokens, history), initial=0))
    read = [said(atoms(message)) for message in history]
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
STATES: tuple[State, ...] = get_args(State)


class Tally(Counter[State]):
    """Where needed things were when they were needed: in the view; behind a placeholder or clip with a handle
    that leads to them; or nowhere."""

    @property
    def needs(self) -> int:
        return self.total()

    def share(self, state: State) -> float | None:
        """None where nothing was needed."""
        return self[state] / self.needs if self.needs else None


@dataclass(frozen=True, slots=True)
class Recall:
    """How well the requests of one run would have served the recorded answers."""

    all: Tally
    long_range: Tally
    by_kind: Mapping[AtomKind, Tally]
    refetch_tokens: int
    """Tokens to read again, at the least: each message once in each compaction epoch."""
    refetch_calls: int
    arguments: Mapping[Argument, Share]
    """Of the recorded calls: how many could have been written from the request alone (`arguments`)."""

    @property
    def writable(self) -> Share:
        """All arguments together."""
        found = self.arguments.values()
        return Share(sum(share.kept for share in found), sum(share.of for share in found))

    @property
    def grounded(self) -> float | None:
        """GR: 1 for the raw session, by construction."""
        return self.all.share("retained")

    @property
    def long_range_grounded(self) -> float | None:
        return self.long_range.share("retained")


def recall(run: Run, needs: Needs, *, long_range: int = LONG_RANGE) -> Recall:
    """Each need of each step held against the request that the step answered."""
    total, far, by_kind = Tally(), Tally(), dict[AtomKind, Tally]()
    writable: dict[Argument, list[bool]] = {}
    refetched: dict[tuple[int, tuple[int, int]], BaseMessage] = {}
    retained, behind = Presence(needs.held_by), Presence(needs.behind)
    for step in answered_steps(run):
        if step.answer < run.counted_from:
            continue
        retained.show(step.messages)
        behind.show(step.messages)
        held: set[Atom] = set()
        for need in needs.by_step.get(step.answer, ()):
            state: State = "lost"
            if any(form in retained for form in need.forms):
                state = "retained"
                held.add(need.atom)
            elif any(form in behind for form in need.forms):
                state = "recoverable"
            total[state] += 1
            far[state] += need.distance > long_range
            by_kind.setdefault(need.atom.kind, Tally())[state] += 1
            if state != "retained":
                refetched[step.epoch, need.source.key] = need.source
        for kind, taken in needs.arguments.get(step.answer, ()):
            writable.setdefault(kind, []).append(taken <= held)
    return Recall(
        all=total,
        long_range=far,
        by_kind=by_kind,
        refetch_tokens=sum(map(needs.tokens, refetched.values())),
        refetch_calls=len(refetched),
        arguments={kind: Share(sum(held), len(held)) for kind, held in writable.items()},
    )


class Step(NamedTuple):
    """A request that a recorded answer belongs to."""

    answer: int
    messages: Messages
    epoch: int
    """How many compactions had been committed when it left."""


def answered_steps(run: Run) -> Iterator[Step]:
    """The steps of a run, in order; of one that was sent again, the last request."""
    last = {sent.answer: place for place, sent in enumerate(run.requests) if sent.kind == "step"}
    compactions = sorted(compaction.requests for compaction in run.compactions)
    epoch = 0
    for place, sent in enumerate(run.requests):
        while epoch < len(compactions) and compactions[epoch] <= place:
            epoch += 1
        if sent.kind == "step" and sent.answer is not None and last[sent.answer] == place:
            yield Step(sent.answer, sent.messages, epoch)


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
