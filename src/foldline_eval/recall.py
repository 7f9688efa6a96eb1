"""Measures grounded recall.

This is the share of earlier text used by an answer that was still in the answer's request. Used text is
counted in atoms: paths, identifiers, URLs, hashes, and the lines that an edit has to repeat exactly. Atoms
are matched literally, so recall is a lower bound for summaries that paraphrase. `Needs` are computed once for
a session, and are the same for all strategies.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple, get_args

from foldline.memory import facts
from foldline.memory.facts import path_parts
from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart
from foldline.sequences import grouped
from foldline.view.tokens import message_tokens

from .record import Messages, PerMessage, Presence, Ratio, ReplayRun

ATOMS_VERSION = 2
"""Version of these rules. Figures from different versions must not be compared."""

AtomKind = Literal["path", "identifier", "url", "hash", "line"]


class Atom(NamedTuple):
    """A piece of text that can be found in messages and answers."""

    kind: AtomKind
    text: str


def atoms(message: BaseMessage) -> tuple[Atom, ...]:
    """Return the distinct atoms in a message, ignoring its thinking."""
    text = "\n".join(facts.texts(message))
    return tuple(dict.fromkeys([*_names(text), *_lines(text)]))


def atoms_used(message: AssistantMessage) -> tuple[Atom, ...]:
    """Return the names in an answer and its calls, and the lines replaced by its edits."""
    used = _names("\n".join(facts.texts(message)))
    for call in message.calls:
        for old_text in old_texts(call):
            used += _lines(old_text)
    return tuple(dict.fromkeys(used))


def _names(text: str) -> list[Atom]:
    return [Atom(kind, name) for kind, find in _FINDERS for name in find(text)]


def _lines(text: str) -> list[Atom]:
    """Return the stripped lines in text.

    Lines that are too short to be distinctive are left out.
    """
    lines = map(str.strip, text.splitlines())
    return [Atom("line", line) for line in lines if len(line) >= facts.SHORTEST_LINE]


_FINDERS: tuple[tuple[AtomKind, Callable[[str], Iterable[str]]], ...] = (
    ("path", facts.paths),
    ("identifier", facts.identifiers),
    ("url", facts.urls),
    ("hash", facts.hashes),
)


# -- the arguments of calls ------------------------------------------------------------------------
#
# A second measure: the arguments of the recorded call that could have been written from the request alone.
# Everything that an argument repeats from earlier messages has to be in the request: the lines of a text to
# replace, the names in any other argument. New text comes from the model and is not required. Arguments that
# repeat nothing are not counted.

Argument = Literal["path", "old text", "command", "pattern"]
_PATTERNS = ("pattern", "query", "regex")
_PATCHED = ("*** Update File: ", "*** Delete File: ")


def arguments(message: AssistantMessage) -> Iterator[tuple[Argument, str]]:
    """Yield the type and text of each argument in an answer's calls."""
    for call in message.calls:
        parsed = call.parsed()
        for name in facts.PLACE_ARGUMENTS:
            if isinstance(path := parsed.get(name), str):
                yield "path", path
        for name in _PATTERNS:
            if isinstance(pattern := parsed.get(name), str):
                yield "pattern", pattern
        for line in facts.command_arguments(parsed):
            if facts.PATCH not in line:
                yield "command", line
        yield from (("old text", old_text) for old_text in old_texts(call))
        yield from (("path", path) for path in _patched_files(parsed))


def old_texts(call: ToolCallPart) -> Iterator[str]:
    """Yield the texts that an edit or patch expects to find in a file."""
    parsed = call.parsed()
    yield from facts.strings_named(parsed, facts.OLD_ARGUMENTS)
    for patch in facts.patches(parsed):
        hunk: list[str] = []
        for line in [*patch.splitlines(), "@@"]:
            if line[:1] in ("-", " "):
                hunk.append(line[1:])
            elif line.startswith(("@@", "***")) and hunk:
                yield "\n".join(hunk)
                hunk = []


def _patched_files(parsed: dict[str, object]) -> Iterator[str]:
    lines_of_patches = (
        line for patch in facts.patches(parsed) for line in patch.splitlines()
    )
    for line in lines_of_patches:
        for marker in _PATCHED:
            if line.startswith(marker):
                yield line[len(marker) :].strip()


# -- forms -----------------------------------------------------------------------------------------

Form = tuple[str, str]
"""A type and a normalised text. Two atoms match if they have any form in common."""

_ABBREVIATED = range(7, 13)
"""Usual lengths of abbreviated commit hashes."""


def forms_of(found_atoms: Iterable[Atom]) -> frozenset[Form]:
    """Return all forms of the given atoms."""
    return frozenset(form for atom in found_atoms for form in _forms(atom))


def forms_sought(atom: Atom) -> tuple[Form, ...]:
    """Return the forms to look for.

    The atom is present if any of these forms is.

    A path is present if any path in the view ends with it. An absolute path is also present if the view
    contains a relative path with at least its last two components.
    """
    if atom.kind != "path":
        return ((atom.kind, atom.text),)
    path = path_parts(atom.text)
    sought = [_path_end(path)]
    if atom.text.startswith(("/", "~")):
        sought += [_full_path(path[start:]) for start in range(1, len(path) - 1)]
    return tuple(sought)


def _forms(atom: Atom) -> Iterator[Form]:
    kind, text = atom
    if kind == "path":
        path = path_parts(text)
        yield _full_path(path)
        for start in range(len(path)):
            yield _path_end(path[start:])
        return
    yield atom
    if kind == "hash":
        for digits in _ABBREVIATED:
            if digits < len(text):
                yield kind, text[:digits]
    if kind == "line":
        if text[0] in "+-":
            yield kind, text[1:].strip()
        if number := facts.NUMBERED.match(text):
            yield kind, text[number.end() :].strip()


def _full_path(path: tuple[str, ...]) -> Form:
    return "path", "/".join(path)


def _path_end(path: tuple[str, ...]) -> Form:
    return "end of a path", "/".join(path)


LONG_RANGE = 20_000
"""A need is long-range if its last mention is more than this many tokens away."""


@dataclass(frozen=True, slots=True)
class NeededAtom:
    """An atom that is used by an answer and contained in an earlier message."""

    step: int
    """Index of the answer that used the atom."""
    atom: Atom
    source: BaseMessage
    """The most recent of the earlier messages that contain the atom."""
    distance: int
    """Distance between the source and the answer, in tokens."""
    forms: tuple[Form, ...]
    """The atom's forms. A view contains the atom if it contains any of them."""


class Needs:
    """All needs of a session, and the messages that contain them.

    They are computed once for all runs.
    """

    def __init__(self, history: Messages) -> None:
        self._forms = PerMessage(lambda message: forms_of(atoms(message)))
        self.all = tuple(self._find(history))
        self.by_step = grouped((need.step, need) for need in self.all)
        self.arguments = {
            message.index: self._arguments(message)
            for message in history
            if isinstance(message, AssistantMessage) and message.index in self.by_step
        }
        """For each answer, the arguments of its calls, each with the needed atoms that it repeats."""
        needed = frozenset(form for need in self.all for form in need.forms)
        self._originals = {message.key: message for message in history}
        self.held_by = PerMessage(lambda message: self._forms(message) & needed)
        """Returns the needed forms contained in a message."""
        self.behind = PerMessage(self._behind)
        """Returns the needed forms contained in the original of a placeholder or clipped message."""

    def _find(self, history: Messages) -> Iterator[NeededAtom]:
        """Yield the atoms from earlier messages that answers used. Takes linear time."""
        tokens_before = list(accumulate(map(message_tokens, history), initial=0))
        newest: dict[Form, int] = {}
        """The position of the newest message that contains each form."""
        for position, message in enumerate(history):
            used = atoms_used(message) if isinstance(message, AssistantMessage) else ()
            for atom in used:
                forms = forms_sought(atom)
                sources = [newest[form] for form in forms if form in newest]
                if sources:
                    source = max(sources)
                    distance = tokens_before[position] - tokens_before[source + 1]
                    yield NeededAtom(
                        message.index, atom, history[source], distance, forms
                    )
            newest.update(dict.fromkeys(self._forms(message), position))

    def _arguments(
        self, message: AssistantMessage
    ) -> list[tuple[Argument, frozenset[Atom]]]:
        needed_atoms = {need.atom for need in self.by_step[message.index]}
        repeated = []
        for kind, text in arguments(message):
            parts = _lines(text) if kind == "old text" else _names(text)
            if old_parts := needed_atoms.intersection(parts):
                repeated.append((kind, frozenset(old_parts)))
        return repeated

    def _behind(self, message: BaseMessage) -> frozenset[Form]:
        original = self._originals.get(message.key)
        if (
            original is None
            or original.type != message.type
            or original.parts == message.parts
        ):
            return frozenset()
        # Handles in the recorded text refer to another session.
        handles = _handles(message) - _handles(original)
        forms: set[Form] = set()
        for handle in handles:
            target = self._originals.get((handle, 0))
            if target is not None:
                forms |= self.held_by(target)
        return frozenset(forms)


_HANDLE = re.compile(r"history_read\((\d{1,9})\)")
"""Matches the call with which placeholders and clips refer to the original (`foldline.view.items`)."""


def _handles(message: BaseMessage) -> set[int]:
    """Return the indexes of the entries to which a message refers."""
    return {int(handle[1]) for handle in _HANDLE.finditer(message.text)}


State = Literal["retained", "recoverable", "lost"]
STATES: tuple[State, ...] = get_args(State)


class NeedCounts(Counter[State]):
    """Number of needs by state.

    The needed text is in the view (`retained`), in the original of a placeholder or clip (`recoverable`), or
    in neither (`lost`).
    """

    @property
    def needs(self) -> int:
        return self.total()

    def ratio(self, state: State) -> Ratio:
        """Return the needs in this state, out of all needs."""
        return Ratio(self[state], self.needs)


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """Counts how many needs of the recorded answers were met by the requests of a run."""

    all: NeedCounts
    long_range: NeedCounts
    by_kind: Mapping[AtomKind, NeedCounts]
    refetch_tokens: int
    """Number of tokens that the agent would have to read again.

    Each message is assumed to be read again at most once between two compactions.
    """
    refetch_calls: int
    arguments: Mapping[Argument, Ratio]
    """Share of recorded arguments that could be written from the request alone, by type."""

    @property
    def writable(self) -> Ratio:
        """The share of arguments that the context contains, over all argument types."""
        return Ratio.total(self.arguments.values())

    @property
    def grounded(self) -> float | None:
        """Grounded recall. For the raw run, it is 1."""
        return self.all.ratio("retained").value


def recall(run: ReplayRun, needs: Needs) -> RecallFigures:
    """Compare the needs of each step with the step's request, and return the figures."""
    counts = NeedCounts()
    long_range_counts = NeedCounts()
    by_kind: dict[AtomKind, NeedCounts] = {}
    writable: dict[Argument, list[bool]] = {}
    refetched: dict[tuple[int, tuple[int, int]], BaseMessage] = {}
    retained = Presence(needs.held_by)
    behind = Presence(needs.behind)
    for step in answered_steps(run):
        retained.show(step.messages)
        behind.show(step.messages)
        retained_atoms: set[Atom] = set()
        for need in needs.by_step.get(step.answer, ()):
            state = _state_of(need, retained, behind)
            counts[state] += 1
            if need.distance > LONG_RANGE:
                long_range_counts[state] += 1
            by_kind.setdefault(need.atom.kind, NeedCounts())[state] += 1
            if state == "retained":
                retained_atoms.add(need.atom)
            else:
                refetched[step.epoch, need.source.key] = need.source
        for kind, repeated in needs.arguments.get(step.answer, ()):
            writable.setdefault(kind, []).append(repeated <= retained_atoms)
    return RecallFigures(
        all=counts,
        long_range=long_range_counts,
        by_kind=by_kind,
        refetch_tokens=sum(map(message_tokens, refetched.values())),
        refetch_calls=len(refetched),
        arguments={kind: Ratio.of_marks(marks) for kind, marks in writable.items()},
    )


def _state_of(
    need: NeededAtom, retained: Presence[Form], behind: Presence[Form]
) -> State:
    if any(form in retained for form in need.forms):
        return "retained"
    if any(form in behind for form in need.forms):
        return "recoverable"
    return "lost"


class AnsweredStep(NamedTuple):
    """A request that has a recorded answer."""

    answer: int
    messages: Messages
    epoch: int
    """Number of compactions committed before the request was sent."""


def answered_steps(run: ReplayRun) -> Iterator[AnsweredStep]:
    """Yield the steps of a run.

    If a request was repeated, only the last repetition is included.
    """
    last_request = {sent.answer: position for position, sent in run.steps()}
    compactions = sorted(compaction.requests for compaction in run.compactions)
    for position, sent in run.steps():
        if sent.answer is not None and last_request[sent.answer] == position:
            epoch = bisect_right(compactions, position)
            yield AnsweredStep(sent.answer, sent.messages, epoch)
