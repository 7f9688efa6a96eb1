"""Gemini CLI, a command for each prompt; Qwen Code, by the Agent Client Protocol."""

from pathlib import Path

from ..install import Npm
from .acp import AcpAgent
from .base import Agent

NEVER, AT_ONCE = 0.9, 0.001
"""The share of the window from which on Gemini CLI compacts."""


class GeminiCli(Agent):
    """A command for each prompt. None compacts: a small share of the window in its settings does."""

    name = "gemini-cli"
    title = "Gemini CLI"
    version = "0.61.0"
    packages = Npm(("@google/gemini-cli@0.61.0",))

    def set_up(self) -> None:
        self._settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            "telemetry": {"enabled": False},
        }
        self._compact_at(NEVER)
        self.place.write(
            ".gemini/trustedFolders.json", {str(self.place.work): "TRUST_FOLDER"}
        )
        self.place.set(
            {
                "GEMINI_API_KEY": "dummy",
                "GOOGLE_GEMINI_BASE_URL": self.place.address,
                "GEMINI_CLI_NO_RELAUNCH": "true",
            }
        )

    def _compact_at(self, share: float) -> None:
        model = {"name": "gemini-2.5-pro", "compressionThreshold": share}
        self.place.write(".gemini/settings.json", {**self._settings, "model": model})

    def begin(self, session: str = "") -> None:
        self._options: tuple[str, ...] = ()

    def prompt(self, text: str) -> None:
        self.place.run("gemini", "-p", text, "--yolo", "--skip-trust", *self._options)
        self._options = ("--resume", "latest")
        self._compact_at(NEVER)

    def compact(self) -> None:
        """The next prompt begins with a compaction."""
        self._compact_at(AT_ONCE)

    def path(self) -> Path:
        return self.place.newest(".gemini/tmp/*/chats/session-*")


class QwenCode(AcpAgent):
    name = "qwen-code"
    title = "Qwen Code"
    version = "0.24.4"
    packages = Npm(("@qwen-code/qwen-code@0.24.4",))
    command = ("qwen", "--acp", "--yolo")
    compact_prompt = "/compress"

    def set_up(self) -> None:
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
            "telemetry": {"enabled": False},
            "model": {"name": "scripted"},
            "memory": {
                "enableManagedAutoMemory": False,
                "enableManagedAutoDream": False,
            },
            "ui": {"enableFollowupSuggestions": False},
        }
        self.place.write(".qwen/settings.json", settings)
        self.place.set(
            {
                "OPENAI_API_KEY": "dummy",
                "OPENAI_BASE_URL": f"{self.place.address}/v1",
                "OPENAI_MODEL": "scripted",
            }
        )

    def path(self) -> Path:
        return self.place.newest(".qwen/projects/*/chats/*.jsonl")
