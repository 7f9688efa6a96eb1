"""Subagents in the history of their parent session.

Determines their results, when they ran and how much they did. Pure.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from foldline.protocol import Subagent, ToolResultMessage
from foldline.view.calls import unanswered
from foldline.view.items import STANDING
from foldline.view.outline import MessageOutline, RequestOutline
from foldline.view.projection import Projection
from foldline.view.weight import item_weight


class SubagentWork(NamedTuple):
    """The work done by a subagent, according to its own history."""

    steps: int
    """Number of requests sent by the subagent."""
    tokens: int
    """Input and output tokens of all requests, as reported or otherwise estimated."""
    finished: bool = True
    """Whether the subagent's history ends with an answer."""


def work_of(projection: Projection) -> SubagentWork:
    """Return the work of the subagent with this history."""
    outlines = projection.entries.outlines
    requests: list[RequestOutline | MessageOutline] = [
        outline for outline in outlines if isinstance(outline, RequestOutline)
    ]
    if not requests:  # a session of another agent, which has no request records
        requests = [
            outline
            for outline in outlines
            if isinstance(outline, MessageOutline) and outline.type == "assistant"
        ]
    return SubagentWork(
        len(requests), sum(map(_tokens, requests)), unanswered(projection) is None
    )


def _tokens(request: RequestOutline | MessageOutline) -> int:
    if request.usage is not None:
        return request.usage.input + request.usage.output
    return (
        request.estimated
        if isinstance(request, RequestOutline) and not request.failed
        else 0
    )


def _caller_of(projection: Projection, subagent: Subagent) -> MessageOutline | None:
    """Return the answer that contains the call which started the subagent.

    Returns None if this answer is unknown.
    """
    outlines = projection.entries.outlines
    for position in range(projection.count_up_to(subagent.index) - 1, -1, -1):
        answer = outlines[position]
        if isinstance(answer, MessageOutline) and subagent.call_id in answer.calls:
            return answer
    return None


def result_of(projection: Projection, subagent: Subagent) -> MessageOutline | None:
    """Return the result of the call that started a subagent.

    Returns None if there is no result.
    """
    caller = _caller_of(projection, subagent)
    if caller is None:
        return None
    for index in projection.group(caller.index):
        outline = projection.outline(index)
        if isinstance(outline, MessageOutline) and outline.call_id == subagent.call_id:
            return outline
    return None


def started_by(projection: Projection, index: int) -> Subagent | None:
    """Return the subagent that this entry starts or that produced this result."""
    entry = projection.outline(index)
    if isinstance(entry, Subagent):
        return entry
    if isinstance(entry, MessageOutline) and entry.call_id:
        for subagent in projection.subagents:
            if (
                subagent.call_id == entry.call_id
                and result_of(projection, subagent) == entry
            ):
                return subagent
    return None


def tokens_in_view(projection: Projection, answers: Iterable[MessageOutline]) -> int:
    """Return how many tokens these answers take in the next request."""
    indices = {answer.index for answer in answers}
    tokens = 0
    for item in projection.view:
        if item.index in indices:
            tokens += item_weight(projection, item).tokens
    return tokens


_NAME = re.compile(r"[\w-]+")
"""Matches the name of a child session created by Foldline."""
_CHILD_MARK = re.compile(rf"\[child ({_NAME.pattern})\]\s*\Z")
"""Matches the end of a message that contains the answer of a child that ran in the background."""


IN_BACKGROUND = "in the background"
"""The brief of a result that only says that the subagent has started.

The answer follows in a later message.
"""


class SubagentAnswers:
    """The answers of subagents, kept up to date as the history grows.

    Each message is read only once.
    """

    def __init__(self) -> None:
        self._outlines_read = 0
        self._later: list[tuple[str, MessageOutline]] = []
        """Answers of children that ran in the background, each with the child's name."""

    def of(self, projection: Projection, subagent: Subagent) -> list[MessageOutline]:
        """Return the answers of a subagent.

        These are the result of its call and, if the subagent ran in the background, the later message.
        """
        answers = [
            result_of(projection, subagent),
            *self._later_of(projection, subagent)[:1],
        ]
        return [answer for answer in answers if answer is not None]

    def owed(self, projection: Projection) -> Iterator[Subagent]:
        """Yield the subagents with an answer that the model has not received.

        Such a subagent ran in the background, or Foldline exited before the call had a result. On a branch
        without the call, the answer does not count as missing.
        """
        for subagent in projection.subagents:
            if _NAME.fullmatch(subagent.child) and self.is_owed(projection, subagent):
                yield subagent

    def is_owed(self, projection: Projection, subagent: Subagent) -> bool:
        """Return whether the model has not received the subagent's answer."""
        caller = _caller_of(projection, subagent)
        if caller is None or projection.fate(caller.index).kind not in STANDING:
            return False
        result = result_of(projection, subagent)
        message = None if result is None else projection.entries.message(result)
        if (
            isinstance(message, ToolResultMessage)
            and message.details.brief != IN_BACKGROUND
        ):
            return False
        later = self._later_of(projection, subagent)
        return all(projection.fate(answer.index).kind == "reverted" for answer in later)

    def spans(self, projection: Projection) -> Iterator[tuple[Subagent, int, int]]:
        """Yield each subagent with the positions of its start and end.

        If a subagent has no answer, its end is the end of the history.
        """
        for subagent in projection.subagents:
            start = projection.count_up_to(subagent.index)
            ends = [
                projection.count_up_to(answer.index)
                for answer in self.of(projection, subagent)
            ]
            yield subagent, start, max(ends, default=len(projection.entries))

    def _later_of(
        self, projection: Projection, subagent: Subagent
    ) -> list[MessageOutline]:
        self._follow(projection)
        return [answer for name, answer in self._later if subagent.child.endswith(name)]

    def _follow(self, projection: Projection) -> None:
        outlines = projection.entries.outlines
        first = projection.count_up_to(projection.subagents[0].index)
        for outline in outlines[max(self._outlines_read, first) :]:
            if (
                not isinstance(outline, MessageOutline)
                or outline.type != "developer"
                or outline.is_preamble
            ):
                continue
            mark = _CHILD_MARK.search(projection.entries.message(outline).text)
            if mark is not None:
                self._later.append((mark[1], outline))
        self._outlines_read = len(outlines)
