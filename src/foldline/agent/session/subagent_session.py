"""A subagent's session: its state, tools and limits, and its last words."""

from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain
from typing import NamedTuple

from foldline.agent.project.discovery import Extension
from foldline.agent.settings.schema import Limits
from foldline.agent.tools import Tool
from foldline.agent.tools.bash import BashTool
from foldline.agent.tools.history import RECALL_TOOLS, DmailTool, recall_tools
from foldline.compaction import (
    AdaptiveCompaction,
    CompactionStrategy,
    strategy_name,
)
from foldline.history import Session
from foldline.llm import LLM
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    NoticeRecord,
    RequestRecord,
)
from foldline.view.calls import early_end, unanswered

from .hook_runs import tool_subjects
from .limits import Bounds
from .plan import AskUserTool, PlanTool
from .skill_loading import SkillTool
from .state import AgentState
from .toolset import SEARCH_TOOL, SKILL_TOOL, TASK_TOOL

_SESSION_TOOLS = frozenset(
    {
        TASK_TOOL,
        SKILL_TOOL,
        SEARCH_TOOL,
        PlanTool.name,
        AskUserTool.name,
        DmailTool.name,
        *RECALL_TOOLS,
    }
)
"""Tools that work on one session.

A subagent gets its own instances of some of them, but cannot start subagents or ask the user.
"""
NOT_BEGUN = "it had not started"
WAS_STOPPED = (
    "it was stopped before it had an answer, by the user or because the program exited"
)
ENDED_EARLY = "its answer was {ending}"
NO_ANSWER = "it gave no answer"
UNDONE = "its task is not finished"


def child_state(
    parent: AgentState,
    session: Session,
    agent: Extension,
    own_llm: LLM | None,
) -> AgentState:
    """Create a subagent's state from the parent's state."""
    state = AgentState(
        session, own_llm or parent.models.llm, parent=parent, role=agent.body
    )
    state.models.connect = parent.models.connect
    state.models.summary_llm = parent.models.summary_llm
    state.models.fallback = parent.models.fallback
    state.events.reported_faults = parent.events.reported_faults
    state.budget.settings = parent.budget.settings
    state.budget.bounds = _bounds(parent.budget.bounds, agent)
    state.budget.refused = dict(parent.budget.refused)
    state.permissions.policy = parent.permissions.policy
    state.permissions.left_aside = parent.permissions.left_aside
    sandbox = parent.permissions.sandbox
    state.permissions.sandbox.options = sandbox.options
    state.permissions.sandbox.engine = sandbox.engine
    state.permissions.sandbox.acting = sandbox.acting
    state.hooks.is_on = parent.hooks.is_on
    state.hooks.hooks = parent.hooks.hooks
    state.hooks.start_messages = []
    # Subagents must not overwrite one another's edits.
    state.tools.known_files.lock = parent.tools.known_files.lock
    state.tools.catalogue = parent.tools.catalogue
    state.tools.reserved = parent.tools.reserved
    shared_tools = [
        tool for tool in parent.tools.all if tool.spec.name not in _SESSION_TOOLS
    ]
    tools = (*shared_tools, *recall_tools(session), SkillTool(state.budget))
    state.tools.all = tuple(tools_of(agent, tools))
    state.compaction.draft.on = False
    state.compaction.strategy = _new_strategy(parent, state)
    return state


def _bounds(parent: Bounds, agent: Extension) -> Bounds:
    limits = parent.limits
    steps = limits.subagent_steps
    setting_name = "limits.subagent_steps"
    if agent.steps and not 0 < steps <= agent.steps:
        steps = agent.steps
        setting_name = f"maxTurns of {agent.name}"
    child_limits = Limits(turn_steps=steps, equal_steps=limits.equal_steps)
    return Bounds(child_limits, {"turn_steps": setting_name}, UNDONE, parent)


def tools_of(agent: Extension, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that an agent may use, restricted where necessary."""
    restricted = [_restricted(agent, tool) for tool in tools]
    return [tool for tool in restricted if tool is not None]


def _restricted(agent: Extension, tool: Tool) -> Tool | None:
    """Return a tool as an agent may use it.

    Returns None if the agent must not use it, or if a restriction cannot be enforced.
    """
    if agent.only_reads and tool.level != "read":
        return None
    if agent.tools is not None and "" not in _parts_among(tool, agent.tools):
        return None
    forbidden = _parts_among(tool, agent.without_tools)
    if not forbidden:
        return tool
    if "" in forbidden or not isinstance(tool, BashTool):
        return None
    bash = BashTool()
    bash.never = forbidden
    return bash


def _parts_among(tool: Tool, patterns: Iterable[str]) -> list[str]:
    """Return the parts of a tool that the patterns name.

    `Bash(git *)` names the part `git *`. `bash` and `mcp__github__*` name a whole tool; for such a name, an
    empty string is returned.
    """
    names = [name.casefold() for name in tool_subjects(tool.spec.name)]
    parts = []
    for pattern in patterns:
        tool_pattern, _, part = pattern.removesuffix(")").partition("(")
        tool_pattern = tool_pattern.strip().casefold()
        if any(fnmatchcase(name, tool_pattern) for name in names):
            part = part.strip()
            parts.append("" if part in ("*", ":*") else part)
    return parts


def _new_strategy(parent: AgentState, state: AgentState) -> CompactionStrategy:
    """Create another instance of the parent's strategy.

    A strategy cannot be shared, because it may keep data about its session.
    """
    with suppress(FoldlineError):
        return state.compaction.load(strategy_name(parent.compaction.strategy))
    return AdaptiveCompaction()


# --- the end ---


class FinalAnswer(NamedTuple):
    """The last text in a session."""

    text: str
    problem: str
    """Why the text is not an answer, as a clause; empty if it is one."""


def last_words(session: Session) -> FinalAnswer:
    """Return the last text in a subagent's session, and the reason if it is not an answer."""
    answers = (
        entry
        for entry in reversed(session.entries)
        if isinstance(entry, AssistantMessage)
    )
    final = next(answers, AssistantMessage())
    texts = (answer.text.strip() for answer in chain([final], answers))
    text = next(filter(None, texts), "")
    newest = session.entries[-1] if session.entries else None
    match newest:
        case None:
            return FinalAnswer(text, NOT_BEGUN)
        case (
            RequestRecord(error=str() as error)
            | NoticeRecord(level="error", text=error)
        ):
            return FinalAnswer(text, error)
    open_message = unanswered(session.projection)
    was_stopped = (
        not isinstance(newest, RequestRecord) or newest.stop_reason == "cancelled"
    )
    if was_stopped or isinstance(open_message, AssistantMessage):
        return FinalAnswer(text, WAS_STOPPED)
    if ending := early_end(final):
        return FinalAnswer(text, ENDED_EARLY.format(ending=ending))
    if open_message is not None or not final.text.strip():
        return FinalAnswer(text, NO_ANSWER)
    return FinalAnswer(text, "")
