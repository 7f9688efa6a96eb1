"""Writes the probes of a point, from the raw history alone: the same history and seed give the same ones.

Each has one answer in the raw history, and its question does not hold it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple, TypeVar

from foldline.compaction.strategy import load_prompt
from foldline.context import facts
from foldline.context.calls import subject_of
from foldline.context.digest import clip, one_line
from foldline.context.facts import path_parts, same_words
from foldline.context.todos import open_todos
from foldline.evaluation.record import Messages
from foldline.protocol import AssistantMessage, UserMessage
from foldline.sequences import grouped

from .answers import Absent, Ground, Kind, Place, Probe, Text, leaks, normal, same_file
from .material import GAP, Edited, Material, Saying, Touched, Turn, changes

Piece = TypeVar("Piece", Edited, Saying, Touched, Turn)
QUOTAS: Final[dict[Kind, int]] = {"recall": 4, "superseded": 2, "absent": 2, "decision": 1, "continuation": 1}
"""Probes of each kind at one point, where there is enough to ask for."""
FOLDERS: Final = 1
"""Of the probes of recall, how many at least ask where a file lies."""
FAR: Final = 20_000
"""Tokens after which a fact counts as long past: the verbatim tail of a strategy seldom reaches so far."""
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")


def worded(name: str, /, **values: str) -> str:
    """The text of `prompts/judge-<name>.md` with its places filled.

    Raises:
        FoldlineError: there is no such prompt.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), load_prompt(f"judge-{name}"))


def write_probes(material: Material, position: int, *, seed: str) -> tuple[Probe, ...]:
    """The probes of one point, by kind in the order of `QUOTAS`; fewer where the session offers less."""
    dice = Random(f"{seed} {position}")

    def chosen(candidates: Iterable[Candidate], count: int) -> list[Probe]:
        return _chosen(list(candidates), count, material, position, dice)

    gaps = chosen(_gaps(material, position), QUOTAS["recall"] - FOLDERS)
    return (
        *gaps,
        *chosen(_folders(material, position), QUOTAS["recall"] - len(gaps)),
        *chosen(_changed_values(material, position), QUOTAS["superseded"]),
        *_absent(material, position, dice),
        *_decision(material, position, dice),
        *_continuation(material, position),
    )


# --- which ones ---------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    probe: Probe
    key: str
    """What it asks for, as the history spells it: one probe a key."""


def _candidate(kind: Kind, key: str, question: str, truth: Text | Place, source: int) -> Iterator[Candidate]:
    """A candidate, unless its question gives its answer away."""
    if not leaks(question, truth):
        yield Candidate(Probe(kind, question, truth, source), key)


def _chosen(
    candidates: Sequence[Candidate], count: int, material: Material, position: int, dice: Random
) -> list[Probe]:
    """So many of them: first what the session comes back to later, then what is long past.

    No fact and no entry is asked for twice. None is answered by the newest request: every view holds that
    one, the floor too.
    """
    newest = material.newest_request(position)

    def rank(candidate: Candidate) -> tuple[bool, bool, float]:
        needed = material.is_needed_after(candidate.key, position)
        return (not needed, material.age(candidate.key, position) < FAR, dice.random())

    found: list[Probe] = []
    asked: set[str | int] = set()  # keys, and entries that answers stand in
    if newest is not None:
        candidates = [c for c in candidates if c.probe.source != newest.index and c.key not in newest.text]
    for candidate in sorted(candidates, key=rank):
        if len(found) < count and not asked & {candidate.key, candidate.probe.source}:
            asked |= {candidate.key, candidate.probe.source}
            found.append(candidate.probe)
    return found


def _until(position: int, found: Iterable[Piece]) -> list[Piece]:
    return [piece for piece in found if piece.entry <= position]


# --- recall: gaps in sentences, and where files lie ---------------------------------------------------

_AROUND: Final = 30
"""Characters of a sentence that are left when a fact is taken out of it."""
_FIGURE: Final = re.compile(r"\d{2,}(?:[.,_]\d+)*")


def _gaps(material: Material, position: int) -> Iterator[Candidate]:
    """Sentences with one fact left out, where no other sentence differs from them in that fact alone."""
    sayings = _until(position, material.sayings)
    cuts = (cut for saying in sayings for cut in _cuts(saying.text))
    answers = grouped((normal(line), normal(answer)) for line, answer in cuts)
    for saying in sayings:
        for line, answer in _cuts(saying.text):
            if len(set(answers[normal(line)])) == 1:
                question = worded("recall", speaker=saying.speaker, sentence=line)
                truth = Place(answer) if facts.is_path(answer) else Text(answer)
                yield from _candidate("recall", answer, question, truth, saying.entry)


@lru_cache(maxsize=8192)
def _cuts(sentence: str) -> tuple[tuple[str, str], ...]:
    """The sentence with a gap, and what stood there, for each fact that stands in it once."""
    found = []
    for answer in _facts(sentence):
        around = sentence.replace(answer, GAP)
        stem = same_words(path_parts(answer)[-1].partition(".")[0] if facts.is_path(answer) else answer)
        if around.count(GAP) == 1 and len(around) >= _AROUND and stem and stem not in same_words(around):
            found.append((around, answer))
    return tuple(found)


def _facts(sentence: str) -> Iterator[str]:
    paths = list(facts.paths(sentence))
    yield from (path for path in paths if "." in path_parts(path)[-1].strip("."))
    yield from (name for name in facts.identifiers(sentence) if not any(name in path for path in paths))
    for number in facts.numbers(sentence):
        if not facts.is_path(number.split(":")[0]):
            yield from _FIGURE.findall(number)[-1:]
    yield from facts.hashes(sentence)


def _folders(material: Material, position: int) -> Iterator[Candidate]:
    """Where the files lie that the session read or changed, by their names; only names that are unique."""
    named = grouped((path_parts(touch.path)[-1], touch) for touch in _until(position, material.touches))
    for name, touches in named.items():
        folder = max((touch.path for touch in touches), key=len).rpartition("/")[0]
        parts = path_parts(folder) if folder else ()
        if len(parts) >= 2 and all(same_file(f"{folder}/{name}", touch.path) for touch in touches):
            question, truth = worded("folder", name=name), Place(folder, least=2)
            yield from _candidate("recall", name, question, truth, touches[0].entry)


# --- superseded: values that changed ------------------------------------------------------------------


def _changed_values(material: Material, position: int) -> Iterator[Candidate]:
    """Values in lines of files that edits changed, where the line still stands as the last edit left it."""
    edits = _until(position, material.edits)
    values = grouped(
        ((edit.path, made.around), (nth, made)) for nth, edit in enumerate(edits) for made in changes(edit)
    )
    for (path, around), made_to_it in values.items():
        nth, newest = made_to_it[-1]
        old = dict.fromkeys(value for _, made in made_to_it for value in (made.before, made.after))
        stale = tuple(value for value in old if normal(value) != normal(newest.after))
        gone = any(edit.path == path and edit.takes_away(newest.line) for edit in edits[nth + 1 :])
        if stale and not gone:
            question = worded("superseded", file=path, line=around.strip())
            truth = Text(newest.after, stale)
            yield from _candidate("superseded", newest.after, question, truth, edits[nth].entry)


# --- absent: files that could well be of this session and are not -------------------------------------

_TRIES: Final = 40
"""Made-up names that are looked for before it is given up: most combinations exist nowhere."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]{2,}")


def _absent(material: Material, position: int, dice: Random) -> Iterator[Probe]:
    """Made-up files, asked for in the words in which real ones are: one word of a name is another's."""
    touches = _until(position, material.touches)
    names = sorted({path_parts(touch.path)[-1] for touch in touches})
    words = sorted({word.lower() for name in names for word in _WORD.findall(_stem(name))})
    made_up: dict[str, None] = {}
    for _ in range(_TRIES if len(words) > 1 else 0):
        name = dice.choice(names)
        found = list(_WORD.finditer(_stem(name)))
        if len(found) < 2 or len(made_up) == QUOTAS["absent"]:  # of one word nothing would be left
            continue
        old, word = dice.choice(found), dice.choice(words)
        made = name[: old.start()] + (word if old[0].islower() else word.title()) + name[old.end() :]
        if not material.mentions(_stem(made), position):
            made_up[made] = None
    return (Probe("absent", worded("folder", name=name), Absent(name)) for name in made_up)


def _stem(name: str) -> str:
    """The name of a file without its extensions."""
    return name[: name.index(".", 1)] if "." in name[1:] else name


# --- for the judge ------------------------------------------------------------------------------------

_QUOTES: Final = 6
_QUOTED: Final = 300
_REQUEST: Final = (20, 300)
"""Characters of a request that can be recognised by its words."""
_LOOKED_AT: Final = 40
"""Messages whose tool calls are described."""


def _decision(material: Material, position: int, dice: Random) -> Iterator[Probe]:
    """What was decided about a request, held against what was said about it then."""
    found: list[Probe] = []
    for turn in _until(position, material.turns):
        quotes = tuple(clip(text, _QUOTED) for index, text in turn.choices if index <= position)
        if quotes and len(turn.request) >= _REQUEST[0]:
            question = worded("decision", request=clip(turn.request, _REQUEST[1]))
            found.append(Probe("decision", question, Ground(quotes[:_QUOTES]), turn.entry))
    if found:
        yield dice.choice(found)


def _continuation(material: Material, position: int) -> Iterator[Probe]:
    """Where the work stands and what comes next, held against what was done before and after."""
    now = material.count(position)
    past, future = material.history[:now], material.history[now:]
    request = material.newest_request(position)
    if request is None:
        return
    # What comes after the next request nobody can foresee.
    until = next((at for at, message in enumerate(future) if isinstance(message, UserMessage)), len(future))
    quotes = [f"The newest request: {clip(one_line(request.text), _QUOTED)}"]
    quotes += [f"Done last: {line}" for line in _done(past)[-_QUOTES:]]
    quotes += [f"Still open: {item}" for item in open_todos(past)[:_QUOTES]]
    quotes += [f"Done next: {line}" for line in _done(future[:until])[:_QUOTES]]
    if len(quotes) > 1:
        yield Probe("continuation", worded("continuation"), Ground(tuple(quotes)))


def _done(messages: Messages) -> list[str]:
    """What an agent said and called, a line each, the newest last."""
    lines = []
    for message in messages[-_LOOKED_AT:]:
        if isinstance(message, AssistantMessage):
            said = [message.text] if message.text.strip() else []
            said += [f"{call.name} {subject_of(call).text}" for call in message.calls]
            lines += [clip(one_line(text), _QUOTED) for text in said]
    return lines
