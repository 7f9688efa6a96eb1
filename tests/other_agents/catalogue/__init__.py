"""The agents, in the order of the table."""

from .base import Agent
from .claude_code import ClaudeCode
from .cline import Cline
from .codex import Codex
from .copilot import Copilot
from .gemini import GeminiCli, QwenCode
from .kimi import KimiCli, KimiCode
from .klaude import Klaude
from .oh_my_pi import OhMyPi
from .opencode import Opencode
from .pi import Pi
from .vibe import MistralVibe

_ALL: tuple[type[Agent], ...] = (
    ClaudeCode,
    Codex,
    Pi,
    Opencode,
    KimiCode,
    KimiCli,
    GeminiCli,
    QwenCode,
    MistralVibe,
    Copilot,
    Cline,
    Klaude,
    OhMyPi,
)
AGENTS = {agent.name: agent for agent in _ALL}
