"""Assembles the answers and turns of a Codex session from its rows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from foldline.formats.base import Json, JsonObject
from foldline.formats.tool_results import Changes, applied, together
from foldline.formats.transcript import Transcript
from foldline.protocol import AssistantMessage, Entry, Part, ToolCallPart, Usage

from .items import ON_THE_SERVER, server_result, tool_result
from .rows import RolloutRow


@dataclass
class Turns:
    """Keeps track of the beginnings of turns, so that turns can be reverted.

    Except at the beginning of the session, a turn includes the machine text immediately before its prompt.
    """

    log: Transcript
    _starts: list[int] = field(default_factory=list)
    """The newest entry before each turn that has not been reverted."""
    _before_text: int | None = None
    """The newest entry before machine text that may belong to the next turn."""

    def machine_text(self) -> None:
        """Note that machine text follows."""
        if self._starts and self._before_text is None:
            self._before_text = self.log.newest_index

    def answered(self) -> None:
        """Note that the model has answered.

        Machine text before the answer is not part of the next turn.
        """
        self._before_text = None

    def begin(self) -> None:
        """Note that a prompt follows, which begins a turn."""
        start = self.log.newest_index
        self._starts.append(start if self._before_text is None else self._before_text)
        self._before_text = None

    def take_back(self, row: RolloutRow, turns: int) -> bool:
        """Revert the last `turns` turns.

        Returns False if there are no turns to revert.
        """
        turns = min(turns, len(self._starts))
        if turns == 0:
            return False
        self.log.go_back_to(self._starts[-turns], row.at, row.position)
        del self._starts[-turns:]
        self._before_text = None
        return True


@dataclass
class AnswerBuffer:
    """Adds entries to the transcript, as soon as their answer is complete.

    Until then, the answer and the entries that follow it are buffered.

    All answer rows between two inputs to the model form one answer.
    """

    log: Transcript
    model: str = ""
    _first: RolloutRow | None = None
    """The first row of the answer that is not complete yet."""
    _parts: list[Part] = field(default_factory=list)
    _buffer: list[tuple[Entry, datetime | None, int]] = field(default_factory=list)
    """The entries since the first row, each with its time and position."""
    _uncounted: int | None = None
    """The index of the newest answer, until its usage is known."""
    _calls: dict[str, ToolCallPart] = field(default_factory=dict)
    """The calls that have no result yet, by id."""
    _changes: dict[str, list[Changes]] = field(default_factory=dict)
    """File changes that were reported by events, by call id."""
    _patches: set[str] = field(default_factory=set)
    """The ids of the patches whose changes have been recorded."""

    def add(self, row: RolloutRow, entry: Entry) -> None:
        if self._first is None:
            self.log.add(entry, row.at, position=row.position)
        else:
            self._buffer.append((entry, row.at, row.position))

    def extend(self, row: RolloutRow, parts: Iterable[Part]) -> None:
        """Add parts to the current answer, or start an answer with them."""
        self._first = self._first or row
        self._parts += parts

    def call(self, row: RolloutRow, call: ToolCallPart) -> None:
        self.extend(row, (call,))
        if row.payload.kind not in ON_THE_SERVER:
            self._calls[call.call_id] = call
        elif self._first:
            self._buffer.append(
                (server_result(row.payload, call), self._first.at, row.position)
            )

    def close(self) -> bool:
        """Add the current answer to the transcript.

        Returns whether there was one.
        """
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
        """Record a patch's file changes.

        Returns whether the patch belongs to a call.

        A session file reports changes before the call's result, and sometimes twice. Patches that are applied
        by a call's script have ids of their own.
        """
        if call_id in self._patches:
            return True
        caller = (
            call_id if call_id in self._calls else next(reversed(self._calls), None)
        )
        if caller is None:
            return False
        if done:
            self._patches.add(call_id)
            self._changes.setdefault(caller, []).append(applied(JsonObject.of(changes)))
        return True

    def result(self, row: RolloutRow) -> None:
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
        """Stop waiting for the usage of the newest answer."""
        self._uncounted = None
