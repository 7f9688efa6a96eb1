"""Gists: what a unit is about, and what is being worked on, in texts short enough to be compared. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .consent import leans_on_what_was_said
from .importance import answered_by
from .serialise import shorten
from .tokens import estimate_tokens
from .units import Unit

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
