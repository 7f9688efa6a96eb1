"""Builds an agent from settings, options and a session."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from foldline.agent import Agent
from foldline.agent.agent import retune
from foldline.agent.approvals import mode_of
from foldline.agent.layers import from_project
from foldline.agent.mcp import ServerConfig, ToolServers
from foldline.agent.settings import Settings, connect_embedder, connect_llm, connect_summariser, load_settings
from foldline.files import is_folder
from foldline.history import Folder, Session, data_home, find_session, latest, read_header
from foldline.history.lock import SessionHeld
from foldline.history.log import ChangedOnDisk, WriteFailed
from foldline.history.origin import is_foreign
from foldline.llm import LLM, EmbedderWhile
from foldline.protocol import FoldlineError

SERVER_LOGS: Final = "mcp"
"""The folder for the stderr of tool servers, below our data."""


# --- sessions -----------------------------------------------------------------------------------------


class Refused(FoldlineError):
    """A session that another process writes to, or on a disk that refuses writes."""

    def __init__(self, path: Path, folder: Path, refusal: FoldlineError) -> None:
        super().__init__(str(refusal))
        self.path = path
        """Its event file."""
        self.folder = folder
        """The working folder, also of a fork."""
        self.held = isinstance(refusal, SessionHeld)


def claimed(path: Path, folder: Path) -> Session:
    """Open a session and lock it for writing. Works in `folder`.

    Raises:
        Refused: another process writes to it, or it cannot be written.
        FoldlineError: it cannot be read.
    """
    while True:
        session = Session.open(path, cwd=folder)
        try:
            session.claim()
        except ChangedOnDisk:  # written by another process between reading and locking
            continue
        except (SessionHeld, WriteFailed) as refusal:
            raise Refused(path, folder, refusal) from None
        return session


def chosen_session(continues: bool, resume: str | None, folder: Path | None = None) -> Session:
    """Return the session for `-c` or `-r`, or a new one.

    A resumed session works in `folder`. By default it works in its own folder, or in this one if its own was
    moved here, is gone, or was recorded by another program.

    Raises:
        FoldlineError: the session does not exist or cannot be read.
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


# --- agents -------------------------------------------------------------------------------------------


def agent_for(
    session: Session,
    settings: Settings,
    llm: LLM,
    *,
    yes: bool = False,
    interactive: bool = False,
    servers: Sequence[ServerConfig] = (),
) -> Agent:
    """Build an agent as the settings want it.

    Args:
        yes: run every tool call without asking.
        interactive: a user is there to answer proposals and choices.
        servers: tool servers besides those in the settings.

    Raises:
        FoldlineError: the model for summaries needs a server or a key that is missing.
    """
    from foldline.tui.keys.commands import BY_SLASH

    held_in = Path(session.cwd)
    agent_folder = held_in if is_folder(held_in) else Path.cwd()

    provider = settings.provider
    tried = (llm, provider)

    def connect(model: str) -> LLM:
        """Connect another model: of the current provider, or `MODEL@PROVIDER`."""
        nonlocal provider, tried
        if agent.state.llm is tried[0]:  # the last switch succeeded
            provider = tried[1]
        overrides = {"model": model} | ({"provider": provider} if provider else {})
        chosen = load_settings(agent_folder, os.environ, overrides, said_by="/model")
        other = connect_llm(chosen, os.environ)
        tried = (other, chosen.provider)
        return other

    first_provider = llm.info.provider
    embedder = connect_embedder(settings, os.environ)
    agent = Agent(
        session,
        llm=llm,
        compaction=settings.compaction.strategy,
        mode=settings.compaction.mode,
        draft_ahead=settings.compaction.draft_ahead == "on",
        summariser=connect_summariser(settings, os.environ),
        # After a switch to another server, texts must not be sent to the first one.
        embedder=embedder
        and EmbedderWhile(embedder, lambda: agent.state.llm.info.provider == first_provider),
        budget=settings.budget_settings,
        approvals="all" if yes else mode_of(session, settings.approvals.mode),
        connect=connect,
        fallback=settings.fallback,
        interactive=interactive,
        dmail=settings.context.dmail,
        branch_note=settings.context.branch_note,
        servers=tool_servers(settings, agent_folder, servers),
        limits=settings.bounds(watched=interactive),
        sandbox=settings.sandbox_options,
        hooks=True,
    )
    agent.settings = settings
    agent.state.reserved = frozenset(BY_SLASH)

    async def use_project() -> None:
        """Apply changed settings of the project, except theme and window."""
        try:
            of_project = await asyncio.to_thread(from_project, agent_folder)
            if agent.settings is None or agent.settings.of_project == of_project:
                return
            agent.settings = settings.again(agent_folder, os.environ)
            unused = retune(agent.state, agent.settings, os.environ)()
        except FoldlineError as failure:
            agent.state.warn(str(failure))
        else:
            if unused is not None:
                await unused.aclose()

    agent.state.use_project = use_project
    return agent


def tool_servers(settings: Settings, folder: Path, lent: Sequence[ServerConfig] = ()) -> ToolServers | None:
    """Return the enabled and lent tool servers, not started."""
    configs = [
        ServerConfig(
            name,
            command=table.command,
            args=tuple(table.args),
            env=table.env,
            cwd=table.cwd,
            url=table.url,
            headers=table.headers,
            sandbox=table.sandbox == "on",
            writable=tuple(table.writable),
            hosts=tuple(table.hosts),
            timeout=table.timeout,
        )
        for name, table in settings.mcp.items()
        if table.enabled and name not in {server.name for server in lent}
    ]
    configs += lent
    if not configs:
        return None
    return ToolServers(configs, folder=folder, logs=data_home() / SERVER_LOGS, environ=os.environ)
