"""The ledger: an index of the names and lines a session has seen, and the choice of those that a compaction
keeps in sight. Pure and deterministic; each entry is taken in once.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal, NamedTuple

from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart, ToolResultMessage, UserMessage

from . import facts
from .tokens import estimate_tokens

# -- how likely a name or a line is needed before the next compaction ------------------------------------
#
# The weights were fitted to recorded sessions; only `LINE_WORTH` was chosen by trial.

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


# -- the index ------------------------------------------------------------------------------------------

LONGEST_LINE = 240
"""Characters of a line without its indentation; a longer one is data."""
_FULL, _KEPT = 9_000, 7_000
"""Things at most, and how many of them stay when so many are known: those most likely to be needed."""


class Ledger:
    """The index of one session. `score` says of a thing how likely it is needed before the next compaction;
    another one may be put in its place."""

    def __init__(self, score: Score = likelihood) -> None:
        self.score = score
        self.seen: dict[Key, Seen] = {}
        self.places: dict[str, Place] = {}
        self.now = 0
        """Answers taken in so far."""
        self._calls: dict[str, str] = {}
        """What the calls without a result are about, by their ids."""

    # -- taking in ---------------------------------------------------------------------------------

    def add(self, message: BaseMessage) -> None:
        """Takes in the next message. Linear in its text."""
        match message:
            case AssistantMessage():
                self.now += 1
                self._used(message.text, message.index)
                for call in message.calls:
                    self._called(call, message.index)
            case ToolResultMessage():
                self._resulted(message)
            case UserMessage():
                for key, text in names(message.typed):
                    seen = self._of(key, text)
                    seen.asked, seen.entry = self.now, message.index
                self._shown(message.piped, message.index, "")
            case _:
                pass
        if len(self.seen) > _FULL:
            self._forget()

    def _of(self, key: Key, text: str) -> Seen:
        seen = self.seen.get(key)
        if seen is None:
            seen = self.seen[key] = Seen(key[0], text, _cost(text), self.now)
        elif key[0] == "path" and _says_more(text, seen.text):
            seen.text, seen.tokens = text, _cost(text)
        return seen

    def _used(self, text: str, entry: int, *, in_edit: bool = False, place: str = "") -> None:
        for key, name in names(text):
            seen = self._of(key, name)
            seen.use(self.now, in_edit=in_edit)
            if seen.entry == NEVER:
                seen.entry, seen.place = entry, place

    def _called(self, call: ToolCallPart, entry: int) -> None:
        arguments = call.parsed()
        about = self._calls[call.call_id] = _about(arguments)
        change = Change.of(arguments)
        text = "\n".join(facts.strings(arguments or [call.arguments]))
        self._used(text, entry, in_edit=change is not None, place=about)
        if change is not None:
            for place, old, new in change.files(about):
                self._edited(place, old, new, entry)

    def _edited(self, place: str, old: Sequence[str], new: Sequence[str], entry: int) -> None:
        file = self.places.setdefault(place, Place())
        file.edits, file.edited = file.edits + 1, self.now
        stays = set(new)
        for line in old:
            if seen := self.seen.get(("line", line)):
                seen.use(self.now, in_edit=False)
                seen.replaced = line not in stays
        for line in filter(_is_telling, new):
            seen = self._of(("line", line), line)
            if seen.edited != self.now:
                seen.edits, seen.edited = seen.edits + 1, self.now
            seen.replaced, seen.entry, seen.place = False, entry, place
        self._define("\n".join(new), entry, place)

    def _resulted(self, result: ToolResultMessage) -> None:
        place = self._calls.pop(result.call_id, "")
        self._shown(result.text, result.index, place)
        if not (place and facts.is_path(place)):
            return
        self.places.setdefault(place, Place()).read = self.now
        for line in filter(_is_telling, map(_bare, result.text.splitlines())):
            seen = self._of(("line", line), line)
            seen.show(self.now, result.index, place)
            seen.replaced = False
        self._define(result.text, result.index, place)

    def _shown(self, text: str, entry: int, place: str) -> None:
        for key, name in names(text):
            self._of(key, name).show(self.now, entry, place)

    def _define(self, text: str, entry: int, place: str) -> None:
        for found in _DEFINES.finditer(text):
            start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
            line = _bare(text[start : end if end >= 0 else len(text)])
            if len(line) > LONGEST_LINE:
                continue
            for key in (("identifier", found[1]), ("line", line)):
                if seen := self.seen.get(key):
                    seen.defined, seen.entry, seen.place = line, entry, place

    def likelihood(self, seen: Seen) -> float:
        """How likely this is needed before the next compaction, by the ledger's score."""
        return self.score(seen, self.places.get(seen.place), self.now)

    def _forget(self) -> None:
        """Keeps the likeliest things: an endless session takes no endless memory."""
        ranked = sorted(self.seen.items(), key=lambda item: self.likelihood(item[1]), reverse=True)
        likely = {key for key, _ in ranked[:_KEPT]}
        self.seen = {key: seen for key, seen in self.seen.items() if key in likely}

    # -- choosing ----------------------------------------------------------------------------------

    def choose(
        self, budget: float, said: Collection[Key], *, entries: Collection[int] | None = None
    ) -> "list[Group]":
        """What is most likely to be needed and not said yet, within so many tokens, by the entry that showed
        it. Greedy by likelihood per token; what one edit wrote is one block, for it is read as one.

        Args:
            entries: only things that these show.
        """
        score, places, now = self.score, self.places, self.now
        candidates = [
            (score(seen, places.get(seen.place), now), at, seen)
            for at, (key, seen) in enumerate(self.seen.items())
            if key not in said and seen.entry >= 0 and (entries is None or seen.entry in entries)
        ]
        groups: dict[int, Group] = {}
        defined, cut = set[str](), set[int]()
        signatures = {at for _, at, seen in candidates if seen.kind == "line" and seen.defined}
        room, more = budget * _SIGNATURES, budget * _DEFINITIONS
        budget -= more
        for loss, at, seen in _ranked(candidates):
            if loss >= 0 or budget < _SMALLEST:
                break
            group = groups.get(seen.entry) or Group(seen.entry, _short(seen.place))
            opened = 0 if seen.entry in groups else _HEAD + estimate_tokens(group.place)
            if (seen.defined or seen.text) in defined or seen.tokens + opened > budget:
                continue
            if at in signatures and seen.tokens > room:
                if seen.entry not in cut and budget >= _COUNTED:
                    budget -= _COUNTED
                    cut.add(seen.entry)
                continue
            groups[seen.entry] = group
            budget -= seen.tokens + opened
            room -= seen.tokens if at in signatures else 0
            extra = _cost(seen.defined) - seen.tokens
            if seen.defined and extra <= more:
                more -= max(0, extra)
                defined.add(seen.defined)
                group.found[at] = seen.defined
            elif seen.kind == "line":
                group.found[at] = seen.text
            else:
                group.names.append(seen.text)
        for _, at, seen in candidates:
            if at in signatures and seen.entry in cut and seen.entry in groups and seen.text not in defined:
                groups[seen.entry].more += 1
        return [groups[entry] for entry in sorted(groups)]


def _ranked(candidates: Sequence[tuple[float, int, Seen]]) -> list[tuple[float, int, Seen]]:
    """Sort by likelihood per token, negated, the best first; what one edit wrote has that of its block."""
    written = {at: seen.entry for _, at, seen in candidates if seen.kind == "line" and seen.is_written}
    blocks: dict[int, tuple[float, int]] = {}
    for likely, at, seen in candidates:
        if at in written:
            more, tokens = blocks.get(seen.entry, (0.0, 0))
            blocks[seen.entry] = more + likely, tokens + seen.tokens
    gains = {entry: more / tokens for entry, (more, tokens) in blocks.items()}
    return sorted(
        (-gains[written[at]] if at in written else -likely / seen.tokens, at, seen)
        for likely, at, seen in candidates
    )


_HEAD, _SMALLEST, _COUNTED = 6, 4, 12
"""Tokens of `[entry 123] `, of the shortest name, and of `… and 271 more definitions`."""
_SIGNATURES = 1 / 16
"""Of the budget, for lines that define something: recorded summaries have 2 % of them, and at most 11 %."""
_DEFINITIONS = 1 / 30
"""Of the budget, for the lines that define the likeliest names: a name says more beside what it is. A sixth
cost nine points of far recall."""


@dataclass(slots=True)
class Group:
    """What one entry showed, of what was chosen."""

    entry: int
    place: str
    names: list[str] = field(default_factory=list)
    found: dict[int, str] = field(default_factory=dict)
    """Lines, by their place among all that is known."""
    more: int = 0
    """Definitions that the entry shows beyond those lines; 0 where there was room for them."""

    @property
    def lines(self) -> list[str]:
        """In the order of the text they are from, and how many definitions are left out."""
        lines = [self.found[at] for at in sorted(self.found)]
        definitions = "definition" if self.more == 1 else "definitions"
        return [*lines, f"… and {self.more:,} more {definitions}"] if self.more else lines

    @property
    def text(self) -> str:
        """`[entry 12] src/a.py: name name`, and the lines below it."""
        head = f"[entry {self.entry}] {self.place}".rstrip()
        return "\n  ".join([f"{head}: {' '.join(self.names)}" if self.names else head, *self.lines])


# -- names and lines -------------------------------------------------------------------------------


def said_in(messages: Iterable[BaseMessage]) -> set[Key]:
    """All names and lines that these messages say."""
    said: set[Key] = set()
    for message in messages:
        for text in facts.texts(message):
            said.update(key for key, _ in names(text))
            said.update(("line", line) for line in map(_bare, text.splitlines()) if _is_telling(line))
    return said


def names(text: str) -> Iterator[tuple[Key, str]]:
    """The names of a text, each with its key. Paths that end alike are one."""
    for name in facts.identifiers(text):
        yield ("identifier", name), name
    for path in facts.paths(text):
        yield ("path", _short(path)), path
    for url in facts.urls(text):
        yield ("url", url), url
    for digits in facts.hashes(text):
        yield ("hash", digits), digits


def _short(path: str) -> str:
    """The last two names of a path; of a command, its beginning."""
    return "/".join(facts.path_parts(path)[-2:])


def _says_more(path: str, known: str) -> bool:
    """Whether a path leads there from the working folder by more names than the known one."""
    rooted, known_rooted = path.startswith(("/", "~")), known.startswith(("/", "~"))
    if rooted != known_rooted:
        return known_rooted
    return len(path) > len(known)


_DEFINES = re.compile(
    r"\b(?:def|class|function|fn|func|interface|type|struct|enum|const|let|var|trait|impl|mod|module)\s+"
    r"([A-Za-z_]\w{0,80})"
)


def defined_in(line: str) -> list[str]:
    """The names that a line defines."""
    return _DEFINES.findall(line)


def _bare(line: str) -> str:
    number = facts.NUMBERED.match(line)
    return line[number.end() if number else 0 :].strip()


def _is_telling(line: str) -> bool:
    return facts.SHORTEST_LINE <= len(line) <= LONGEST_LINE


def _cost(text: str) -> int:
    return estimate_tokens(text) + 1


# -- calls -----------------------------------------------------------------------------------------

_NEW = facts.NEW_ARGUMENTS | {"content", "file_text"}
"""What edit tools call the text to write, as far as agents are known."""


def _about(arguments: Mapping[str, object]) -> str:
    """The file a call names, else the first one in its command."""
    for name in facts.FILE_ARGUMENTS:
        if isinstance(found := arguments.get(name), str):
            return found
    for text in facts.strings(dict(arguments)):
        if found_paths := facts.paths(text[:2_000]):
            return found_paths[0]
    return ""


@dataclass(frozen=True, slots=True)
class Change:
    """The lines that a call takes out of files and puts into them."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    patches: tuple[str, ...]

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> "Change | None":
        """None where the call changes no file, as far as its arguments tell."""
        old, new = (tuple(facts.named(arguments, names)) for names in (facts.OLD_ARGUMENTS, _NEW))
        patches = tuple(facts.patches(arguments))
        return cls(old, new, patches) if old or new or patches else None

    def files(self, about: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """File by file the old and the new lines, without what is blank around them."""
        if self.old or self.new:
            yield about, _lines(self.old), _lines(self.new)
        for patch in self.patches:
            place, old, new = about, list[str](), list[str]()
            for line in patch.splitlines():
                if found := facts.PATCHED.match(line):
                    if old or new:
                        yield place, old, new
                    place, old, new = found[1], [], []
                elif line[:1] in ("-", " "):
                    old.append(line[1:].strip())
                if line[:1] in ("+", " "):
                    new.append(line[1:].strip())
            if old or new:
                yield place, old, new


def _lines(texts: Iterable[str]) -> list[str]:
    return [line.strip() for text in texts for line in text.splitlines()]


# -- as it stands in a summary: read, written, and which lines were used since -----------------------

_LISTED = re.compile(r"\[entry (\d{1,18})\](:?) ?(.*)")
_COUNT = re.compile(r"  … and [\d,]+ more definitions?")
_CALLED = re.compile(r"[A-Za-z_]\w{0,80}+(?=[(`])")
"""A name that only its place tells from a word of prose: `fold(items)`, or quoted as code."""


class LedgerLine(NamedTuple):
    """The names that an entry showed, or one line of text that it held."""

    entry: int
    place: str
    """The file, or the beginning of the command."""
    text: str
    is_text: bool

    @property
    def id(self) -> str:
        """Names it among the lines of a ledger."""
        return f"{self.entry}: {self.text}"

    @property
    def keys(self) -> frozenset[Key]:
        """What the ledger's index knows it by: its names; of a text, all of it and what it defines."""
        if not self.is_text:
            return frozenset(key for key, _ in names(self.text))
        return frozenset([("line", self.text), *(("identifier", name) for name in defined_in(self.text))])


def ledger_lines(body: str) -> list[LedgerLine]:
    """The lines of a ledger: `[entry 12] src/a.py: name name`, and indented the text below it."""
    found: list[LedgerLine] = []
    entry, place = -1, ""
    for line in body.splitlines():
        if head := _LISTED.fullmatch(line):
            entry, rest = int(head[1]), head[3]
            place, _, named = ("", "", rest) if head[2] else rest.rpartition(": ")
            if named and not (place or head[2]):
                place, named = named, ""
            if named:
                found.append(LedgerLine(entry, place, named, is_text=False))
        elif entry >= 0 and line.startswith("  ") and not _COUNT.fullmatch(line):
            found.append(LedgerLine(entry, place, line.strip(), is_text=True))
    return found


def ledger_items(lines: Iterable[LedgerLine]) -> list[str]:
    """The lines as they are written, an item for each entry and place."""
    items: list[str] = []
    for (entry, place), group in groupby(sorted(lines, key=_order), key=lambda line: line[:2]):
        listed = list(group)
        named = " ".join(line.text for line in listed if not line.is_text)
        head = f"[entry {entry}] {place}".rstrip()
        texts = [line.text for line in listed if line.is_text]
        items.append("\n  ".join([f"{head}: {named}" if named else head, *texts]))
    return items


def _order(line: LedgerLine) -> tuple[int, str, bool]:
    return line.entry, line.place, line.is_text


def used_lines(lines: Iterable[LedgerLine], said: Iterable[BaseMessage]) -> frozenset[str]:
    """The ids of the lines that these messages say: any of the names, the whole text, or what it defines.
    Linear in the messages; names are looked for only in those that hold some letters of one."""
    wanted = [(line.id, line.keys) for line in lines]
    ends = {text.rpartition("/")[2] if kind != "line" else text for _, keys in wanted for kind, text in keys}
    hits = [each for each in said if any(end in text for text in facts.texts(each) for end in ends)]
    called = (name for each in hits for text in facts.texts(each) for name in _CALLED.findall(text))
    keys = said_in(hits) | {("identifier", name) for name in called}
    return frozenset(id for id, of_line in wanted if not keys.isdisjoint(of_line))
