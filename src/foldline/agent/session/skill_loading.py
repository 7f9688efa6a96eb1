"""Finds skills before each turn, loads them, and expands prompts that call a command."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from foldline.agent.extensions.catalogue import catalogue_of
from foldline.agent.extensions.custom_commands import CALL, SHELL_LINE, filled
from foldline.agent.extensions.skills import skill_message
from foldline.agent.project.discovery import Extension
from foldline.agent.tools import (
    Arguments,
    BaseTool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
)
from foldline.protocol import (
    DeveloperMessage,
    Edit,
    Entry,
    FoldlineError,
    UserMessage,
)
from foldline.text.harmless import escaped_line
from foldline.text.tags import command_part
from foldline.view.items import ViewItem
from foldline.view.projection import Projection
from foldline.view.weight import item_weight

from .context_budget import ContextBudget
from .instructions import session_preamble
from .server_prompts import server_prompt, server_prompts, with_attached, with_resources
from .state import AgentState
from .toolset import SKILL_TOOL, Toolset
from .trust_question import ask_trust

LOADED = "{name} has been loaded. Every request includes it until you enter `/skill unload {name}`."
WAS_LOADED = "{name} is already loaded. Every request includes it until you enter `/skill unload {name}`."
UNLOADED = "{name} has been unloaded."
NOT_LOADED = "The skill {name!r} is not loaded."
NO_SKILL = "There is no skill {name!r}. {available}."
AVAILABLE = "Available skills: {names}"
NONE_AVAILABLE = "There are no skills"
ALREADY_LOADED = "The skill {name} is already loaded."
FOLLOWS = "Instructions of the {name} skill follow."
NOT_AGREED = "/{name} was ignored, because you have not agreed to it. /approvals lists such files."
SHELL_LINES = (
    "The !`…` lines of {path} are not run. The model may run them with `bash`."
)


async def look_around(state: AgentState) -> None:
    """Update the list of skills, commands and prompts.

    Warns once about ignored files.
    """
    tools = state.tools
    catalogue = await asyncio.to_thread(catalogue_of, tools.cwd, tools.reserved)
    by_name = {**server_prompts(tools), **catalogue.by_name}
    tools.catalogue = replace(catalogue, by_name=by_name)
    state.events.warn_once(catalogue.left_aside)
    if state.subagents is not None:
        state.subagents.list_agents()


def loaded(projection: Projection) -> Iterator[tuple[str, ViewItem]]:
    """Yield the names and items of the skills in the view."""
    for item in projection.view:
        if item.outline.origin == "skill" and isinstance(
            item.message, DeveloperMessage
        ):
            yield Path(item.message.source or "").parent.name, item


def skill_rows(tools: Toolset) -> Iterator[tuple[str, str]]:
    """Yield the possible arguments of `/skill`, each with a description."""
    projection = tools.projection
    loaded_items = dict(loaded(projection))
    for name, item in loaded_items.items():
        yield (
            f"unload {name}",
            f"loaded, {item_weight(projection, item).tokens:,} tokens",
        )
    for skill in tools.catalogue.skills.values():
        if skill.name not in loaded_items:
            yield skill.name, f"{skill.description} ({skill.shown})"


async def load_skill(state: AgentState, arguments: str) -> None:
    """Carry out `/skill NAME` or `/skill unload NAME`.

    Raises:
        FoldlineError: there is no such skill, or the window has no room for it.
    """
    word, _, name = arguments.partition(" ")
    if word == "unload" and name:
        await _unload(state.tools, name)
        return
    await ask_trust(state.permissions)
    await look_around(state)
    skill = _skill_named(state.tools, arguments, [*state.tools.catalogue.skills])
    sentence = LOADED if await _load(state, skill) else WAS_LOADED
    state.events.notify(sentence.format(name=skill.name))


async def _unload(tools: Toolset, name: str) -> None:
    skills = loaded(tools.projection)
    indexes = {skill_name: item.index for skill_name, item in skills}
    if name not in indexes:
        raise FoldlineError(NOT_LOADED, name=escaped_line(name))
    await tools.session.append(Edit(target=indexes[name], action="drop"), durable=True)
    tools.events.notify(UNLOADED, name=name)


def _skill_named(tools: Toolset, name: str, names: Sequence[str]) -> Extension:
    if name in names:
        return tools.catalogue.skills[name]
    available = AVAILABLE.format(names=", ".join(names)) if names else NONE_AVAILABLE
    raise FoldlineError(NO_SKILL, name=escaped_line(name), available=available)


async def _load(state: AgentState, skill: Extension) -> bool:
    """Load a skill. Return False if it was already loaded."""
    entries = _loading_entries(state.projection, skill)
    if entries:
        state.budget.demand_room(skill_message(skill), f"skill {skill.name}")
        await append_to_view(state, *entries)
    return bool(entries)


def _loading_entries(projection: Projection, skill: Extension) -> list[Entry]:
    """Return the entries that load a skill and remove its older versions.

    Returns an empty list if the skill is already loaded.
    """
    message = skill_message(skill)
    old_items = [item for name, item in loaded(projection) if name == skill.name]
    if any(item.message.text == message.text for item in old_items):
        return []
    drops = [Edit(target=item.index, action="drop") for item in old_items]
    return [*drops, message]


async def append_to_view(state: AgentState, *entries: Entry) -> None:
    """Append pinned messages to the view.

    In a new session, the preamble is appended first.
    """
    preamble = [] if state.projection.view else await session_preamble(state)
    await state.session.append(*preamble, *entries, durable=True)


class SkillArguments(Arguments):
    name: str = Field(description="Name of the skill, as in the list of skills.")


class SkillTool(BaseTool[SkillArguments]):
    name = SKILL_TOOL
    description = (
        "Load a skill. Its instructions follow, and stay for the whole session."
    )
    arguments = SkillArguments

    def __init__(self, budget: ContextBudget) -> None:
        super().__init__()
        self._budget = budget

    def headline(self, arguments: SkillArguments) -> str:
        return arguments.name

    async def act(self, arguments: SkillArguments, context: ToolContext) -> ToolOutcome:
        tools = self._budget.tools
        skills = tools.catalogue.skills.values()
        names = [skill.name for skill in skills if skill.for_model]
        try:
            skill = _skill_named(tools, arguments.name, names)
            entries = _loading_entries(tools.projection, skill)
            if not entries or entries[-1] in tools.after_results:
                text = ALREADY_LOADED.format(name=skill.name)
                return ToolOutcome(text, brief="loaded")
            self._budget.demand_room(skill_message(skill), f"skill {skill.name}")
        except FoldlineError as refusal:
            raise ToolFailure(str(refusal), "not loaded ✗") from None
        tools.after_results += entries
        return ToolOutcome(FOLLOWS.format(name=skill.name), brief="loaded")


# --- prompts ----------------------------------------------------------------------------------------------


async def opened_prompt(state: AgentState, prompt: UserMessage) -> UserMessage:
    """Expand the command and resources in a prompt, or load the skill that it calls.

    Raises:
        FoldlineError: the command is not trusted, the window has no room for it, or a resource cannot be
            read.
    """
    await look_around(state)
    prompt = await with_resources(state.budget, prompt)
    call = CALL.fullmatch(prompt.typed.strip())
    if call is None or call[1] in state.tools.reserved:
        return prompt
    called = state.tools.catalogue.by_name.get(call[1])
    if called is None:
        return prompt
    if not called.is_trusted:
        raise FoldlineError(NOT_AGREED, name=called.name)
    if called.kind == "skills":
        await _load(state, called)
        return prompt
    arguments = (call[2] or "").strip()
    if called.kind == "commands":
        expansion = filled(called.body, arguments)
        if SHELL_LINE.search(called.body):
            state.events.warn_once([SHELL_LINES.format(path=called.shown)])
    else:
        expansion = await server_prompt(state.budget, called.name, arguments)
    return with_attached(prompt, [command_part(called.shown, expansion)])
