"""An ACP editor, and `foldline acp` in its own process.

The editor uses the official `acp` package. Every message is kept in `trace`; `check_trace` validates each
with the package's models.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import acp
from acp import helpers, schema
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent

from support import warm
from support.server import MODEL, RunningServer, running_server

T = TypeVar("T")
OFFLINE = ("-m", "offline")


@contextmanager
def scripted_server(
    *rules: dict[str, Any], **options: Any
) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    """Start a server with this script; yield it with the environment to use it."""
    with running_server(
        script=rules or None, then_default=bool(rules), **options
    ) as server:
        yield (
            server,
            {
                "OPENAI_BASE_URL": server.base_url,
                "OPENAI_API_KEY": "k",
                "FOLDLINE_MODEL": MODEL,
            },
        )


def rule(content: str, times: int = 1, **answer: Any) -> dict[str, Any]:
    return {"when": {"content": content}, "times": times, "answer": answer}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def texts(content: Sequence[Any] | None) -> str:
    return "".join(chunk.content.text for chunk in content or ())


_ANSWERS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/close": schema.CloseSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
_ASKED: dict[str, Any] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
}


class Editor:
    """The client: records updates, and answers permissions as `allow` decides."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.permissions: list[schema.RequestPermissionRequest] = []
        self.trace: list[StreamEvent] = []
        self.allow: Callable[[schema.RequestPermissionRequest], str | None] = (
            lambda asked: "y"
        )
        """Returns the id of the chosen option; None cancels."""
        self.forms: list[tuple[str, schema.ElicitationSchema]] = []
        self.fill: dict[str, Any] | None = None
        """The values of a form; None declines it."""
        self.heard = asyncio.Event()
        self.hold: asyncio.Event | None = None
        """If set, a permission request is answered only after this event."""
        self.agent: ClientSideConnection
        self.process: asyncio.subprocess.Process

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.heard.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> schema.RequestPermissionResponse:
        request = schema.RequestPermissionRequest(
            session_id=session_id, tool_call=tool_call, options=options
        )
        self.permissions.append(request)
        self.heard.set()
        if self.hold is not None:
            await self.hold.wait()
        chosen = self.allow(request)
        if chosen is None:
            outcome: Any = schema.DeniedOutcome(outcome="cancelled")
        else:
            outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append((message, mode.requested_schema))
        if self.fill is None:
            return schema.DeclineElicitationResponse(action="decline")
        return schema.AcceptElicitationResponse(action="accept", content=self.fill)

    # --- what tests ask --------------------------------------------------------------------------------

    async def until(self, look: Callable[[], T]) -> T:
        """Wait until `look` returns a true value, and return it."""
        while not (result := look()):
            self.heard.clear()
            await self.heard.wait()
        return result

    async def say(self, session: str, *blocks: str | Any) -> schema.PromptResponse:
        """Send a prompt of texts and blocks."""
        prompt = [
            helpers.text_block(block) if isinstance(block, str) else block
            for block in blocks
        ]
        return await self.agent.prompt(session_id=session, prompt=prompt)

    async def new(self, cwd: Path, servers: Sequence[Any] = ()) -> str:
        return (
            await self.agent.new_session(cwd=str(cwd), mcp_servers=list(servers))
        ).session_id

    def of(self, kind: type[T], session: str | None = None) -> list[T]:
        return [
            update
            for id, update in self.updates
            if isinstance(update, kind) and session in (None, id)
        ]

    def text(self, session: str | None = None) -> str:
        chunks = self.of(schema.AgentMessageChunk, session)
        return "".join(chunk.content.text for chunk in chunks)

    def calls(self, session: str | None = None) -> list[dict[str, Any]]:
        """Every tool call merged with its updates, in order of their start."""
        calls_by_id: dict[str, dict[str, Any]] = {}
        for id, update in self.updates:
            if isinstance(
                update, schema.ToolCallStart | schema.ToolCallProgress
            ) and session in (None, id):
                call = calls_by_id.setdefault(update.tool_call_id, {"statuses": []})
                call["statuses"].append(update.status)
                fields = (
                    "title",
                    "kind",
                    "status",
                    "content",
                    "locations",
                    "raw_input",
                )
                call |= {
                    name: value
                    for name in fields
                    if (value := getattr(update, name)) is not None
                }
        return list(calls_by_id.values())

    def check_trace(self) -> int:
        """Validate every message of the agent; return their number."""
        methods = {
            event.message["id"]: event.message["method"]
            for event in self.trace
            if event.direction is StreamDirection.OUTGOING and "method" in event.message
            if "id" in event.message
        }
        sent = [
            event.message
            for event in self.trace
            if event.direction is StreamDirection.INCOMING
        ]
        for message in sent:
            assert message["jsonrpc"] == "2.0"
            if "method" in message:
                _ASKED[message["method"]].model_validate(message["params"])
            elif "result" in message:
                _ANSWERS[methods[message["id"]]].model_validate(message["result"])
            else:
                schema.Error.model_validate(message["error"])
        return len(sent)


@asynccontextmanager
async def editing(
    *options: str,
    home: Path,
    initialize: bool = True,
    forms: bool = False,
    environ: dict[str, str] | None = None,
) -> AsyncIterator[Editor]:
    """Start `foldline acp` with an editor connected.

    `forms`: the editor supports elicitation.
    """
    editor = Editor()
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FOLDLINE_")
    }
    env = {**inherited, "FOLDLINE_HOME": str(home), **(environ or {})}
    async with acp.spawn_agent_process(
        editor, *warm.command("foldline acp", *options),
        env=env, observers=[editor.trace.append], use_unstable_protocol=True,
        transport_kwargs={"limit": 64 * 1024 * 1024, "stderr": (home.parent / "stderr").open("ab")},
    ) as (agent, process):  # fmt: skip
        editor.agent, editor.process = agent, process
        if initialize:
            shows = schema.ElicitationCapabilities(
                form=schema.ElicitationFormCapabilities()
            )
            able = schema.ClientCapabilities(elicitation=shows if forms else None)
            await agent.initialize(
                protocol_version=acp.PROTOCOL_VERSION, client_capabilities=able
            )
        yield editor
    with contextlib.suppress(ProcessLookupError):
        process.kill()
