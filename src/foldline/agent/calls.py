"""Runs the tool calls of one step: approval, room, result. Each result is appended before the next call."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from foldline.context.tokens import estimate_tokens
from foldline.protocol import ToolCallPart, ToolDetails, ToolResultMessage, events, text_parts

from .approvals import allow_always, decide
from .desk import Desk
from .tools import Tool, ToolContext, ToolOutcome

_DECLINED = ToolOutcome("The user declined this call. Do not try it again unasked.", True, "declined ✗")
_CANCELLED = ToolOutcome("Interrupted by the user: the call may have run in part.", True, "cancelled ✗")
_NOT_RUN = ToolOutcome("Not run: the user interrupted before it began.", True, "not run")
_NO_ROOM = ToolOutcome("Not run: window full, call again.", True, "not run")
_ENOUGH = 256
"""Estimated tokens below which a call of a group is not run any more."""


class Calls:
    """Executes tool calls for one agent, and waits for the user's word where it is needed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: dict[str, asyncio.Future[str]] = {}

    def answer(self, call_id: str, answer: str) -> None:
        """The user's word on a call that waits for it; ignored where none does."""
        waiting = self._waiting.get(call_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def run(self, calls: Sequence[ToolCallPart]) -> None:
        """Run the calls in order. Cancelled, every call still gets a result that says what became of it."""
        room = self._desk.room_for_results()
        for position, call in enumerate(calls):
            try:
                outcome = await self._run(call, room)
            except asyncio.CancelledError:
                await self._append(call, _CANCELLED, None)
                for later in calls[position + 1 :]:
                    await self._append(later, _NOT_RUN, None)
                raise
            room -= estimate_tokens(outcome.text)

    async def _run(self, call: ToolCallPart, room: int) -> ToolOutcome:
        desk = self._desk
        tool = next((tool for tool in desk.tools if tool.spec.name == call.name), None)
        title = tool.title(call.parsed()) if tool else ""
        desk.emit(events.ToolStarted(call_id=call.call_id, name=call.name, title=title))
        began = time.monotonic()
        if room < _ENOUGH:
            outcome = _NO_ROOM
        elif tool is None:
            names = ", ".join(tool.spec.name for tool in desk.tools)
            outcome = ToolOutcome(
                f"There is no tool {call.name!r}. There are: {names}.", True, "no such tool ✗"
            )
        else:
            outcome = await self._allowed_run(tool, call, title, room)
        seconds = None if outcome in (_DECLINED, _NO_ROOM) else time.monotonic() - began
        await self._append(call, outcome, seconds)
        desk.emit(
            events.ToolFinished(
                call_id=call.call_id, name=call.name, is_error=outcome.is_error, brief=outcome.brief
            )
        )
        return outcome

    async def _allowed_run(self, tool: Tool, call: ToolCallPart, title: str, room: int) -> ToolOutcome:
        desk, arguments = self._desk, call.parsed()
        context = ToolContext(
            cwd=desk.cwd,
            output=lambda text: desk.emit(events.ToolOutput(call_id=call.call_id, text=text)),
            max_tokens=room,
            spill_dir=self._spill_dir(),
            known_files=desk.known_files,
        )
        inside = tool.inside(arguments, context)
        if decide(desk.policy, tool.level, call.name, title, inside) == "ask":
            diff = await asyncio.to_thread(tool.preview, arguments, context)
            answer = await self._ask(call, title, diff)
            if answer == "deny":
                return _DECLINED
            if answer == "always":
                desk.policy = allow_always(desk.policy, call.name, title, inside_cwd=inside)
        return await tool.run(arguments, context)

    async def _ask(self, call: ToolCallPart, title: str, diff: str | None) -> str:
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[call.call_id] = waiting
        self._desk.emit(
            events.ApprovalRequested(call_id=call.call_id, name=call.name, title=title, diff=diff)
        )
        try:
            answer = await waiting
        finally:
            del self._waiting[call.call_id]
        self._desk.emit(events.ApprovalResolved(call_id=call.call_id, allowed=answer != "deny"))
        return answer

    async def _append(self, call: ToolCallPart, outcome: ToolOutcome, seconds: float | None) -> None:
        await self._desk.session.append(
            ToolResultMessage(
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
        )

    def _spill_dir(self) -> Path:
        path = self._desk.session.path
        return (path.parent if path else self._desk.cwd / ".foldline") / "outputs"
