"""Tells the format of a file by its content, also of some that cannot be read."""

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
    """The whole file, if it is one object; else empty."""
    items: list[JsonObject]
    """The objects of the file's list; empty if it is no list."""


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A format and its reader, which is imported only to read a file."""

    name: Format
    title: str
    folder: str
    """The folder of `readers` whose module `reader` has the functions `recognises` and `read`."""
    sees: Literal["lines", "document", "messages"] = "lines"
    """The argument of `recognises`: any line, the document, or all messages."""

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
        """Read a file. Raises FoldlineError without a record of this format."""
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

FORMATS: tuple[Format, ...] = ("foldline", *(foreign.name for foreign in FOREIGN))


_LINES_LOOKED_AT = 20
_TELLING = re.compile(rb'"tool_use"|"toolRequest"')
"""The first line with one of these is looked at, too: a chat's first lines may all be talk."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file without a reader. `what` is the end of the sentence "it …"."""

    what: str
    instead: str = ""
    """The way out, as the end of the sentence. If empty, the readable formats are listed."""


def detect(data: bytes) -> Format | Unreadable:
    """Return the format of a file with this content."""
    if not data.strip(b"\0 \t\r\n"):
        return Unreadable("is empty")
    if is_our_header(data.split(b"\n", 1)[0]):
        return "foldline"
    head = _head(data)
    refusal = refusal_of(head)
    if refusal is not None:
        return Unreadable(f"seems to be {refusal.name}, which cannot be read yet", refusal.instead)
    for foreign in FOREIGN:
        if foreign.recognises(head):
            return foreign.name
    return Unreadable(_description(data, head))


def _head(data: bytes) -> Head:
    """Parse the start of a file. Lines of a document spread over lines do not count."""
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
    """Return the first JSON objects of a file with one a line."""
    split = data.split(b"\n", _LINES_LOOKED_AT)
    if len(split) > _LINES_LOOKED_AT:
        later = split.pop()
        if match := _TELLING.search(later):
            start, end = later.rfind(b"\n", 0, match.start()) + 1, later.find(b"\n", match.end())
            split.append(later[start : end if end >= 0 else len(later)])
    lines = [line.strip(b"\0 \t\r") for line in split]
    lines = [piece for line in lines if line for piece in unglued(line)]
    records = [record for line in lines if (record := parse_object(line)) is not None]
    return records if 2 * len(records) >= len(lines) - 1 else []


def _description(data: bytes, head: Head) -> str:
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
    """The command that exports the session, if there is one; the end of a sentence."""
    line: _Test = lambda record: False
    document: _Test = lambda document: False
    message: _Test = lambda message: False
    """Tests the first object of a list, or of the list `messages`."""
    tables: tuple[frozenset[str], ...] = ()


def _is_cursor(record: JsonObject) -> bool:
    is_message = record.get("role") in ("user", "assistant") and "type" not in record and "uuid" not in record
    return is_message and isinstance(record.at("message", "content"), list)


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
    is_message = record.get("type") in ("system", "user", "assistant", "tool_result") and "content" in record
    return is_message and {"id", "uuid", "role", "message", "timestamp"}.isdisjoint(record)


def _is_like_claude_code(record: JsonObject) -> bool:
    """Return whether a record is of Claude Code's form, but calls or results in it are not."""
    if not {"uuid", "parentUuid"} <= record.keys():
        return False
    ids = {"tool_use": "id", "tool_result": "tool_use_id"}
    blocks = record.objects("message", "content")
    return any(block.kind in ids and not block.text(ids[block.kind]) for block in blocks)


def _is_openhands(record: JsonObject) -> bool:
    return {"instance_id", "history"} <= record.keys() or {"source", "kind", "timestamp"} <= record.keys()


REFUSALS = (
    Refusal("a session of mistral-vibe 2", line=lambda record: {"message_id", "role"} <= record.keys()),
    Refusal("OpenHands output", line=_is_openhands),
    Refusal(
        "a session of an agent that writes almost as Claude Code does",
        "its calls or results have no ids of Claude Code's",
        line=_is_like_claude_code,
    ),
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
    by_document = (
        refusal
        for refusal in REFUSALS
        if (head.document and refusal.document(head.document)) or (listed and refusal.message(listed[0]))
    )
    return next(by_line, next(by_document, None))


def refused_database(tables: set[str]) -> Refusal | None:
    refusals = (refusal for refusal in REFUSALS if any(names <= tables for names in refusal.tables))
    return next(refusals, None)
