"""The slash commands of a plain chat: those of the screen's registry that need no screen."""

import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, Final

from foldline.agent import Agent
from foldline.agent.agent import use_request_options
from foldline.agent.rewind import diffs_since
from foldline.agent.settings_edit import change
from foldline.agent.settings_schema import KEYS, choices_of
from foldline.agent.skill_loading import skill_rows
from foldline.cli.search import search as search_sessions
from foldline.cli.sessions import sessions as list_sessions
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

from .narrator import room_words

Say = Callable[[str], None]
Handler = Callable[[str], None]

_SHOWN_PLACES = 12
"""Places to go back to that are listed."""
_MODES: tuple[ApprovalMode, ...] = ("ask", "edits", "sandboxed", "read-only", "all")


def help_lines(handlers: Mapping[str, Handler]) -> Iterator[str]:
    """What can be typed here."""
    yield "A line is a prompt. A backslash at its end continues it; <<END takes all lines up to END."
    yield "Ctrl+C cancels what runs, twice it quits. Ctrl+D ends. Commands:"
    for command in COMMANDS:
        if command.slash and command.id in handlers:
            yield f"{usage(command)}: {command.title}."


def usage(command: Command) -> str:
    """`/rewind [number] [files]`: the command, and what it takes without a screen."""
    return _USAGE.get(command.id) or command.usage


_USAGE = {"approvals": "/approvals [ask|edits|sandboxed|read-only|all]", "rewind": "/rewind [number] [files]"}
"""What commands take here, where the screen would ask."""


def plain_commands(runner: Runner, say: Say) -> dict[str, Handler]:
    """A handler for each command that needs no screen, by its id. They run beside the agent, in its loop."""
    commands = _AgentCommands(runner, say)

    def preview(focus: str) -> None:
        runner.submit(operations.CompactSession(reason="manual", focus=focus or None, preview=True))

    shared = compaction_commands(preview, say)
    return {
        **{name: partial(handler, runner) for name, handler in shared.items()},
        "init": lambda _: runner.send(load_prompt("init")),
        "context": commands.context,
        "model": commands.model,
        "effort": commands.effort,
        "approvals": commands.approvals,
        "rewind": commands.rewind,
        "mcp": commands.mcp,
        "skill": commands.skill,
    }


class _AgentCommands:
    """Each method carries out one command, given what was typed behind it."""

    def __init__(self, runner: Runner, say: Say) -> None:
        self._agent = runner.agent
        self._submit = runner.submit
        self._state = runner.agent.state
        self._say = say

    def model(self, name: str) -> None:
        if name:
            self._submit(operations.SwitchModel(model=name))
        else:
            now = self._state.llm.info.id
            self._say(f"The model is {now}. /model NAME or /model NAME@PROVIDER switches.")

    def effort(self, effort: str) -> None:
        now = self._agent.settings
        if now is None:
            self._say("Here nothing is read from settings.")
        elif effort:
            try:
                kept = change(now, self._state.cwd, os.environ, "effort", effort.strip().lower())
                use_request_options(self._state, kept)
                self._agent.settings = kept
            except FoldlineError as failure:
                self._say(str(failure))
        else:
            self._say(f"Effort {now.effort}. /effort takes {', '.join(choices_of(KEYS['effort']))}.")

    def context(self, _: str) -> None:
        for line in room_words(Figures(self._state).room()):
            self._say(line)
        if self._state.projection.view:
            self._say(f"Largest: {largest_items(self._state.projection)}.")

    def approvals(self, argument: str) -> None:
        mode = next((mode for mode in _MODES if mode == argument), None)
        if mode is not None:
            self._submit(operations.SwitchApprovals(mode=mode))
            return
        policy = self._state.policy
        self._say(f"Mode {policy.mode}: {mode_words(policy.mode)}.")
        for rule in sorted(map(rule_words, policy.always)):
            self._say(f"Allowed in this session: {rule}.")
        for kept in self._state.project.kept():
            self._say(f"Allowed in this project: {rule_words(kept.rule)}.")

    def rewind(self, argument: str) -> None:
        number, _, more = argument.partition(" ")
        found = rewind_points(self._state.projection)
        if number.isdecimal() and any(place.id == int(number) for place in found):
            self._submit(operations.Rewind(checkpoint=int(number), files=more.strip() == "files"))
            return
        for place in reversed(found[:_SHOWN_PLACES]):
            changed = f", {place.changes} files changed since" if place.changes else ""
            where = "before the prompt" if place.kind == "turn" else "after"
            self._say(f"{place.id}  {where} {place.label}{changed}")
        if found:
            self._say("/rewind NUMBER goes back there; `files` behind it puts the files back, too.")
        else:
            self._say("There is nothing to go back to yet.")

    def mcp(self, _: str) -> None:
        servers = self._state.servers
        if servers is None:
            self._say("No MCP server is set up.")
        for server in servers.states if servers is not None else ():
            self._say(f"{server.name}: {server}.")

    def skill(self, argument: str) -> None:
        if argument:
            self._submit(operations.LoadSkill(asked=argument))
        for each, note in () if argument else skill_rows(self._state):
            self._say(f"/skill {each}: {note}.")


def session_commands(
    agent: Agent, say: Callable[[str], None], do: Callable[[Coroutine[Any, Any, Any]], Any]
) -> dict[str, Handler]:
    """A handler for each, by its id. `do` runs a coroutine beside the agent, and waits for it."""

    def sessions(_: str) -> None:
        list_sessions(everywhere=False, archived=False, limit=20, agent=None, as_json=False)
        say("`foldline --plain -r ID` continues one of them.")

    def search(query: str) -> None:
        if query:
            search_sessions(words=query.split(), here=False, kind=None, limit=None, as_json=False)
        else:
            say("/search takes the words that are to be found.")

    def safely(handler: Handler) -> Handler:
        def handle(argument: str) -> None:
            try:
                handler(argument)
            except FoldlineError as failure:
                say(str(failure))

        return handle

    def said(report: Report) -> Handler:
        def handle(argument: str) -> None:
            if lines := do(report(agent, argument)):
                say("\n".join(lines))

        return safely(handle)

    reports = {name: said(report) for name, report in REPORTS.items()}
    return {**reports, "sessions": safely(sessions), "search": safely(search)}


async def _rename(agent: Agent, title: str) -> list[str]:
    entry = title_entry(title)
    if entry is None:
        return [f"It is called “{agent.session.meta().title}”. /rename TITLE gives it another title."]
    await agent.session.append(entry, durable=True)
    agent.session.save_meta()
    return []


async def _diff_lines(agent: Agent, _: str) -> list[str]:
    files = await diffs_since(agent.state)
    words = [
        line for file in files for line in (file.diff.rstrip("\n") or f"{file.path}: {file.why}").split("\n")
    ]
    return [*map(nothing_hidden, words)] or ["No file was changed by write or edit."]


Report = Callable[[Agent, str], Coroutine[Any, Any, list[str]]]
REPORTS: Final[Mapping[str, Report]] = {
    "cost": lambda agent, _: cost_lines(agent),
    "status": lambda agent, _: status_lines(agent),
    "diff": _diff_lines,
    "rename": _rename,
}
"""Commands that answer with lines, by their ids."""
