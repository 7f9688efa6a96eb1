"""Puts an agent together from settings: the one place where session, model and limits meet."""

from collections.abc import Mapping
from pathlib import Path

from foldline.history import Session
from foldline.llm import LLM

from .agent import Agent
from .approvals import Mode
from .settings import Settings, connect_llm


def build_agent(
    session: Session, settings: Settings, environ: Mapping[str, str], *, approvals: Mode | None = None
) -> Agent:
    """An agent for this session as the settings say.

    Raises:
        FoldlineError: the model needs a server or a key, and there is none.
    """

    def connect(model: str) -> LLM:
        return connect_llm(settings.model_copy(update={"model": model}), environ)

    llm = connect_llm(settings, environ)
    return Agent(
        session,
        llm=llm,
        compaction=settings.strategy(),
        mode=settings.compaction.mode,
        budget=settings.budget_settings(llm.info.window),
        approvals=approvals or settings.approvals.mode,
        connect=connect,
    )


def session_for(root: Path, event_file: Path | None) -> Session:
    """The session in this event file, claimed for writing; without one, a new session for the folder.

    Raises:
        FoldlineError: it is not there, not ours, or another process writes to it.
    """
    if event_file is None:
        return Session.create(root)
    session = Session.open(event_file)
    session.claim()
    return session
