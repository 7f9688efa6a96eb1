"""Tool servers in processes of their own, ended with the test; and somebody whom they may ask."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from foldline.agent.approvals import Choices
from foldline.agent.mcp import ServerConfig, ToolServers
from foldline.agent.mcp.servers import ServerTool
from foldline.agent.tools import ToolContext, ToolOutcome
from foldline.protocol import events
from foldline.protocol.events import Event
from foldline.protocol.operations import Choose
from support.agents import PATIENCE
from support.mcp_server import Diary


@dataclass
class House:
    """Where tests start servers and call their tools."""

    folder: Path
    notices: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    opened: list[ToolServers] = field(default_factory=list)

    @property
    def diary(self) -> Path:
        return self.folder / "diary"

    @property
    def noted(self) -> Diary:
        return Diary(self.diary)

    def servers(self, *configs: ServerConfig, seconds: float = PATIENCE, **environ: str) -> ToolServers:
        servers = ToolServers(
            configs, folder=self.folder, logs=self.folder / "logs", environ=environ, seconds=seconds
        )
        servers.tell = self.notices.append
        self.opened.append(servers)
        return servers

    async def started(self, *configs: ServerConfig, seconds: float = PATIENCE, **environ: str) -> ToolServers:
        servers = self.servers(*configs, seconds=seconds, **environ)
        servers.start()
        await servers.settled(PATIENCE)
        return servers

    async def call(self, servers: ToolServers, name: str, room: int = 4_000, **given: object) -> ToolOutcome:
        """Call a tool as the agent does; `name` is `SERVER:TOOL`."""
        server, _, tool = name.partition(":")
        found = next(
            each
            for each in servers.tools
            if isinstance(each, ServerTool) and (each.server.name, each._tool) == (server, tool)
        )
        context = ToolContext(self.folder, self.outputs.append, room, self.folder / "outputs")
        return await found.run(given, context)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)


class Person:
    """Answers questions one after the other, by the keys of their options."""

    def __init__(self, *answers: str) -> None:
        self.choices = Choices(interactive=True)
        self.choices.emit = self._hear
        self.asked: list[events.ChoiceRequested] = []
        self._answers = list(answers)

    def _hear(self, event: Event) -> None:
        if isinstance(event, events.ChoiceRequested):
            self.asked.append(event)
            if self._answers:
                asyncio.get_running_loop().call_soon(self.say, self._answers.pop(0))

    def say(self, answer: str) -> None:
        """Answers what was asked last: a key, and what is typed with it."""
        self.choices.answer(Choose(choice=self.asked[-1].choice, key=answer[:1], text=answer[1:]))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    for servers in house.opened:
        await servers.aclose()
