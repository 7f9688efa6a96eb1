"""Slash commands in the plain chat and in editors.

Their results are printed as lines of text.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Final, get_args

from foldline.agent.agent import use_request_options
from foldline.agent.session.rewind import diffs_since
from foldline.agent.session.trust_question import agree_to_left_aside
from foldline.agent.settings.edit import change
from foldline.compaction import largest_items, load_prompt
from foldline.frontend.arguments import argument_lines
from foldline.frontend.commands import COMMANDS, ChatCommand
from foldline.frontend.facts import status_lines
from foldline.frontend.figures import Figures
from foldline.frontend.runner import Runner, compaction_commands
from foldline.frontend.state import ChatState
from foldline.history import title_entry
from foldline.past.approval_words import mode_words, rule_words
from foldline.past.rewind_points import rewind_points
from foldline.protocol import ApprovalMode, FoldlineError, operations
from foldline.text.harmless import nothing_hidden
from foldline.text.numbers import percent, tokens

Say = Callable[[str], None]
Lines = Iterable[str] | None
Handler = Callable[[Runner, str], Lines | Awaitable[Lines]]
"""Runs a command with its argument, and returns the lines to print.

It runs in the agent's event loop.
"""

HELP = (
    "Each line is a prompt. A backslash at the end continues it on the next line; "
    "<<END reads all lines up to END.",
    "Ctrl+C cancels the running task; pressed twice, it quits. Ctrl+D quits. Commands:",
)
UNAVAILABLE = "{command}: not available now."
NEEDS_SCREEN = "/{command} needs the full-screen chat. Run `foldline -c` in a terminal to continue there."
MODEL = "The model is {model}. Use /model NAME or /model NAME@PROVIDER to switch."
NO_SETTINGS = "This session has no settings."
APPROVED = "Used from the next prompt on: {files}."
NOTHING_TO_APPROVE = "There is nothing to approve."
HOW_TO_REWIND = "Use /rewind NUMBER to go back to a point, or /rewind NUMBER files to restore files, too."
NO_REWIND_POINTS = "There is nothing to go back to yet."
TITLE = "The session is called “{title}”. Use /rename TITLE to change its title."
NO_CHANGES = "No files have been changed by write or edit."
USED = "The next request takes {size} of {window} tokens, {share}."
PARTS = "System prompt, tools, instructions {system}; summaries and pins {summaries}; verbatim {verbatim}."
LARGEST = "Largest: {items}."
COMPACTS_FROM = "Compaction starts at {tokens} tokens."
_SHOWN_POINTS = 12
"""Maximum number of rewind points that are listed; older ones are omitted."""
_USAGE = {
    "approvals": f"/approvals [{'|'.join(get_args(ApprovalMode))}|trust]",
    "rewind": "/rewind [number] [files]",
}
"""Usage of commands whose argument is chosen on a screen in the full-screen chat."""


def usage(command: ChatCommand) -> str:
    """Return a command with its arguments, for example `/rewind [number] [files]`."""
    return _USAGE.get(command.id) or command.usage


def help_lines(here: Iterable[str]) -> Iterator[str]:
    """Yield the help lines for these command ids."""
    yield from HELP
    for command in COMMANDS:
        if command.slash and command.id in here:
            yield f"{usage(command)}: {command.title}."


def handlers(runner: Runner, say: Say) -> dict[str, Handler]:
    """Return the command handlers by command id."""

    def preview(focus: str) -> None:
        runner.submit(
            operations.CompactSession(
                reason="manual", focus=focus or None, preview=True
            )
        )

    def choose(command: str) -> None:
        for line in argument_lines(command, runner.agent):
            say(line)

    return {**compaction_commands(preview, choose), **_HANDLERS}


async def carry_out(
    command: ChatCommand,
    argument: str,
    here: Mapping[str, Handler],
    runner: Runner,
    state: ChatState,
    say: Say,
) -> None:
    """Run a command, and print the result.

    Prints its lines, its error, or a message that the command is not available.
    """
    handler = here.get(command.id)
    unanswered = Figures(runner.agent.state).unanswered()
    if not command.works(replace(state, unanswered=unanswered)):
        say(UNAVAILABLE.format(command=command.title))
        return
    if handler is None:
        say(NEEDS_SCREEN.format(command=command.slash))
        return
    try:
        lines = handler(runner, argument)
        for line in (await lines if isawaitable(lines) else lines) or ():
            say(line)
    except FoldlineError as failure:
        say(str(failure))


# --- handlers ---------------------------------------------------------------------------------------------


def _model(runner: Runner, name: str) -> Iterator[str]:
    if name:
        runner.submit(operations.SwitchModel(model=name))
    else:
        yield MODEL.format(model=runner.agent.state.models.llm.info.id)


def _effort(runner: Runner, effort: str) -> Iterator[str]:
    agent = runner.agent
    settings = agent.settings
    if settings is None:
        yield NO_SETTINGS
    elif effort:
        agent.settings = change(
            settings,
            agent.state.cwd,
            os.environ,
            "effort",
            effort.strip().lower(),
        )
        use_request_options(agent.state, agent.settings)
    else:
        yield from argument_lines("effort", agent)


def _context(runner: Runner, _: str) -> Iterator[str]:
    state = runner.agent.state
    room = Figures(state).room()
    window = tokens(room.window, estimated=room.assumed)
    share = percent(room.size, room.window)
    yield USED.format(size=tokens(room.size), window=window, share=share)
    weights = room.weights
    yield PARTS.format(
        system=tokens(weights.system),
        summaries=tokens(weights.summaries),
        verbatim=tokens(weights.compacting + weights.verbatim),
    )
    if room.threshold is not None:
        yield COMPACTS_FROM.format(tokens=tokens(room.threshold))
    if state.projection.view:
        yield LARGEST.format(items=largest_items(state.projection))


async def _approvals(runner: Runner, argument: str) -> Lines:
    state = runner.agent.state
    policy = state.permissions.policy
    if argument == "trust":
        files = await agree_to_left_aside(state.permissions)
        return [APPROVED.format(files=files) if files else NOTHING_TO_APPROVE]
    mode = next((mode for mode in get_args(ApprovalMode) if mode == argument), None)
    if mode is not None:
        runner.submit(operations.SwitchApprovals(mode=mode))
        return []
    return [
        f"Mode {policy.mode}: {mode_words(policy.mode)}.",
        *(
            f"Allowed in this session: {rule}."
            for rule in sorted(map(rule_words, policy.always))
        ),
        *(
            f"Allowed in this project: {rule_words(kept.rule)}."
            for kept in state.permissions.project.entries()
        ),
    ]


def _rewind(runner: Runner, argument: str) -> Iterator[str]:
    number, _, option = argument.partition(" ")
    points = rewind_points(runner.agent.state.projection)
    if number.isdecimal() and any(point.id == int(number) for point in points):
        runner.submit(
            operations.Rewind(checkpoint=int(number), files=option.strip() == "files")
        )
        return
    for point in reversed(points[:_SHOWN_POINTS]):
        changes = f", {point.changes} files changed since" if point.changes else ""
        position = "before the prompt" if point.kind == "turn" else "after"
        yield f"{point.id}  {position} {point.label}{changes}"
    if points:
        yield HOW_TO_REWIND
    else:
        yield NO_REWIND_POINTS


async def _rename(runner: Runner, title: str) -> Lines:
    session = runner.agent.session
    entry = title_entry(title)
    if entry is None:
        return [TITLE.format(title=session.meta().title)]
    await session.append(entry, durable=True)
    session.save_meta()
    return []


async def _diff(runner: Runner, _: str) -> Lines:
    lines: list[str] = []
    for file in await diffs_since(runner.agent.state.tools):
        text = file.diff.rstrip("\n") or f"{file.path}: {file.why}"
        lines += map(nothing_hidden, text.split("\n"))
    return lines or [NO_CHANGES]


_HANDLERS: Final[Mapping[str, Handler]] = {
    "init": lambda runner, _: runner.send(load_prompt("init")),
    "model": _model,
    "effort": _effort,
    "context": _context,
    "approvals": _approvals,
    "rewind": _rewind,
    "rename": _rename,
    "diff": _diff,
    "status": lambda runner, _: status_lines(runner.agent),
}
