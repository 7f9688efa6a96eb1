"""klaude-code, by its background agents."""

import json
from pathlib import Path

from ..install import Pip
from ..terminal import Terminal
from .base import Agent

SETTINGS = """\
main_model: scripted@local
fast_model: scripted@local
compact_model: scripted@local
auto_upgrade: false
provider_list:
- provider_name: local
  protocol: openai
  base_url: {address}/v1
  api_key: dummy
  model_list:
  - model_name: scripted
    model_id: scripted
    max_tokens: 4096
    context_limit: {window}
    cost: {{ input: 1, output: 4, cache_read: 0.1 }}
"""


class Klaude(Agent):
    name = "klaude-code"
    title = "klaude-code"
    version = "2.43.0"
    packages = Pip("klaude-code==2.43.0", ("3.13", "3.14"))

    def set_up(self) -> None:
        settings = SETTINGS.format(address=self.place.address, window=self.window)
        self.place.write(".klaude/klaude-config.yaml", settings)

    def prompt(self, text: str) -> None:
        if self.session:
            self.place.run("klaude", "send", self.session, text)
        else:
            begun = json.loads(self.place.run("klaude", "run", "--json", text))
            self.session = begun["session_id"]
        self.place.run("klaude", "wait", self.session)

    def compact(self) -> None:
        """The command is one of its screen."""
        before = self._compactions()
        with Terminal(self.place, "klaude", "attach", self.session) as screen:
            screen.settle()
            screen.type("/compact")
            screen.wait_until(lambda: self._compactions() > before, "its compaction")

    def _compactions(self) -> int:
        return self.path().read_text().count('"type": "CompactionEntry"')

    def path(self) -> Path:
        return self.place.newest(".klaude/projects/*/sessions/*/events.jsonl")

    def close(self) -> None:
        self.place.run("klaude", "server", "stop")
