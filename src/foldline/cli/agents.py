"""From settings, options and a choice of session to an agent that can work."""

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
"""The folder of what tool servers write to their error output, below our data."""


# --- sessions -----------------------------------------------------------------------------------------


class Refused(FoldlineError):
    """A session that another process writes, or that lies where nothing can be written."""

    def __init__(self, path: Path, folder: Path, refusal: FoldlineError) -> None:
        super().__init__(str(refusal))
        self.path = path
        """Its event file."""
        self.folder = folder
        """Where it works, and a fork of it will."""
        self.held = isinstance(refusal, SessionHeld)


def claimed(path: Path, folder: Path) -> Session:
    """The session in this event file, to be written by nobody else; it works in `folder`.

    Raises:
        Refused: another process writes to it, or it cannot be written.
        FoldlineError: it cannot be read.
    """
    while True:
        session = Session.open(path, cwd=folder)
        try:
            session.claim()
        except ChangedOnDisk:  # somebody wrote between our reading and our claim, and is done
            continue
        except (SessionHeld, WriteFailed) as refusal:
            raise Refused(path, folder, refusal) from None
        return session


def chosen_session(continues: bool, resume: str | None, folder: Path | None = None) -> Session:
    """The session that `-c` or `-r` names, claimed for writing, or a new one for this folder.

    A resumed session works in `folder`; without that, in its own, or in this one, where that was moved here,
    is gone, or is only what somebody else wrote there.

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
    """An agent as the settings want it. `yes` runs every tool call without asking; `interactive`: somebody is
    there to answer proposals and choices; `servers` are lent beside those that are set up.

    Raises:
        FoldlineError: the model that is to write the summaries needs a server or a key, and there is none.
    """
    from foldline.tui.keys.commands import BY_SLASH

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
        """What the project sets, from now on, where that has changed; its theme and window count at the next
        start."""
        try:
            of_project = await asyncio.to_thread(from_project, agent_folder)
            if agent.settings is None or agent.settings.of_project == of_project:
                return
            agent.settings = now = settings.again(agent_folder, os.environ)
            unused = retune(agent.state, now, os.environ)()
        except FoldlineError as failure:
            agent.state.warn(str(failure))
        else:
            if unused is not None:
                await unused.aclose()

    agent.state.use_project = use_project
    return agent


def tool_servers(settings: Settings, folder: Path, lent: Sequence[ServerConfig] = ()) -> ToolServers | None:
    """The servers that are set up and enabled, and these; none of them started. None where there is none."""
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
        if table.enabled and name not in {each.name for each in lent}
    ]
    configs += lent
    if not configs:
        return None
    return ToolServers(configs, folder=folder, logs=data_home() / SERVER_LOGS, environ=os.environ)
