"""Copilot CLI, by the Agent Client Protocol."""

from pathlib import Path

from ..install import Npm
from .acp import AcpAgent


class Copilot(AcpAgent):
    name = "copilot"
    title = "Copilot CLI"
    version = "1.0.102"
    packages = Npm(("@github/copilot@1.0.102",))
    handoff = "copilot"
    command = ("copilot", "--acp", "--allow-all-tools")

    def set_up(self) -> None:
        self.place.set(
            {
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_BASE_URL": f"{self.place.address}/v1",
                "COPILOT_PROVIDER_API_KEY": "dummy",
                "COPILOT_MODEL": "scripted",
                "COPILOT_OFFLINE": "true",
                "COPILOT_AUTO_UPDATE": "false",
            }
        )

    def path(self) -> Path:
        return self.place.newest(".copilot/session-state/*/events.jsonl")
