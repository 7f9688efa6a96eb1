"""All tool servers of one agent."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from foldline.agent.approvals import Level
from foldline.agent.tools.text import one_line
from foldline.context.numbers import many
from foldline.llm.base import ToolSpec, spec_tokens
from foldline.protocol import Rule

from ..tools import Tool, ToolContext, ToolOutcome
from .config import ServerConfig
from .connection import INSTALL, START_SECONDS, Trouble
from .log import ServerLog
from .naming import prefixes
from .results import outcome_of
from .server import Server, State


@dataclass(frozen=True)
class ServerTool:
    """Always of the level `run`: what a server says of its own harmlessness is its own word."""

    spec: ToolSpec
    tool: str
    """What its server calls it."""
    server: Server
    level: Level = "run"

    def title(self, arguments: dict[str, Any]) -> str:
        given = json.dumps(arguments, ensure_ascii=False) if arguments else ""
        return one_line(f"{self.server.name}: {self.tool} {given}")

    def inside(self, arguments: dict[str, Any], context: ToolContext) -> bool:
        """Nothing tells where its server reaches: the user's word on the tool has to do."""
        return True

    def rules(self, arguments: dict[str, Any]) -> Sequence[Rule]:
        """An "always" stands for this one tool, whatever it is given; or for all of its server."""
        return (Rule(tool=self.spec.name), Rule(tool=f"{self.server.prefix}*"))

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        return None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            sentence = (
                f"{self.spec.name} was not run: its arguments hold half a character (a lone surrogate)."
            )
            return ToolOutcome(sentence, is_error=True, brief="bad arguments ✗")
        try:
            result = await self.server.call(self.tool, arguments, context.output)
        except Trouble as trouble:
            sentence = f"The MCP server {self.server.name} {trouble}."
            return ToolOutcome(sentence, is_error=True, brief="failed ✗")
        return await outcome_of(result, context, self.spec.name)


MISSING = f"MCP servers are set up, and the package they need is not there: {INSTALL}."


@dataclass(frozen=True, slots=True)
class ServerState:
    """How it is with one server, for people."""

    name: str
    state: State
    trouble: str
    """Why it is not connected."""
    tools: int
    log: Path

    def __str__(self) -> str:
        match self.state:
            case "connected":
                return f"connected, {many(self.tools, 'tool')}"
            case "failed":
                return f"failed: {self.trouble}"
            case _:
                return self.state


class ToolServers:
    """Started together, in the background. Who begins a turn asks `tools`, and holds on to the answer."""

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        *,
        folder: Path,
        logs: Path,
        environ: Mapping[str, str],
        seconds: float = START_SECONDS,
    ) -> None:
        """`folder` is where programs run unless they are set to run elsewhere, `logs` where their error
        output goes. A server has `seconds` to start."""
        self.tell: Callable[[str], None] = lambda _: None
        """Takes sentences for the user."""
        self.listed: Callable[[], None] = lambda: None
        """Called when one of them offers other tools than before."""
        beginnings = prefixes([config.name for config in configs])
        self._servers = {
            config.name: Server(
                config,
                beginnings[config.name],
                ServerLog(logs / f"{_file_name(config.name)}.log"),
                folder,
                environ,
                lambda text: self.tell(text),
                seconds,
            )
            for config in sorted(configs, key=lambda config: config.name)
        }
        for server in self._servers.values():
            server.listed = lambda: self.listed()
        self._begun = False
        self._waited = False

    def start(self) -> None:
        """Start them all, once; without the package `mcp`, say so."""
        if self._begun or not self._servers:
            return
        self._begun = True
        if find_spec("mcp") is None:
            self._waited = True
            for server in self._servers.values():
                server.state, server.trouble = "failed", "the package mcp is not installed"
            self.tell(MISSING)
            return
        for server in self._servers.values():
            server.start()

    def begin_turn(self) -> None:
        """A new turn: what was lost is tried again, in the background."""
        if self._begun and find_spec("mcp") is not None:
            for server in self._servers.values():
                server.begin_turn()

    @property
    def awaited(self) -> tuple[str, ...]:
        """The servers that a first turn should wait for. Empty from then on: who is late comes later."""
        if self._waited:
            return ()
        return tuple(server.name for server in self._servers.values() if server.state == "connecting")

    async def settled(self, seconds: float) -> None:
        """Wait so long at most until each is connected or has failed. It is waited for once only."""
        try:
            async with asyncio.timeout(seconds):
                for server in self._servers.values():
                    await server.settled()
        except TimeoutError:
            pass
        finally:
            self._waited = True

    @property
    def tools(self) -> list[Tool]:
        """What they offer now: by server, then by tool, whoever came first."""
        return [
            ServerTool(each.spec, each.tool, server)
            for server in self._servers.values()
            for each in server.offers
        ]

    @property
    def heaviest(self) -> tuple[str, int]:
        """The server whose tools take most of each request, and how much, before calibration, in tokens."""
        weights = {
            server.name: sum(spec_tokens(each.spec) for each in server.offers)
            for server in self._servers.values()
        }
        return max(weights.items(), key=lambda item: item[1], default=("", 0))

    @property
    def states(self) -> list[ServerState]:
        return [
            ServerState(server.name, server.state, server.trouble, len(server.offers), server.log_path)
            for server in self._servers.values()
        ]

    async def restart(self, name: str) -> ServerState:
        """At the user's word, this one anew; how it went."""
        await self._servers[name].restart()
        return next(state for state in self.states if state.name == name)

    async def aclose(self) -> None:
        """End them all, at once; no program is left behind."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))


def _file_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else "_" for char in name)[:80]
