"""pi, by its RPC mode."""

from pathlib import Path

from ..drivers import LineProcess
from ..install import Npm
from ..wires import Json
from ..workspace import RunError
from .base import Agent

EXTENSION = """\
export default function (pi) {
  const handler = async (entry, context) => { await context.navigateTree(entry.trim()); };
  pi.registerCommand("back", { description: "Go back in the tree", handler });
}
"""
"""A command for its tree, which has no other way in without a screen."""


class Pi(Agent):
    name = "pi"
    title = "pi"
    version = "1.6.0"
    packages = Npm(("@earendil-works/pi-coding-agent@1.6.0",))
    handoff = "pi"
    can_rewind = True
    program = "pi"
    folder = ".pi/agent"

    def set_up(self) -> None:
        model = {
            "id": "scripted",
            "name": "scripted",
            "reasoning": False,
            "input": ["text"],
            "contextWindow": self.window,
            "maxTokens": 4096,
        }
        provider = {
            "baseUrl": f"{self.place.address}/v1",
            "api": "openai-completions",
            "apiKey": "dummy",
            "models": [model],
        }
        self.place.write(
            f"{self.folder}/models.json", {"providers": {"local": provider}}
        )
        compaction = {"enabled": True, "reserveTokens": 8000, "keepRecentTokens": 400}
        settings = {
            "defaultProvider": "local",
            "defaultModel": "scripted",
            "compaction": compaction,
        }
        self.place.write(f"{self.folder}/settings.json", settings)
        self.place.write(f"{self.folder}/extensions/back.ts", EXTENSION)
        self.place.set(
            {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
        )

    def begin(self, session: str = "") -> None:
        options = ["--session", session] if session else []
        command = (self.program, "--mode", "rpc", *self.options(), *options)
        self.running = self._process = LineProcess(self.place, *command)

    def resume(self, handed: Json) -> None:
        self.begin(handed["path"])

    def options(self) -> list[str]:
        return ["--model", "local/scripted"]

    def prompt(self, text: str) -> None:
        self._process.send({"type": "prompt", "message": text})
        self._wait_for("agent_end")

    def compact(self) -> None:
        self._process.send({"type": "compact"})
        self._response("compact")

    def rewind(self) -> None:
        """Go to the place in the tree before the last prompt."""
        self._process.send({"type": "get_entries"})
        entries = self._response("get_entries")["data"]["entries"]
        messages = [entry for entry in entries if entry["type"] == "message"]
        prompts = [entry for entry in messages if entry["message"]["role"] == "user"]
        self._process.send({"type": "prompt", "message": f"/back {prompts[-1]['id']}"})
        self._response("prompt")

    def path(self) -> Path:
        return self.place.newest(f"{self.folder}/sessions/**/*.jsonl")

    def _wait_for(self, kind: str) -> Json:
        while True:
            message = self._process.receive()
            if message.get("type") == "response" and not message.get("success", True):
                raise RunError(f"{self.name}: {message.get('error')}")
            if message.get("type") == kind:
                return message

    def _response(self, command: str) -> Json:
        while True:
            message = self._wait_for("response")
            if message.get("command") == command:
                return message
