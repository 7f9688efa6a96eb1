"""From the settings and a choice of session to an agent that can work."""

import os
from pathlib import Path

from foldline.agent import Agent
from foldline.agent.approvals import mode_of
from foldline.agent.settings import (
    Settings,
    connect_embedder,
    connect_llm,
    connect_summariser,
    load_settings,
)
from foldline.files import is_folder
from foldline.history import Folder, Session, data_home, find_session, latest, read_header
from foldline.history.archive import is_foreign
from foldline.llm import LLM, EmbedderWhile
from foldline.protocol import FoldlineError

from .held import claimed
from .tool_servers import tool_servers


def chosen_session(continues: bool, resume: str | None, folder: Path | None = None) -> Session:
    """The session that `-c` or `-r` names, claimed for writing, or a new one for this folder.

    What is resumed works in `folder`; without that, in its own, or in this one, where that was moved here, is
    gone, or is only what somebody else wrote there.

    Raises:
        FoldlineError: there is no such session, or it cannot be read.
        Refused: another process writes to it, or it cannot be written.
    """
    if resume:
        path = find_session(data_home(), resume)
        header = read_header(path)
        own = Path.cwd() if is_foreign(header, path) else Folder(Path.cwd()).place(header).folder
        return claimed(path, folder or own)
    if not continues:
        return Session.create(Path.cwd())
    last = latest(data_home(), Path.cwd())
    if last is None:
        raise FoldlineError("There is no session in this folder to continue: start one without -c.")
    return claimed(last.path, Path.cwd())


def agent_for(
    session: Session, settings: Settings, llm: LLM, *, yes: bool = False, interactive: bool = False
) -> Agent:
    """An agent as the settings want it. `yes` runs every tool call unasked; `interactive`: somebody is there
    to answer proposals and choices.

    Raises:
        FoldlineError: the model that is to write the summaries needs a server or a key, and there is none.
    """
    held_in = Path(session.cwd)
    agent_folder = held_in if is_folder(held_in) else Path.cwd()

    provider, tried = settings.provider, (llm, settings.provider)

    def connect(model: str) -> LLM:
        """Another model of the provider asked now, or `MODEL@PROVIDER`."""
        nonlocal provider, tried
        if agent.state.llm is tried[0]:  # The last switch went well.
            provider = tried[1]
        given = {"model": model} | ({"provider": provider} if provider else {})
        chosen = load_settings(agent_folder, os.environ, given, said_by="/model")
        other = connect_llm(chosen, os.environ)
        tried = (other, chosen.provider)
        return other

    asked_first, embedder = llm.info.provider, connect_embedder(settings, os.environ)
    agent = Agent(
        session,
        llm=llm,
        compaction=settings.compaction.strategy,
        mode=settings.compaction.mode,
        draft_ahead=settings.compaction.draft_ahead == "on",
        summariser=connect_summariser(settings, os.environ),
        # Whoever switches to a server of their own does not want their texts compared elsewhere.
        embedder=embedder and EmbedderWhile(embedder, lambda: agent.state.llm.info.provider == asked_first),
        budget=settings.budget_settings,
        approvals="all" if yes else mode_of(session, settings.approvals.mode),
        connect=connect,
        interactive=interactive,
        dmail=settings.context.dmail,
        servers=tool_servers(settings, agent_folder),
    )
    agent.settings = settings
    return agent
