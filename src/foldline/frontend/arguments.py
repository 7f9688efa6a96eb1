"""The possible arguments of slash commands, for completion, lists and plain text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from foldline.text import numbers

if TYPE_CHECKING:
    from foldline.agent import Agent
    from foldline.agent.extensions.mcp.servers import ToolServer
    from foldline.agent.session.state import AgentState

CURRENT = "Current: {name}."
NONE_FOUND = "There is nothing to choose: see docs/extending.md."


def known_arguments(
    command: str, state: "AgentState | None"
) -> Sequence[tuple[str, str]]:
    """Return a (name, note) pair for each argument of a command.

    Sends no requests. `state` is None if no session is open yet.
    """
    match command:
        case "strategy":
            from foldline.compaction import BUILT_IN

            return [
                (name, _first_sentence(strategy.__doc__))
                for name, strategy in BUILT_IN.items()
            ]
        case "model":
            from foldline.llm.models import table

            windows = (
                (name, row.get("window")) for name, row in table().by_model.items()
            )
            return [
                (name, f"window {numbers.short_tokens(size)}" if size else "")
                for name, size in windows
            ]
        case "effort":
            from foldline.agent.settings.schema import KEYS, choices_of

            return [(effort, "") for effort in choices_of(KEYS["effort"])]
        case "skill" if state is not None:
            from foldline.agent.session.skill_loading import skill_rows

            return [*skill_rows(state.tools)]
        case "mcp" if state is not None and state.tools.servers is not None:
            return [
                (server.name, _server_note(server))
                for server in state.tools.servers.states
            ]
        case _:
            return ()


def _server_note(server: "ToolServer") -> str:
    """Return the state of a tool server, with the path of its log if there is a problem."""
    from foldline.history.paths import with_tilde

    log = f", {with_tilde(str(server.log))}" if server.trouble else ""
    return f"{server}{log}"


def current_argument(command: str, agent: "Agent") -> str:
    """Return the argument that is in force, or an empty string."""
    if command == "strategy":
        from foldline.compaction import strategy_name

        return strategy_name(agent.state.compaction.strategy)
    if command == "effort" and agent.settings is not None:
        return agent.settings.effort
    return ""


def argument_lines(command: str, agent: "Agent") -> Iterator[str]:
    """Yield the arguments of a command as lines of text."""
    rows = known_arguments(command, agent.state)
    current = current_argument(command, agent)
    if current:
        yield CURRENT.format(name=current)
    for name, note in rows:
        yield f"/{command} {name}: {note}." if note else f"/{command} {name}"
    if not rows:
        yield NONE_FOUND


def _first_sentence(text: str | None) -> str:
    words = " ".join((text or "").replace("`", "").split())
    return words.partition(". ")[0].rstrip(".")
