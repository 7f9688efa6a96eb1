"""Runs the user's own shell commands (`!command`), and appends their output for the model.

They need no approval.
"""

import asyncio
from contextlib import suppress

from foldline.agent.session.instructions import session_preamble
from foldline.agent.session.state import AgentState
from foldline.agent.tools import ToolContext
from foldline.agent.tools.base import fitted
from foldline.agent.tools.bash import Output, ending_words, run_command
from foldline.agent.tools.process import still_running
from foldline.agent.tools.text import sendable
from foldline.history.session import finished
from foldline.protocol import Edit, Entry, FoldlineError, TextPart, UserMessage
from foldline.protocol.events import ToolFinished, ToolStarted

SHELL_CALL = "!"
"""The call id that events use for the running `!` command."""
_MOST_OUTPUT = 8_000
"""Maximum size of the output sent to the model, in estimated tokens.

The limit is lower if the window has less room. Every later request includes the output, and the model can
`read` the rest if needed.
"""
_LEAST_OUTPUT = 512
"""Size of the output that the model gets even if the window is full, in estimated tokens."""
STOPPED = (
    "[background processes that still used this output were stopped. To keep one running, redirect its "
    "output: `command >log 2>&1 &`]"
)
CANCELLED = "[cancelled by the user: the command and its child processes were stopped]"
NOT_STARTED = "The command could not be started: {reason}."


async def run_shell(state: AgentState, command: str, *, aside: bool) -> None:
    """Run the user's command and append its output, even after a cancellation.

    Args:
        aside: whether to hide the output from the model until the user restores it.

    Raises:
        FoldlineError: the command could not be started, or the working folder no longer exists.
    """
    if trouble := state.tools.folder.trouble:
        raise FoldlineError(trouble)
    state.events.emit(ToolStarted(call_id=SHELL_CALL, name="!", title=command))
    context = await _context(state)
    output = Output(context.output, context.mask)
    is_cancelled = False
    note = CANCELLED
    try:
        note = await _run(command, context, output)
    except asyncio.CancelledError:
        is_cancelled = True
    except OSError as error:
        raise FoldlineError(NOT_STARTED, reason=error.strerror or error) from None
    try:  # Esc must not lose the results of the command
        await finished(_append(state, command, output, note, context, aside=aside))
    except asyncio.CancelledError:
        is_cancelled = True
    state.events.emit(
        ToolFinished(call_id=SHELL_CALL, name="!", is_error=is_cancelled, brief=note)
    )
    if is_cancelled:
        await state.permissions.check_after_cancel()
        raise asyncio.CancelledError


async def _run(command: str, context: ToolContext, output: Output) -> str:
    """Run the command, and return any notes on how it ended."""
    end = await run_command(command, context, output)
    remarks = [STOPPED] if end.is_held else []
    remarks.append(ending_words(end.status, has_output=True)[1])
    if end.remaining:
        remarks.append(f"[{still_running(end.remaining)}]")
    box = context.box
    if box:
        findings = await asyncio.to_thread(
            box.report, output.text(), failed=bool(end.status)
        )
        remarks.append(findings.words)
    return "\n".join(filter(None, remarks))


async def _append(
    state: AgentState,
    command: str,
    output: Output,
    note: str,
    context: ToolContext,
    *,
    aside: bool,
) -> None:
    text = await asyncio.to_thread(output.text)
    if not note and not text.strip():
        note = "[no output]"
    shown, _ = await fitted(text.rstrip("\n"), context, "shell", note)
    # Two parts, because the user typed the first one, and a program wrote the second one.
    parts = [
        TextPart(text=sendable(context.mask(part))) for part in (f"$ {command}", shown)
    ]
    entries: list[Entry] = []
    if not state.projection.view:
        entries += await session_preamble(state)
    entries.append(UserMessage(origin="shell", parts=tuple(parts)))
    if aside:
        message_index = state.session.next_index + len(entries) - 1
        entries.append(Edit(target=message_index, action="drop"))
    await state.session.append(*entries, durable=True)


async def _context(state: AgentState) -> ToolContext:
    room = _LEAST_OUTPUT
    with suppress(
        FoldlineError
    ):  # A window that is too small is reported by the next turn.
        room = max(_LEAST_OUTPUT, min(_MOST_OUTPUT, state.budget.room_for_results()))
    context = state.tools.context(SHELL_CALL, room)
    context.box = await state.permissions.command_sandbox()
    return context
