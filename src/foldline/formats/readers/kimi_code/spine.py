"""The scopes of work that Kimi Code's model opens, and closes with a memory that replaces them.

A transition is an accepted call of one of three tools. Sessions before mid July 2026 also record each
transition; then only the records count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foldline.formats.base import JsonObject
from foldline.formats.parts import arguments_of
from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart, ToolResultMessage

RECORDS = ("spine.open", "spine.close", "spine.next")
_REQUIRED = {"spine_open": ("summary",), "spine_close": ("memory",), "spine_next": ("summary", "memory")}
"""The tools of the transitions, and the arguments that each must have."""
_SPAWN = "spine_spawn"
"""Makes scopes that are closed at once: its result holds their memories, and stays in the view."""
_ACCEPTED = "accepted"
"""How the result of an accepted transition begins."""


@dataclass(frozen=True, slots=True)
class ClosedScope:
    """The messages from `start` to before `end`, and the memory that replaces them."""

    start: int
    end: int
    memory: str


@dataclass
class Spine:
    """Follows which scopes are open."""

    scopes: list[int] = field(default_factory=lambda: [0])
    """The indices at which the open scopes begin, outermost first."""

    def apply_calls(self, answer: AssistantMessage, results: Iterable[BaseMessage]) -> ClosedScope | None:
        """Apply an answer's only transition; return the scope it closes."""
        accepted = {
            result.call_id
            for result in results
            if isinstance(result, ToolResultMessage)
            and not result.is_error
            and result.text.startswith(_ACCEPTED)
        }
        transitions = [call for call in answer.calls if call.call_id in accepted and _is_complete(call)]
        if len(transitions) != 1 or any(call.name == _SPAWN for call in answer.calls):
            return None
        memory = arguments_of(transitions[0]).text("memory")
        return self._move(transitions[0].name, answer.index, answer.index, memory)

    def apply_record(self, record: JsonObject, messages: Sequence[int]) -> ClosedScope | None:
        """Apply a recorded transition; return the scope it closes.

        Args:
            messages: the indices of all messages, which the record counts.
        """
        opened, closed = record.get("openedAt"), record.get("closedAt")
        start = end = _index_at(closed + 1 if isinstance(closed, int) else -1, messages)
        if record.kind == "spine.open" and isinstance(opened, int):
            start = _index_at(opened, messages)
        return self._move(record.kind.replace(".", "_"), start, end, record.text("memory"))

    def _move(self, name: str, start: int | None, end: int | None, memory: str) -> ClosedScope | None:
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
    return is_transition(call) and all(arguments.text(name).strip() for name in _REQUIRED[call.name])


def _index_at(place: int, messages: Sequence[int]) -> int | None:
    """Return the index at this place; past the end, the next."""
    if place < 0 or not messages:
        return None
    return messages[place] if place < len(messages) else messages[-1] + 1
