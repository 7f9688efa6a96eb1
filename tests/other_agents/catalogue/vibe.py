"""mistral-vibe, by the Agent Client Protocol."""

from pathlib import Path

from ..install import Pip
from .acp import AcpAgent

SETTINGS = """\
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
enable_notifications = false
default_agent = "auto-approve"
[[providers]]
name = "local"
api_base = "{address}/v1"
api_key_env_var = "SCRIPTED_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "scripted"
provider = "local"
alias = "scripted"
"""


class MistralVibe(AcpAgent):
    name = "mistral-vibe"
    title = "mistral-vibe"
    version = "3.0.2"
    packages = Pip("mistral-vibe==3.0.2", ("3.12", "3.13"))
    command = ("vibe-acp",)
    can_rewind = True

    def set_up(self) -> None:
        self.place.write(
            ".vibe/config.toml", SETTINGS.format(address=self.place.address)
        )
        self.place.set({"SCRIPTED_KEY": "dummy", "MISTRAL_API_KEY": "dummy"})

    def rewind(self) -> None:
        """By a method that its ACP server has beside those of the protocol."""
        updates = [
            note["params"]["update"]
            for note in self._acp.notes
            if note["method"] == "session/update"
        ]
        prompts = [
            each for each in updates if each["sessionUpdate"] == "user_message_chunk"
        ]
        self._acp.request(
            "_rewind/to", sessionId=self.session, messageId=prompts[-1]["messageId"]
        )

    def path(self) -> Path:
        return self.place.newest(".vibe/logs/session/unified/*/CURRENT")
