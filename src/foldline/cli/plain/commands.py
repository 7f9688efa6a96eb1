"""The slash commands of a plain chat: those of the screen's registry that need no screen."""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from foldline.agent import Agent
from foldline.cli.search import search as search_sessions
from foldline.cli.sessions import sessions as list_sessions
from foldline.compaction import BUILT_IN, largest_items
from foldline.context.permissions import mode_words, rule_words
from foldline.context.rewind_points import rewind_points
from foldline.history import title_entry
from foldline.protocol import ApprovalMode, FoldlineError, operations
from foldline.protocol.operations import Operation
from foldline.tui.figures import Figures
from foldline.tui.keys.commands import COMMANDS
from foldline.tui.runner import Runner

from .narrator import room_words

Say = Callable[[str], None]
Handler = Callable[[str], None]

_SHOWN_PLACES = 12
"""Places to go back to that are listed."""
_MODES: tuple[ApprovalMode, ...] = ("ask", "edits", "all")


def help_lines(handlers: Mapping[str, Handler]) -> Iterator[str]:
    """What can be typed here."""
    yield "A line is a prompt. A backslash at its end continues it; <<END takes all lines up to END."
    yield "Ctrl+C cancels what runs, twice it quits. Ctrl+D ends. Commands:"
    for command in COMMANDS:
        if command.slash and command.id in handlers:
            yield f"{_USAGE.get(command.id) or command.usage}: {command.title}."


_USAGE = {"approvals": "/approvals [ask|edits|all]", "rewind": "/rewind [number] [files]"}
"""What commands take here, where the screen would ask."""


def plain_commands(runner: Runner, say: Say) -> dict[str, Handler]:
    """A handler for each command that needs no screen, by its id. They run beside the agent, in its loop."""
    agent = runner.agent
    agent_state = agent.state

    def submit(operation: Operation) -> None:
        runner.submit(operation)

    def compact(argument: str) -> None:
        flag, _, focus = argument.partition(" ")
        focus = focus.strip() if flag == "--preview" else argument
        submit(operations.CompactSession(reason="manual", focus=focus or None, preview=flag == "--preview"))

    def strategy(name: str) -> None:
        if name:
            submit(operations.SwitchStrategy(strategy=name))
        else:
            now = type(agent_state.strategy).__name__
            say(f"Now: {now}. There are {', '.join(BUILT_IN)}, and your own as module:ClassName.")

    def model(name: str) -> None:
        if name:
            submit(operations.SwitchModel(model=name))
        else:
            say(f"The model is {agent_state.llm.info.id}. /model NAME or /model NAME@PROVIDER switches.")

    def context(_: str) -> None:
        for line in room_words(Figures(agent_state).room()):
            say(line)
        if agent_state.projection.view:
            say(f"Largest: {largest_items(agent_state.projection)}.")

    def approvals(argument: str) -> None:
        if argument in _MODES:
            submit(operations.SwitchApprovals(mode=next(mode for mode in _MODES if mode == argument)))
            return
        say(f"Mode {agent_state.policy.mode}: {mode_words(agent_state.policy.mode)}.")
        for rule in sorted(map(rule_words, agent_state.policy.always)):
            say(f"Allowed in this session: {rule}.")
        for kept in agent_state.project.kept():
            say(f"Allowed in this project: {rule_words(kept.rule)}.")

    def rewind(argument: str) -> None:
        number, _, more = argument.partition(" ")
        found = rewind_points(agent_state.projection)
        if number.isdecimal() and any(place.id == int(number) for place in found):
            submit(operations.Rewind(checkpoint=int(number), files=more.strip() == "files"))
            return
        for place in reversed(found[:_SHOWN_PLACES]):
            changed = f", {place.changes} files changed since" if place.changes else ""
            where = "before the prompt" if place.kind == "turn" else "after"
            say(f"{place.id}  {where} {place.label}{changed}")
        if found:
            say("/rewind NUMBER goes back there; `files` behind it puts the files back, too.")
        else:
            say("There is nothing to go back to yet.")

    def mcp(name: str) -> None:
        if agent_state.servers is None:
            say("No MCP server is set up.")
        for state in agent_state.servers.states if agent_state.servers is not None else ():
            say(f"{state.name}: {state}.")

    return {
        "retry": lambda _: runner.retry(),
        "compact": compact,
        "preview": lambda focus: compact(f"--preview {focus}"),
        "strategy": strategy,
        "undo": lambda _: submit(operations.UndoCompaction()),
        "clear": lambda _: submit(operations.ClearView()),
        "context": context,
        "model": model,
        "approvals": approvals,
        "rewind": rewind,
        "mcp": mcp,
    }


def session_commands(
    agent: Agent, say: Callable[[str], None], do: Callable[[Coroutine[Any, Any, Any]], Any]
) -> dict[str, Handler]:
    """A handler for each, by its id. `do` runs a coroutine beside the agent, and waits for it."""

    def sessions(_: str) -> None:
        list_sessions(everywhere=False, archived=False, limit=20, agent=None, as_json=False)
        say("`foldline --plain -r ID` goes on with one of them.")

    def search(query: str) -> None:
        if query:
            search_sessions(words=query.split(), here=False, kind=None, limit=None, as_json=False)
        else:
            say("/search takes the words that are to be found.")

    def rename(title: str) -> None:
        entry = title_entry(title)
        if entry is None:
            say(f"It is called “{agent.session.meta().title}”. /rename TITLE gives it another title.")
        else:
            do(agent.session.append(entry, durable=True))
            agent.session.save_meta()

    def safely(handler: Handler) -> Handler:
        def handle(argument: str) -> None:
            try:
                handler(argument)
            except FoldlineError as failure:
                say(str(failure))

        return handle

    return {
        "sessions": safely(sessions),
        "search": safely(search),
        "rename": safely(rename),
    }
