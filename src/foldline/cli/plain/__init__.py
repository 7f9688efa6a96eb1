"""`foldline --plain`: runs the chat as linear text, for screen readers, pipes and dumb terminals."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from foldline.agent.settings.model_choice import is_first_start
from foldline.agent.settings.settings import connect_llm
from foldline.cli.agents import agent_for, chosen_session
from foldline.cli.output import entries_of, note_session
from foldline.cli.resume_folder import folder_of
from foldline.cli.settings import settings_here
from foldline.frontend.runner import resume_notes
from foldline.history import data_home, short_id
from foldline.termination import run_async

from .chat import PlainChat
from .terminal import PlainTerminal, PromptReader

GREETING = "Foldline, {session}, model {model}. Type /help for help."
NO_MODEL = "No model is set up, so the built-in one is used. Choose another with -m MODEL@PROVIDER."


def plain_chat(
    prompt: str | None,
    continues: bool,
    resume: str | None,
    chosen: Mapping[str, object],
) -> int:
    """Run the chat, and return the exit code.

    Args:
        resume: a session's id. None if `-r` was not given.
        chosen: settings given as command line options, by name.

    Raises:
        FoldlineError: the session, a model or a setting is missing or invalid.
    """
    root = folder_of(resume, Path.cwd()) if resume else Path.cwd()
    terminal = PlainTerminal()
    session = chosen_session(continues, resume, root)
    settings = settings_here(session.cwd, **chosen)
    agent = agent_for(
        session,
        settings,
        connect_llm(settings, os.environ),
        interactive=sys.stdin.isatty(),
    )
    ref = short_id(session.id)
    title = session.meta().title
    entries = entries_of(len(session.entries))
    description = f"session {ref}, “{title}”, {entries}" if title else "a new session"
    model = agent.state.models.llm.info.id
    terminal.line(GREETING.format(session=description, model=model))
    if is_first_start(settings, os.environ, data_home()):
        terminal.line(NO_MODEL)
    for sentence in resume_notes(session):
        terminal.line(sentence)
    chat = PlainChat(agent, terminal, PromptReader(terminal))
    code = run_async(chat.run(prompt or ""))
    if session.path is not None and session.path.exists():
        note_session(ref, f"foldline --plain -r {ref}")
    return code
