"""The scopes of work that Kimi Code's model opens and closes.

A closed scope is replaced by text that is called its memory.

A transition is an accepted call to one of three tools. Sessions from before mid-July 2026 also have a record
of each transition; for these sessions, only the records are used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foldline.formats.base import JsonObject
from foldline.formats.parts import arguments_of
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
)

RECORDS = ("spine.open", "spine.close", "spine.next")
_REQUIRED = {
    "spine_open": ("summary",),
    "spine_close": ("memory",),
    "spine_next": ("summary", "memory"),
}
"""The tools that make transitions, with the arguments that each of them requires."""
_SPAWN = "spine_spawn"
"""The tool that opens and closes scopes in a single call.

Its result contains the scopes' memories, and stays in the view.
"""
_ACCEPTED = "accepted"
"""Prefix of the results of accepted transitions."""


@dataclass(frozen=True, slots=True)
class ClosedScope:
    """The messages from `start` up to, but not including, `end`, with the memory that replaces them."""

    start: int
    end: int
    memory: str


@dataclass
class Spine:
    """Keeps track of the open scopes."""

    scopes: list[int] = field(default_factory=lambda: [0])
    """The start indices of the open scopes, outermost first."""

    def apply_calls(
        self, answer: AssistantMessage, results: Iterable[BaseMessage]
    ) -> ClosedScope | None:
        """Apply the transition in an answer's calls.

        Returns the scope that the transition closes, if any.

        An answer with several transitions changes nothing.
        """
        accepted = {
            result.call_id
            for result in results
            if isinstance(result, ToolResultMessage)
            and not result.is_error
            and result.text.startswith(_ACCEPTED)
        }
        transitions = [
            call
            for call in answer.calls
            if call.call_id in accepted and _is_complete(call)
        ]
        if len(transitions) != 1 or any(call.name == _SPAWN for call in answer.calls):
            return None
        memory = arguments_of(transitions[0]).text("memory")
        return self._move(transitions[0].name, answer.index, answer.index, memory)

    def apply_record(
        self, record: JsonObject, messages: Sequence[int]
    ) -> ClosedScope | None:
        """Apply a recorded transition.

        Returns the scope that the transition closes, if any.

        Args:
            messages: the indices of all messages. The record refers to them by their position in this list.
        """
        opened = record.get("openedAt")
        closed = record.get("closedAt")
        start = end = _index_at(closed + 1 if isinstance(closed, int) else -1, messages)
        if record.kind == "spine.open" and isinstance(opened, int):
            start = _index_at(opened, messages)
        return self._move(
            record.kind.replace(".", "_"), start, end, record.text("memory")
        )

    def _move(
        self, name: str, start: int | None, end: int | None, memory: str
    ) -> ClosedScope | None:
        closed = None
        if name != "spine_open" and self.scopes:
            scope = self.scopes.pop()
            if end is not None and memory.strip():
                closed = ClosedScope(scope, end, memory)
        if name != "spine_close" and start is not None:
            self.scopes.append(start)
        return closed


def is_transition(call: ToolCallPart) -> bool:
    return call.name in _REQUIRED


def _is_complete(call: ToolCallPart) -> bool:
    arguments = arguments_of(call)
    return is_transition(call) and all(
        arguments.text(name).strip() for name in _REQUIRED[call.name]
    )


def _index_at(place: int, messages: Sequence[int]) -> int | None:
    """Return the index at a position in `messages`.

    For a position beyond the end, returns the next free index.
    """
    if place < 0 or not messages:
        return None
    return messages[place] if place < len(messages) else messages[-1] + 1
