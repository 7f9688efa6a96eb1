"""Runs the tool calls of one step: approval, room, result. Each result is appended before the next call."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from foldline.context.tokens import CALL_OVERHEAD, MESSAGE_OVERHEAD, message_tokens
from foldline.protocol import ToolCallPart, ToolDetails, ToolResultMessage, events, text_parts

from .approvals import allow_always, decide
from .desk import Desk
from .recording import recorder
from .tools import Tool, ToolContext, ToolOutcome

_DECLINED = ToolOutcome("The user declined this call. Do not try it again unasked.", True, "declined ✗")
_CANCELLED = ToolOutcome("Interrupted by the user: the call may have run in part.", True, "cancelled ✗")
_NOT_RUN = ToolOutcome("Not run: the user interrupted before it began.", True, "not run")
_NO_ROOM = ToolOutcome("Not run: window full, call again.", True, "not run")
_NEVER_RAN = (_DECLINED, _NO_ROOM)
_ENOUGH = 256
"""Estimated tokens below which a call of a group is not run any more."""
_RESULT_FRAME = MESSAGE_OVERHEAD + CALL_OVERHEAD
"""What a result takes beside its text, in estimated tokens."""


class Calls:
    """Executes tool calls for one agent, and waits for the user's word where it is needed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._under_way: str | None = None
        """Id of the call whose tool has been started."""
        self._began = 0.0
        """When that was: the time a call takes is not the time the user took to allow it."""

    def answer(self, call_id: str, answer: str) -> None:
        """The user's word on a call that waits for it; ignored where none does."""
        waiting = self._waiting.get(call_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def run(self, calls: Sequence[ToolCallPart]) -> None:
        """Run the calls in order. Cancelled, every call still gets a result that says what became of it."""
        room = self._desk.room_for_results()
        left = deque(calls)
        try:
            while left:
                self._began = time.monotonic()
                outcome = await self._outcome(left[0], room)
                seconds = None if outcome in _NEVER_RAN else time.monotonic() - self._began
                result = _result(left.popleft(), outcome, seconds)
                room -= message_tokens(result)
                await self._finish(result)
        except asyncio.CancelledError:
            for call in left:
                outcome = _CANCELLED if call.call_id == self._under_way else _NOT_RUN
                await self._finish(_result(call, outcome))
            raise
        finally:
            self._under_way = None

    async def _outcome(self, call: ToolCallPart, room: int) -> ToolOutcome:
        desk = self._desk
        tool = next((tool for tool in desk.tools if tool.spec.name == call.name), None)
        title = tool.title(call.parsed()) if tool else ""
        desk.emit(events.ToolStarted(call_id=call.call_id, name=call.name, title=title))
        if room < _ENOUGH:
            return _NO_ROOM
        if tool is None:
            names = ", ".join(tool.spec.name for tool in desk.tools)
            return ToolOutcome(f"There is no tool {call.name!r}. There are: {names}.", True, "no such tool ✗")
        return await self._allowed_run(tool, call, title, room)

    async def _allowed_run(self, tool: Tool, call: ToolCallPart, title: str, room: int) -> ToolOutcome:
        desk, arguments = self._desk, call.parsed()
        context = ToolContext(
            cwd=desk.cwd,
            output=lambda text: desk.emit(events.ToolOutput(call_id=call.call_id, text=text)),
            max_tokens=room - _RESULT_FRAME,
            spill_dir=self._spill_dir(),
            known_files=desk.known_files,
            before_change=recorder(desk.session),
        )
        inside = tool.inside(arguments, context)
        if decide(desk.policy, tool.level, call.name, title, inside) == "ask":
            diff = await asyncio.to_thread(tool.preview, arguments, context)
            answer = await self._ask(call, title, diff)
            if answer == "deny":
                return _DECLINED
            if answer == "always":
                desk.policy = allow_always(desk.policy, call.name, title, inside_cwd=inside)
        self._under_way = call.call_id
        self._began = time.monotonic()
        return await tool.run(arguments, context)

    async def _ask(self, call: ToolCallPart, title: str, diff: str | None) -> str:
        emit = self._desk.emit
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[call.call_id] = waiting
        emit(events.ApprovalRequested(call_id=call.call_id, name=call.name, title=title, diff=diff))
        answer = "deny"
        try:
            answer = await waiting
        finally:
            del self._waiting[call.call_id]
            emit(events.ApprovalResolved(call_id=call.call_id, allowed=answer != "deny"))
        return answer

    async def _finish(self, result: ToolResultMessage) -> None:
        await self._desk.session.append(result)
        self._desk.emit(
            events.ToolFinished(
                call_id=result.call_id,
                name=result.name,
                is_error=result.is_error,
                brief=result.details.brief,
            )
        )

    def _spill_dir(self) -> Path:
        path = self._desk.session.path
        return (path.parent if path else self._desk.cwd / ".foldline") / "outputs"


def _result(call: ToolCallPart, outcome: ToolOutcome, seconds: float | None = None) -> ToolResultMessage:
    return ToolResultMessage(
        call_id=call.call_id,
        name=call.name,
        is_error=outcome.is_error,
        parts=(*text_parts(outcome.text), *outcome.images),
        details=ToolDetails(
            brief=outcome.brief,
            seconds=None if seconds is None else round(seconds, 3),
            files=outcome.files,
            diff=outcome.diff,
            full_output=outcome.full_output,
        ),
    )
