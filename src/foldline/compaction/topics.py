"""Topics: which notes become one milestone, and when. Pure."""

import re
from bisect import insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from foldline.context.facts import paths
from foldline.context.tokens import estimate_tokens

from .hierarchy import Note, Record, joined, size_of
from .turns import parts_of


@dataclass(frozen=True, slots=True)
class Topic:
    """Consecutive notes that become one, in at most `asked` tokens."""

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
"""So many notes on either side of a gap tell whether the topic changes there."""
_WORD = re.compile(r"[A-Za-z_][\w-]{3,40}|[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]{2}")
_NEARLY_ALL = 0.8
"""A word that so many of the notes have tells nothing."""
_LITTLE = 0.1
"""Neighbours with a smaller share of their words in common are about different things."""
_PATH_WEIGHT = 3
"""A file in common says as much as so many words."""


def topics(notes: Sequence[Note], most: int) -> list[tuple[Note, ...]]:
    """The notes divided where neighbours have least in common, files above all; at most so many groups, none
    of them much smaller than the others."""
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
    """What becomes of milestones and notes, so that they take no more than `room` tokens.

    Nothing where there is room. Else older notes become milestones, and the oldest milestones one.
    """
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
