"""Subagents as the history of their parent tells of them: which result is whose, when each ran, what each
worked through. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from foldline.protocol import Subagent

from .outline import MessageOutline, RequestOutline
from .projection import Projection
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


def tokens_in_view(projection: Projection, answers: Iterable[MessageOutline]) -> int:
    """What is left of these in the next request."""
    indices = {each.index for each in answers}
    return sum(item_weight(projection, item).tokens for item in projection.view if item.index in indices)


_BROUGHT_BY: Final = re.compile(r"\[child ([\w-]+)\]\s*\Z")
"""The end of what brings the answer of a child that was in the background."""


class Answers:
    """What subagents have answered, kept up to date as the history grows: each message is read once."""

    def __init__(self) -> None:
        self._seen = 0
        self._later: list[tuple[str, MessageOutline]] = []

    def of(self, projection: Projection, started: Subagent) -> list[MessageOutline]:
        """The result of its call, and, where it was in the background, the message that came later."""
        self._follow(projection)
        later = (message for name, message in self._later if started.child.endswith(name))
        found = (result_of(projection, started), next(later, None))
        return [each for each in found if each is not None]

    def spans(self, projection: Projection) -> Iterator[tuple[Subagent, int, int]]:
        """Each subagent, with the positions in the history between which it ran; without an answer, to its
        end."""
        for started in projection.subagents:
            ends = [projection.count_up_to(each.index) for each in self.of(projection, started)]
            yield started, projection.count_up_to(started.index), max(ends, default=len(projection.entries))

    def _follow(self, projection: Projection) -> None:
        outlines = projection.entries.outlines
        first = projection.count_up_to(projection.subagents[0].index)
        for outline in outlines[max(self._seen, first) :]:
            if (
                isinstance(outline, MessageOutline)
                and outline.type == "developer"
                and not outline.is_preamble
            ):
                found = _BROUGHT_BY.search(projection.entries.message(outline).text)
                self._later += [(found[1], outline)] if found else []
        self._seen = len(outlines)
