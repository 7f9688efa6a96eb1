"""The answers of Codex's model, put together from their items, and the results of the calls they make."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from foldline.protocol import AssistantMessage, Part, ToolCallPart, ToolResultMessage, Usage

from .base import Json, as_object, as_text
from .changes import Changes, applied, together
from .codex_items import ON_THE_SERVER, Book, Row, server_result, tool_result


@dataclass
class _Step:
    """An answer, while its items come in."""

    index: int
    at: datetime | None
    parts: list[Part] = field(default_factory=list)
    results: list[tuple[int, ToolResultMessage]] = field(default_factory=list)
    """Those of calls that OpenAI ran itself, with their indices."""


@dataclass
class Answers:
    book: Book
    model: str = ""
    _step: _Step | None = None
    _uncounted: int | None = None
    """The newest answer, until its usage is known."""
    _calls: dict[str, ToolCallPart] = field(default_factory=dict)
    """Those without a result, oldest first."""
    _changes: dict[str, list[Changes]] = field(default_factory=dict)
    """By the id of a call: what it was reported to do to files."""
    _patched: set[str] = field(default_factory=set)

    def say(self, row: Row, parts: Iterable[Part]) -> None:
        """More of an answer: what comes between two inputs of the model is one."""
        if self._step is None:
            self._step = _Step(self.book.next_index(row), row.at)
        self._step.parts += parts

    def call(self, row: Row, call: ToolCallPart) -> None:
        self.say(row, (call,))
        if self._step is not None and row.payload.get("type") in ON_THE_SERVER:
            self._step.results.append((self.book.next_index(row), server_result(row.payload, call)))
        else:
            self._calls[call.call_id] = call

    def close(self) -> bool:
        """The answer is complete; whether there was one."""
        step, self._step = self._step, None
        if step is None or not step.parts:
            return False
        answer = AssistantMessage(parts=tuple(step.parts), model=self.model or None)
        self.book.put(step.index, step.at, answer)
        for index, result in step.results:
            self.book.put(index, step.at, result)
        self._uncounted = step.index
        return True

    def patched(self, call_id: str, changes: Json, *, done: bool) -> bool:
        """What a patch did, told before the result; whether there is a call for it.

        A script that a call runs applies patches under ids of their own. A patch may be told of twice.
        """
        if call_id in self._patched:
            return True
        caller = call_id if call_id in self._calls else next(reversed(self._calls), None)
        if caller is None:
            return False
        if done:
            self._patched.add(call_id)
            self._changes.setdefault(caller, []).append(applied(as_object(changes)))
        return True

    def result(self, row: Row) -> list[str]:
        """The result of a call; gives the kinds of the pieces of it that were left out."""
        call_id = as_text(row.payload.get("call_id"))
        changes = self._changes.pop(call_id, None)
        result, left_out = tool_result(
            row.payload, self._calls.pop(call_id, None), together(changes) if changes else None
        )
        self.book.add(row, result)
        return left_out

    def count(self, usage: Usage) -> None:
        """The usage of the newest answer, which is told after it."""
        if self._uncounted is not None:
            self.book.change(self._uncounted, usage=usage)
        self._uncounted = None

    def forget(self) -> None:
        """The newest answer was taken back."""
        self._uncounted = None
