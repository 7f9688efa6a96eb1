"""Codex, by its app server."""

from pathlib import Path

from ..drivers import Rpc
from ..install import Npm
from .base import Agent

SETTINGS = """\
model = "scripted"
model_provider = "local"
model_context_window = {window}
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "{address}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[projects."{work}"]
trust_level = "trusted"
"""


class Codex(Agent):
    name = "codex"
    title = "Codex"
    version = "0.171.0"
    packages = Npm(("@openai/codex@0.171.0",))
    can_rewind = True
    handoff = "codex"

    def set_up(self) -> None:
        place = self.place
        settings = SETTINGS.format(
            window=self.window, address=place.address, work=place.work
        )
        place.write(".codex/config.toml", settings)
        place.set({"SCRIPTED_KEY": "dummy"})

    def begin(self, session: str = "") -> None:
        self.running = self._rpc = Rpc(self.place, "codex", "app-server")
        self._turn = ""
        about = {"name": "foldline", "title": "Foldline", "version": "1"}
        self._rpc.request(
            "initialize", clientInfo=about, capabilities={"experimentalApi": True}
        )
        self._rpc.notify("initialized")
        if session:
            self._rpc.request("thread/resume", threadId=session)
            self.session = session
        else:
            begun = self._rpc.request("thread/start", cwd=str(self.place.work))
            self.session = begun["thread"]["id"]

    def prompt(self, text: str) -> None:
        begun = self._rpc.request(
            "turn/start",
            threadId=self.session,
            input=[{"type": "text", "text": text, "text_elements": []}],
        )
        self._turn = begun["turn"]["id"]
        self._rpc.wait_for("turn/completed")

    def compact(self) -> None:
        self._rpc.request("thread/compact/start", threadId=self.session)
        self._rpc.wait_for("turn/completed")

    def rewind(self) -> None:
        self._rpc.request(
            "thread/revert", threadId=self.session, beforeTurnId=self._turn
        )

    def path(self) -> Path:
        return self.place.newest(".codex/sessions/**/rollout-*.jsonl")
