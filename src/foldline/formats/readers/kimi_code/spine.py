"""The scopes of work that Kimi Code's model opens and closes.

A closed scope is replaced by text that is called its memory.

A transition is an accepted call to one of three tools.
"""

from collections.abc import Iterable

from foldline.formats.parts import arguments_of
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
)

OPEN = "spine_open"
CLOSE = "spine_close"
_REQUIRED = {
    OPEN: ("summary",),
    CLOSE: ("memory",),
    "spine_next": ("summary", "memory"),
}
"""The tools that make transitions, with the arguments that each of them requires."""
_SPAWN = "spine_spawn"
"""The tool that opens and closes scopes in a single call.

Its result contains the scopes' memories, and stays in the view.
"""
_ACCEPTED = "accepted"
"""Prefix of the results of accepted transitions."""


def transition_in(
    answer: AssistantMessage, results: Iterable[BaseMessage]
) -> ToolCallPart | None:
    """Return the accepted transition among an answer's calls, if any.

    An answer with several transitions changes nothing.
    """
    if any(call.name == _SPAWN for call in answer.calls):
        return None
    accepted = {
        result.call_id
        for result in results
        if isinstance(result, ToolResultMessage)
        and not result.is_error
        and result.text.startswith(_ACCEPTED)
    }
    transitions = [
        call for call in answer.calls if call.call_id in accepted and _is_complete(call)
    ]
    return transitions[0] if len(transitions) == 1 else None


def is_transition(call: ToolCallPart) -> bool:
    return call.name in _REQUIRED


def _is_complete(call: ToolCallPart) -> bool:
    arguments = arguments_of(call)
    return is_transition(call) and all(
        arguments.text(name).strip() for name in _REQUIRED[call.name]
    )
