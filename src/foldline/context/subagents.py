"""Subagents as the history of their parent tells of them: which result is whose, when each ran, what each
worked through. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from foldline.protocol import Subagent, ToolResultMessage

from .calls import unanswered
from .outline import MessageOutline, RequestOutline
from .projection import Projection
from .view import STANDING
from .weight import item_weight


class Work(NamedTuple):
    """What a subagent has done, as its own history says."""

    steps: int
    """Its requests."""
    tokens: int
    """What these came to, as reported, else as estimated."""
    finished: bool = True
    """Whether its last word is an answer."""


def work_of(projection: Projection) -> Work:
    """The work of the subagent whose history this is."""
    outlines = projection.entries.outlines
    asked: list[RequestOutline | MessageOutline] = [e for e in outlines if isinstance(e, RequestOutline)]
    if not asked:  # another agent's, which keeps no record of them
        asked = [e for e in outlines if isinstance(e, MessageOutline) and e.type == "assistant"]
    return Work(len(asked), sum(map(_tokens, asked)), unanswered(projection) is None)


def _tokens(asked: RequestOutline | MessageOutline) -> int:
    if asked.usage is not None:
        return asked.usage.input + asked.usage.output
    return asked.estimated if isinstance(asked, RequestOutline) and not asked.failed else 0


def _caller_of(projection: Projection, started: Subagent) -> MessageOutline | None:
    """The answer of the model whose call has started it; None where nobody says which that was."""
    outlines = projection.entries.outlines
    for at in range(projection.count_up_to(started.index) - 1, -1, -1):
        answer = outlines[at]
        if isinstance(answer, MessageOutline) and started.call_id in answer.calls:
            return answer
    return None


def result_of(projection: Projection, started: Subagent) -> MessageOutline | None:
    """The result of the call that started it; None where there is none, or nobody says which call it was."""
    caller = _caller_of(projection, started)
    group = () if caller is None else map(projection.outline, projection.group(caller.index))
    results = (each for each in group if isinstance(each, MessageOutline))
    return next((each for each in results if each.call_id == started.call_id), None)


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


_NAME: Final = re.compile(r"[\w-]+")  # of a child; what has another was not written by us
_BROUGHT_BY: Final = re.compile(rf"\[child ({_NAME.pattern})\]\s*\Z")
"""The end of what brings the answer of a child that was in the background."""


IN_BACKGROUND: Final = "in the background"
"""What a result says in brief of one whose answer comes later."""


class Answers:
    """What subagents have answered, kept up to date as the history grows: each message is read once."""

    def __init__(self) -> None:
        self._seen = 0
        self._later: list[tuple[str, MessageOutline]] = []

    def of(self, projection: Projection, started: Subagent) -> list[MessageOutline]:
        """The result of its call, and, where it was in the background, the message that came later."""
        found = (result_of(projection, started), *self._later_of(projection, started)[:1])
        return [each for each in found if each is not None]

    def owed(self, projection: Projection) -> Iterator[Subagent]:
        """Those of which the model has yet to hear, as they were in the background, or the program ended
        before their call had a result. On a branch where nobody asked for it, no answer is missing."""
        begun = projection.subagents
        return (each for each in begun if _NAME.fullmatch(each.child) and self.is_owed(projection, each))

    def is_owed(self, projection: Projection, started: Subagent) -> bool:
        """Whether the model has yet to hear of this one."""
        caller, result = _caller_of(projection, started), result_of(projection, started)
        if caller is None or projection.fate(caller.index).kind not in STANDING:
            return False
        message = None if result is None else projection.entries.message(result)
        if isinstance(message, ToolResultMessage) and message.details.brief != IN_BACKGROUND:
            return False
        later = self._later_of(projection, started)
        return all(projection.fate(message.index).kind == "reverted" for message in later)

    def spans(self, projection: Projection) -> Iterator[tuple[Subagent, int, int]]:
        """Each subagent, with the positions in the history between which it ran; without an answer, to its
        end."""
        for started in projection.subagents:
            ends = [projection.count_up_to(each.index) for each in self.of(projection, started)]
            yield started, projection.count_up_to(started.index), max(ends, default=len(projection.entries))

    def _later_of(self, projection: Projection, started: Subagent) -> list[MessageOutline]:
        self._follow(projection)
        return [message for name, message in self._later if started.child.endswith(name)]

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
