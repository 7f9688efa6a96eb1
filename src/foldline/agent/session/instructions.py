"""Creates the messages that are sent before a prompt.

These are the system prompt, instruction files, and notices about a moved folder, new skills, finished jobs,
and an answer that ended early.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.agent.extensions.skills import SOURCE as SKILLS
from foldline.agent.extensions.skills import listing, news
from foldline.agent.project.discovery import up_to_top
from foldline.agent.project.trust import INSTRUCTION_FILES, read_trusted
from foldline.agent.tools.jobs import BackgroundJob, Jobs
from foldline.compaction import load_prompt
from foldline.data import config_dir
from foldline.history import Session
from foldline.history.paths import with_tilde
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    SystemMessage,
    text_parts,
)
from foldline.text.harmless import escaped_line
from foldline.text.shorten import clip
from foldline.view.calls import early_end

from .state import AgentState
from .trust_question import ask_trust

NOT_READ = "{path} was not read as instructions: {reason}."
USER_INSTRUCTIONS = "User instructions for all projects, from {path}:\n\n{text}"
PROJECT_INSTRUCTIONS = "Project instructions, from {path}:\n\n{text}"
MOVED = "The working folder was moved from {old} to {new}."
JOB_ENDED = "{job}. The `jobs` tool shows its output."
ENDED_EARLY = "Your last answer was {ending}."
CONTINUES = "{text}\n\n[{name} continues. Use `read` to see the whole file.]"

_MOST_BYTES = 64_000
"""Maximum number of bytes sent from one file.

A larger file is cut off, and a note says so.
"""
_SHOWN = 60
"""Maximum length of a job's command in a notice, in characters. The rest is cut off."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """The messages before the first prompt."""

    messages: Sequence[BaseMessage]
    left_out: Sequence[str] = ()
    """Messages about files that were not read."""


def read_preamble(cwd: Path, skills: str = "", role: str = "") -> Preamble:
    """Return the messages at the start of a session, read from disk.

    These are the system prompt with the list of skills, the user's instructions, and the project's
    instructions from its top folder down, if the user has agreed to them. None of them contains anything that
    changes often, such as the time or a list of files. Blocking: do not call it on the event loop.

    Args:
        role: a subagent's prompt; replaces the system prompt.
    """
    prompt_parts = (role or load_prompt("system"), skills, f"Working folder: {cwd}")
    prompt = "\n\n".join(filter(None, prompt_parts))
    messages: list[BaseMessage] = [SystemMessage(parts=text_parts(prompt))]
    left_out: list[str] = []
    seen: set[str] = set()
    for path, shown, top in _candidates(cwd):
        try:
            text = _read(path, top)
        except ValueError as reason:
            left_out.append(NOT_READ.format(path=shown, reason=reason))
            continue
        if not text or text in seen:
            continue
        seen.add(text)
        template = USER_INSTRUCTIONS if top is None else PROJECT_INSTRUCTIONS
        body = template.format(path=shown, text=text)
        messages.append(
            DeveloperMessage(
                origin="instructions", source=shown, parts=text_parts(body)
            )
        )
    return Preamble(messages, left_out)


async def session_preamble(state: AgentState) -> Sequence[BaseMessage]:
    """Return the messages at the start of this agent's session.

    Warns about ignored instruction files.
    """
    await ask_trust(state)
    skills = listing(state.catalogue.skills.values(), state.window)
    preamble = await asyncio.to_thread(read_preamble, state.cwd, skills, state.role)
    state.warn_once(preamble.left_out)
    return preamble.messages


def moved_notice(session: Session) -> list[BaseMessage]:
    """Return a notice that the working folder was moved, if it was."""
    if not session.moved_from:
        return []
    for item in session.projection.view:
        if item.outline.type == "developer" and _source(item.message) == session.cwd:
            return []
    body = MOVED.format(old=session.moved_from, new=session.cwd)
    return [DeveloperMessage(source=session.cwd, parts=text_parts(body))]


def skill_news(state: AgentState) -> list[BaseMessage]:
    """Return a notice about skills that are not mentioned in the view.

    The view is searched only if the view or the skills have changed.
    """
    skills = state.catalogue.skills
    current = (frozenset(skills), state.projection.newest_change)
    if not skills or current == state.skills_announced:
        return []
    state.skills_announced = current
    texts = []
    for item in state.projection.view:
        if not item.is_preamble and item.outline.type != "developer":
            continue  # decide by the outline, because messages may have to be read from disk
        if isinstance(item.message, SystemMessage) or _source(item.message) == SKILLS:
            texts.append(item.message.text)
    return [*news(skills.values(), texts, state.window)]


def job_end(job: BackgroundJob) -> str:
    """Describe the end of a background job, for display."""
    words = [f"Job {job.number} {job.state}: {clip(escaped_line(job.command), _SHOWN)}"]
    if job.sandbox_note:
        words.append(job.sandbox_note)
    if job.leftover:
        words.append(f"[{job.leftover}]")
    return " ".join(words)


def job_notice(jobs: Jobs) -> list[BaseMessage]:
    """Return a notice about finished jobs that no tool result has mentioned."""
    ended = jobs.unreported()
    if not ended:
        return []
    for job in ended:
        job.reported = True
    body = "\n".join(JOB_ENDED.format(job=job_end(job)) for job in ended)
    return [DeveloperMessage(parts=text_parts(body))]


def ending_notice(state: AgentState) -> list[BaseMessage]:
    """Return a notice that the last answer ended early.

    If the answer had tool calls, there is no notice, because the calls' results already say so.
    """
    newest = None
    for item in reversed(state.projection.view):
        if item.outline.type == "assistant" or item.outline.origin == "typed":
            newest = item.message
            break
    if not isinstance(newest, AssistantMessage) or newest.calls:
        return []
    ending = early_end(newest, state.window)
    if not ending:
        return []
    return [DeveloperMessage(parts=text_parts(ENDED_EARLY.format(ending=ending)))]


def _candidates(cwd: Path) -> Iterator[tuple[Path, str, Path | None]]:
    """Yield the path of each instruction file, its path for display, and the top folder of its project."""
    own = config_dir(os.environ) / INSTRUCTION_FILES[0]
    yield own, with_tilde(str(own)), None
    folders = up_to_top(cwd)
    for folder in reversed(folders):
        for name in INSTRUCTION_FILES:
            path = folder / name
            yield path, os.path.relpath(path, cwd), folders[-1]


def _source(message: BaseMessage) -> str | None:
    return message.source if isinstance(message, DeveloperMessage) else None


def _read(path: Path, top: Path | None) -> str:
    """Read an instruction file.

    Returns an empty string if the file is missing. If it is too large, returns its start and a note.

    Raises:
        ValueError: the file cannot be used. The message is a clause that states the reason.
    """
    data = read_trusted(path, top, _MOST_BYTES) or b""
    if len(data) <= _MOST_BYTES:
        return data.decode("utf-8", "replace").strip()
    text = data[:_MOST_BYTES].decode("utf-8", "ignore").strip()
    return CONTINUES.format(text=text, name=path.name)
