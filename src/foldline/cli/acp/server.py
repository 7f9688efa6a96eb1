"""The agent's side of the Agent Client Protocol, which manages all open sessions."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.agent.extensions.mcp import ServerConfig
from foldline.agent.settings.model_choice import is_first_start
from foldline.agent.settings.settings import Settings, connect_llm
from foldline.cli.agents import agent_for, open_for_writing
from foldline.cli.settings import settings_here
from foldline.files import is_folder
from foldline.history import Session, data_home, find_session, list_sessions
from foldline.protocol import FoldlineError
from foldline.version import __version__

from . import schema
from .blocks import Block
from .connection import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ClientConnection,
    RequestError,
    Routes,
)
from .options import config_options, modes
from .session import EditorSession
from .stdio import Stdio

_AUTHENTICATE = -32000
_NOT_FOUND = -32002
_PAGE = 50
"""Maximum number of sessions on one page of a list."""
SET_UP = (
    "No model is set up. Run `foldline` in a terminal to choose one, or set a provider's API key, such as "
    "OPENAI_API_KEY, in the editor's environment. To use the built-in model, run `foldline acp -m offline`."
)

INVALID_CURSOR = "Invalid cursor: {cursor!r}."
NOT_OPEN = "Session {id!r} is not open. Load it first."
RELATIVE_FOLDER = "The session's folder must be an absolute path, not {path!r}."
UNSUPPORTED_SERVER = (
    "MCP server {name} cannot be used: only stdio and http are supported."
)


async def serve(chosen: Mapping[str, object]) -> int:
    """Serve the client until it disconnects.

    Args:
        chosen: settings given as command line options, by name.
    """
    wire = await Stdio.open()
    server = AcpServer(chosen)
    connection = server.connect(wire)
    try:
        await connection.listen()
    finally:
        await server.aclose()
        await connection.close()
    return 0


class AcpServer:
    """Implements the protocol's methods."""

    def __init__(self, chosen: Mapping[str, object]) -> None:
        self._chosen = chosen
        self._client: ClientConnection
        self._has_forms = False
        self._open: dict[str, EditorSession] = {}

    def connect(self, wire: Stdio) -> ClientConnection:
        """Return a connection that carries out the client's requests with this server."""
        self._client = ClientConnection(wire, self._routes())
        return self._client

    def _routes(self) -> Routes:
        return {
            "initialize": (schema.InitializeRequest, self.initialize),
            "authenticate": (schema.AuthenticateRequest, self.authenticate),
            "session/new": (schema.NewSessionRequest, self.new_session),
            "session/load": (schema.OpenSessionRequest, self.load_session),
            "session/resume": (schema.OpenSessionRequest, self.resume_session),
            "session/close": (schema.SessionRequest, self.close_session),
            "session/list": (schema.ListSessionsRequest, self.list_sessions),
            "session/prompt": (schema.PromptRequest, self.prompt),
            "session/cancel": (schema.SessionRequest, self.cancel),
            "session/set_mode": (
                schema.SetSessionModeRequest,
                self.set_session_mode,
            ),
            "session/set_config_option": (
                schema.SetSessionConfigOptionRequest,
                self.set_config_option,
            ),
        }

    async def aclose(self) -> None:
        """Close all sessions."""
        await asyncio.gather(*(session.aclose() for session in self._open.values()))

    # --- initialization ------------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
    ) -> schema.InitializeResponse:
        elicitation = client_capabilities.elicitation if client_capabilities else None
        self._has_forms = elicitation is not None and elicitation.form is not None
        return schema.InitializeResponse(
            protocol_version=schema.PROTOCOL_VERSION,
            agent_info=schema.Implementation(
                name="foldline", title="Foldline", version=__version__
            ),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(
                    image=True, audio=False, embedded_context=True
                ),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
                session_capabilities={"list": {}, "resume": {}, "close": {}},
            ),
            auth_methods=[
                schema.AuthMethodAgent(
                    id="setup", name="Set up a model", description=SET_UP
                )
            ],
        )

    async def authenticate(self, method_id: str) -> schema.EmptyResponse:
        """Check again whether a model is set up.

        Raises RequestError if no model is set up.
        """
        with _refusing():
            self._demand_model(
                await asyncio.to_thread(settings_here, None, **self._chosen)
            )
        return schema.EmptyResponse()

    def _demand_model(self, settings: Settings) -> None:
        if is_first_start(settings, os.environ, data_home()):
            raise RequestError(_AUTHENTICATE, SET_UP)

    # --- sessions ------------------------------------------------------------------------------------------

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[schema.McpServer] | None = None
    ) -> schema.OpenSessionResponse:
        with _refusing(INVALID_PARAMS):
            folder = _folder(cwd)
            servers = _configs(mcp_servers or ())
        with _refusing():
            agent = await asyncio.to_thread(
                lambda: self._agent(Session.create(folder), servers)
            )
        self._add(agent, agent.session.id)
        return schema.OpenSessionResponse(
            session_id=agent.session.id, **_modes_and_options(agent)
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[schema.McpServer] | None = None,
    ) -> schema.OpenSessionResponse:
        options = await self._reopen(
            cwd, session_id, mcp_servers or (), with_messages=True
        )
        return schema.OpenSessionResponse(**options)

    async def resume_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[schema.McpServer] | None = None,
    ) -> schema.OpenSessionResponse:
        options = await self._reopen(
            cwd, session_id, mcp_servers or (), with_messages=False
        )
        return schema.OpenSessionResponse(**options)

    async def close_session(self, session_id: str) -> schema.EmptyResponse:
        await self._session(session_id).aclose()
        self._open.pop(session_id, None)
        return schema.EmptyResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None
    ) -> schema.ListSessionsResponse:
        if cursor is not None and not cursor.isdecimal():
            raise RequestError(INVALID_PARAMS, INVALID_CURSOR.format(cursor=cursor))
        first = int(cursor or 0)
        with _refusing():
            infos = await asyncio.to_thread(list_sessions, data_home(), cwd)
        readable = [info for info in infos if info.readable]
        sessions = [
            schema.ListedSession(
                session_id=info.id,
                cwd=cwd or info.meta.cwd,
                title=info.meta.title or None,
                updated_at=info.meta.updated_at.isoformat(),
            )
            for info in readable[first : first + _PAGE]
        ]
        more = first + _PAGE < len(readable)
        return schema.ListSessionsResponse(
            sessions=sessions, next_cursor=str(first + _PAGE) if more else None
        )

    async def prompt(
        self, session_id: str, prompt: Sequence[Block]
    ) -> schema.PromptResponse:
        session = self._session(session_id)
        with _refusing(INVALID_PARAMS):
            return await session.prompt(prompt)

    async def cancel(self, session_id: str) -> None:
        if session_id in self._open:
            self._open[session_id].cancel()

    async def set_session_mode(
        self, session_id: str, mode_id: str
    ) -> schema.EmptyResponse:
        with _refusing(INVALID_PARAMS):
            await self._session(session_id).set_option("mode", mode_id)
        return schema.EmptyResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool
    ) -> schema.SetSessionConfigOptionResponse:
        with _refusing(INVALID_PARAMS):
            options = await self._session(session_id).set_option(config_id, value)
        return schema.SetSessionConfigOptionResponse(config_options=options)

    # --- opening -------------------------------------------------------------------------------------------

    def _agent(self, session: Session, servers: Sequence[ServerConfig]) -> Agent:
        settings = settings_here(session.cwd, **self._chosen)
        self._demand_model(settings)
        llm = connect_llm(settings, os.environ)
        return agent_for(session, settings, llm, interactive=True, servers=servers)

    async def _reopen(
        self,
        cwd: str,
        session_id: str,
        servers: Sequence[schema.McpServer],
        *,
        with_messages: bool,
    ) -> dict[str, Any]:
        """Open a stored session, send it to the client, and return its modes and options."""
        with _refusing(INVALID_PARAMS):
            folder = _folder(cwd)
            configs = _configs(servers)
        if session_id in self._open:
            await self._open.pop(session_id).aclose()
        with _refusing(_NOT_FOUND):
            path = await asyncio.to_thread(find_session, data_home(), session_id)
            if (
                path.parent.name != session_id
            ):  # `session_id` was only a part of an id, or a path
                raise FoldlineError(f"There is no session {session_id!r}.")
        with _refusing():
            session = await asyncio.to_thread(open_for_writing, path, folder)
            try:
                agent = await asyncio.to_thread(self._agent, session, configs)
            except BaseException:
                session.close()
                raise
        editor_session = self._add(agent, session_id)
        await editor_session.feed.replay(with_messages=with_messages)
        return _modes_and_options(agent)

    def _add(self, agent: Agent, id: str) -> EditorSession:
        session = self._open[id] = EditorSession(
            agent, self._client, id, has_forms=self._has_forms
        )
        # Start after the response has been sent, because the client learns the session's id from it.
        asyncio.get_running_loop().call_soon(session.start)
        return session

    def _session(self, session_id: str) -> EditorSession:
        session = self._open.get(session_id)
        if session is None:
            raise RequestError(_NOT_FOUND, NOT_OPEN.format(id=session_id))
        return session


def _modes_and_options(agent: Agent) -> dict[str, Any]:
    return {"modes": modes(agent), "config_options": config_options(agent, ())}


def _folder(cwd: str) -> Path:
    folder = Path(cwd)
    if not folder.is_absolute():
        raise FoldlineError(RELATIVE_FOLDER, path=cwd)
    if not is_folder(folder):
        raise FoldlineError(f"There is no folder {cwd}.")
    return folder


def _configs(servers: Sequence[schema.McpServer]) -> list[ServerConfig]:
    """Convert the configurations of the client's tool servers.

    Environment variables in them are not expanded, because a project may have configured the servers.
    """
    configs = []
    for server in servers:
        match server:
            case schema.McpServerStdio(name=name, command=command, args=args):
                env = {variable.name: variable.value for variable in server.env}
                config = ServerConfig(
                    name, command=command, args=tuple(args), env=env, literal=True
                )
            case schema.HttpMcpServer(name=name, url=url):
                headers = {header.name: header.value for header in server.headers}
                config = ServerConfig(name, url=url, headers=headers, literal=True)
            case _:
                raise FoldlineError(UNSUPPORTED_SERVER, name=server.name)
        configs.append(config)
    return configs


@contextmanager
def _refusing(code: int = INTERNAL_ERROR) -> Iterator[None]:
    """Convert a FoldlineError to an error of the protocol."""
    try:
        yield
    except FoldlineError as failure:
        raise RequestError(code, str(failure)) from None
