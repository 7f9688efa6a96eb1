"""Kimi Code's spine: scopes of work that its model opens, and closes with a memory that stands for them.

A transition is a call of one of three tools that was accepted; nothing else is written of it. Sessions before
mid July 2026 have a record of each, too, which then counts.
"""

from dataclasses import dataclass, field

from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart, ToolResultMessage

from .base import JsonObject, as_text, parse_object

OPEN, CLOSE, NEXT = "spine_open", "spine_close", "spine_next"
_SPAWN = "spine_spawn"
"""Makes scopes that are closed at once: its result holds their memories, and stays in the view."""
_ACCEPTED = "accepted"
"""How the result of a transition begins that came about."""
RECORDS = ("spine.open", "spine.close", "spine.next")


@dataclass(frozen=True, slots=True)
class Closed:
    """A scope that is over: the messages from `start` to before `end`, and what stands for them."""

    start: int
    end: int
    memory: str


@dataclass
class Spine:
    on_record: bool
    """Whether the file has records of transitions."""
    scopes: list[int] = field(default_factory=lambda: [0])
    """The indices at which the open scopes begin, outermost first."""
    stored: list[int] = field(default_factory=list)
    """The indices of all messages, which records count."""
    used: bool = False
    _newest: AssistantMessage | None = None
    _accepted: set[str] = field(default_factory=set)

    def add(self, message: BaseMessage) -> None:
        self.stored.append(message.index)
        match message:
            case AssistantMessage():
                self._newest = message
                self.used |= any(call.name in (OPEN, CLOSE, NEXT) for call in message.calls)
            case ToolResultMessage() if not message.is_error and message.text.startswith(_ACCEPTED):
                self._accepted.add(message.call_id)
            case _:
                pass

    def start_over(self, index: int) -> None:
        """The context begins at this entry."""
        self.scopes, self.stored = [index], [index]

    def transition(self) -> Closed | None:
        """What the newest answer and its results came to: exactly one transition in it counts."""
        answer, self._newest = self._newest, None
        if answer is None or self.on_record:
            return None
        calls = [call for call in answer.calls if call.name in (OPEN, CLOSE, NEXT)]
        accepted = [call for call in calls if call.call_id in self._accepted and _says_enough(call)]
        if len(accepted) != 1 or any(call.name == _SPAWN for call in answer.calls):
            return None
        memory = as_text(_arguments(accepted[0]).get("memory"))
        return self._moved(accepted[0].name, answer.index, answer.index, memory)

    def recorded(self, kind: str, record: JsonObject) -> Closed | None:
        """What a record of a transition came to."""
        opened, closed = record.get("openedAt"), record.get("closedAt")
        end = self._index_of(closed + 1) if isinstance(closed, int) else None
        start = self._index_of(opened) if isinstance(opened, int) else end
        if kind == "spine.open":
            return self._moved(OPEN, start, None, "")
        return self._moved(CLOSE if kind == "spine.close" else NEXT, end, end, as_text(record.get("memory")))

    def _index_of(self, place: int) -> int | None:
        """The index of a message by its place among all; of one to come where there is none yet."""
        if 0 <= place < len(self.stored):
            return self.stored[place]
        return self.stored[-1] + 1 if self.stored and place >= len(self.stored) else None

    def _moved(self, name: str, start: int | None, end: int | None, memory: str) -> Closed | None:
        closed = None
        if name != OPEN and self.scopes:
            begun = self.scopes.pop()
            closed = Closed(begun, end, memory) if end is not None and memory.strip() else None
        if name != CLOSE and start is not None:
            self.scopes.append(start)
        return closed


def _arguments(call: ToolCallPart) -> JsonObject:
    return parse_object(call.arguments.encode()) or {}


def _says_enough(call: ToolCallPart) -> bool:
    """A scope has a summary, a closed one a memory."""
    arguments = _arguments(call)
    wanted = {OPEN: ("summary",), CLOSE: ("memory",), NEXT: ("summary", "memory")}[call.name]
    return all(as_text(arguments.get(name)).strip() for name in wanted)
