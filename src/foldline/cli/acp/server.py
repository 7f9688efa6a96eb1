"""The agent as an editor sees it: what it can do, and the sessions it has open."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.agent.connection import AgentSideConnection
from acp.interfaces import Client

from foldline.agent import Agent
from foldline.agent.mcp import ServerConfig
from foldline.agent.model_choice import is_first_start
from foldline.agent.settings import Settings, connect_llm
from foldline.cli.agents import agent_for, claimed
from foldline.cli.settings import settings_here
from foldline.files import is_folder
from foldline.history import Session, data_home, find_session, list_sessions
from foldline.protocol import FoldlineError
from foldline.version import __version__

from .blocks import Block
from .options import config_options, modes
from .session import FAILED, Conversation
from .stdio import Stdio

_INVALID: Final = -32602
_AUTHENTICATE: Final = -32000
_NOT_FOUND: Final = -32002
_PAGE: Final = 50
"""Sessions of one answer."""
SET_UP: Final = (
    "No model is set up. Run `foldline` in a terminal and choose one, or set a provider's key in the "
    "editor's environment, such as OPENAI_API_KEY; with `foldline acp -m offline` the built-in model answers."
)

McpServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


async def serve(chosen: Mapping[str, object]) -> int:
    """Speak with the client until it goes; `chosen` are the settings that the options set."""
    wire = await Stdio.open()
    server = Server(chosen)
    connection = AgentSideConnection(server, wire, listening=False, use_unstable_protocol=True)  # type: ignore[arg-type]
    try:
        await connection.listen()
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # the package takes that for the end of the input
            raise asyncio.CancelledError
    finally:
        await server.aclose()
        await connection.close()
    return 0


class Server:
    """Answers the methods of the protocol."""

    def __init__(self, chosen: Mapping[str, object]) -> None:
        self._chosen = chosen
        self._client: Client
        self._has_forms = False
        self._open: dict[str, Conversation] = {}

    def on_connect(self, connection: Client) -> None:
        self._client = connection

    async def aclose(self) -> None:
        """Ends what runs in all sessions, and gives them back."""
        await asyncio.gather(*(conversation.aclose() for conversation in self._open.values()))

    # --- who is there --------------------------------------------------------------------------------------

    async def initialize(
        self, protocol_version: int, client_capabilities: schema.ClientCapabilities | None = None, **_: Any
    ) -> schema.InitializeResponse:
        shows = client_capabilities.elicitation if client_capabilities else None
        self._has_forms = shows is not None and shows.form is not None
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="foldline", title="Foldline", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[schema.AuthMethodAgent(id="setup", name="Set up a model", description=SET_UP)],
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Looks again whether a model is set up by now: nothing is asked here."""
        with _refusing():
            self._demand_model(await asyncio.to_thread(settings_here, None, **self._chosen))
        return schema.AuthenticateResponse()

    def _demand_model(self, settings: Settings) -> None:
        if is_first_start(settings, os.environ, data_home()):
            raise RequestError(_AUTHENTICATE, SET_UP)

    # --- sessions ------------------------------------------------------------------------------------------

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[McpServer] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        with _refusing(_INVALID):
            folder = _folder(cwd)
            servers = _configs(mcp_servers or ())
        with _refusing():
            agent = await asyncio.to_thread(lambda: self._agent(Session.create(folder), servers))
        conversation = self._keep(agent, agent.session.id)
        return schema.NewSessionResponse(session_id=agent.session.id, **_settable(conversation))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[McpServer] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        conversation = await self._reopened(cwd, session_id, mcp_servers or ())
        await conversation.feed.replay(known=False)
        return schema.LoadSessionResponse(**_settable(conversation))

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[McpServer] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        conversation = await self._reopened(cwd, session_id, mcp_servers or ())
        await conversation.feed.replay(known=True)
        return schema.ResumeSessionResponse(**_settable(conversation))

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        await self._conversation(session_id).aclose()
        self._open.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        if cursor is not None and not cursor.isdecimal():
            raise RequestError(_INVALID, f"{cursor!r} is no cursor of ours.")
        first = int(cursor or 0)
        with _refusing():
            found = await asyncio.to_thread(list_sessions, data_home(), cwd)
        readable = [info for info in found if info.readable]
        sessions = [
            schema.SessionInfo(
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

    async def prompt(self, session_id: str, prompt: Sequence[Block], **_: Any) -> schema.PromptResponse:
        conversation = self._conversation(session_id)
        with _refusing(_INVALID):
            return await conversation.prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        if session_id in self._open:
            self._open[session_id].cancel()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        with _refusing(_INVALID):
            await self._conversation(session_id).set_option("mode", mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        with _refusing(_INVALID):
            options = await self._conversation(session_id).set_option(config_id, value)
        return schema.SetSessionConfigOptionResponse(config_options=options)

    # --- opening -------------------------------------------------------------------------------------------

    def _agent(self, session: Session, servers: Sequence[ServerConfig]) -> Agent:
        settings = settings_here(session.cwd, **self._chosen)
        self._demand_model(settings)
        llm = connect_llm(settings, os.environ)
        return agent_for(session, settings, llm, interactive=True, servers=servers)

    async def _reopened(self, cwd: str, session_id: str, servers: Sequence[McpServer]) -> Conversation:
        with _refusing(_INVALID):
            folder = _folder(cwd)
            configs = _configs(servers)
        if session_id in self._open:
            await self._open.pop(session_id).aclose()
        with _refusing(_NOT_FOUND):
            path = await asyncio.to_thread(find_session, data_home(), session_id)
            if path.parent.name != session_id:  # part of an id, or a path: no client was told that
                raise FoldlineError(f"There is no session {session_id!r}.")
        with _refusing():
            session = await asyncio.to_thread(claimed, path, folder)
            try:
                agent = await asyncio.to_thread(self._agent, session, configs)
            except BaseException:
                session.close()
                raise
        return self._keep(agent, session_id)

    def _keep(self, agent: Agent, id: str) -> Conversation:
        conversation = self._open[id] = Conversation(agent, self._client, id, has_forms=self._has_forms)
        # Not before the answer is on its way, in which the client learns of the session.
        asyncio.get_running_loop().call_soon(conversation.start)
        return conversation

    def _conversation(self, session_id: str) -> Conversation:
        found = self._open.get(session_id)
        if found is None:
            raise RequestError(_NOT_FOUND, f"The session {session_id!r} is not open: load it first.")
        return found


def _settable(conversation: Conversation) -> dict[str, Any]:
    agent = conversation.agent
    return {"modes": modes(agent), "config_options": config_options(agent, ())}


def _folder(cwd: str) -> Path:
    folder = Path(cwd)
    if not folder.is_absolute():
        raise FoldlineError(f"The folder of a session has to be an absolute path, and {cwd!r} is none.")
    if not is_folder(folder):
        raise FoldlineError(f"There is no folder {cwd}.")
    return folder


def _configs(servers: Sequence[McpServer]) -> list[ServerConfig]:
    """The client's tool servers. No variable of ours is put into them: a project may have set them up."""
    configs = []
    for server in servers:
        match server:
            case schema.McpServerStdio(name=name, command=command, args=args):
                env = {each.name: each.value for each in server.env}
                config = ServerConfig(name, command=command, args=tuple(args), env=env, literal=True)
            case schema.HttpMcpServer(name=name, url=url):
                headers = {each.name: each.value for each in server.headers}
                config = ServerConfig(name, url=url, headers=headers, literal=True)
            case _:
                raise FoldlineError(f"The MCP server {server.name}: only stdio and http are spoken here.")
        configs.append(config)
    return configs


@contextmanager
def _refusing(code: int = FAILED) -> Iterator[None]:
    """Failures for people, as errors of the protocol."""
    try:
        yield
    except FoldlineError as failure:
        raise RequestError(code, str(failure)) from None
