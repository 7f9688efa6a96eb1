"""The upper levels of the hierarchy: notes of turns, milestones of topics, the text that holds them. Pure.

A summary made of levels reads: the usual sections over all, `## Milestones` of what lies far back, `## Turns`
with a note on each newer turn. The next fold reads them back from this text, also after a restart.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from foldline.context.quoting import within
from foldline.context.tokens import estimate_tokens

MILESTONES, TURNS = "## Milestones", "## Turns"
EARLIER = -1
"""The index of what no entry of this text tells: a summary that was there before."""

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
        """The newest entry it tells of."""
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
    """The record within so many tokens. Milestones give way first, then notes of turns, then the overview;
    in each, the longest lose their last lines."""
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
    """What each may take so that together they take no more: the small ones all they need, the large ones
    the same."""
    allowed = list(sizes)
    left, count = room, len(sizes)
    for place in sorted(range(len(sizes)), key=sizes.__getitem__):
        allowed[place] = min(sizes[place], max(1, left // count))
        left -= allowed[place]
        count -= 1
    return allowed
