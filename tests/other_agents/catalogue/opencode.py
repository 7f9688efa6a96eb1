"""opencode, by the Agent Client Protocol."""

from pathlib import Path

from ..install import Npm
from ..wires import Json
from .acp import AcpAgent


class Opencode(AcpAgent):
    name = "opencode"
    title = "opencode"
    version = "1.18.33"
    packages = Npm(("opencode-ai@1.18.33",))
    handoff = "opencode"
    command = ("opencode", "acp")

    def set_up(self) -> None:
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

    def file(self) -> str:
        return f"{self.path()}/{self.session}"

    def path(self) -> Path:
        return self.place.newest(".local/share/opencode/opencode.db")
