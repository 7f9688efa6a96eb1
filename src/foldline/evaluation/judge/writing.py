"""Writes the probes of a point, from the raw history alone: the same history and seed give the same ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType

from foldline.context.audit import path_parts
from foldline.context.calls import subject_of
from foldline.context.digest import clip, one_line
from foldline.context.todos import open_todos
from foldline.protocol import AssistantMessage, BaseMessage, UserMessage

from .absent import absent_candidates, superseded_candidates
from .material import Material, Touched
from .normal import normal, same_file
from .probes import Action, Files, Ground, Kind, Probe, Text, leaks
from .recall import Candidate, recall_candidates
from .rubric import worded

QUOTAS: Mapping[Kind, int] = MappingProxyType(
    {
        "recall": 4,
        "artifact": 2,
        "constraint": 2,
        "superseded": 2,
        "absent": 2,
        "decision": 1,
        "continuation": 1,
        "action": 1,
    }
)
"""Probes of each kind at one point, where there is enough to ask for."""
FAR = 20_000
"""Tokens after which a fact counts as long past (LR of evaluation.md §3.1): tails seldom reach so far."""


def write_probes(material: Material, position: int, *, seed: str) -> tuple[Probe, ...]:
    """The probes of one point, by kind in the order of `QUOTAS`; fewer where the session offers less."""
    dice = Random(f"{seed} {position}")
    written: list[Probe] = [
        *_chosen(recall_candidates(material, position), QUOTAS["recall"], material, position, dice),
        *_artifacts(material, position)[: QUOTAS["artifact"]],
        *_chosen(_rules(material, position), QUOTAS["constraint"], material, position, dice),
        *_chosen(superseded_candidates(material, position), QUOTAS["superseded"], material, position, dice),
        *_mixed(absent_candidates(material, position, dice), QUOTAS["absent"]),
        *_decisions(material, position, dice)[: QUOTAS["decision"]],
        *_continuation(material, position),
        *_action(material, position),
    ]
    return tuple(written)


# -- which ones ------------------------------------------------------------------------------------


def _chosen(
    candidates: Sequence[Candidate], count: int, material: Material, position: int, dice: Random
) -> list[Probe]:
    """So many of them: first what the session comes back to later, then what is long past.

    The forms take turns, and no fact is asked for twice. None is answered by the newest request: every view
    holds that one, the floor too.
    """
    newest = _newest_request(material, position)

    def rank(candidate: Candidate) -> tuple[bool, bool, float]:
        needed = material.is_needed_after(candidate.key, position)
        return (not needed, material.age(candidate.key, position) < FAR, dice.random())

    hidden = [
        candidate
        for candidate in candidates
        if newest is None or (candidate.probe.source != newest.index and candidate.key not in newest.text)
    ]
    return list(_mixed(sorted(hidden, key=rank), count))


def _newest_request(material: Material, position: int) -> BaseMessage | None:
    past = material.history[: material.count(position)]
    return next((message for message in reversed(past) if _is_request(message)), None)


def _is_request(message: BaseMessage) -> bool:
    return isinstance(message, UserMessage) and message.origin == "typed"


def _mixed(candidates: Sequence[Candidate], count: int) -> Iterator[Probe]:
    forms: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        forms.setdefault(candidate.form, []).append(candidate)
    keys: set[str] = set()
    sources: set[int] = set()
    while count and forms:
        for form in [*forms]:
            waiting = forms[form]
            while waiting and (waiting[0].key in keys or waiting[0].probe.source in sources):
                waiting.pop(0)
            if not waiting:
                del forms[form]
            elif count:
                chosen = waiting.pop(0)
                keys.add(chosen.key)
                sources |= {chosen.probe.source} if chosen.probe.source >= 0 else set()
                count -= 1
                yield chosen.probe


# -- files -----------------------------------------------------------------------------------------

_MOST_FILES = 60
"""Files of a list that a model can be asked to write down."""


def _artifacts(material: Material, position: int) -> list[Probe]:
    """Which files were changed, and which were only read: lists of what the tools touched."""
    touches = [touch for touch in material.touches if touch.index <= position]
    changed = _files(touch for touch in touches if touch.modified)
    read = _files(touch for touch in touches if not touch.modified)
    only_read = [path for path in read if not any(same_file(path, other) for other in changed)]
    found = []
    for name, files, tools in (
        ("changed-files", changed, {touch.tool for touch in touches if touch.modified}),
        ("read-files", only_read, {touch.tool for touch in touches if not touch.modified}),
    ):
        question = worded(name, tools=", ".join(f"`{tool}`" for tool in sorted(tools)))
        if 2 <= len(files) <= _MOST_FILES:
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


# -- rules -----------------------------------------------------------------------------------------

_HIDDEN_WORDS, _HIDDEN_CHARACTERS = 3, 6
"""What a rule's hidden half has at least: less could be guessed."""


def _rules(material: Material, position: int) -> list[Candidate]:
    """Rules of the user's, to be finished word for word. A question is none, and nor is half a sentence that
    begins like another."""
    rules = [rule for rule in material.rules if rule.index <= position]
    rules = [rule for rule in rules if not rule.text.rstrip().endswith(("?", "？", ":", "："))]
    found = []
    for rule in rules:
        beginning, hidden = _halves(rule.text)
        alike = {normal(other.text) for other in rules if normal(other.text).startswith(normal(beginning))}
        question = worded("constraint", beginning=beginning)
        if hidden and len(alike) == 1 and not leaks(question, truth := Text(hidden)):
            found.append(Candidate(Probe("constraint", question, truth, rule.index), hidden, "rule"))
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


# -- for the judge ---------------------------------------------------------------------------------

_QUOTES = 6
_QUOTED = 300
_REQUEST = (20, 300)
"""Characters of a request that can be recognised by its words."""


def _decisions(material: Material, position: int, dice: Random) -> list[Probe]:
    """What was decided about a request, held against what was said about it then."""
    found = []
    for turn in material.turns:
        quotes = tuple(clip(text, _QUOTED) for index, text in turn.choices if index <= position)
        if turn.index > position or not quotes or len(turn.request) < _REQUEST[0]:
            continue
        question = worded("decision", request=clip(turn.request, _REQUEST[1]))
        truth = Ground(quotes[:_QUOTES])
        if not leaks(question, truth):
            found.append(Probe("decision", question, truth, turn.index))
    return dice.sample(found, len(found))


def _continuation(material: Material, position: int) -> Iterator[Probe]:
    """Where the work stands and what comes next, held against what was done before and after."""
    now = material.count(position)
    past, future = material.history[:now], material.history[now:]
    request = _newest_request(material, position)
    if request is None:
        return
    quotes = [f"The newest request: {clip(one_line(request.text), _QUOTED)}"]
    quotes += [f"Done last: {deed}" for deed in _deeds(past)[-_QUOTES:]]
    quotes += [f"Still open: {item}" for item in open_todos(past)[:_QUOTES]]
    quotes += [f"Done next: {deed}" for deed in _deeds(_turn(future))[:_QUOTES]]
    question = worded("continuation")
    if len(quotes) > 1:
        yield Probe("continuation", question, Ground(tuple(quotes)))


def _deeds(messages: Sequence[BaseMessage]) -> list[str]:
    """What an agent said and called, a line each, the newest last."""
    lines = []
    for message in messages[-40:] if len(messages) > 40 else messages:
        if isinstance(message, AssistantMessage):
            if message.text.strip():
                lines.append(clip(one_line(message.text), _QUOTED))
            lines += [
                clip(f"{call.name} {one_line(subject_of(call).text)}", _QUOTED) for call in message.calls
            ]
    return lines


def _turn(future: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages up to the next request: what comes after it nobody can foresee."""
    for at, message in enumerate(future):
        if isinstance(message, UserMessage):
            return future[:at]
    return future


def _action(material: Material, position: int) -> Iterator[Probe]:
    """The next tool call, where the recorded agent made one before anybody said anything."""
    future = material.history[material.count(position) :]
    if future and isinstance(future[0], AssistantMessage) and future[0].calls:
        call = future[0].calls[0]
        subject = subject_of(call)
        path = subject.text if subject.kind == "path" else ""
        yield Probe("action", worded("action"), Action(call.name, path), future[0].index)
