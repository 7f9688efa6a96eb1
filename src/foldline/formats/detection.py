"""What a file is, judged by its content: a format that can be read here, or at least named."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from foldline.history import is_our_header

from .base import ForeignSession, Json, JsonObject, parse_object, unglued

Format = Literal[
    "foldline", "qwen-code", "claude-code", "codex", "pi", "kimi-cli", "klaude-code", "gemini-cli",
    "opencode", "copilot", "mistral-vibe", "anthropic", "openai",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    lines: list[JsonObject]
    document: JsonObject
    """The whole of it, where it is one object; empty where it is none."""
    items: list[JsonObject]
    """The objects of the list that it is; empty where it is none."""


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A format, and the module that knows it, which is imported only when a file is to be read."""

    name: Format
    title: str
    folder: str
    """The folder of `readers` whose module `reader` has the functions `recognises` and `read`."""
    sees: Literal["lines", "document", "messages"] = "lines"
    """What is recognised: any line, the document that it is, or its messages together."""

    def recognises(self, head: Head) -> bool:
        recognises = self._reader().recognises
        match self.sees:
            case "lines":
                return any(map(recognises, head.lines))
            case "document":
                return bool(head.document) and bool(recognises(head.document))
            case "messages":
                return bool(recognises(head.lines or head.items or [head.document]))

    def read(self, data: bytes, path: Path) -> ForeignSession:
        """Raises FoldlineError where nothing in the file is a record of this format."""
        session: ForeignSession = self._reader().read(data, path)
        return session

    def _reader(self) -> Any:
        return import_module(f".readers.{self.folder}.reader", __package__)


FOREIGN = (
    ForeignFormat("qwen-code", "Qwen Code", "qwen"),
    ForeignFormat("claude-code", "Claude Code", "claude_code"),
    ForeignFormat("codex", "Codex", "codex"),
    ForeignFormat("pi", "pi", "pi"),
    ForeignFormat("kimi-cli", "kimi-cli", "kimi_cli"),
    ForeignFormat("klaude-code", "klaude-code", "klaude"),
    ForeignFormat("gemini-cli", "Gemini CLI", "gemini", sees="messages"),
    ForeignFormat("opencode", "opencode", "opencode", sees="document"),
    ForeignFormat("copilot", "Copilot CLI", "copilot"),
    ForeignFormat("mistral-vibe", "mistral-vibe 3", "vibe", sees="document"),
    ForeignFormat("anthropic", "Amp, Cline and Goose", "anthropic", sees="messages"),
    ForeignFormat("openai", "OpenAI chat", "openai", sees="messages"),
)
"""OpenAI chat comes last: others hold messages with roles, too. Qwen Code comes before Claude Code,
whose records look alike."""

FORMATS: tuple[Format, ...] = ("foldline", *(known.name for known in FOREIGN))


_LINES_LOOKED_AT = 20
_TELLING = re.compile(rb'"tool_use"|"toolRequest"')
"""Tells what a chat is whose first lines are talk alone: the first line that holds it is looked at, too."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file without a reader. `what` ends the sentence "it …"."""

    what: str
    instead: str = ""
    """What to do about it: the rest of the sentence. Where it is empty, what can be read is said."""


def detect(data: bytes) -> Format | Unreadable:
    """The format of a file with this content."""
    if not data.strip(b"\0 \t\r\n"):
        return Unreadable("is empty")
    if is_our_header(data.split(b"\n", 1)[0]):
        return "foldline"
    head = _head(data)
    refusal = refusal_of(head)
    if refusal is not None:
        return Unreadable(f"seems to be {refusal.name}, which cannot be read yet", refusal.instead)
    for known in FOREIGN:
        if known.recognises(head):
            return known.name
    return Unreadable(_what_else(data, head))


def _head(data: bytes) -> Head:
    """A document that is spread over lines has none that count: pieces of it may look like records."""
    value = _document(data)
    lines = _head_records(data) if value is None or b"\n" not in data.strip() else []
    items = [JsonObject(item) for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return Head(lines=lines, document=JsonObject.of(value), items=items)


def _document(data: bytes) -> Json:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _head_records(data: bytes) -> list[JsonObject]:
    """The first JSON objects of a file that has one a line; none where most lines are something else."""
    split = data.split(b"\n", _LINES_LOOKED_AT)
    telling = _TELLING.search(split.pop()) if len(split) > _LINES_LOOKED_AT else None
    if telling is not None:
        rest = telling.string
        start, end = rest.rfind(b"\n", 0, telling.start()) + 1, rest.find(b"\n", telling.end())
        split.append(rest[start : end if end >= 0 else len(rest)])
    lines = [line.strip(b"\0 \t\r") for line in split]
    lines = [piece for line in lines if line for piece in unglued(line)]
    records = [record for line in lines if (record := parse_object(line)) is not None]
    return records if 2 * len(records) >= len(lines) - 1 else []


def _what_else(data: bytes, head: Head) -> str:
    if b"\0" in data[:65536] and not head.lines:
        return "is a binary file"
    if len(head.lines) > 1:
        return "is JSON lines, but no session format known here"
    if head.lines or _document(data) is not None:
        return "is JSON, but no session format known here"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "is a binary file"
    if data.lstrip()[:1] in (b"{", b"["):
        return "is JSON that is cut off or damaged"
    return "is text, not a session"


_Test = Callable[[JsonObject], bool]


@dataclass(frozen=True, slots=True)
class Refusal:
    name: str
    instead: str = ""
    """The command that exports such a session, or that there is none; the end of a sentence."""
    line: _Test = lambda record: False
    document: _Test = lambda document: False
    message: _Test = lambda message: False
    """Tells the first object of a list, or of the list `messages`."""
    tables: tuple[frozenset[str], ...] = ()


def _is_cursor(record: JsonObject) -> bool:
    spoken = record.get("role") in ("user", "assistant") and "type" not in record and "uuid" not in record
    return spoken and isinstance(record.at("message", "content"), list)


def _is_droid(record: JsonObject) -> bool:
    match record.get("type"):
        case "session_start":
            return "id" in record and not {"title", "owner", "cwd"}.isdisjoint(record)
        case "message":
            return {"role", "text"} <= record.keys()
        case "tool_call":
            return {"toolName", "parameters"} <= record.keys()
        case "completion":
            return "finalText" in record
        case _:
            return False


def _is_grok(record: JsonObject) -> bool:
    spoken = record.get("type") in ("system", "user", "assistant", "tool_result") and "content" in record
    return spoken and {"id", "uuid", "role", "message", "timestamp"}.isdisjoint(record)


def _is_openhands(record: JsonObject) -> bool:
    return {"instance_id", "history"} <= record.keys() or {"source", "kind", "timestamp"} <= record.keys()


REFUSALS = (
    Refusal("a session of mistral-vibe 2", line=lambda record: {"message_id", "role"} <= record.keys()),
    Refusal("OpenHands output", line=_is_openhands),
    Refusal(
        "a session of Cursor",
        "its files leave out most results of tools, and `cursor-agent` has no command that exports more; "
        "`Export Chat` in the editor writes Markdown, for people",
        line=_is_cursor,
        tables=(frozenset({"cursorDiskKV"}), frozenset({"ItemTable"}), frozenset({"blobs", "meta"})),
    ),
    Refusal("a session of Droid", "Droid has no command that exports one", line=_is_droid),
    Refusal(
        "a session of Antigravity",
        "Antigravity has no command that exports one",
        line=lambda record: {"step_index", "source", "type"} <= record.keys(),
        tables=(frozenset({"steps", "trajectory_meta"}),),
    ),
    Refusal(
        "a session of Grok",
        "`grok export ID FILE` exports it as Markdown, for people",
        line=_is_grok,
        document=lambda document: {"chat_format_version", "info"} <= document.keys(),
    ),
    Refusal(
        "a session of Crush",
        "`crush session show ID --json` exports one, for other programs",
        document=lambda document: {"id", "prompt_tokens"} <= document.object("meta").keys(),
        tables=(frozenset({"sessions", "messages", "files"}),),
    ),
    Refusal(
        "the database of Goose",
        "`goose session export --format json` writes a session that Foldline reads",
        tables=(frozenset({"sessions", "messages", "schema_version"}),),
    ),
    Refusal("a SWE-agent trajectory", document=lambda document: "trajectory" in document),
    Refusal("tau-bench output", message=lambda message: {"task_id", "traj"} <= message.keys()),
    Refusal(
        "an OpenHands conversation",
        document=lambda document: {"source", "timestamp"} <= document.keys(),
        message=lambda message: "source" in message,
    ),
)


def refusal_of(head: Head) -> Refusal | None:
    listed = head.items or head.document.objects("messages")
    by_line = (refusal for record in head.lines for refusal in REFUSALS if refusal.line(record))
    whole = (
        refusal
        for refusal in REFUSALS
        if (head.document and refusal.document(head.document)) or (listed and refusal.message(listed[0]))
    )
    return next(by_line, next(whole, None))


def refused_database(tables: set[str]) -> Refusal | None:
    return next((one for one in REFUSALS if any(names <= tables for names in one.tables)), None)
