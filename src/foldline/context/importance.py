"""Importance of the units of a view, and their nearness to the task. Pure, deterministic, linear in the text.

Points are for the user's requests and constraints, plans the user agreed to, decisions, failures and their
fixes, the newest version of a piece of code, the newest plan. What was read can be read again, an earlier
version has been replaced, and "ok, go on" says nothing.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from foldline.protocol import AssistantMessage, ImagePart, ToolCallPart, ToolResultMessage, UserMessage

from .budget import Unit
from .conversation import shorten
from .facts import command_arguments, commands_of, constraints, errors, sentences, todos
from .permissions import is_consent, needs_context
from .todos import todo_list
from .tokens import estimate_tokens

PointReason = Literal[
    "request", "wish", "constraint", "agreed", "decision", "error", "fix", "code", "plan", "report", "stumble"
]

UnitPoint = tuple[int, PointReason, float]
"""The place of a unit, and what it gets points for."""

MOST_POINTS: dict[PointReason, float] = {
    "request": 3,
    "wish": 2,
    "constraint": 8,
    "agreed": 4,
    "decision": 5,
    "error": 6,
    "fix": 3,
    "code": 6,
    "plan": 4,
    "report": 1,
    "stumble": 1,
}
"""What one unit can get for each reason."""
WORTH = 2.0
"""A unit with fewer points is not kept for its own sake."""

DONE_REQUEST = 1.0
"""A request from long ago: what it asks for is done, or was asked for again."""
RULE = 4.0
DECISION = 1.5
REASONED = 2.5
"""A decision with its reason."""
FAILS = 4.0
"""A command that failed and has not been run again."""
FAILED = 2.0
"""One that has."""
QUOTED = 3.0
"""A failure the user reports."""
NEWEST_FILE = 3.0
NEWEST_NAME = 1.0
"""Code in an answer, for each name it defines."""

_AT_HAND = 3
"""So many requests, the newest ones, belong to what is worked on now."""
_OLDEST = 0.8
"""Of two units that matter as much, the newer one is worth more: the oldest one gets this share."""
_COMMAND = re.compile(r"/[\w:-]+(?:\s|\Z)")
"""`/model x`; a request may begin with a path."""
_TELLING = 40
"""Characters of a last answer from which on it reports something."""


@dataclass(frozen=True, slots=True)
class Importance:
    """How much a unit matters, and why."""

    reasons: dict[PointReason, float] = field(default_factory=dict)
    recency: float = 1.0
    """1 for the newest unit."""
    empty: bool = False
    """Whether it says nothing but what it has points for: it only agrees, or was asked or called again."""

    @property
    def points(self) -> float:
        return sum(self.reasons.values()) * self.recency

    @property
    def rules(self) -> float:
        """What of the points is for constraints."""
        return self.reasons.get("constraint", 0.0) * self.recency


def importance(units: Sequence[Unit]) -> list[Importance]:
    """How much each of these units matters, in their order."""
    reasons: list[dict[PointReason, float]] = [{} for _ in units]
    for place, reason, points in _points(units):
        reasons[place][reason] = min(MOST_POINTS[reason], reasons[place].get(reason, 0) + points)
    last = max(1, len(units) - 1)
    empty = {*_called_again(units), *_asked_again(units)}
    return [
        Importance(found, _OLDEST + (1 - _OLDEST) * place / last, place in empty)
        for place, found in enumerate(reasons)
    ]


def is_bare_consent(unit: Unit) -> bool:
    pictured = any(isinstance(part, ImagePart) for part in unit.first.parts)
    return not pictured and is_consent(unit.asked)


def answered_by(units: Sequence[Unit], place: int) -> int | None:
    """The unit with the words that the user's message at this place answers; None where there are none."""
    for before in range(place - 1, -1, -1):
        if units[before].said.strip():
            return before
        if units[before].asked:
            return None
    return None


def _points(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    for place, unit in enumerate(units):
        match unit.first:
            case UserMessage(origin="typed" | "shell"):
                yield from _from_user(units, place)
            case AssistantMessage():
                yield from _from_assistant(units, place)
            case _:
                pass
    yield from _goals(units)
    yield from _failures(units)
    yield from _versions(units)
    yield from _plans(units)


# -- what was said -----------------------------------------------------------------------------------


def _asks(unit: Unit) -> bool:
    """Whether the user asks for something here; a command of the interface asks the model for nothing."""
    return bool(unit.asked.strip()) and not _COMMAND.match(unit.asked) and not is_bare_consent(unit)


def _asked_again(units: Sequence[Unit]) -> Iterator[int]:
    newest = {unit.asked: place for place, unit in enumerate(units) if unit.asked}
    for place, unit in enumerate(units):
        if unit.asked and (newest[unit.asked] != place or is_bare_consent(unit)):
            yield place


def _goals(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    asked = [place for place, unit in enumerate(units) if _asks(unit)]
    for place in dict.fromkeys([*asked[:1], *asked[-_AT_HAND:]]):
        yield place, "request", MOST_POINTS["request"]


def _from_user(units: Sequence[Unit], place: int) -> Iterator[UnitPoint]:
    unit = units[place]
    if unit.asked and is_bare_consent(unit):
        answered = answered_by(units, place)
        if answered is not None and len(units[answered].said) > _TELLING:
            yield answered, "agreed", MOST_POINTS["agreed"]
        return
    if _asks(unit):
        yield place, "request", DONE_REQUEST
        if _WISHES.search(unit.asked):
            yield place, "wish", MOST_POINTS["wish"]
        yield from (
            (place, "constraint", RULE)
            for rule in constraints(unit.asked)
            if not rule.endswith(("?", "？")) and not _WONDERS.search(rule)
        )
    yield from ((place, "error", QUOTED) for _ in reported(unit.first.text)[:1])


_WISHES = re.compile(
    r"\b(?:should|shouldn['’]?t|needs? to|instead|actually|rather|i (?:want|would|meant)|i['’]d|wrong|undid|"
    r"undo|revert(?:ed)?|try again|not what|no more)\b|^no\b|"
    r"应该|不对|错了|改成|别|想要|希望|不是|違|べき|아니",
    re.IGNORECASE,
)
"""How the user wants it to be, or does not."""
_WONDERS = re.compile(r"\bi (?:don['’]?t|do not|can['’]?t|cannot|can not)\b|我(?:不|没)", re.IGNORECASE)


def _from_assistant(units: Sequence[Unit], place: int) -> Iterator[UnitPoint]:
    said = units[place].said
    for decided in _decisions(said):
        yield place, "decision", REASONED if _BECAUSE.search(decided) else DECISION
    ends = place + 1 == len(units) or isinstance(units[place + 1].first, UserMessage)
    if ends and len(said) > _TELLING:
        yield place, "report", MOST_POINTS["report"]


_DECIDES = re.compile(
    r"\b(?:decided|decision|chose|instead of|rather than|(?:we|i)(?:['’]ll| will) (?:use|keep|go with)|"
    r"going with|trade-?off|root cause|turn(?:s|ed) out|caused by|conclusion|concluded|"
    r"the (?:real )?(?:fix|cause|problem|issue|bug|reason) (?:is|was))\b|"
    r"决定|改用|改为|采用|选择|方案|结论|原因|問題は|決め|結論|결정|원인|결론",
    re.IGNORECASE,
)
_BECAUSE = re.compile(
    r"\b(?:because|since|so that|therefore|as it|due to|otherwise|which means|to avoid|caused by|"
    r"(?:cause|problem|issue|bug|reason) (?:is|was))\b|"
    r"因为|由于|所以|因此|以免|避免|否则|原因|ため|ので|때문",
    re.IGNORECASE,
)


def _decisions(text: str) -> Iterator[str]:
    if _DECIDES.search(text):
        yield from (sentence for sentence in sentences(text) if _DECIDES.search(sentence))


_LOOKED_AT = 20_000
"""Characters at either end of an output that are searched for failures."""


def _called_again(units: Sequence[Unit]) -> Iterator[int]:
    """Tool groups whose every call was made again later: what came back then is newer."""
    later: set[tuple[str, ...]] = set()
    for place in range(len(units) - 1, -1, -1):
        calls = {
            commands_of(command_arguments(call.parsed())) or (call.name, call.arguments)
            for call in units[place].calls
        }
        if calls and calls <= later:
            yield place
        later |= calls


# -- failures and fixes --------------------------------------------------------------------------------


def _failures(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    """Commands that failed, for less once the same has run again, and the last change before it ran well.
    Commands that only look fail to say "nothing found"."""
    open_failures: dict[tuple[str, ...], int] = {}
    changed_at = -1
    for place, unit in enumerate(units):
        for call, result in _runs(unit):
            did = commands_of(command_arguments(call.parsed()))
            if not did:
                if result.is_error and not any(command_arguments(call.parsed())):
                    yield place, "stumble", MOST_POINTS["stumble"]
                continue
            did = tuple(map(_without_options, did))
            failed = bool(reported(result.text))
            since = open_failures.pop(did, None)
            if since is not None:
                yield since, "error", FAILED
                if not failed and changed_at > since:
                    yield changed_at, "fix", MOST_POINTS["fix"]
            if failed:
                open_failures[did] = place
        if any(True for _ in _changed(unit)):
            changed_at = place
    yield from ((place, "error", FAILS) for place in open_failures.values())


def _runs(unit: Unit) -> Iterator[tuple[ToolCallPart, ToolResultMessage]]:
    results = {result.call_id: result for result in unit.results}
    for call in unit.calls:
        if call.call_id in results:
            yield call, results[call.call_id]


def _without_options(command: str) -> str:
    return " ".join(word for word in command.split() if not word.startswith("-"))


def reported(text: str) -> tuple[str, ...]:
    """The lines that report failures."""
    if len(text) > 2 * _LOOKED_AT:
        text = f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    return errors(text)


# -- versions ------------------------------------------------------------------------------------------


def _versions(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    """The newest change of each file, and the newest code in an answer that defines a name."""
    newest: dict[str, int] = {}
    for place, unit in enumerate(units):
        newest.update((f"file {path}", place) for path in _changed(unit))
        newest.update((f"name {name}", place) for name in _defined(unit.said))
    versions: dict[int, float] = defaultdict(float)
    for key, place in newest.items():
        versions[place] += NEWEST_FILE if key.startswith("file") else NEWEST_NAME
    yield from ((place, "code", points) for place, points in versions.items())


def _changed(unit: Unit) -> Iterator[str]:
    for result in unit.results:
        if not result.is_error:
            yield from (touch.path for touch in result.details.files if touch.action == "modified")


_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DEFINES = re.compile(
    r"^[ \t]{0,12}(?:(?:export|default|pub|async|static|public|private)[ ]+){0,3}"
    r"(?:def|class|function|fn|func|struct|interface|type|enum|trait)[ ]+(\w{2,80})",
    re.MULTILINE,
)


def _defined(text: str) -> Iterator[str]:
    if "```" in text:
        for block in _FENCED.finditer(text):
            yield from _DEFINES.findall(block[1])


# -- plans ---------------------------------------------------------------------------------------------


def _plans(units: Sequence[Unit]) -> Iterator[UnitPoint]:
    """The newest todo list, if something on it is open, and task lists in words."""
    newest = -1
    for place, unit in enumerate(units):
        if any("todos" in call.arguments and todo_list(call.parsed()) is not None for call in unit.calls):
            newest = place
        text = unit.asked or unit.said
        if ("[ ]" in text or "TODO" in text or "FIXME" in text or "待" in text) and todos(text):
            yield place, "plan", MOST_POINTS["plan"] / 2
    kept_by = units[newest].calls if newest >= 0 else ()
    if any(todo.is_open for call in kept_by for todo in todo_list(call.parsed()) or ()):
        yield newest, "plan", MOST_POINTS["plan"]


LONGEST_UNIT_TEXT = 380
"""Estimated tokens, within the 512 that small embedding models read: estimates are a third too low at most.
"""
_SAID, _CALL, _RESULT = 900, 240, 500
"""Characters of what was said, of each call's arguments, and of each result."""
_REQUESTS, _STEPS = 2, 4
"""The newest requests, and the newest units: together the task at hand."""


class CurrentTask(NamedTuple):
    """What is being worked on."""

    requests: str
    """The newest first; may be empty."""
    steps: str
    """Likewise."""
    asked_at: frozenset[int]
    """Places of the units the requests come from."""
    worked_at: frozenset[int]
    """Places of the steps."""


def unit_text(unit: Unit) -> str:
    """What a unit is about: what was said, what was called, the ends of what came back."""
    return _within_longest("\n".join(part for part in _parts(unit) if part.strip()))


def current_task(units: Sequence[Unit]) -> CurrentTask:
    """What is being worked on: the newest requests, with what they answer, and the newest steps."""
    asked: list[str] = []
    places: set[int] = set()
    for place in range(len(units) - 1, -1, -1):
        if len(asked) >= _REQUESTS:
            break
        if text := units[place].asked.strip():
            answered = answered_by(units, place) if needs_context(text) else None
            if answered is not None:
                asked.append(shorten(units[answered].said, _SAID))
            asked.append(shorten(text, _SAID))
            places |= {place} if answered is None else {place, answered}
    steps = [place for place in range(max(0, len(units) - _STEPS), len(units)) if units[place].calls]
    worked = [unit_text(units[place]) for place in reversed(steps)]
    return CurrentTask(
        _within_longest("\n".join(asked)),
        _within_longest("\n".join(worked)),
        frozenset(places),
        frozenset(steps),
    )


def _parts(unit: Unit) -> Iterator[str]:
    yield shorten(unit.first.text, _SAID)
    for call in unit.calls:
        yield f"{call.name} {shorten(call.arguments, _CALL)}"
    for message in unit.messages[1:]:
        yield shorten(message.text, _RESULT)


def _within_longest(text: str) -> str:
    text = text[: LONGEST_UNIT_TEXT * 5]
    while (tokens := estimate_tokens(text)) > LONGEST_UNIT_TEXT:
        text = text[: len(text) * LONGEST_UNIT_TEXT // (tokens + 1)]
    return text


_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TERM = re.compile(rf"[{_WIDE}]+|[^\W\d{_WIDE}][^\W{_WIDE}]{{1,60}}")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def similarity(task: str, texts: Sequence[str]) -> list[float]:
    """For each text, how near it is to the task: 0 shares no word, 1 has the same in the same measure."""
    wanted = Counter(terms(task))
    counted = [Counter(terms(text)) for text in texts]
    found_in = Counter(term for counts in (wanted, *counted) for term in counts)
    rarity = {term: math.log((2 + len(texts)) / (1 + count)) for term, count in found_in.items()}
    goal = _weights(wanted, rarity)
    return [_cosine(goal, _weights(counts, rarity)) for counts in counted]


def terms(text: str) -> list[str]:
    """What of a text is compared, in small letters."""
    found: list[str] = []
    for term in _TERM.findall(text):
        if ord(term[0]) >= 0x3040:
            found += [term[at : at + 2] for at in range(max(1, len(term) - 1))]
            continue
        found.append(term.lower())
        if "_" in term or not (term.islower() or term.istitle() or term.isupper()):
            found += [part.lower() for part in _PART.findall(term) if len(part) > 2]
    return found


def _weights(counts: Counter[str], rarity: dict[str, float]) -> dict[str, float]:
    return {term: (1 + math.log(count)) * rarity[term] for term, count in counts.items()}


def _cosine(one: dict[str, float], other: dict[str, float]) -> float:
    lengths = _length(one) * _length(other)
    if not lengths:
        return 0.0
    shared = sum(weight * other[term] for term, weight in one.items() if term in other)
    return min(1.0, shared / lengths)


def _length(weights: dict[str, float]) -> float:
    return math.sqrt(sum(weight * weight for weight in weights.values()))
