"""The user's own shell (`!command`): run at once without asking, and put into the history for the model."""

import asyncio
from contextlib import suppress

from foldline.history.session import finished
from foldline.programs import shell
from foldline.protocol import Edit, FoldlineError, TextPart, UserMessage, events

from .approvals import SANDBOXED
from .instructions import session_preamble
from .state import AgentState
from .tools import ToolContext
from .tools.base import fitted
from .tools.bash import Output, ending_words
from .tools.process import environment, spawn, still_running
from .tools.text import sendable

SHELL_CALL = "!"
"""Stands for the running command in events, as the id of a call does."""
_MOST = 8_000
"""Estimated tokens of output the model gets, as much as the window allows below that: it is paid for with
every request from here on, and the rest is one `read` away."""
_LEAST = 512
_HELD = (
    "[processes in the background still held the output and were ended; "
    "one with an output of its own keeps running: `command >log 2>&1 &`]"
)
_CANCELLED = "[cancelled by the user: the command and all it started were ended]"


async def run_shell(state: AgentState, command: str, *, aside: bool) -> None:
    """Run a command of the user's and append it with its output, also when cancelled. `aside`: the model does
    not get it, unless the user restores it.

    Raises:
        FoldlineError: it could not be started, or the working folder is gone.
    """
    if trouble := state.folder.trouble:
        raise FoldlineError(trouble)
    state.emit(events.ToolStarted(call_id=SHELL_CALL, name="!", title=command))
    context = await _context(state)
    output = Output(context.output, context.mask)
    cancelled, note = False, _CANCELLED
    try:
        note = await _run(command, context, output)
    except asyncio.CancelledError:
        cancelled = True
    except OSError as error:
        raise FoldlineError(f"The command could not be started: {error.strerror or error}.") from None
    finally:
        output.close()
    try:  # an Esc must not lose what the command has done
        await finished(_keep(state, command, output, note, context, aside=aside))
    except asyncio.CancelledError:
        cancelled = True
    state.emit(events.ToolFinished(call_id=SHELL_CALL, name="!", is_error=cancelled, brief=note))
    if cancelled:
        await state.look_after_cancel()
        raise asyncio.CancelledError


async def _run(command: str, context: ToolContext, output: Output) -> str:
    """Run the command; how it ended, where it did not end well, in the words of the tool `bash`."""
    argv = [shell(), "-c", command]
    box = context.box
    async with spawn(argv, context.cwd, environment(), context.jobs.left, box) as child:
        held = await child.follow(output.take) is None
        status = child.status or 0
    how = ending_words(status, has_output=True)[1]
    remaining = await context.jobs.left.running(child.pid)
    left = f"[{still_running(remaining)}]" if remaining else ""
    seen = await asyncio.to_thread(box.seen, output.text(), failed=bool(status)) if box else None
    return "\n".join(filter(None, (_HELD if held else "", how, left, seen.words if seen else "")))


async def _keep(
    state: AgentState, command: str, output: Output, note: str, context: ToolContext, *, aside: bool
) -> None:
    text = await asyncio.to_thread(output.text)
    note = note or ("" if text.strip() else "[no output]")
    shown, _ = await fitted(text.rstrip("\n"), context, "shell", note)
    # Two parts: the one is what the user typed, the other what a program said.
    said = [TextPart(text=sendable(context.mask(part))) for part in (f"$ {command}", shown)]
    first = [] if state.projection.view else await session_preamble(state)
    message = UserMessage(origin="shell", parts=tuple(said))
    left_out = [Edit(target=state.session.next_index + len(first), action="drop")] if aside else []
    await state.session.append(*first, message, *left_out, durable=True)


async def _context(state: AgentState) -> ToolContext:
    room = _LEAST
    with suppress(FoldlineError):  # a window too small to work in: the next turn will say so
        room = max(_LEAST, min(_MOST, state.room_for_results()))
    context = state.tool_context(SHELL_CALL, room)
    if state.policy.mode in SANDBOXED and state.sandbox.options.shell and (await state.sandbox_engine()).name:
        context.box = state.sandbox
    return context
