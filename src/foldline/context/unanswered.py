"""Whether the conversation waits for the model: what a step that failed or was stopped leaves open. Pure."""

from foldline.protocol import AssistantMessage, BaseMessage

from .outline import MessageOutline
from .projection import Projection
from .view import IN_VIEW

_GONE = frozenset({"reverted", "dropped"})
"""Fates of messages that the conversation goes on without."""


def unanswered(projection: Projection) -> BaseMessage | None:
    """The newest message, where the model has yet to answer it, or where it is an answer that broke off or
    whose calls were left without results. None where the last word was the model's own, and whole.
    """
    for outline in reversed(projection.entries.outlines):
        if not isinstance(outline, MessageOutline) or _asks_nothing(outline):
            continue
        fate = projection.fate(outline.index).kind
        if fate not in _GONE:
            newest = projection.entry(outline.index) if fate in IN_VIEW else None
            return newest if isinstance(newest, BaseMessage) and _is_open(newest) else None
    return None


def _asks_nothing(outline: MessageOutline) -> bool:
    """Instructions, and what a command of the user's put out."""
    return outline.type in ("system", "developer") or outline.origin == "shell"


def broke_off(message: BaseMessage) -> bool:
    """Whether it is an answer that ended before the model had said all of it."""
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "cancelled")


def _is_open(message: BaseMessage) -> bool:
    return not isinstance(message, AssistantMessage) or broke_off(message) or bool(message.calls)
