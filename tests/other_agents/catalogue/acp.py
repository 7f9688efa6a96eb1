"""Agents that are talked to by the Agent Client Protocol."""

from ..drivers import Acp
from .base import Agent


class AcpAgent(Agent):
    """An agent whose `command` serves the protocol, and which compacts where it is sent `compact_prompt`."""

    command: tuple[str, ...]
    compact_prompt = "/compact"

    def begin(self, session: str = "") -> None:
        self.running = self._acp = Acp(self.place, *self.command)
        self.session = self._acp.begin(str(self.place.work), session)

    def prompt(self, text: str) -> None:
        self._acp.prompt(text)

    def compact(self) -> None:
        self._acp.prompt(self.compact_prompt)
