"""Slash commands without a screen: those of its registry that need none, answered in lines."""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Final, get_args

from foldline.agent.agent import use_request_options
from foldline.agent.rewind import diffs_since
from foldline.agent.settings_edit import change
from foldline.agent.settings_schema import KEYS, choices_of
from foldline.agent.skill_loading import skill_rows
from foldline.agent.trust_question import agree_to_left_aside
from foldline.cli.search import search
from foldline.cli.sessions import sessions
from foldline.compaction import largest_items, load_prompt
from foldline.context.harmless import nothing_hidden
from foldline.context.permissions import mode_words, rule_words
from foldline.context.rewind_points import rewind_points
from foldline.history import title_entry
from foldline.protocol import ApprovalMode, FoldlineError, operations
from foldline.tui.figures import Figures
from foldline.tui.keys.commands import COMMANDS, Command
from foldline.tui.runner import Runner, compaction_commands
from foldline.tui.session_facts import cost_lines, status_lines
from foldline.tui.state import ChatState

from .narrator import room_words

Say = Callable[[str], None]
Lines = Iterable[str] | None
Handler = Callable[[Runner, str], Lines | Awaitable[Lines]]
"""Carries out a command, given what was typed behind it, in the agent's loop; what it answers."""

_SHOWN_PLACES = 12
"""Places to go back to that are listed."""
_USAGE = {
    "approvals": f"/approvals [{'|'.join(get_args(ApprovalMode))}|trust]",
    "rewind": "/rewind [number] [files]",
}
"""What commands take here, where the screen would ask."""


def usage(command: Command) -> str:
    """`/rewind [number] [files]`: the command, and what it takes without a screen."""
    return _USAGE.get(command.id) or command.usage


def help_lines(here: Iterable[str]) -> Iterator[str]:
    """What can be typed where these commands are."""
    yield "A line is a prompt. A backslash at its end continues it; <<END takes all lines up to END."
    yield "Ctrl+C cancels what runs, twice it quits. Ctrl+D ends. Commands:"
    for command in COMMANDS:
        if command.slash and command.id in here:
            yield f"{usage(command)}: {command.title}."


def handlers(runner: Runner, say: Say) -> dict[str, Handler]:
    """A handler for each command, by its id."""

    def preview(focus: str) -> None:
        runner.submit(operations.CompactSession(reason="manual", focus=focus or None, preview=True))

    return {**compaction_commands(preview, say), **_HANDLERS}


async def carry_out(
    command: Command, argument: str, here: Mapping[str, Handler], runner: Runner, state: ChatState, say: Say
) -> None:
    """Carries out a command where it is among those `here`, and works now. What fails is said."""
    handler = here.get(command.id)
    if not command.works(replace(state, unanswered=Figures(runner.agent.state).unanswered())):
        say(f"{command.title}: not now.")
    elif handler is None:
        say(f"/{command.slash} needs the whole screen: `foldline -c` in a terminal continues there.")
    else:
        await answer(handler, argument, runner, say)


async def answer(handler: Handler, argument: str, runner: Runner, say: Say) -> None:
    try:
        lines = handler(runner, argument)
        for line in (await lines if isawaitable(lines) else lines) or ():
            say(line)
    except FoldlineError as failure:
        say(str(failure))


# --- what each does ---------------------------------------------------------------------------------------


def _model(runner: Runner, name: str) -> Iterator[str]:
    if name:
        runner.submit(operations.SwitchModel(model=name))
    else:
        yield f"The model is {runner.agent.state.llm.info.id}. /model NAME or /model NAME@PROVIDER switches."


def _effort(runner: Runner, effort: str) -> Iterator[str]:
    agent, now = runner.agent, runner.agent.settings
    if now is None:
        yield "Here nothing is read from settings."
    elif effort:
        agent.settings = change(now, agent.state.cwd, os.environ, "effort", effort.strip().lower())
        use_request_options(agent.state, agent.settings)
    else:
        yield f"Effort {now.effort}. /effort takes {', '.join(choices_of(KEYS['effort']))}."


def _context(runner: Runner, _: str) -> Iterator[str]:
    state = runner.agent.state
    yield from room_words(Figures(state).room())
    if state.projection.view:
        yield f"Largest: {largest_items(state.projection)}."


async def _approvals(runner: Runner, argument: str) -> Lines:
    state, policy = runner.agent.state, runner.agent.state.policy
    if argument == "trust":
        agreed = await agree_to_left_aside(state)
        return [f"Used from the next prompt on: {agreed}." if agreed else "Nothing was left aside."]
    mode = next((mode for mode in get_args(ApprovalMode) if mode == argument), None)
    if mode is not None:
        runner.submit(operations.SwitchApprovals(mode=mode))
        return []
    return [
        f"Mode {policy.mode}: {mode_words(policy.mode)}.",
        *(f"Allowed in this session: {rule}." for rule in sorted(map(rule_words, policy.always))),
        *(f"Allowed in this project: {rule_words(kept.rule)}." for kept in state.project.kept()),
    ]


def _rewind(runner: Runner, argument: str) -> Iterator[str]:
    number, _, more = argument.partition(" ")
    found = rewind_points(runner.agent.state.projection)
    if number.isdecimal() and any(place.id == int(number) for place in found):
        runner.submit(operations.Rewind(checkpoint=int(number), files=more.strip() == "files"))
        return
    for place in reversed(found[:_SHOWN_PLACES]):
        changed = f", {place.changes} files changed since" if place.changes else ""
        where = "before the prompt" if place.kind == "turn" else "after"
        yield f"{place.id}  {where} {place.label}{changed}"
    if found:
        yield "/rewind NUMBER goes back there; `files` behind it puts the files back, too."
    else:
        yield "There is nothing to go back to yet."


def _mcp(runner: Runner, _: str) -> Iterator[str]:
    servers = runner.agent.state.servers
    if servers is None:
        yield "No MCP server is set up."
    else:
        yield from (f"{server.name}: {server}." for server in servers.states)


def _skill(runner: Runner, argument: str) -> Iterator[str]:
    if argument:
        runner.submit(operations.LoadSkill(asked=argument))
        return
    rows = [f"/skill {each}: {note}." for each, note in skill_rows(runner.agent.state)]
    yield from rows or ["There are no skills here."]


async def _rename(runner: Runner, title: str) -> Lines:
    session, entry = runner.agent.session, title_entry(title)
    if entry is None:
        return [f"It is called “{session.meta().title}”. /rename TITLE gives it another title."]
    await session.append(entry, durable=True)
    session.save_meta()
    return []


async def _diff(runner: Runner, _: str) -> Lines:
    files = await diffs_since(runner.agent.state)
    words = [
        line for file in files for line in (file.diff.rstrip("\n") or f"{file.path}: {file.why}").split("\n")
    ]
    return [*map(nothing_hidden, words)] or ["No file was changed by write or edit."]


_HANDLERS: Final[Mapping[str, Handler]] = {
    "init": lambda runner, _: runner.send(load_prompt("init")),
    "model": _model,
    "effort": _effort,
    "context": _context,
    "approvals": _approvals,
    "rewind": _rewind,
    "mcp": _mcp,
    "skill": _skill,
    "rename": _rename,
    "diff": _diff,
    "cost": lambda runner, _: cost_lines(runner.agent),
    "status": lambda runner, _: status_lines(runner.agent),
}


# --- those that write tables of their own -----------------------------------------------------------------


def _sessions(_: Runner, __: str) -> Iterator[str]:
    sessions(everywhere=False, archived=False, limit=20, agent=None, as_json=False)
    yield "`foldline --plain -r ID` continues one of them."


def _search(_: Runner, query: str) -> Iterator[str]:
    if query:
        search(words=query.split(), here=False, kind=None, limit=None, as_json=False)
    else:
        yield "/search takes the words that are to be found."


TABLES: Final[Mapping[str, Handler]] = {"sessions": _sessions, "search": _search}
