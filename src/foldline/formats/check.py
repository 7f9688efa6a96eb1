"""What was read of another agent's file, held against what the file itself says of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from foldline.context.projection import Projection
from foldline.context.view import is_preamble
from foldline.protocol import AssistantMessage, BaseMessage, FoldlineError, SystemMessage, Unknown

from .base import Counted, ForeignSession
from .refusals import by_kind

_MANY = 10
"""Records from which on a session without a message is none that was opened and left, but one misread."""
_SLACK = 0.25, 3
"""The part and the number by which two counts of messages may differ: agents join neighbours as they send."""
_OVERHEAD = 80_000
"""Tokens of system prompt and tools beside a session's text: the most recorded were 59,000 (Claude Code)."""
_TOO_FEW = 0.4, 15_000
"""The part of a report, and the tokens, that what was read may fall short of it, overhead aside. Estimates of
recorded sessions that were read rightly fell short by a quarter."""
_TOO_MANY = 1.3, 3_000
"""How much what was read may exceed a report: a factor, and tokens on top."""
_LEAST_REPORT = 1_000
"""Tokens below which a report is none of a coding agent's request: some stand for a stream that had begun."""


def checked(found: ForeignSession, title: str, path: Path) -> ForeignSession:
    """The session, with a note on each count of the file's own that differs from the view.

    `title` is whose session it is.

    Raises:
        FoldlineError: it has many records, and none became a message for the model.
    """
    projection, differences = _projected(found)
    if any(not is_preamble(item.message) for item in projection.view) or projection.markers:
        return replace(found, notes=(*found.notes, *differences))
    unread = [entry for entry in found.entries if isinstance(entry, Unknown)]
    if len(unread) >= _MANY:
        kinds = by_kind(entry.type.partition(".")[2] for entry in unread)
        raise FoldlineError(
            f"{path} has {len(unread)} records of {title}, and none of them became a message: this version "
            f"of the format is not known here (kinds of records: {kinds})."
        )
    return replace(found, notes=(*found.notes, "There is no message in it."))


def _projected(found: ForeignSession) -> tuple[Projection, Sequence[str]]:
    """The view at the end, and what differs from the newest counts on the way there."""
    projection = Projection()
    newest = found.counted[-1] if found.counted else None
    messages = ""
    report: tuple[AssistantMessage, int, int] | None = None
    overhead = _OVERHEAD
    for entry in found.entries:
        if newest is not None and entry.index >= newest.before:
            messages, newest = _messages_note(projection, newest), None
        if isinstance(entry, AssistantMessage) and entry.usage and entry.usage.input >= _LEAST_REPORT:
            read, thought = projection.tokens, projection.thinking
            report = entry, read, thought
            overhead = min(overhead, max(0, entry.usage.input - read - thought))
        projection.append(entry)
    if newest is not None:
        messages = _messages_note(projection, newest)
    in_view = {item.message.index for item in projection.view}
    tokens = _tokens_note(*report, overhead) if report and report[0].index in in_view else ""
    return projection, [note for note in (messages, tokens) if note]


def _messages_note(projection: Projection, counted: Counted) -> str:
    shown = sum(1 for _ in _sent(projection))
    part, number = _SLACK
    if abs(shown - counted.messages) <= max(number, part * counted.messages):
        return ""
    return (
        f"By the file's own count, the last request had {counted.messages:,} messages; the view there has "
        f"{shown:,}: something that changed the context was not understood."
    )


def _sent(projection: Projection) -> Iterator[BaseMessage]:
    for item in projection.view:
        message = item.message
        if not isinstance(message, SystemMessage) or message.origin != "prompt":
            yield message


def _tokens_note(answer: AssistantMessage, read: int, thought: int, overhead: int) -> str:
    """`read` and `thought` are estimates of the view before the answer: its text, and its reasoning."""
    reported = answer.usage.input if answer.usage else 0
    factor, more = _TOO_MANY
    part, fewer = _TOO_FEW
    missing = reported - read - thought - overhead
    if read > factor * reported + more:
        rest = "the model saw less than the view shows"
    elif missing > max(fewer, part * reported):
        rest = "the model saw more than the view shows"
    else:
        return ""
    return (
        f"The last request had {reported:,} tokens by the provider's count, what was read of it comes to "
        f"about {read:,}: {rest}."
    )
