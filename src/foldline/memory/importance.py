"""The importance of units in a view, and their similarity to the task.

Pure. Takes time linear in the length of the text.

Units score points for the user's requests and constraints, plans to which the user agreed, decisions,
failures and their fixes, the newest version of a piece of code, and the newest plan. Other content is less
important: files can be read again, earlier versions have been replaced, and "ok, go on" has no content.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from foldline.protocol import ImagePart, ToolCallPart, UserMessage
from foldline.text.patterns import lazy_pattern
from foldline.text.shorten import shorten
from foldline.view.tokens import estimate_tokens
from foldline.view.units import Unit

from .conversation import is_consent, needs_context
from .cues import REASON, TOP_LEVEL_DEFINITION, UNABLE, UNIT_DECISION, WIDE
from .facts import (
    QUESTION_MARKS,
    both_ends,
    command_arguments,
    constraints,
    errors,
    sentences,
)
from .shell_lines import commands_of
from .todos import todo_list

PointReason = Literal[
    "request", "constraint", "agreed", "decision", "error", "fix", "code", "plan"
]

UnitPoint = tuple[int, PointReason, float]
"""The position of a unit, the reason for which it scores, and its points."""

MOST_POINTS: dict[PointReason, float] = {
    "request": 3,
    "constraint": 8,
    "agreed": 4,
    "decision": 5,
    "error": 6,
    "fix": 3,
    "code": 6,
    "plan": 4,
}
"""Maximum points that one unit can score for each reason."""
WORTH = 2.0
"""Units with fewer points are not important enough to be kept."""

DONE_REQUEST = 1.0
"""Points for an old request that has been carried out."""
RULE = 4.0
DECISION = 1.5
REASONED = 2.5
"""Points for a decision for which a reason is given."""
FAILS = 4.0
"""Points for a command that failed and has not been run again since."""
FAILED = 2.0
"""Points for a command that failed and has been run again."""
NEWEST_FILE = 3.0
NEWEST_NAME = 1.0
"""Points for each name that the code in an answer defines."""

_CURRENT_REQUESTS = 3
"""Number of newest requests that count as the current work."""
_OLDEST = 0.8
"""Factor for the oldest unit. The factor for the newest unit is 1."""
_COMMAND = lazy_pattern(r"/[\w:-]+(?:\s|\Z)")
"""Matches a command such as `/model x`. A request may also begin with a path, which is not matched."""
_SHORT_ANSWER = 40
"""Maximum length, in characters, of an answer that proposes nothing."""


@dataclass(frozen=True, slots=True)
class Importance:
    """A unit's importance score and its age."""

    reasons: dict[PointReason, float] = field(default_factory=dict)
    recency: float = 1.0
    """Factor for the unit's age, from `_OLDEST` to 1 for the newest unit."""

    @property
    def points(self) -> float:
        return sum(self.reasons.values()) * self.recency

    @property
    def rules(self) -> float:
        """The points scored for constraints only."""
        return self.reasons.get("constraint", 0.0) * self.recency


def importance(units: Sequence[Unit]) -> list[Importance]:
    """Return the importance of each unit, in the order of the units."""
    last = max(1, len(units) - 1)
    scores = [
        Importance(recency=_OLDEST + (1 - _OLDEST) * position / last)
        for position in range(len(units))
    ]
    for position, reason, points in _points(units):
        reasons = scores[position].reasons
        reasons[reason] = min(MOST_POINTS[reason], reasons.get(reason, 0) + points)
    return scores


def is_bare_consent(unit: Unit) -> bool:
    """Return whether the user only agrees, and attaches no image."""
    if any(isinstance(part, ImagePart) for part in unit.first.parts):
        return False
    return is_consent(unit.prompt)


def answered_by(units: Sequence[Unit], position: int) -> int | None:
    """Return the position of the answer to which a message replies.

    Args:
        position: the position of the user's message.
    """
    for earlier in range(position - 1, -1, -1):
        if units[earlier].answer.strip():
            return earlier
        if units[earlier].prompt:
            return None
    return None


def _points(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    for position, unit in enumerate(units):
        if isinstance(unit.first, UserMessage):
            yield from _points_of_prompt(units, position)
        for decision in _decisions(unit.answer):
            is_reasoned = REASON.search(decision) is not None
            yield position, "decision", REASONED if is_reasoned else DECISION
    yield from _goals(units)
    yield from _failures(units)
    yield from _newest_versions(units)


# -- prompts and answers -----------------------------------------------------------------------------


def _is_request(unit: Unit) -> bool:
    """Return whether the user requests something.

    A command for the user interface is not a request.
    """
    if not unit.prompt.strip() or _COMMAND.match(unit.prompt):
        return False
    return not is_bare_consent(unit)


def _goals(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    requests = [position for position, unit in enumerate(units) if _is_request(unit)]
    for position in {*requests[:1], *requests[-_CURRENT_REQUESTS:]}:
        yield position, "request", MOST_POINTS["request"]


def _points_of_prompt(units: Sequence[Unit], position: int) -> Iterator[UnitPoint]:
    unit = units[position]
    if unit.prompt and is_bare_consent(unit):
        plan = answered_by(units, position)
        if plan is not None and len(units[plan].answer) > _SHORT_ANSWER:
            yield plan, "agreed", MOST_POINTS["agreed"]
    elif _is_request(unit):
        yield position, "request", DONE_REQUEST
        for rule in constraints(unit.prompt):
            if not rule.endswith(QUESTION_MARKS) and not UNABLE.search(rule):
                yield position, "constraint", RULE


def _decisions(text: str) -> Iterator[str]:
    if UNIT_DECISION.search(text):
        yield from filter(UNIT_DECISION.search, sentences(text))


# -- calls -------------------------------------------------------------------------------------------

_SEARCHED = 20_000
"""Number of characters at each end of an output in which failures are searched for."""


def _failures(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    """Yield failed commands, and the last change before each of them passed.

    A command scores fewer points if it has been run again since. Failed searches score none, because they
    merely found no match.
    """
    open_failures: dict[tuple[str, ...], int] = {}
    last_change = -1
    for position, unit in enumerate(units):
        for call, result in unit.answered_calls:
            commands = _commands(call)
            if not commands:
                continue
            has_failed = bool(errors(both_ends(result.text, _SEARCHED)))
            failure = open_failures.pop(commands, None)
            if failure is not None:
                yield failure, "error", FAILED
                if not has_failed and last_change > failure:
                    yield last_change, "fix", MOST_POINTS["fix"]
            if has_failed:
                open_failures[commands] = position
        if any(True for _ in _changed_files(unit)):
            last_change = position
    for position in open_failures.values():
        yield position, "error", FAILS


def _commands(call: ToolCallPart) -> tuple[str, ...]:
    """Return the commands of a call that have an effect, without their options."""
    commands = commands_of(command_arguments(call.parsed()))
    return tuple(
        " ".join(word for word in command.split() if not word.startswith("-"))
        for command in commands
    )


# -- newest versions ---------------------------------------------------------------------------------

_FENCED = lazy_pattern(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _newest_versions(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    """Yield the newest changes of files, definitions of names, and the newest todo list with open items."""
    changes = {}
    definitions = {}
    plan: int | None = None
    for position, unit in enumerate(units):
        changes.update(dict.fromkeys(_changed_files(unit), position))
        definitions.update(dict.fromkeys(_defined_names(unit.answer), position))
        for call in unit.calls:
            todos = todo_list(call.parsed()) if "todos" in call.arguments else None
            if todos is not None:
                plan = position if any(todo.is_open for todo in todos) else None
    for position in changes.values():
        yield position, "code", NEWEST_FILE
    for position in definitions.values():
        yield position, "code", NEWEST_NAME
    if plan is not None:
        yield plan, "plan", MOST_POINTS["plan"]


def _changed_files(unit: Unit) -> Iterator[str]:
    for result in unit.results:
        if not result.is_error:
            yield from (
                touch.path
                for touch in result.details.files
                if touch.action == "modified"
            )


def _defined_names(text: str) -> Iterator[str]:
    if "```" in text:
        for code in _FENCED.findall(text):
            yield from TOP_LEVEL_DEFINITION.findall(code)


# -- the current task --------------------------------------------------------------------------------

LONGEST_UNIT_TEXT = 380
"""Maximum size of a unit's text, in estimated tokens.

Small embedding models read 512 tokens, and estimates are at most a third too low.
"""
# Maximum number of characters of a prompt or answer, of each call's arguments, and of each result:
_WORDS = 900
_CALL = 240
_RESULT = 500
_REQUESTS = 2
"""Number of newest requests that count as the current task."""
_STEPS = 4
"""Number of newest units whose calls count as the current task."""


class CurrentTask(NamedTuple):
    """The current work, as text with which units are compared."""

    text: str
    """The requests and the newest steps, newest first; may be empty."""
    positions: frozenset[int]
    """Positions of the units that contain the requests and the steps."""


def unit_text(unit: Unit) -> str:
    """Return the text with which a unit is compared.

    It contains the unit's words, its calls, and both ends of each result.
    """
    parts = [shorten(unit.first.text, _WORDS)]
    parts += [f"{call.name} {shorten(call.arguments, _CALL)}" for call in unit.calls]
    parts += [shorten(message.text, _RESULT) for message in unit.messages[1:]]
    return _within_longest("\n".join(part for part in parts if part.strip()))


def current_task(units: Sequence[Unit]) -> CurrentTask:
    """Return the newest requests and the newest steps.

    If a request cannot be understood alone, it is preceded by the answer to which it replies.
    """
    texts = []
    positions = set()
    requests = [at for at, unit in enumerate(units) if unit.prompt.strip()]
    for position in reversed(requests[-_REQUESTS:]):
        prompt = units[position].prompt
        answered = answered_by(units, position) if needs_context(prompt) else None
        if answered is not None:
            texts.append(shorten(units[answered].answer, _WORDS))
            positions.add(answered)
        texts.append(shorten(prompt.strip(), _WORDS))
        positions.add(position)
    newest = range(max(0, len(units) - _STEPS), len(units))
    for position in reversed(newest):
        if units[position].calls:
            texts.append(unit_text(units[position]))
            positions.add(position)
    return CurrentTask(_within_longest("\n".join(texts)), frozenset(positions))


def _within_longest(text: str) -> str:
    text = text[: LONGEST_UNIT_TEXT * 5]
    while (tokens := estimate_tokens(text)) > LONGEST_UNIT_TEXT:
        text = text[: len(text) * LONGEST_UNIT_TEXT // (tokens + 1)]
    return text


# -- similarity --------------------------------------------------------------------------------------

_TERM = lazy_pattern(rf"[{WIDE}]+|[^\W\d{WIDE}][^\W{WIDE}]{{1,60}}")
_PART = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FIRST_WIDE = 0x3040


def similarity(task: str, texts: Sequence[str]) -> list[float]:
    """Return which share of the task's words each text contains, from 0 to 1.

    Rare words have a higher weight.
    """
    task_terms = dict.fromkeys(terms(task))
    text_terms = [frozenset(terms(text)) for text in texts]
    frequency = Counter(term for own_terms in text_terms for term in own_terms)
    rarity = {
        term: math.log((2 + len(texts)) / (1 + frequency[term])) for term in task_terms
    }
    total = sum(rarity.values())
    shared = [
        sum(rarity[term] for term in task_terms if term in own_terms)
        for own_terms in text_terms
    ]
    return [weight / total if total else 0.0 for weight in shared]


def terms(text: str) -> list[str]:
    """Return the words in text and the parts of its identifiers, in lower case."""
    all_terms = []
    for term in _TERM.findall(text):
        if ord(term[0]) >= _FIRST_WIDE:
            all_terms += [term[at : at + 2] for at in range(max(1, len(term) - 1))]
            continue
        all_terms.append(term.lower())
        if _is_compound(term):
            all_terms += [part.lower() for part in _PART.findall(term) if len(part) > 2]
    return all_terms


def _is_compound(term: str) -> bool:
    return "_" in term or not (term.islower() or term.istitle() or term.isupper())
