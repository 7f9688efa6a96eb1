"""Subagents as the history of their parent tells of them: which result is whose, when each ran, what each
worked through. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from foldline.protocol import Subagent

from .outline import MessageOutline, RequestOutline
from .projection import Projection
from .view import IN_VIEW
from .weight import item_weight


class Work(NamedTuple):
    """What a subagent has done, as its own history says."""

    steps: int
    """Its requests."""
    tokens: int
    """What these came to, as reported, else as estimated."""


def work_of(projection: Projection) -> Work:
    """The work of the subagent whose history this is."""
    outlines = projection.entries.outlines
    asked: list[RequestOutline | MessageOutline] = [e for e in outlines if isinstance(e, RequestOutline)]
    if not asked:  # another agent's, which keeps no record of them
        asked = [e for e in outlines if isinstance(e, MessageOutline) and e.type == "assistant"]
    return Work(len(asked), sum(map(_tokens, asked)))


def _tokens(asked: RequestOutline | MessageOutline) -> int:
    if asked.usage is not None:
        return asked.usage.input + asked.usage.output
    return asked.estimated if isinstance(asked, RequestOutline) and not asked.failed else 0


def result_of(projection: Projection, started: Subagent) -> MessageOutline | None:
    """The result of the call that started it; None where there is none, or nobody says which call it was."""
    outlines = projection.entries.outlines
    for at in range(projection.count_up_to(started.index) - 1, -1, -1):
        answer = outlines[at]
        if isinstance(answer, MessageOutline) and started.call_id in answer.calls:
            group = map(projection.outline, projection.group(answer.index))
            results = (each for each in group if isinstance(each, MessageOutline))
            return next((each for each in results if each.call_id == started.call_id), None)
    return None


def started_by(projection: Projection, index: int) -> Subagent | None:
    """The subagent that an entry is about: its own entry, or the result of its call."""
    entry = projection.outline(index)
    if isinstance(entry, MessageOutline) and entry.call_id:
        own = (each for each in projection.subagents if each.call_id == entry.call_id)
        return next((each for each in own if result_of(projection, each) == entry), None)
    return entry if isinstance(entry, Subagent) else None


def tokens_in_view(projection: Projection, result: MessageOutline | None) -> int:
    """What is left of its answer in the next request."""
    if result is None or projection.fate(result.index).kind not in IN_VIEW:
        return 0
    items = [item for item in projection.view if item.outline.index == result.index]
    return sum(item_weight(projection, item).tokens for item in items)


def spans(projection: Projection) -> Iterator[tuple[Subagent, int, int]]:
    """Each with the positions in the history between which it ran; one without a result runs still."""
    for started in projection.subagents:
        result = result_of(projection, started)
        end = len(projection.entries) if result is None else projection.count_up_to(result.index)
        yield started, projection.count_up_to(started.index), end
