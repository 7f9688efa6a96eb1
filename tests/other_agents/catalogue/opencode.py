"""opencode, by the Agent Client Protocol."""

import json
import socket
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from ..install import Npm
from ..wires import Json
from ..workspace import RUN_TIMEOUT
from .acp import AcpAgent


class Opencode(AcpAgent):
    name = "opencode"
    title = "opencode"
    version = "1.18.33"
    packages = Npm(("opencode-ai@1.18.33",))
    handoff = "opencode"
    can_rewind = True

    def set_up(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.command = ("opencode", "acp", "--port", str(self._port))
        model = {
            "name": "scripted",
            "tool_call": True,
            "limit": {"context": self.window, "output": 4096},
        }
        options = {"baseURL": f"{self.place.address}/v1", "apiKey": "dummy"}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Local",
            "options": options,
            "models": {"scripted": model},
        }
        settings = {
            "model": "local/scripted",
            "small_model": "local/scripted",
            "autoupdate": False,
            "share": "disabled",
            "provider": {"local": provider},
            "permission": {"*": "allow"},
        }
        self.place.write(".config/opencode/opencode.json", settings)
        for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"):
            self.place.set({f"OPENCODE_DISABLE_{name}": "1"})

    def resume(self, handed: Json) -> None:
        self.place.run("opencode", "import", handed["path"])
        super().resume(handed)

    def rewind(self) -> None:
        """By its own server: to the message before which its session is to go on."""
        messages = self._http(f"/session/{self.session}/message")
        prompts = [
            each["info"]["id"] for each in messages if each["info"]["role"] == "user"
        ]
        self._http(f"/session/{self.session}/revert", {"messageID": prompts[-1]})

    def _http(self, path: str, body: Json | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = Request(f"http://127.0.0.1:{self._port}{path}", data, headers)
        with urlopen(request, timeout=RUN_TIMEOUT) as answer:
            return json.load(answer)

    def file(self) -> str:
        return f"{self.path()}/{self.session}"

    def path(self) -> Path:
        return self.place.newest(".local/share/opencode/opencode.db")
