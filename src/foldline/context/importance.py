"""Importance: what a later step could not do without, unit by unit, each point with its reason.

Points are for the user's requests and constraints, plans the user agreed to, decisions, failures and their
fixes, the newest version of a piece of code, the newest plan. What was read can be read again, an earlier
version has been replaced, and "ok, go on" says nothing. Pure, deterministic, linear in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from foldline.protocol import AssistantMessage, ImagePart, UserMessage

from .budget import Unit
from .facts import constraints, sentences
from .permissions import is_consent
from .undoing import DECISION, DONE_REQUEST, MOST, QUOTED, REASONED, RULE, Point, Reason
from .work import called_again, points_for_work, reported

_AT_HAND = 3
"""So many requests, the newest ones, belong to what is worked on now."""
_OLDEST = 0.8
"""Of two units that tell as much, the newer one is worth more: the oldest one gets this share."""
_COMMAND = re.compile(r"/[\w:-]+(?:\s|\Z)")
"""`/model x`; a request may begin with a path."""
_TELLING = 40
"""Characters of a last answer from which on it reports something."""


@dataclass(frozen=True, slots=True)
class Importance:
    """How much a unit tells, and why."""

    reasons: dict[Reason, float] = field(default_factory=dict)
    recency: float = 1.0
    """1 for the newest unit."""
    empty: bool = False
    """Whether it tells nothing but what it has points for: it only agrees, or was asked or called again."""

    @property
    def points(self) -> float:
        return sum(self.reasons.values()) * self.recency

    @property
    def rules(self) -> float:
        """What of the points is for constraints."""
        return self.reasons.get("constraint", 0.0) * self.recency


def importance(units: Sequence[Unit]) -> list[Importance]:
    """How much each of these units tells, in their order."""
    reasons: list[dict[Reason, float]] = [{} for _ in units]
    for place, reason, points in _points(units):
        reasons[place][reason] = min(MOST[reason], reasons[place].get(reason, 0) + points)
    last = max(1, len(units) - 1)
    empty = {*called_again(units), *_asked_again(units)}
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


def _points(units: Sequence[Unit]) -> Iterator[Point]:
    for place, unit in enumerate(units):
        match unit.first:
            case UserMessage(origin="typed" | "shell"):
                yield from _from_user(units, place)
            case AssistantMessage():
                yield from _from_assistant(units, place)
            case _:
                pass
    yield from _goals(units)
    yield from points_for_work(units)


# -- what was said -----------------------------------------------------------------------------------


def _asks(unit: Unit) -> bool:
    """Whether the user asks for something here; a command of the interface asks the model for nothing."""
    return bool(unit.asked.strip()) and not _COMMAND.match(unit.asked) and not is_bare_consent(unit)


def _asked_again(units: Sequence[Unit]) -> Iterator[int]:
    """Consents, and what the user has typed again since, letter by letter."""
    newest = {unit.asked: place for place, unit in enumerate(units) if unit.asked}
    for place, unit in enumerate(units):
        if unit.asked and (newest[unit.asked] != place or is_bare_consent(unit)):
            yield place


def _goals(units: Sequence[Unit]) -> Iterator[Point]:
    """The first request and the newest ones. Those between were done long ago."""
    asked = [place for place, unit in enumerate(units) if _asks(unit)]
    for place in dict.fromkeys([*asked[:1], *asked[-_AT_HAND:]]):
        yield place, "request", MOST["request"]


def _from_user(units: Sequence[Unit], place: int) -> Iterator[Point]:
    unit = units[place]
    if unit.asked and is_bare_consent(unit):
        answered = answered_by(units, place)
        if answered is not None and len(units[answered].said) > _TELLING:
            yield answered, "agreed", MOST["agreed"]
        return
    if _asks(unit):
        yield place, "request", DONE_REQUEST
        if _WISHES.search(unit.asked):
            yield place, "wish", MOST["wish"]
        yield from ((place, "constraint", RULE) for rule in constraints(unit.asked) if _commands(rule))
    yield from ((place, "error", QUOTED) for _ in reported(unit.first.text)[:1])


_WISHES = re.compile(
    r"\b(?:should|shouldn['’]?t|needs? to|instead|actually|rather|i (?:want|would|meant)|i['’]d|wrong|undid|"
    r"undo|revert(?:ed)?|try again|not what|no more)\b|^no\b|"
    r"应该|不对|错了|改成|别|想要|希望|不是|違|べき|아니",
    re.IGNORECASE,
)
"""How the user wants it to be, or does not."""
_WONDERS = re.compile(r"\bi (?:don['’]?t|do not|can['’]?t|cannot|can not)\b|我(?:不|没)", re.IGNORECASE)


def _commands(sentence: str) -> bool:
    """Whether a sentence with the word of a rule is one: "why only one?" and "I don't see it" are none."""
    return not sentence.endswith(("?", "？")) and not _WONDERS.search(sentence)


def _from_assistant(units: Sequence[Unit], place: int) -> Iterator[Point]:
    said = units[place].said
    for decided in _decisions(said):
        yield place, "decision", REASONED if _BECAUSE.search(decided) else DECISION
    ends = place + 1 == len(units) or isinstance(units[place + 1].first, UserMessage)
    if ends and len(said) > _TELLING:
        yield place, "report", MOST["report"]


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
