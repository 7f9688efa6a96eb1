"""From the settings and a choice of session to an agent that can work."""

import os
from pathlib import Path

from foldline.agent import Agent
from foldline.agent.settings import (
    Settings,
    connect_embedder,
    connect_llm,
    connect_summariser,
    load_settings,
)
from foldline.history import Session, data_home, find_session, latest
from foldline.llm import LLM
from foldline.protocol import FoldlineError


def chosen_session(continues: bool, resume: str | None) -> Session:
    """The session that `-c` or `-r` names, claimed for writing, or a new one for this folder.

    Raises:
        FoldlineError: there is no such session, it cannot be read, or another process writes to it.
    """
    if resume:
        return _claimed(find_session(data_home(), resume))
    if not continues:
        return Session.create(Path.cwd())
    path = latest(data_home(), Path.cwd())
    if path is None:
        raise FoldlineError("There is no session in this folder to continue: start one without -c.")
    return _claimed(path)


def _claimed(path: Path) -> Session:
    session = Session.open(path)
    session.claim()
    return session


def agent_for(
    session: Session, settings: Settings, llm: LLM, *, yes: bool = False, interactive: bool = False
) -> Agent:
    """An agent as the settings want it. `yes` runs every tool call unasked; `interactive`: somebody is there
    to answer proposals and choices.

    Raises:
        FoldlineError: the model that is to write the summaries needs a server or a key, and there is none.
    """

    def connect(model: str) -> LLM:
        return connect_llm(load_settings(Path.cwd(), os.environ, {"model": model}), os.environ)

    return Agent(
        session,
        llm=llm,
        compaction=settings.compaction.strategy,
        mode=settings.compaction.mode,
        summariser=connect_summariser(settings, os.environ),
        embedder=connect_embedder(settings, os.environ),
        budget=settings.budget_settings,
        approvals="all" if yes else settings.approvals.mode,
        connect=connect,
        interactive=interactive,
    )
