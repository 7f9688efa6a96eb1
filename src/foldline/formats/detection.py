"""Detects a file's format from its content.

Some formats are recognised, but cannot be read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from foldline.history import is_our_header
from foldline.json_text import parse_json

from .base import ForeignSession, Json, JsonObject, parse_object, unglued

Format = Literal[
    "foldline", "qwen-code", "claude-code", "codex", "pi", "kimi-cli", "klaude-code", "gemini-cli",
    "opencode", "copilot", "mistral-vibe", "anthropic", "openai",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    lines: list[JsonObject]
    document: JsonObject
    """The whole file if it is a single JSON object, otherwise an empty object."""
    items: list[JsonObject]
    """The objects in the file's list. Empty if the file is not a list."""


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A format and its reader.

    The reader is imported only when a file is read.
    """

    name: Format
    title: str
    folder: str
    """The format's folder in `readers`.

    Its module `reader` contains the functions `recognises` and `read`.
    """
    sees: Literal["lines", "document", "messages"] = "lines"
    """The argument passed to `recognises`: each line, the whole document, or all messages."""

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
        """Read a session file.

        Raises FoldlineError if the file has no record of this format.
        """
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
"""All formats of other agents, in the order in which they are tried.

OpenAI chat comes last, because other formats also have messages with roles. Qwen Code comes before Claude
Code, which has similar records.
"""

FORMATS: tuple[Format, ...] = ("foldline", *(foreign.name for foreign in FOREIGN))


NO_KNOWN_FORMAT = "not in a known session format"
DAMAGED = "is incomplete or damaged JSON"
_LINES_LOOKED_AT = 20
"""Number of lines that are examined at the beginning of a file."""
_TELLING = re.compile(rb'"tool_use"|"toolRequest"')
"""Matches a line that is examined in addition to the first lines.

The first lines may all be plain text messages, which do not reveal the format.
"""


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A description of a file that cannot be read."""

    what: str
    """Description of the file, which completes the sentence "The file …"."""
    instead: str = ""
    """Advice, as a sentence without its full stop.

    If it is empty, the error message lists all formats.
    """


def detect(data: bytes) -> Format | UnreadableFile:
    """Detect the format from a file's content."""
    if not data.strip(b"\0 \t\r\n"):
        return UnreadableFile("is empty")
    if is_our_header(data.split(b"\n", 1)[0]):
        return "foldline"
    head = _head(data)
    refusal = refusal_of(head)
    if refusal is not None:
        return UnreadableFile(
            f"seems to be {refusal.name}, which cannot be read yet", refusal.instead
        )
    for foreign in FOREIGN:
        if foreign.recognises(head):
            return foreign.name
    return UnreadableFile(_description(data, head))


def _head(data: bytes) -> Head:
    """Parse the start of a file.

    The lines of a document that spans several lines are not parsed individually.
    """
    value = _document(data)
    lines: list[JsonObject] = []
    items: list[JsonObject] = []
    if value is None or b"\n" not in data.strip():
        lines = _head_records(data)
    if isinstance(value, list):
        items = [JsonObject(item) for item in value if isinstance(item, dict)]
    return Head(lines=lines, document=JsonObject.of(value), items=items)


def _document(data: bytes) -> Json:
    try:
        return parse_json(data.decode("utf-8"))
    except ValueError:
        return None


def _head_records(data: bytes) -> list[JsonObject]:
    """Return the first JSON objects of a file that has one object per line."""
    split = data.split(b"\n", _LINES_LOOKED_AT)
    if len(split) > _LINES_LOOKED_AT:
        later = split.pop()
        match = _TELLING.search(later)
        if match:
            start = later.rfind(b"\n", 0, match.start()) + 1
            split.append(later[start:].split(b"\n", 1)[0])
    lines: list[bytes] = []
    for line in split:
        content = line.strip(b"\0 \t\r")
        if content:
            lines += unglued(content)
    parsed = map(parse_object, lines)
    records = [record for record in parsed if record is not None]
    return records if 2 * len(records) >= len(lines) - 1 else []


def _description(data: bytes, head: Head) -> str:
    if b"\0" in data[:65536] and not head.lines:
        return "is a binary file"
    if len(head.lines) > 1:
        return f"is in JSON Lines, but {NO_KNOWN_FORMAT}"
    if head.lines or _document(data) is not None:
        return f"is JSON, but {NO_KNOWN_FORMAT}"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "is a binary file"
    if data.lstrip()[:1] in (b"{", b"["):
        return DAMAGED
    return "is text, not a session"


_Test = Callable[[JsonObject], bool]


@dataclass(frozen=True, slots=True)
class Refusal:
    name: str
    instead: str = ""
    """Advice, as in `UnreadableFile`."""
    line: _Test = lambda record: False
    document: _Test = lambda document: False
    message: _Test = lambda message: False
    """Test that is applied to the first object of a list, or of the list `messages`."""
    tables: tuple[set[str], ...] = ()
    """Names of tables of the agent's database; any of these sets is enough."""


def _has(*keys: str) -> _Test:
    """Return a test for objects that have all of these keys."""
    return lambda record: record.keys() >= set(keys)


def _is_cursor(record: JsonObject) -> bool:
    is_message = (
        record.get("role") in ("user", "assistant")
        and "type" not in record
        and "uuid" not in record
    )
    return is_message and isinstance(record.at("message", "content"), list)


def _is_droid(record: JsonObject) -> bool:
    match record.get("type"):
        case "session_start":
            return "id" in record and not {"title", "owner", "cwd"}.isdisjoint(record)
        case "message":
            return _has("role", "text")(record)
        case "tool_call":
            return _has("toolName", "parameters")(record)
        case "completion":
            return "finalText" in record
        case _:
            return False


def _is_grok(record: JsonObject) -> bool:
    is_message = (
        record.get("type") in ("system", "user", "assistant", "tool_result")
        and "content" in record
    )
    return is_message and {"id", "uuid", "role", "message", "timestamp"}.isdisjoint(
        record
    )


def _is_like_claude_code(record: JsonObject) -> bool:
    """Return whether a record looks like one from Claude Code, except for its calls or results."""
    if not _has("uuid", "parentUuid")(record):
        return False
    ids = {"tool_use": "id", "tool_result": "tool_use_id"}
    blocks = record.objects("message", "content")
    return any(
        block.kind in ids and not block.text(ids[block.kind]) for block in blocks
    )


def _is_openhands(record: JsonObject) -> bool:
    is_output = _has("instance_id", "history")
    is_event = _has("source", "kind", "timestamp")
    return is_output(record) or is_event(record)


REFUSALS = (
    Refusal(
        "a mistral-vibe 2 session",
        line=_has("message_id", "role"),
    ),
    Refusal("OpenHands output", line=_is_openhands),
    Refusal(
        "a session of an agent with records like Claude Code's",
        "Its calls or results have no ids",
        line=_is_like_claude_code,
    ),
    Refusal(
        "a Cursor session",
        "Cursor's files lack most tool results, and `cursor-agent` cannot export them; `Export Chat` in the "
        "editor writes Markdown for people to read",
        line=_is_cursor,
        tables=(
            {"cursorDiskKV"},
            {"ItemTable"},
            {"blobs", "meta"},
        ),
    ),
    Refusal("a Droid session", "Droid has no export command", line=_is_droid),
    Refusal(
        "an Antigravity session",
        "Antigravity has no export command",
        line=_has("step_index", "source", "type"),
        tables=({"steps", "trajectory_meta"},),
    ),
    Refusal(
        "a Grok session",
        "`grok export ID FILE` writes Markdown for people to read",
        line=_is_grok,
        document=_has("chat_format_version", "info"),
    ),
    Refusal(
        "a Crush session",
        "`crush session show ID --json` writes JSON for other programs",
        document=lambda document: (
            {"id", "prompt_tokens"} <= document.object("meta").keys()
        ),
        tables=({"sessions", "messages", "files"},),
    ),
    Refusal(
        "Goose's database",
        "`goose session export --format json` writes a session that Foldline reads",
        tables=({"sessions", "messages", "schema_version"},),
    ),
    Refusal(
        "a SWE-agent trajectory",
        document=_has("trajectory"),
    ),
    Refusal(
        "tau-bench output",
        message=_has("task_id", "traj"),
    ),
    Refusal(
        "an OpenHands conversation",
        document=_has("source", "timestamp"),
        message=_has("source"),
    ),
)


def refusal_of(head: Head) -> Refusal | None:
    listed = head.items or head.document.objects("messages")
    by_line = (
        refusal for record in head.lines for refusal in REFUSALS if refusal.line(record)
    )
    by_document = (
        refusal
        for refusal in REFUSALS
        if (head.document and refusal.document(head.document))
        or (listed and refusal.message(listed[0]))
    )
    return next(by_line, next(by_document, None))


def refused_database(tables: set[str]) -> Refusal | None:
    refusals = (
        refusal
        for refusal in REFUSALS
        if any(names <= tables for names in refusal.tables)
    )
    return next(refusals, None)
