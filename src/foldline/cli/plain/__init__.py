"""`foldline --plain`: a chat as linear text, for screen readers, pipes and terminals that cannot do more."""

import os
from collections.abc import Mapping
from pathlib import Path

from foldline.agent.model_choice import is_first_start
from foldline.agent.settings import connect_llm
from foldline.cli.agents import agent_for, chosen_session
from foldline.cli.output import entries_of, note
from foldline.cli.resume import choose
from foldline.cli.resume_folder import folder_of
from foldline.cli.settings import settings_here
from foldline.history import data_home, short_id

from .chat import PlainChat
from .terminal import LineReader, Paper


def talk(prompt: str | None, continues: bool, resume: str | None, chosen: Mapping[str, object]) -> int:
    """Hold the chat; the exit code. `chosen` are the settings that the options set.

    Raises:
        FoldlineError: it cannot begin.
    """
    if resume == "":
        resume = str(choose())
    root = folder_of(resume, Path.cwd()) if resume else Path.cwd()
    reader, paper = LineReader(), Paper()
    session = chosen_session(continues, resume, root)
    settings = settings_here(session.cwd, **chosen)
    agent = agent_for(session, settings, connect_llm(settings, os.environ), interactive=reader.is_terminal)
    ref, title = short_id(session.id), session.meta().title
    entries = entries_of(len(session.entries))
    which = f"session {ref}, “{title}”, {entries}" if title else "a new session"
    paper.line(f"Foldline, {which}, model {agent.state.llm.info.id}. /help helps.")
    if is_first_start(settings, os.environ, data_home()):
        paper.line("No model is set up: the built-in one answers. -m MODEL@PROVIDER names another one.")
    if session.moved_from:
        paper.line(f"This session was held in {session.moved_from}; it continues in {session.cwd}.")
    if session.damage:
        paper.line(f"This session's file is damaged: {session.damage}. All else is here.")
    code = PlainChat(agent, paper, reader).run(prompt or "")
    if session.path is not None and session.path.exists():
        note(f"session {ref}; `foldline --plain -r {ref}` continues it.")
    return code
