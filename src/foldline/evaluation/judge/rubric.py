"""The judge: what it is shown, and how its answer is read. It never learns which strategy it grades."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from foldline.compaction.strategy import load_prompt
from foldline.context.conversation import delimited
from foldline.protocol import AssistantMessage, BaseMessage, SystemMessage, UserMessage, text_parts

from .probes import Ground, Probe

_PLACE = re.compile(r"\{([a-z_]+)\}")


def worded(name: str, /, **values: str) -> str:
    """The text of `prompts/judge-<name>.md` with its places filled.

    Raises:
        FoldlineError: there is no such prompt.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), load_prompt(f"judge-{name}"))


CRITERIA = ("accuracy", "context", "artifact", "completeness", "continuity", "instruction")
"""Factory's six; each from 0 to `HIGHEST`."""
HIGHEST = 5
REPEATS = 3
"""How often each answer is graded: what differs between the grades is the judge's own spread."""

Grades = Mapping[str, float | None]
"""By criterion; None where the question leaves nothing to grade."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An answer of the judge that is no grades."""

    reason: str


NOTHING_SAID: Grades = dict.fromkeys(CRITERIA, 0.0)
"""What an empty answer gets: a judge need not be asked."""


def item(probe: Probe, answer: str) -> tuple[BaseMessage, ...]:
    """The request for the grades of one answer."""
    assert isinstance(probe.truth, Ground)
    text = worded(
        "item",
        question=delimited("question", probe.question),
        record=delimited("record", probe.truth.text),
        answer=delimited("answer", answer),
    )
    return (
        SystemMessage(parts=text_parts(worded("rubric"))),
        UserMessage(origin="machine", parts=text_parts(text)),
    )


def repair(request: tuple[BaseMessage, ...], answer: str, fault: Unreadable) -> tuple[BaseMessage, ...]:
    """The request once more, with what was wrong with the first answer."""
    said = AssistantMessage(parts=text_parts(answer.strip() or "…"))
    text = worded("repair", reason=fault.reason)
    return (*request, said, UserMessage(origin="machine", parts=text_parts(text)))


_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*)\n\s*```\Z", re.DOTALL)


def grades(answer: str) -> Grades | Unreadable:
    """The grades in a judge's answer: one JSON object, at most with a fence around it."""
    text = answer.strip()
    fenced = _FENCED.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return Unreadable("it is not one JSON object")
    if not isinstance(value, dict):
        return Unreadable("it is not a JSON object")
    read: dict[str, float | None] = {}
    for name in CRITERIA:
        if name not in value:
            return Unreadable(f"`{name}` is missing")
        grade = value[name]
        if grade is not None and not _is_grade(grade):
            return Unreadable(f"`{name}` is no number from 0 to {HIGHEST}")
        read[name] = None if grade is None else float(grade)
    return read


def _is_grade(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= HIGHEST
