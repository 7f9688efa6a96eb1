"""Writes the probes of a point, from the raw history alone: the same history and seed give the same ones.

Each has one answer in the raw history, and its question does not hold it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import cycle, islice
from random import Random
from typing import Final, NamedTuple, TypeVar

from foldline.compaction.strategy import load_prompt
from foldline.context import facts
from foldline.context.audit import path_parts
from foldline.context.calls import subject_of
from foldline.context.digest import clip, one_line
from foldline.context.todos import open_todos
from foldline.protocol import AssistantMessage, BaseMessage, UserMessage

from .answers import Absent, Action, Files, Ground, Kind, Place, Probe, Text, Truth, leaks, normal, same_file
from .material import (
    GAP,
    Change,
    Edited,
    Material,
    Ran,
    Saying,
    Touched,
    Turn,
    change,
    replaced_lines,
    squeezed,
)

Piece = TypeVar("Piece", Edited, Ran, Saying, Touched, Turn)
QUOTAS: Final[dict[Kind, int]] = {
    "recall": 4, "artifact": 2, "constraint": 2, "superseded": 2, "absent": 2, "decision": 1,
    "continuation": 1, "action": 1,
}  # fmt: skip
"""Probes of each kind at one point, where there is enough to ask for."""
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
    recall = [
        candidate
        for form in (_gaps, _folders, _places_of_names, _outcomes)
        for candidate in form(material, position)
    ]
    return (
        *_chosen(recall, QUOTAS["recall"], material, position, dice),
        *_artifacts(material, position)[: QUOTAS["artifact"]],
        *_chosen(_rules(material, position), QUOTAS["constraint"], material, position, dice),
        *_chosen(superseded(material, position), QUOTAS["superseded"], material, position, dice),
        *_mixed(_absent(material, position, dice), QUOTAS["absent"]),
        *_decisions(material, position, dice)[: QUOTAS["decision"]],
        *_continuation(material, position),
        *_action(material, position),
    )


# --- which ones ---------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    probe: Probe
    key: str
    """What it asks for, as the history spells it: one probe a key."""
    form: str


def _candidate(
    kind: Kind, form: str, key: str, question: str, truth: Truth, source: int
) -> Iterator[Candidate]:
    """A candidate, unless its question gives its answer away."""
    if not leaks(question, truth):
        yield Candidate(Probe(kind, question, truth, source), key, form)


def _chosen(
    candidates: Sequence[Candidate], count: int, material: Material, position: int, dice: Random
) -> list[Probe]:
    """So many of them: first what the session comes back to later, then what is long past.

    The forms take turns, and no fact is asked for twice. None is answered by the newest request: every view
    holds that one, the floor too.
    """
    newest = material.newest_request(position)

    def rank(candidate: Candidate) -> tuple[bool, bool, float]:
        needed = material.is_needed_after(candidate.key, position)
        return (not needed, material.age(candidate.key, position) < FAR, dice.random())

    hidden = [
        candidate
        for candidate in candidates
        if newest is None or (candidate.probe.source != newest.index and candidate.key not in newest.text)
    ]
    return list(_mixed(sorted(hidden, key=rank), count))


def _mixed(candidates: Iterable[Candidate], count: int) -> Iterator[Probe]:
    forms: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        forms[candidate.form].append(candidate)
    asked: set[str | int] = set()  # keys, and entries that answers stand in
    for form in islice(cycle(list(forms)), len(forms) * count):
        fresh = (one for one in forms[form] if not asked & {one.key, one.probe.source})
        if count and (chosen := next(fresh, None)):
            asked |= {chosen.key, *([chosen.probe.source] if chosen.probe.source >= 0 else [])}
            count -= 1
            yield chosen.probe


# --- recall: gaps in sentences ------------------------------------------------------------------------

_AROUND: Final = 30
"""Characters of a sentence that are left when a fact is taken out of it."""
_FIGURE: Final = re.compile(r"\d{2,}(?:[.,_]\d+)*")


def _until(position: int, found: Iterable[Piece]) -> list[Piece]:
    return [piece for piece in found if piece.entry <= position]


def _gaps(material: Material, position: int) -> Iterator[Candidate]:
    """Sentences with one fact left out, where no other sentence differs from them in that fact alone."""
    found: dict[str, set[str]] = defaultdict(set)
    sayings = _until(position, material.sayings)
    for saying in sayings:
        for line, answer in _cuts(saying.text):
            found[normal(line)].add(normal(answer))
    for saying in sayings:
        for line, answer in _cuts(saying.text):
            if len(found[normal(line)]) == 1:
                question = worded("recall", speaker=saying.speaker, sentence=line)
                truth = Place(answer) if facts.is_path(answer) else Text(answer)
                yield from _candidate("recall", "gap", answer, question, truth, saying.entry)


@lru_cache(maxsize=8192)
def _cuts(sentence: str) -> tuple[tuple[str, str], ...]:
    """The sentence with a gap, and what stood there, for each fact that stands in it once."""
    found = []
    for answer in _facts(sentence):
        around = sentence.replace(answer, GAP)
        stem = squeezed(path_parts(answer)[-1].partition(".")[0] if facts.is_path(answer) else answer)
        if around.count(GAP) == 1 and len(around) >= _AROUND and stem and stem not in squeezed(around):
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


# --- recall: files, names and outcomes ----------------------------------------------------------------

_SHORTEST_NAME: Final = 8
"""Letters of a name that is not everywhere."""


def _folders(material: Material, position: int) -> Iterator[Candidate]:
    """Where the files lie that the session read or changed, by their names; only names that are unique."""
    for name, touches in _by_name(material, position).items():
        folder = max((touch.path for touch in touches), key=len).rpartition("/")[0]
        parts = path_parts(folder) if folder else ()
        if len(parts) >= 2 and all(same_file(f"{folder}/{name}", touch.path) for touch in touches):
            question, truth = worded("folder", name=name), Place(folder, least=2)
            yield from _candidate("recall", "folder", name, question, truth, touches[0].entry)


def _by_name(material: Material, position: int) -> Mapping[str, list[Touched]]:
    """The touches of files up to an entry, by the last name of their paths."""
    named: dict[str, list[Touched]] = defaultdict(list)
    for touch in _until(position, material.touches):
        named[path_parts(touch.path)[-1]].append(touch)
    return named


def _places_of_names(material: Material, position: int) -> Iterator[Candidate]:
    """Names of code that edits put into one file and no other."""
    for name, files in _edited_names(material, position).items():
        path = max(files, key=len)
        stem = squeezed(path_parts(path)[-1].partition(".")[0])
        if all(same_file(path, other) for other in files) and stem not in squeezed(name):
            probe = Probe("recall", worded("name", name=name), Place(path), min(files.values()))
            yield Candidate(probe, name, "name")


def _edited_names(material: Material, position: int) -> Mapping[str, Mapping[str, int]]:
    """By name of code: the files that edits put it into, each with the entry that did so first."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for edit in _until(position, material.edits):
        for name in _names(edit.added):
            found[name].setdefault(edit.path, edit.entry)
    return found


@lru_cache(maxsize=8192)
def _names(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in facts.identifiers("\n".join(lines)) if len(name) >= _SHORTEST_NAME)


def _outcomes(material: Material, position: int) -> Iterator[Candidate]:
    """Numbers that all runs of a command report alike."""
    for run, unit, numbers in _reports(material, position):
        if len(set(numbers)) == 1 and len(numbers[-1]) > 1:
            question = worded("outcome", command=run.command, unit=unit)
            yield from _candidate("recall", "outcome", numbers[-1], question, Text(numbers[-1]), run.entry)


def _reports(material: Material, position: int) -> Iterator[tuple[Ran, str, list[str]]]:
    """What the newest run of each command reports: the run, the unit, and its number in all runs so far."""
    runs: dict[str, list[Ran]] = defaultdict(list)
    for run in _until(position, material.runs):
        runs[run.command].append(run)
    for same in runs.values():
        for unit in same[-1].numbers:
            yield same[-1], unit, [run.numbers[unit] for run in same if unit in run.numbers]


# --- superseded: values that changed ------------------------------------------------------------------


def superseded(material: Material, position: int) -> list[Candidate]:
    """All that changed up to a point and stands as it was changed last: lines of files, and outcomes."""
    by_file: dict[str, list[Edited]] = defaultdict(list)
    for edit in _until(position, material.edits):
        by_file["/".join(path_parts(edit.path))].append(edit)
    found = [candidate for edits in by_file.values() for candidate in _changed_lines(edits)]
    for run, unit, numbers in _reports(material, position):
        stale = tuple(dict.fromkeys(number for number in numbers if number != numbers[-1]))
        if stale:
            question = worded("outcome", command=run.command, unit=unit)
            truth, key = Text(numbers[-1], stale), f"{run.command} {unit}"
            found += _candidate("superseded", "outcome", key, question, truth, run.entry)
    return found


def _changed_lines(edits: Sequence[Edited]) -> Iterator[Candidate]:
    values: dict[str, list[tuple[int, Change]]] = defaultdict(list)
    for nth, edit in enumerate(edits):
        for made in _changes(edit):
            values[f"{made.head}{GAP}{made.tail}"].append((nth, made))
    for line, changes in values.items():
        nth, newest = changes[-1]
        shown = f"{newest.head.strip()}{newest.after}{newest.tail.strip()}"
        old = dict.fromkeys(value for _, made in changes for value in (made.before, made.after))
        stale = tuple(value for value in old if normal(value) != normal(newest.after))
        if stale and _stands(edits[nth + 1 :], _squashed(shown)):
            question = worded("superseded", file=edits[nth].path, line=line.strip())
            truth = Text(newest.after, stale)
            yield from _candidate("superseded", "line", newest.after, question, truth, edits[nth].entry)


@lru_cache(maxsize=8192)
def _changes(edit: Edited) -> tuple[Change, ...]:
    return tuple(made for old, new in replaced_lines(edit) if (made := change(old, new)) is not None)


def _stands(later: Sequence[Edited], line: str) -> bool:
    """Whether no later edit of the file takes a line away."""
    return all(
        line in map(_squashed, edit.added) or not (edit.whole or line in map(_squashed, edit.removed))
        for edit in later
    )


@lru_cache(maxsize=8192)
def _squashed(line: str) -> str:
    """A line without its quotation marks and blanks, which a value is given without."""
    return "".join(line.split()).replace('"', "").replace("'", "")


# --- absent: names that could well be of this session and are not -------------------------------------

_TRIES: Final = 40
"""Made-up names that are looked for before it is given up: most combinations exist nowhere."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SHORTEST_WORD: Final = 3


def _absent(material: Material, position: int, dice: Random) -> Iterator[Candidate]:
    """A made-up file and a made-up name of code, asked for in the words in which real ones are asked for."""
    files = sorted(_by_name(material, position))
    names = sorted(_edited_names(material, position))
    for real, question in ((files, "folder"), (names, "name")):
        for name in dict.fromkeys(_made_up(real, [*files, *names], material, position, dice)):
            yield Candidate(Probe("absent", worded(question, name=name), Absent(name)), name, question)


def _made_up(
    real: Sequence[str], donors: Sequence[str], material: Material, position: int, dice: Random
) -> Iterator[str]:
    """Real names with one word of another, that stand nowhere in the session so far."""
    words = sorted({word.lower() for name in donors for word in _WORD.findall(_stem(name))})
    words = [word for word in words if len(word) >= _SHORTEST_WORD and word.isalpha()]
    for _ in range(_TRIES if real and len(words) > 1 else 0):
        name = dice.choice(real)
        made = _with_another_word(name, dice.choice(words), dice)
        if made != name and not material.mentions(_stem(made), position):
            yield made


def _with_another_word(name: str, word: str, dice: Random) -> str:
    """The name with one of its words replaced, in its own way of writing."""
    stem = _stem(name)
    found = [match for match in _WORD.finditer(stem) if len(match[0]) >= _SHORTEST_WORD]
    if len(found) < 2:  # of a name of one word nothing would be left
        return name
    old = dice.choice(found)
    if old[0].isupper():
        word = word.upper()
    elif old[0][0].isupper():
        word = word.capitalize()
    return stem[: old.start()] + word + stem[old.end() :] + name[len(stem) :]


def _stem(name: str) -> str:
    """A name without its folder and extension."""
    last = path_parts(name)[-1]
    return last[: last.index(".", 1)] if "." in last[1:] else last


# --- files --------------------------------------------------------------------------------------------

_MOST_FILES: Final = 60
"""Files of a list that a model can be asked to write down."""


def _artifacts(material: Material, position: int) -> list[Probe]:
    """Which files were changed, and which were only read: lists of what the tools touched."""
    touches = _until(position, material.touches)
    changed = _files(touch for touch in touches if touch.modified)
    read = _files(touch for touch in touches if not touch.modified)
    only_read = [path for path in read if not any(same_file(path, other) for other in changed)]
    found = []
    for name, files, modified in (("changed-files", changed, True), ("read-files", only_read, False)):
        if 2 <= len(files) <= _MOST_FILES:
            tools = sorted({touch.tool for touch in touches if touch.modified == modified})
            question = worded(name, tools=", ".join(f"`{tool}`" for tool in tools))
            found.append(Probe("artifact", question, Files(tuple(files))))
    return found


def _files(touches: Iterable[Touched]) -> list[str]:
    """The files, each once by its longest path: an absolute and a relative path may name one file."""
    files: list[str] = []
    paths = dict.fromkeys(touch.path for touch in touches)
    for path in sorted(paths, key=lambda path: -len(path_parts(path))):
        if not any(same_file(path, file) for file in files):
            files.append(path)
    return sorted(files)


# --- rules --------------------------------------------------------------------------------------------

_HIDDEN_WORDS, _HIDDEN_CHARACTERS = 3, 6
"""What a rule's hidden half has at least: less could be guessed."""


def _rules(material: Material, position: int) -> list[Candidate]:
    """Rules of the user's, to be finished word for word. A question is none, and nor is half a sentence that
    begins like another."""
    rules = [
        rule
        for rule in _until(position, material.rules)
        if not rule.text.rstrip().endswith(("?", "？", ":", "："))
    ]
    found: list[Candidate] = []
    for rule in rules:
        beginning, hidden = _halves(rule.text)
        alike = {normal(other.text) for other in rules if normal(other.text).startswith(normal(beginning))}
        if hidden and len(alike) == 1:
            question = worded("constraint", beginning=beginning)
            found += _candidate("constraint", "rule", hidden, question, Text(hidden), rule.entry)
    return found


def _halves(sentence: str) -> tuple[str, str]:
    """A sentence in two; nothing hidden where it is too short for that."""
    words = sentence.split()
    if len(words) >= 2 * _HIDDEN_WORDS:
        middle = len(words) // 2
        return " ".join(words[:middle]), " ".join(words[middle:])
    if sum(map(_is_wide, sentence)) >= 2 * _HIDDEN_CHARACTERS:
        middle = len(sentence) // 2
        while middle < len(sentence) and not _is_wide(sentence[middle - 1]):  # not within a Latin word
            middle += 1
        return sentence[:middle], sentence[middle:]
    return sentence, ""


def _is_wide(char: str) -> bool:
    return ord(char) > 0x2E80


# --- for the judge ------------------------------------------------------------------------------------

_QUOTES: Final = 6
_QUOTED: Final = 300
_REQUEST: Final = (20, 300)
"""Characters of a request that can be recognised by its words."""
_LOOKED_AT: Final = 40
"""Messages of which is told what was done in them."""


def _decisions(material: Material, position: int, dice: Random) -> list[Probe]:
    """What was decided about a request, held against what was said about it then."""
    found: list[Candidate] = []
    for turn in _until(position, material.turns):
        quotes = tuple(clip(text, _QUOTED) for index, text in turn.choices if index <= position)
        if quotes and len(turn.request) >= _REQUEST[0]:
            question = worded("decision", request=clip(turn.request, _REQUEST[1]))
            found += _candidate("decision", "", "", question, Ground(quotes[:_QUOTES]), turn.entry)
    return [candidate.probe for candidate in dice.sample(found, len(found))]


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


def _done(messages: Sequence[BaseMessage]) -> list[str]:
    """What an agent said and called, a line each, the newest last."""
    lines = []
    for message in messages[-_LOOKED_AT:]:
        if isinstance(message, AssistantMessage):
            if message.text.strip():
                lines.append(clip(one_line(message.text), _QUOTED))
            lines += [
                clip(f"{call.name} {one_line(subject_of(call).text)}", _QUOTED) for call in message.calls
            ]
    return lines


def _action(material: Material, position: int) -> Iterator[Probe]:
    """The next tool call, where the recorded agent made one before anybody said anything."""
    future = material.history[material.count(position) :]
    if future and isinstance(future[0], AssistantMessage) and future[0].calls:
        call = future[0].calls[0]
        subject = subject_of(call)
        path = subject.text if subject.kind == "path" else ""
        yield Probe("action", worded("action"), Action(call.name, path), future[0].index)
