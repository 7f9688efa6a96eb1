"""The formats of other agents that can be read, one line each, in the order in which a file is tried."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from .base import ForeignSession, JsonObject

Format = Literal[
    "foldline",
    "qwen-code",
    "claude-code",
    "codex",
    "pi",
    "kimi-cli",
    "klaude-code",
    "gemini-cli",
    "opencode",
    "anthropic",
    "openai",
]

Reader = Callable[[bytes, Path], ForeignSession]


@dataclass(frozen=True, slots=True)
class Head:
    """What a file starts with, as JSON."""

    lines: list[JsonObject]
    """Its first records, one a line."""
    document: JsonObject
    """The whole of it, where it is one object; empty where it is none."""
    items: list[JsonObject]
    """The objects of the list that it is; empty where it is none."""


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A format, and the module that knows it, which is imported only when a file is to be read."""

    name: Format
    title: str
    """Whose sessions they are, for sentences."""
    module: str
    recogniser: str
    reader: str
    sees: Literal["lines", "any line", "document", "messages"] = "lines"
    """What the recogniser looks at."""

    def recognises(self, head: Head) -> bool:
        recogniser = getattr(self._module(), self.recogniser)
        match self.sees:
            case "lines":
                return bool(recogniser(head.lines))
            case "any line":
                return any(map(recogniser, head.lines))
            case "document":
                return bool(head.document) and bool(recogniser(head.document))
            case "messages":
                return bool(recogniser(head.lines or head.items or [head.document]))

    def read(self, data: bytes, path: Path) -> ForeignSession:
        reader: Reader = getattr(self._module(), self.reader)
        return reader(data, path)

    def _module(self) -> object:
        return import_module(f".{self.module}", __package__)


FOREIGN = (
    ForeignFormat("qwen-code", "Qwen Code", "qwen", "is_qwen", "read_qwen"),
    ForeignFormat("claude-code", "Claude Code", "claude_code", "is_claude_code", "read_claude_code"),
    ForeignFormat("codex", "Codex", "codex", "is_codex", "read_codex"),
    ForeignFormat("pi", "pi", "pi", "is_pi", "read_pi", sees="any line"),
    ForeignFormat("kimi-cli", "kimi-cli", "kimi", "is_kimi", "read_kimi"),
    ForeignFormat("klaude-code", "klaude-code", "klaude", "is_klaude", "read_klaude"),
    ForeignFormat("gemini-cli", "Gemini CLI", "gemini", "is_gemini", "read_gemini", sees="messages"),
    ForeignFormat("opencode", "opencode", "opencode", "is_opencode", "read_opencode", sees="document"),
    ForeignFormat(
        "anthropic",
        "Amp, Cline and Goose",
        "anthropic_chat",
        "is_anthropic_chat",
        "read_anthropic_chat",
        sees="messages",
    ),
    ForeignFormat("openai", "OpenAI chat", "openai_chat", "is_openai_chat", "read_openai", sees="messages"),
)
"""OpenAI chat comes last: others hold messages with roles, too. Qwen Code comes before Claude Code,
whose records look alike."""

FORMATS: tuple[Format, ...] = ("foldline", *(known.name for known in FOREIGN))
