"""Oh My Pi, by its RPC mode, which is pi's."""

from pathlib import Path

from ..install import Npm
from .pi import Pi

MODELS = """\
providers:
  local:
    baseUrl: {address}/v1
    apiKey: dummy
    api: openai-completions
    models:
      - id: scripted
        name: scripted
        reasoning: false
        input: [text]
        contextWindow: {window}
        maxTokens: 4096
        cost: {{input: 1, output: 4, cacheRead: 0.1, cacheWrite: 0}}
"""


class OhMyPi(Pi):
    name = "oh-my-pi"
    title = "Oh My Pi"
    version = "18.2.3"
    packages = Npm(("@oh-my-pi/pi-coding-agent@18.2.3", "bun@1.3.14"))
    handoff = ""
    can_rewind = False
    program = "omp"

    def set_up(self) -> None:
        place = self.place
        place.write(
            ".omp/agent/models.yml",
            MODELS.format(address=place.address, window=self.window),
        )
        place.write(".omp/agent/config.yml", "compaction: {keepRecentTokens: 400}\n")
        place.set(
            {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
        )

    def options(self) -> list[str]:
        return ["--model", "local/scripted", "--auto-approve", "--no-title"]

    def path(self) -> Path:
        return self.place.newest(".omp/agent/sessions/*/*.jsonl")
