"""The answers and turns of a Codex session, put together from rows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from foldline.formats.base import Json, JsonObject
from foldline.formats.tool_results import Changes, applied, together
from foldline.formats.transcript import Transcript
from foldline.protocol import AssistantMessage, Entry, Part, ToolCallPart, Usage

from .items import ON_THE_SERVER, server_result, tool_result
from .rows import Row


@dataclass
class Turns:
    """Checkpoints before turns, so that the session can go back to them.

    Going back also removes the machine text right before a prompt, except at the beginning of the session.
    """

    log: Transcript
    enabled: bool
    """Whether turns are taken back at all."""
    _checkpoints: list[int] = field(default_factory=list)
    """The checkpoints of the turns that were not taken back."""
    _reserved: int | None = None
    """The index before machine text, for the checkpoint if a prompt follows."""

    def machine_text(self, row: Row) -> None:
        if self.enabled and self._checkpoints and self._reserved is None:
            self._reserved = self.log.next_index(row.position)

    def answered(self) -> None:
        """Exclude earlier machine text from the next turn."""
        self._reserved = None

    def begin(self, row: Row) -> None:
        if not self.enabled:
            return
        index = self.log.next_index(row.position) if self._reserved is None else self._reserved
        self._reserved = None
        self._checkpoints.append(self.log.checkpoint(row.at, index=index))

    def take_back(self, row: Row, turns: int) -> bool:
        """Go back before the last turns, if there are any."""
        turns = min(turns, len(self._checkpoints))
        if turns == 0:
            return False
        index = self.log.next_index(row.position)
        self.log.go_back_to(self._checkpoints[-turns], row.at, index=index)
        del self._checkpoints[-turns:]
        self._reserved = None
        return True


@dataclass
class AnswerBuffer:
    """Adds entries to the transcript. An answer is buffered until it is complete, with all entries after it.

    The rows between two inputs of the model are one answer.
    """

    log: Transcript
    model: str = ""
    _first: Row | None = None
    """The first row of the open answer."""
    _parts: list[Part] = field(default_factory=list)
    _buffer: list[tuple[Entry, datetime | None, int]] = field(default_factory=list)
    """The entries since the first row, with time and position."""
    _uncounted: int | None = None
    """The newest answer, until its usage is known."""
    _calls: dict[str, ToolCallPart] = field(default_factory=dict)
    """The calls without a result so far."""
    _changes: dict[str, list[Changes]] = field(default_factory=dict)
    """The reported changes to files, by call id."""
    _patches: set[str] = field(default_factory=set)

    def add(self, row: Row, entry: Entry) -> None:
        if self._first is None:
            self.log.add(entry, row.at, position=row.position)
        else:
            self._buffer.append((entry, row.at, row.position))

    def extend(self, row: Row, parts: Iterable[Part]) -> None:
        """Add parts to the open answer or a new one."""
        self._first = self._first or row
        self._parts += parts

    def call(self, row: Row, call: ToolCallPart) -> None:
        self.extend(row, (call,))
        if row.payload.kind not in ON_THE_SERVER:
            self._calls[call.call_id] = call
        elif self._first:
            self._buffer.append((server_result(row.payload, call), self._first.at, row.position))

    def close(self) -> bool:
        """Add the open answer. Return whether there is one."""
        first = self._first
        parts = tuple(self._parts)
        buffer = self._buffer
        self._first = None
        self._parts = []
        self._buffer = []
        if first and parts:
            message = AssistantMessage(parts=parts, model=self.model or None)
            self._uncounted = self.log.add(message, first.at, position=first.position)
        for entry, at, position in buffer:
            self.log.add(entry, at, position=position)
        return bool(parts)

    def patch(self, call_id: str, changes: Json, *, done: bool) -> bool:
        """Note the changes of a patch, if it has a call.

        They are recorded before the result, and some twice. A script in a call applies patches with ids of
        their own.
        """
        if call_id in self._patches:
            return True
        caller = call_id if call_id in self._calls else next(reversed(self._calls), None)
        if caller is None:
            return False
        if done:
            self._patches.add(call_id)
            self._changes.setdefault(caller, []).append(applied(JsonObject.of(changes)))
        return True

    def result(self, row: Row) -> None:
        call_id = row.payload.text("call_id")
        reports = self._changes.pop(call_id, None)
        changes = together(reports) if reports else None
        call = self._calls.pop(call_id, None)
        self.add(row, tool_result(row.payload, call, changes, self.log.left_out))

    def count(self, usage: Usage) -> None:
        if self._uncounted is not None:
            self.log.change(self._uncounted, usage=usage)
        self._uncounted = None

    def forget(self) -> None:
        """Drop the newest answer: its usage will not come."""
        self._uncounted = None
