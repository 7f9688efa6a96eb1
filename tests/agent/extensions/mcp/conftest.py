"""Tool servers that end with the test, and a scripted user for their questions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from foldline.agent.extensions.mcp import ServerConfig, ToolServers
from foldline.agent.extensions.mcp.servers import ServerTool
from foldline.agent.permissions.approvals import Choices
from foldline.agent.tools import ToolContext, ToolOutcome
from foldline.protocol import events
from foldline.protocol.events import Event
from foldline.protocol.operations import Choose
from support.agents import PATIENCE
from support.mcp_server import Diary


@dataclass
class ServerHarness:
    """Starts tool servers and calls their tools."""

    folder: Path
    notices: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    all_servers: list[ToolServers] = field(default_factory=list)

    @property
    def diary(self) -> Path:
        return self.folder / "diary"

    @property
    def log(self) -> Diary:
        return Diary(self.diary)

    def servers(
        self, *configs: ServerConfig, seconds: float = PATIENCE, **environ: str
    ) -> ToolServers:
        servers = ToolServers(
            configs,
            folder=self.folder,
            logs=self.folder / "logs",
            environ=environ,
            seconds=seconds,
        )
        servers.tell = self.notices.append
        self.all_servers.append(servers)
        return servers

    async def start(
        self, *configs: ServerConfig, seconds: float = PATIENCE, **environ: str
    ) -> ToolServers:
        servers = self.servers(*configs, seconds=seconds, **environ)
        servers.start()
        await servers.settled(PATIENCE)
        return servers

    async def call(
        self, servers: ToolServers, name: str, room: int = 4_000, **arguments: object
    ) -> ToolOutcome:
        """Call a tool as the agent does; `name` is `SERVER:TOOL`."""
        server, _, tool = name.partition(":")
        server_tool = next(
            candidate
            for candidate in servers.tools
            if isinstance(candidate, ServerTool)
            and (candidate.server.name, candidate._tool) == (server, tool)
        )
        context = ToolContext(
            self.folder, self.outputs.append, room, self.folder / "outputs"
        )
        return await server_tool.run(arguments, context)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)


class FakeUser:
    """Answers questions in order, by the keys of their options."""

    def __init__(self, *answers: str) -> None:
        self.choices = Choices(interactive=True)
        self.choices.emit = self._on_event
        self.questions: list[events.ChoiceRequested] = []
        self._answers = list(answers)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, events.ChoiceRequested):
            self.questions.append(event)
            if self._answers:
                asyncio.get_running_loop().call_soon(self.say, self._answers.pop(0))

    def say(self, answer: str) -> None:
        """Answer the newest question: `=LABEL`, or a key and the text typed after it."""
        key, text = answer[:1], answer[1:]
        question = self.questions[-1]
        if key == "=":
            key = next(item.key for item in question.options if item.label == text)
        self.choices.answer(Choose(choice=question.choice, key=key, text=text))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ServerHarness]:
    harness = ServerHarness(tmp_path)
    yield harness
    for servers in harness.all_servers:
        await servers.aclose()
