"""Creates an agent from settings, options and a session."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from foldline.agent import Agent
from foldline.agent.agent import retune
from foldline.agent.extensions.mcp import ServerConfig, ToolServers
from foldline.agent.permissions.approvals import resumed_policy
from foldline.agent.session.models import Models
from foldline.agent.settings.layers import from_project
from foldline.agent.settings.settings import (
    Settings,
    connect_llm,
    load_settings,
)
from foldline.files import is_folder
from foldline.history import (
    Folder,
    Session,
    data_home,
    find_session,
    latest,
    read_header,
)
from foldline.history.log import ChangedOnDisk, WriteFailed
from foldline.history.origin import is_foreign
from foldline.llm import LLM
from foldline.protocol import FoldlineError

NO_SESSION_HERE = (
    "This folder has no session to {verb}. Leave out {option} to start a new one."
)
FORK_INSTEAD = "{failure} Run `foldline fork {path}` to continue it in a copy."
SERVER_LOGS = "mcp"
"""Subfolder of the data folder for the tool servers' stderr output."""


# --- sessions -----------------------------------------------------------------------------------------


def open_for_writing(path: Path, folder: Path) -> Session:
    """Open a session with `folder` as its working folder, and lock it for writing.

    Raises:
        FoldlineError: the session cannot be read or written, or another process is writing to it.
    """
    while True:
        session = Session.open(path, cwd=folder)
        try:
            session.claim()
        except ChangedOnDisk:
            continue  # another process wrote to it between reading and locking
        except WriteFailed as failure:
            raise FoldlineError(FORK_INSTEAD, failure=failure, path=path) from None
        return session


def chosen_session(
    continues: bool, resume: str | None, folder: Path | None = None
) -> Session:
    """Return the session chosen with `-c` or `-r`, or a new session.

    A resumed session uses `folder` as its working folder. By default, this is the recorded folder. It is the
    current folder if the recorded folder was moved here, no longer exists, or was recorded by another
    program.

    Raises:
        FoldlineError: the session does not exist, cannot be read or written, or another process is writing
            to it.
    """
    if resume:
        path = find_session(data_home(), resume)
        header = read_header(path)
        own = (
            Path.cwd()
            if is_foreign(header, path)
            else Folder(Path.cwd()).place(header).folder
        )
        return open_for_writing(path, folder or own)
    if not continues:
        return Session.create(Path.cwd())
    last = latest(data_home(), Path.cwd())
    if last is None:
        raise FoldlineError(NO_SESSION_HERE, verb="continue", option="-c")
    return open_for_writing(last.path, Path.cwd())


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
    """Create an agent according to the settings.

    Args:
        yes: whether to run every tool call without asking.
        interactive: whether a user is present to answer proposals and choices.
        servers: tool servers in addition to those in the settings.

    Raises:
        FoldlineError: the summary model's server or key is missing.
    """
    from foldline.frontend.commands import BY_SLASH

    held_in = Path(session.cwd)
    folder = held_in if is_folder(held_in) else Path.cwd()
    policy = resumed_policy(session, settings.approvals.mode)
    agent = Agent(
        session,
        llm=llm,
        approvals=replace(policy, mode="all") if yes else policy,
        interactive=interactive,
        dmail=settings.context.dmail,
        servers=tool_servers(settings, folder, servers),
        hooks=True,
    )
    retune(agent.state, settings, os.environ)()
    agent.settings = settings
    state = agent.state
    state.models.connect = _Connector(state.models, folder, settings.provider)
    state.tools.reserved = frozenset(BY_SLASH)
    state.permissions.use_project = partial(_use_project, agent, settings, folder)
    return agent


class _Connector:
    """Connects to another model of the current provider, or to `MODEL@PROVIDER`."""

    def __init__(self, models: Models, folder: Path, provider: str | None) -> None:
        self._models = models
        self._folder = folder
        self._provider = provider
        """Provider of the current model."""
        self._tried = (models.llm, provider)
        """The newest client and its provider. The model may not have been switched to it."""

    def __call__(self, model: str) -> LLM:
        llm, provider = self._tried
        if self._models.llm is llm:  # the last switch of models succeeded
            self._provider = provider
        overrides = {"model": model}
        if self._provider:
            overrides["provider"] = self._provider
        chosen = load_settings(self._folder, os.environ, overrides, said_by="/model")
        other = connect_llm(chosen, os.environ)
        self._tried = (other, chosen.provider)
        return other


async def _use_project(agent: Agent, settings: Settings, folder: Path) -> None:
    """Apply the project's settings if they have changed.

    Theme and window are not changed. Also warns about settings from earlier versions.
    """
    events = agent.state.events
    events.warn_once(settings.warnings)
    try:
        of_project = await asyncio.to_thread(from_project, folder)
        if agent.settings is None or agent.settings.of_project == of_project:
            return
        agent.settings = settings.again(folder, os.environ)
        unused = retune(agent.state, agent.settings, os.environ)()
    except FoldlineError as failure:
        events.warn(str(failure))
    else:
        if unused is not None:
            await unused.aclose()


def tool_servers(
    settings: Settings, folder: Path, lent: Sequence[ServerConfig] = ()
) -> ToolServers | None:
    """Return the enabled tool servers and those in `lent`, without starting them.

    Returns None if there are none.
    """
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
    return ToolServers(
        configs, folder=folder, logs=data_home() / SERVER_LOGS, environ=os.environ
    )
