"""Skills in a session: found before each turn, loaded by the model or the user; prompts that call."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from foldline.context.conversation import with_called
from foldline.context.tokens import message_tokens
from foldline.context.view import ViewItem
from foldline.context.weight import item_weight
from foldline.protocol import DeveloperMessage, Edit, Entry, FoldlineError, TextPart, UserMessage
from foldline.protocol.events import Notice

from .catalogue import catalogue_of
from .custom_commands import CALL, SHELL_LINE, filled
from .discovery import Custom
from .instructions import session_preamble
from .server_prompts import server_prompt, server_prompts, with_resources
from .skills import skill_message
from .state import SKILL_TOOL, AgentState
from .tools import Arguments, BaseTool, ToolContext, ToolFailure, ToolOutcome
from .tools.text import one_line
from .trust_question import ask_trust


async def look_around(state: AgentState) -> None:
    """Find the skills, commands and prompts there are now. What is newly left aside is said once."""
    found = await asyncio.to_thread(catalogue_of, state.cwd, os.environ, state.reserved)
    state.catalogue = replace(found, by_name={**server_prompts(state), **found.by_name})
    state.warn_once(state.catalogue.left_aside)
    if state.subagents is not None:
        state.subagents.list_agents()


def loaded(state: AgentState) -> Iterator[tuple[str, ViewItem]]:
    """The skills that the next request sends: their names and items."""
    for item in state.projection.view:
        message = item.message if item.outline.origin == "skill" else None
        if isinstance(message, DeveloperMessage):
            yield Path(message.source or "").parent.name, item


def skill_rows(state: AgentState) -> Iterator[tuple[str, str]]:
    """What may stand behind `/skill`, unloading first, and what people are told of each skill."""
    there = dict(loaded(state))
    for name, item in there.items():
        yield f"unload {name}", f"loaded, {item_weight(state.projection, item).tokens:,} tokens"
    for skill in state.catalogue.skills.values():
        if skill.name not in there:
            yield skill.name, f"{skill.description} ({skill.shown})"


async def load_skill(state: AgentState, asked: str) -> None:
    """What `/skill` asks for: loading the one of this name, or, behind `unload`, taking it out of the view.

    Raises:
        FoldlineError: there is none of this name, or no room for it.
    """
    word, _, name = asked.partition(" ")
    if word == "unload" and name:
        there = {name: item.index for name, item in loaded(state)}
        if name not in there:
            raise FoldlineError(f"The skill {one_line(name)!r} is not loaded.")
        await state.session.append(Edit(target=there[name], action="drop"), durable=True)
        state.emit(Notice(text=f"{name} is unloaded."))
        return
    await ask_trust(state)
    await look_around(state)
    skill = _wanted(state, asked, [*state.catalogue.skills])
    said = f"{skill.name} is loaded{'' if await _load(state, skill) else ' already'}"
    state.emit(Notice(text=f"{said}: it goes with every request until `/skill unload {skill.name}`."))


def _wanted(state: AgentState, name: str, names: Sequence[str]) -> Custom:
    if name in names:
        return state.catalogue.skills[name]
    there = f"There are: {', '.join(names)}" if names else "There is none at all"
    raise FoldlineError(f"There is no skill {one_line(name)!r}. {there}.")


async def _load(state: AgentState, skill: Custom) -> bool:
    """Whether there was anything to do: it may be loaded."""
    entries = _entries(state, skill)
    if entries:
        demand_room(state, skill_message(skill), f"skill {skill.name}")
        await append_to_view(state, *entries)
    return bool(entries)


def _entries(state: AgentState, skill: Custom) -> list[Entry]:
    """What loads it: nothing where it is loaded; in place of what it was when it was loaded before."""
    message, old = skill_message(skill), [item for name, item in loaded(state) if name == skill.name]
    if any(item.message.text == message.text for item in old):
        return []
    return [*(Edit(target=item.index, action="drop") for item in old), message]


async def append_to_view(state: AgentState, *entries: Entry) -> None:
    """Append what is pinned, behind the preamble where nothing was said yet."""
    first = [] if state.projection.view else await session_preamble(state)
    await state.session.append(*first, *entries, durable=True)


def demand_room(state: AgentState, message: DeveloperMessage, name: str) -> None:
    """
    Raises:
        FoldlineError: beside all else that stays, the window has no room for it.
    """
    budget, tokens = state.budget, message_tokens(message)
    stays = round((state.projection.fixed + state.overhead + tokens) * state.scale)
    if stays >= budget.threshold - budget.max_summary_tokens:
        raise FoldlineError(
            f"The {name} takes about {round(tokens * state.scale):,} tokens: beside what stays, "
            f"too many for a window of {budget.window:,}."
        )


class SkillArguments(Arguments):
    name: str = Field(description="Its name in the list of skills.")


A = TypeVar("A", bound=Arguments)


class StateTool(BaseTool[A]):
    """A tool that works on the session's state."""

    def __init__(self, state: AgentState) -> None:
        super().__init__()
        self._state = state


class SkillTool(StateTool[SkillArguments]):
    name = SKILL_TOOL
    description = "Load a skill: its instructions follow, and stay for the whole session."
    arguments = SkillArguments

    def headline(self, arguments: SkillArguments) -> str:
        return arguments.name

    async def act(self, arguments: SkillArguments, context: ToolContext) -> ToolOutcome:
        state = self._state
        names = [skill.name for skill in state.catalogue.skills.values() if skill.for_model]
        try:
            skill = _wanted(state, arguments.name, names)
            entries = _entries(state, skill)
            if not entries or entries[-1] in state.behind_results:
                return ToolOutcome(f"The skill {skill.name} is loaded already.", brief="loaded")
            demand_room(state, skill_message(skill), f"skill {skill.name}")
        except FoldlineError as refusal:
            raise ToolFailure(str(refusal), "not loaded ✗") from None
        state.behind_results += entries
        return ToolOutcome(f"The instructions of the skill {skill.name} follow.", brief="loaded")


# --- prompts ----------------------------------------------------------------------------------------------


async def opened_prompt(state: AgentState, prompt: UserMessage) -> UserMessage:
    """The prompt as the model gets it: with what a command that it calls stands for, and what a server has of
    the resources it names. A skill is loaded.

    Raises:
        FoldlineError: what it calls was left aside, there is no room for it, or what it names cannot be read.
    """
    await look_around(state)
    prompt = await with_resources(state, prompt)
    call = CALL.fullmatch(prompt.typed.strip())
    found = None if call is None or call[1] in state.reserved else state.catalogue.by_name.get(call[1])
    if call is None or found is None:
        return prompt
    if not found.counts:
        raise FoldlineError(
            f"/{found.name} was left aside, as nobody has agreed to it: /approvals lists such files."
        )
    if found.kind == "skills":
        await _load(state, found)
        return prompt
    given = (call[2] or "").strip()
    is_file = found.kind == "commands"
    stands_for = filled(found.body, given) if is_file else await server_prompt(state, found.name, given)
    if is_file and SHELL_LINE.search(found.body):
        state.warn_once([f"The !`…` lines of {found.shown} are not run: the model may, with `bash`."])
    text = with_called(prompt.typed.rstrip(), found.shown, stands_for) + prompt.piped
    others = (part for part in prompt.parts if not isinstance(part, TextPart))
    return prompt.model_copy(update={"parts": (TextPart(text=text), *others)})
