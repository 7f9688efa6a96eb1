"""What goes before a prompt: system prompt, instruction files, a moved folder, ended jobs, a cut answer."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.compaction import load_prompt
from foldline.context.calls import early_end
from foldline.context.digest import clip
from foldline.data import config_dir
from foldline.history import Session
from foldline.history.paths import with_tilde
from foldline.protocol import AssistantMessage, BaseMessage, DeveloperMessage, SystemMessage, text_parts

from .discovery import up_to_top
from .skills import SOURCE as SKILLS
from .skills import listing, news
from .state import AgentState
from .tools.jobs import Job, Jobs
from .tools.text import one_line
from .trust import INSTRUCTION_FILES, read_brought
from .trust_question import ask_trust

_MOST_BYTES = 64_000
"""Of one file; what goes beyond is named, not sent."""
_SHOWN = 60
"""Characters of a job's command."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """The messages before the first prompt."""

    messages: Sequence[BaseMessage]
    left_out: Sequence[str] = ()
    """Sentences on files that are there and were not read."""


def read_preamble(
    cwd: Path, environ: Mapping[str, str] = os.environ, skills: str = "", role: str = ""
) -> Preamble:
    """What a new session begins with: system prompt with the list of skills, the user's instructions, then
    the project's that were agreed to, from its top down. Nothing volatile: no time, no listing. Reads files:
    call it off the event loop. `role` stands in place of the system prompt."""
    prompt = "\n\n".join(filter(None, (role or load_prompt("system"), skills, f"Working folder: {cwd}")))
    messages: list[BaseMessage] = [SystemMessage(parts=text_parts(prompt))]
    left_out: list[str] = []
    seen: set[str] = set()
    for path, shown, within in _candidates(cwd, environ):
        try:
            text = _read(path, within)
        except ValueError as reason:
            left_out.append(f"{shown} was not read as instructions: {reason}.")
            continue
        if text and text not in seen:
            seen.add(text)
            whose = "this project" if within is not None else "the person you work for, for all projects"
            body = f"Instructions of {whose}, from {shown}:\n\n{text}"
            messages.append(DeveloperMessage(origin="instructions", source=shown, parts=text_parts(body)))
    return Preamble(messages, left_out)


def moved_notice(session: Session) -> list[BaseMessage]:
    """Where the folder was moved since the system prompt named it: says so, once in a view."""
    if not session.moved_from:
        return []
    notes = (item for item in session.projection.view if item.outline.type == "developer")
    known = any(_source(item.message) == session.cwd for item in notes)
    body = f"The working folder was moved from {session.moved_from}: it is {session.cwd} now."
    return [] if known else [DeveloperMessage(source=session.cwd, parts=text_parts(body))]


def skill_news(state: AgentState) -> list[BaseMessage]:
    """The skills that came since the system prompt listed them: said once in a view. The view is looked
    through only where it, or they, are others than before."""
    moment = (frozenset(state.catalogue.skills), state.projection.newest_change)
    if not state.catalogue.skills or moment == state.skills_said:
        return []
    state.skills_said = moment
    heads = (
        item.message for item in state.projection.view if item.is_preamble or item.outline.type == "developer"
    )
    said = [each.text for each in heads if isinstance(each, SystemMessage) or _source(each) == SKILLS]
    return [*news(state.catalogue.skills.values(), said, state.window)]


async def session_preamble(state: AgentState) -> Sequence[BaseMessage]:
    """What a new session begins with. Instruction files that were left alone are named."""
    await ask_trust(state)
    skills = listing(state.catalogue.skills.values(), state.window)
    preamble = await asyncio.to_thread(read_preamble, state.cwd, skills=skills, role=state.role)
    state.warn_once(preamble.left_out)
    return preamble.messages


def job_end(job: Job) -> str:
    """That a job in the background has ended, for people."""
    command, leftover = clip(one_line(job.command), _SHOWN), job.leftover
    notes = (job.seen, f"[{leftover}]" if leftover else "")
    return " ".join(filter(None, (f"Job {job.number} {job.state}: {command}", *notes)))


def job_notice(jobs: Jobs) -> list[BaseMessage]:
    """The jobs that have ended without a result that says so."""
    ended = jobs.news()
    if not ended:
        return []
    for job in ended:
        job.reported = True
    body = "\n".join(f"{job_end(job)}. The tool `jobs` shows its output." for job in ended)
    return [DeveloperMessage(parts=text_parts(body))]


def ending_notice(state: AgentState) -> list[BaseMessage]:
    """A note that the answer before the next prompt ended early; results of its calls say it themselves."""
    spoken = (
        item
        for item in reversed(state.projection.view)
        if item.outline.type == "assistant" or item.outline.origin == "typed"
    )
    item = next(spoken, None)
    newest = None if item is None else item.message
    if not isinstance(newest, AssistantMessage) or newest.calls:
        return []
    ending = early_end(newest, state.window)
    return [DeveloperMessage(parts=text_parts(f"Your last answer was {ending}."))] if ending else []


def _candidates(cwd: Path, environ: Mapping[str, str]) -> Iterator[tuple[Path, str, Path | None]]:
    """Where instructions may be: the path, its name on screen, the folder a project's file must lie in."""
    own = config_dir(environ) / INSTRUCTION_FILES[0]
    yield own, with_tilde(str(own)), None
    folders = up_to_top(cwd)
    for folder in reversed(folders):
        for name in INSTRUCTION_FILES:
            yield folder / name, os.path.relpath(folder / name, cwd), folders[-1]


def _source(message: BaseMessage) -> str | None:
    return message.source if isinstance(message, DeveloperMessage) else None


def _read(path: Path, within: Path | None) -> str:
    """The file's text; empty where there is none. Of a huge one the beginning, and that there is more.

    Raises:
        ValueError: it is left alone; why, as the end of a sentence.
    """
    data = read_brought(path, within, _MOST_BYTES) or b""
    text = data[:_MOST_BYTES].decode("utf-8", "ignore" if len(data) > _MOST_BYTES else "replace").strip()
    return f"{text}\n\n[{path.name} continues: `read` shows it whole]" if len(data) > _MOST_BYTES else text
