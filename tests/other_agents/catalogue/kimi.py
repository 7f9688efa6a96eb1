"""kimi-cli, a command for each prompt; Kimi Code, by the Agent Client Protocol."""

import time
from pathlib import Path

from ..install import Npm, Pip
from ..workspace import RunError
from .acp import AcpAgent
from .base import Agent

SETTINGS = """\
default_model = "scripted"
default_thinking = false
telemetry = false
[providers.local]
type = "{kind}"
base_url = "{address}/v1"
api_key = "dummy"
[models.scripted]
provider = "local"
model = "scripted"
max_context_size = {window}
"""
COMPACTION_TIMEOUT = 60


class KimiCli(Agent):
    """A command for each prompt: its ACP server asks for an account."""

    name = "kimi-cli"
    title = "kimi-cli"
    version = "1.51.0"
    packages = Pip("kimi-cli==1.51.0", ("3.13", "3.14"))
    handoff = "kimi-cli"

    def set_up(self) -> None:
        place = self.place
        settings = SETTINGS.format(
            kind="openai_legacy", address=place.address, window=self.window
        )
        place.write(".kimi/config.toml", settings)
        place.set({"KIMI_CLI_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"})

    def prompt(self, text: str) -> None:
        options = ("--session", self.session) if self.session else ()
        self.place.run("kimi", "--print", *options, "--prompt", text)
        self.session = self.path().parent.name

    def compact(self) -> None:
        self.prompt("/compact")

    def path(self) -> Path:
        return self.place.newest(".kimi/sessions/*/*/context.jsonl")


class KimiCode(AcpAgent):
    name = "kimi-code"
    title = "Kimi Code"
    version = "2.1.0"
    packages = Npm(("@moonshot-ai/kimi-code@2.1.0",))
    command = ("kimi", "acp")

    def set_up(self) -> None:
        place = self.place
        settings = SETTINGS.format(
            kind="openai", address=place.address, window=self.window
        )
        place.write(".kimi-code/config.toml", settings)
        place.set({"KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"})

    def compact(self) -> None:
        """The command begins a compaction in the background: wait until the file has its end."""
        before = self._compactions()
        super().compact()
        limit = time.monotonic() + COMPACTION_TIMEOUT
        while self._compactions() == before:
            if time.monotonic() > limit:
                raise RunError("its compaction did not end")
            time.sleep(0.1)

    def _compactions(self) -> int:
        return self.path().read_text().count('"type":"full_compaction.complete"')

    def path(self) -> Path:
        return self.place.newest(".kimi-code/sessions/**/agents/main/wire.jsonl")
