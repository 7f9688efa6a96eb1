"""Gists: what a unit is about, and what is being worked on, in texts short enough to be compared. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .budget import Unit
from .importance import answered_by
from .permissions import leans_on_what_was_said
from .serialise import shorten
from .tokens import estimate_tokens

LONGEST = 380
"""Tokens, estimated: within the 512 that small models for embeddings read, as estimates are a third too low
at most."""
_SAID, _CALL, _RESULT = 900, 240, 500
"""Characters of what was said, of each call's arguments, and of each result."""
_REQUESTS, _STEPS = 2, 4
"""The newest requests, and the newest units: together the task at hand."""


class Task(NamedTuple):
    """What is being worked on."""

    requests: str
    """The newest first; may be empty."""
    steps: str
    """Likewise."""
    asked_at: frozenset[int]
    """Places of the units the requests come from."""
    worked_at: frozenset[int]
    """Places of the steps."""


def gist(unit: Unit) -> str:
    """What a unit is about: what was said, what was called, the ends of what came back."""
    return _within_longest("\n".join(part for part in _parts(unit) if part.strip()))


def task_at_hand(units: Sequence[Unit]) -> Task:
    """What is being worked on: the newest requests, with what they answer, and the newest steps."""
    asked: list[str] = []
    places: set[int] = set()
    for place in range(len(units) - 1, -1, -1):
        if len(asked) >= _REQUESTS:
            break
        if text := units[place].asked.strip():
            answered = answered_by(units, place) if leans_on_what_was_said(text) else None
            if answered is not None:
                asked.append(shorten(units[answered].said, _SAID))
            asked.append(shorten(text, _SAID))
            places |= {place} if answered is None else {place, answered}
    steps = [place for place in range(max(0, len(units) - _STEPS), len(units)) if units[place].calls]
    worked = [gist(units[place]) for place in reversed(steps)]
    return Task(
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
    """The beginning of a text: what it is about stands there."""
    text = text[: LONGEST * 5]
    while (tokens := estimate_tokens(text)) > LONGEST:
        text = text[: len(text) * LONGEST // (tokens + 1)]
    return text


_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TERM = re.compile(rf"[{_WIDE}]+|[^\W\d{_WIDE}][^\W{_WIDE}]{{1,60}}")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def nearness(task: str, texts: Sequence[str]) -> list[float]:
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
    """Said ten times is not ten times as much."""
    return {term: (1 + math.log(count)) * rarity[term] for term, count in counts.items()}


def _cosine(one: dict[str, float], other: dict[str, float]) -> float:
    lengths = _length(one) * _length(other)
    if not lengths:
        return 0.0
    shared = sum(weight * other[term] for term, weight in one.items() if term in other)
    return min(1.0, shared / lengths)


def _length(weights: dict[str, float]) -> float:
    return math.sqrt(sum(weight * weight for weight in weights.values()))
