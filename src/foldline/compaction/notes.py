"""Notes of turns, milestones of topics, and the summary text that holds them. Pure."""

import re
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import ClassVar

from foldline.context.digest import within
from foldline.context.facts import paths
from foldline.context.tokens import estimate_tokens

from .turns import parts_of

MILESTONES, TURNS = "## Milestones", "## Turns"
EARLIER = -1
"""The index of what is from no entry of this text: a summary that was there before."""

_HEADED = re.compile(r"^### (?:Entries (\d+)–(\d+)|Entry (\d+)|Entries up to (\d+)|Earlier)$")
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t]+(.*\S)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Note:
    """What is left of the entries from `first` to `last`."""

    text: str
    first: int = EARLIER
    last: int = EARLIER

    @property
    def heading(self) -> str:
        if self.last == EARLIER:
            return "### Earlier"
        if self.first == EARLIER:
            return f"### Entries up to {self.last}"
        if self.first == self.last:
            return f"### Entry {self.first}"
        return f"### Entries {self.first}–{self.last}"

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.rendered()) + 1

    def rendered(self) -> str:
        return f"{self.heading}\n{self.text}"


def flat(text: str) -> str:
    """The text of a note: its own headings made bold, so that none passes for one of ours."""
    return _HEADING.sub(r"**\1**", text).strip()


def joined(notes: Sequence[Note]) -> str:
    return "\n\n".join(note.rendered() for note in notes)


def size_of(notes: Iterable[Note]) -> int:
    """In estimated tokens."""
    return sum(note.tokens for note in notes)


# -- the text ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """A summary by its levels."""

    overview: str = ""
    milestones: tuple[Note, ...] = ()
    turns: tuple[Note, ...] = ()

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.rendered())

    @property
    def last(self) -> int:
        """The newest entry it is about."""
        return max((note.last for note in (*self.milestones, *self.turns)), default=EARLIER)

    def rendered(self) -> str:
        parts = [self.overview.strip()]
        if self.milestones:
            parts.append(f"{MILESTONES}\n{joined(self.milestones)}")
        if self.turns:
            parts.append(f"{TURNS}\n{joined(self.turns)}")
        return "\n\n".join(part for part in parts if part)


def overview_in(text: str) -> str:
    """A text without milestones and notes of turns; itself where nothing else would be left."""
    return (parsed(text).overview if _has_levels(text) else "") or text.strip()


def _has_levels(text: str) -> bool:
    lines = text.splitlines()
    return MILESTONES in lines or TURNS in lines


def parsed(summary: str) -> Record:
    """A summary read back by its levels. One without them, of another strategy, is its oldest milestone."""
    if not _has_levels(summary):
        return Record(milestones=(Note(flat(summary)),) if summary.strip() else ())
    overview: list[str] = []
    levels: dict[str, list[Note]] = {MILESTONES: [], TURNS: []}
    part = ""
    for line in summary.splitlines():
        if line.startswith("## "):
            part = line
        if part not in levels:
            overview.append(line)
        elif headed := _HEADED.match(line):
            first, last = headed[1] or headed[3], headed[2] or headed[3] or headed[4]
            levels[part].append(Note("", int(first or EARLIER), int(last or EARLIER)))
        elif line != part:
            notes = levels[part] or [Note("")]
            levels[part] = [*notes[:-1], replace(notes[-1], text=f"{notes[-1].text}\n{line}")]
    milestones, turns = (_with_text(levels[part]) for part in (MILESTONES, TURNS))
    return Record("\n".join(overview).strip(), milestones, turns)


def _with_text(notes: Sequence[Note]) -> tuple[Note, ...]:
    trimmed = (replace(note, text=note.text.strip()) for note in notes)
    return tuple(note for note in trimmed if note.text)


# -- what does not fit ---------------------------------------------------------------------------------

_LEAST_NOTE = 24
"""Tokens below which a note is joined to its neighbour instead of being cut further."""
_LEAST_MILESTONES, _LEAST_TURNS = 0.1, 0.25
"""Of the whole, what milestones and notes of turns keep where a model wrote more than it was asked for."""


def fitted(record: Record, limit: int) -> Record:
    """The record within so many tokens: milestones give way first, then notes of turns, then the overview."""
    if record.tokens <= limit:
        return record
    beside = estimate_tokens(f"{MILESTONES}\n{TURNS}\n") + 4
    limit = max(1, limit - beside)
    written = estimate_tokens(record.overview)
    turns = size_of(record.turns)
    milestones = shrunk(record.milestones, max(limit - written - turns, int(limit * _LEAST_MILESTONES)))
    kept = shrunk(record.turns, max(limit - written - size_of(milestones), int(limit * _LEAST_TURNS)))
    overview = _short_overview(record.overview, limit - size_of(milestones) - size_of(kept))
    return Record(overview, milestones, kept)


def shrunk(notes: Sequence[Note], room: int) -> tuple[Note, ...]:
    """The notes within so many tokens: the oldest are joined where there are too many, long ones cut."""
    if size_of(notes) <= room:
        return tuple(notes)
    made = list(notes)
    while len(made) > 1 and room // len(made) < _LEAST_NOTE:
        made[:2] = [Note(f"{made[0].text}\n{made[1].text}", made[0].first, made[1].last)]
    allowed = _levelled([note.tokens for note in made], room)
    cut = (_cut(note, most) for note, most in zip(made, allowed, strict=True))
    return tuple(note for note in cut if note.text)


def _cut(note: Note, tokens: int) -> Note:
    if note.tokens <= tokens:
        return note
    return replace(note, text=_first_lines(note.text, tokens - estimate_tokens(note.heading) - 2))


def _first_lines(text: str, tokens: int) -> str:
    """Whole lines from the beginning as far as they fit, the first one shortened rather than left out."""
    kept: list[str] = []
    for line in text.splitlines():
        cost = estimate_tokens(line) + 1
        if cost > tokens:
            if tokens > 8 or not kept:
                kept.append(within(line, max(1, tokens - 2)))
            break
        kept.append(line)
        tokens -= cost
    return "\n".join(kept)


def _short_overview(text: str, tokens: int) -> str:
    """Each section cut to what is left for it, its heading always there."""
    if estimate_tokens(text) <= tokens:
        return text
    sections = re.split(r"\n(?=#{1,6} )", text)
    allowed = _levelled([estimate_tokens(section) + 1 for section in sections], tokens)
    return "\n".join(_first_lines(text, most) for text, most in zip(sections, allowed, strict=True))


def _levelled(sizes: Sequence[int], room: int) -> list[int]:
    """What each may take in this room: the small ones all they need, the large ones the same."""
    allowed = list(sizes)
    left, count = room, len(sizes)
    for place in sorted(range(len(sizes)), key=sizes.__getitem__):
        allowed[place] = min(sizes[place], max(1, left // count))
        left -= allowed[place]
        count -= 1
    return allowed


@dataclass(frozen=True, slots=True)
class Topic:
    """Consecutive notes that become one, in at most `asked` tokens."""

    level: ClassVar = "topic"
    """Its tag and its prompt."""
    notes: tuple[Note, ...]
    asked: int

    @property
    def stays(self) -> bool:
        """Whether it is one note that is short enough: nobody need be asked."""
        return len(self.notes) == 1 and self.size <= self.asked

    @property
    def size(self) -> int:
        return size_of(self.notes)

    @property
    def text(self) -> str:
        return joined(self.notes)

    @property
    def first(self) -> int:
        return min(note.first for note in self.notes)

    @property
    def last(self) -> int:
        return max(note.last for note in self.notes)

    def parts(self, room: int) -> list["Topic"]:
        """Two topics of half the notes each, or a single note in parts that fit the room."""
        if len(self.notes) > 1:
            middle, half = len(self.notes) // 2, max(1, self.asked // 2)
            return [Topic(self.notes[:middle], half), Topic(self.notes[middle:], half)]
        [note] = self.notes
        texts = list(parts_of(note.text, max(1, room - estimate_tokens(note.heading) - 2)))
        return [Topic((replace(note, text=text),), max(1, self.asked // len(texts))) for text in texts]


LEAST_MILESTONE = 120
"""Tokens below which a milestone says too little to be one of its own."""
_NEAR = 3
"""So many notes on either side of a gap decide whether the topic changes there."""
_WORD = re.compile(r"[A-Za-z_][\w-]{3,40}|[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]{2}")
_NEARLY_ALL = 0.8
"""A word that so many of the notes have separates nothing."""
_LITTLE = 0.1
"""Neighbours with a smaller share of their words in common are about different things."""
_PATH_WEIGHT = 3
"""A file in common says as much as so many words."""


def topics(notes: Sequence[Note], most: int) -> list[tuple[Note, ...]]:
    """The notes in at most so many groups of like size, divided where neighbours have least in common."""
    if not notes:
        return []
    shares = _in_common(notes)
    usual = sum(shares) / max(1, len(notes) - 1)
    gaps = [gap for gap in range(1, len(notes)) if shares[gap] < max(usual, _LITTLE)]
    ends = [0, *accumulate(note.tokens for note in notes)]
    least = ends[-1] / (2 * max(1, most))
    cuts = [0, len(notes)]
    for gap in sorted(gaps, key=shares.__getitem__):
        if len(cuts) <= most and all(abs(ends[gap] - ends[cut]) >= least for cut in cuts):
            insort(cuts, gap)
    return [tuple(notes[start:end]) for start, end in pairwise(cuts)]


def _in_common(notes: Sequence[Note]) -> list[float]:
    """By position of a gap: how much of the words before and after it is the same."""
    words = [_words(note.text) for note in notes]
    counted = Counter(word for found in words for word in found)
    common = {word for word, count in counted.items() if count > max(3, _NEARLY_ALL * len(notes))}
    shares = [0.0]
    for gap in range(1, len(notes)):
        before = set().union(*words[max(0, gap - _NEAR) : gap]) - common
        after = set().union(*words[gap : gap + _NEAR]) - common
        least = min(_weight(before), _weight(after))
        shares.append(_weight(before & after) / least if least else float(before == after))
    return shares


def _words(text: str) -> set[str]:
    return {*paths(text), *(word.casefold() for word in _WORD.findall(text))}


def _weight(words: set[str]) -> int:
    return sum(_PATH_WEIGHT if "/" in word or "." in word else 1 for word in words)


# -- promotion ---------------------------------------------------------------------------------------

_TURN_SHARE, _OLD_SHARE = 0.55, 0.5
"""Of the room for milestones and notes: what the newest notes keep where it is too small for all; and of
what is then left, how much the milestones there are may keep."""


@dataclass(frozen=True, slots=True)
class Promotion:
    topics: tuple[Topic, ...]
    """Each becomes a milestone, oldest first; those that stay are among them."""
    turns: tuple[Note, ...]
    """Notes that stay as they are: the newest."""


def promotion(record: Record, room: int) -> Promotion:
    """Milestones and notes in `room` tokens: older notes become milestones, the oldest of them one."""
    old, turns = record.milestones, record.turns
    if size_of(old) + size_of(turns) <= room:
        return Promotion(tuple(Topic((note,), note.tokens) for note in old), turns)
    kept = newest(turns, int(room * _TURN_SHARE))
    older = turns[: len(turns) - len(kept)]
    left = max(1, room - size_of(kept))
    for_old = min(size_of(old), max(int(left * _OLD_SHARE), left - size_of(older)))
    made = [*_old_topics(old, for_old), *_new_topics(older, left - for_old)]
    return Promotion(tuple(made), kept)


def newest(notes: tuple[Note, ...], room: int) -> tuple[Note, ...]:
    """The newest notes that fit; at least one, where there is any."""
    start = len(notes)
    while start > 0 and notes[start - 1].tokens <= room:
        start -= 1
        room -= notes[start].tokens
    return notes[min(start, len(notes) - 1) :] if notes else notes


def _old_topics(notes: tuple[Note, ...], room: int) -> Iterator[Topic]:
    """Where all are too much, the newer half of the room stays as it is, and the others become one."""
    stay = notes if size_of(notes) <= room else newest(notes, room // 2)
    merged = notes[: len(notes) - len(stay)]
    if merged:
        yield Topic(merged, max(1, room - size_of(stay)))
    yield from (Topic((note,), note.tokens if merged else room) for note in stay)


def _new_topics(notes: tuple[Note, ...], room: int) -> Iterator[Topic]:
    if not notes:
        return
    share = room / size_of(notes)
    for group in topics(notes, max(1, room // LEAST_MILESTONE)):
        yield Topic(group, max(1, int(share * size_of(group))))
