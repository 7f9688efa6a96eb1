"""Reader for OpenAI chat messages: a list, an object with `messages`, or one message a line.

The trajectories of mini-swe-agent are such an object, with more in `extra`; so is the output of
`foldline view --json`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    Part,
    SessionHeader,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
)
from foldline.protocol.messages import StopReason

from .base import (
    ForeignSession,
    Json,
    JsonLine,
    JsonObject,
    as_count,
    as_list,
    as_object,
    as_text,
    as_time,
    json_lines,
    parse_object,
)
from .chat_parts import arguments_text, content_parts, line_count, tool_call_parts, usage_count
from .detection import left_out_note, unknown_records_note
from .foreign_view import ForeignView

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NOTE_OPEN, _NOTE_CLOSE = "<system-note>\n", "\n</system-note>"
_CLOSES_NOTE = re.compile(r"<\s*+/\s*+system-note", re.IGNORECASE)
_DEFUSED_NOTE = re.compile(r"<\\(?=\s*+/\s*+system-note)", re.IGNORECASE)
"""What Foldline puts around machine text in the role user (`llm/dialect.py`)."""
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}


def is_openai_chat(records: Sequence[JsonObject]) -> bool:
    """Whether these are chat messages, or objects that hold some."""
    for record in records:
        inside = [as_object(message) for message in as_list(record.get("messages"))]
        if any(_is_message(message) for message in (record, *inside)):
            return True
    return False


def _is_message(record: JsonObject) -> bool:
    return record.get("role") in _ROLES and not {"content", "tool_calls", "function_call"}.isdisjoint(record)


def read_openai(data: bytes, path: Path) -> ForeignSession:
    """A chat. An entry's index is the place of its message: in the list, or among the lines.

    Raises:
        FoldlineError: there is no message in the file.
    """
    chat = _chat(data)
    if not any(_is_message(line.record) for line in chat.lines):
        raise FoldlineError(f"{path} holds no OpenAI chat messages: nothing in it has a role and content.")
    reader = _Reader(is_agent="trajectory_format" in chat.about or "model_stats" in _info(chat.about))
    reader.summaries = _summaries(chat.about)
    for line in chat.lines:
        reader.read(line)
    notes = [*([f"{chat.damage}."] if chat.damage else []), *chat.notes, *reader.notes()]
    created = next((entry.at for entry in reader.entries if entry.at), datetime.fromtimestamp(0, UTC))
    header = SessionHeader(
        id=as_text(chat.about.get("instance_id")) or path.stem,
        created_at=created,
        cwd=as_text(as_object(as_object(_info(chat.about).get("config")).get("environment")).get("cwd")),
    )
    return ForeignSession("openai", header, reader.entries, chat.damage, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Chat:
    """The messages of a file, and what it says about them."""

    lines: list[JsonLine]
    about: JsonObject = field(default_factory=dict)
    damage: Damage = field(default_factory=Damage)
    notes: tuple[str, ...] = ()


def _chat(data: bytes) -> _Chat:
    # A list is read as an object around it: the same mending of half characters then serves both.
    document = parse_object(data) or parse_object(b'{"messages":' + data + b"}")
    if document is not None and not _is_message(document):
        return _Chat(_lines(document), document)
    lines, damage = json_lines(data)
    chats = [line.record for line in lines if isinstance(line.record.get("messages"), list)]
    if not chats:
        return _Chat(lines, damage=damage)
    more = (f"Of {len(chats)} chats, one a line, the first was read.",) if len(chats) > 1 else ()
    return _Chat(_lines(chats[0]), chats[0], damage, more)


def _lines(document: JsonObject) -> list[JsonLine]:
    return [
        JsonLine(position, as_object(message))
        for position, message in enumerate(as_list(document.get("messages")))
    ]


def _info(about: JsonObject) -> JsonObject:
    return as_object(about.get("info"))


def _summaries(about: JsonObject) -> frozenset[int]:
    """Which of the leading messages are summaries, where the items of a `foldline view` say so.

    Items and messages go side by side only up to the first tool result with an image: enough, as a view
    starts with its summaries.
    """
    items = enumerate(map(as_object, as_list(about.get("items"))))
    return frozenset(place for place, item in items if item.get("kind") == "summary")


@dataclass
class _Reader:
    """Turns messages into entries, one after the other."""

    is_agent: bool
    """Whether a program wrote the messages of the role user, but for the first: it is a trajectory."""
    entries: list[Entry] = field(default_factory=list)
    summaries: frozenset[int] = frozenset()
    _view: ForeignView = field(default_factory=ForeignView)
    _leading: bool = True
    """Whether all messages so far are system messages."""
    _users: int = 0
    _names: dict[str, str] = field(default_factory=dict)
    """The names of the tools called, by call."""
    _legacy_call: str = ""
    left_out: list[str] = field(default_factory=list)

    def notes(self) -> tuple[str, ...]:
        return (*left_out_note(self.left_out), *unknown_records_note(self.entries, ("exit",)))

    def read(self, line: JsonLine) -> None:
        message, extra = line.record, as_object(line.record.get("extra"))
        entry = self._entry(message, line.position) or Unknown(
            type=f"openai.{as_text(message.get('role')) or 'record'}", record=message
        )
        seconds = extra.get("timestamp")
        at = as_time(seconds * 1000) if isinstance(seconds, int | float) else as_time(seconds)
        self.entries.append(entry.model_copy(update={"index": line.position, "at": at}))
        if isinstance(self.entries[-1], BaseMessage):
            self._view.add(self.entries[-1])

    def _entry(self, message: JsonObject, position: int) -> Entry | None:
        """The entry of a message; None for what is no message of a chat."""
        role = message.get("role")
        leading, self._leading = self._leading, self._leading and role in ("system", "developer")
        match role:
            case "system" | "developer":
                parts = self._parts(message.get("content"))
                if leading and position in self.summaries:
                    self._leading = False
                    return self._view.folded(position, parts, self._view.messages, strategy="openai")
                return SystemMessage(parts=parts) if leading else DeveloperMessage(parts=parts)
            case "user":
                return self._user(message)
            case "assistant":
                return self._assistant(message, position)
            case "tool" | "function":
                return self._tool_result(message)
            case "exit":
                status = as_text(as_object(message.get("extra")).get("exit_status"))
                return NoticeRecord(text="\n".join(filter(None, (status, as_text(message.get("content"))))))
            case _:
                return None

    def _parts(self, content: Json) -> tuple[Part, ...]:
        parts, left_out = content_parts(content)
        self.left_out += left_out
        return parts

    def _user(self, message: JsonObject) -> UserMessage:
        parts = self._parts(message.get("content"))
        bare = [_without_note(part) for part in parts]
        self._users += 1
        interrupt = as_text(as_object(message.get("extra")).get("interrupt_type"))
        if any(isinstance(part, TextPart) for part in parts) and None not in bare:
            return UserMessage(parts=tuple(part for part in bare if part is not None), origin="machine")
        by_program = self.is_agent and self._users > 1 and not interrupt.startswith("User")
        return UserMessage(parts=parts, origin="machine" if by_program else "typed")

    def _assistant(self, message: JsonObject, position: int) -> AssistantMessage:
        thinking = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
        calls = tool_call_parts(message.get("tool_calls"), position)
        legacy = as_object(message.get("function_call"))
        if legacy and not calls:
            name, self._legacy_call = as_text(legacy.get("name")), f"call_{position}"
            arguments = arguments_text(legacy.get("arguments"))
            calls = (ToolCallPart(call_id=self._legacy_call, name=name, arguments=arguments),)
        self._names.update({call.call_id: call.name for call in calls})
        content = self._parts(message.get("content")) or self._parts(message.get("refusal"))
        response = as_object(as_object(message.get("extra")).get("response"))
        choice = as_object(next(iter(as_list(response.get("choices"))), None))
        return AssistantMessage(
            parts=(*((ThinkingPart(text=thinking),) if thinking else ()), *content, *calls),
            model=as_text(response.get("model")) or None,
            usage=_usage(as_object(response.get("usage"))),
            stop_reason=_STOP_REASONS.get(as_text(choice.get("finish_reason"))),
        )

    def _tool_result(self, message: JsonObject) -> ToolResultMessage:
        call_id = as_text(message.get("tool_call_id")) or self._legacy_call
        parts = self._parts(message.get("content"))
        code = as_object(message.get("extra")).get("returncode")
        failed = isinstance(code, int) and code != 0
        text = as_text(as_object(message.get("extra")).get("raw_output")) or "\n".join(
            part.text for part in parts if isinstance(part, TextPart)
        )
        return ToolResultMessage(
            call_id=call_id,
            name=self._names.get(call_id) or as_text(message.get("name")),
            is_error=failed,
            parts=parts,
            details=ToolDetails(brief=f"exit {code}" if failed else line_count(text)),
        )


def _without_note(part: Part) -> Part | None:
    """The part without the mark around machine text; None for a text that has no mark. Images have none."""
    if not isinstance(part, TextPart):
        return part
    if not (part.text.startswith(_NOTE_OPEN) and part.text.endswith(_NOTE_CLOSE)):
        return None
    inner = part.text[len(_NOTE_OPEN) : -len(_NOTE_CLOSE)]
    if _CLOSES_NOTE.search(inner):
        return None
    return TextPart(text=_DEFUSED_NOTE.sub("<", inner))


def _usage(usage: JsonObject) -> Usage | None:
    details = as_object(usage_count(usage, "prompt_tokens_details", "input_tokens_details"))
    reported = Usage(
        input=as_count(usage_count(usage, "prompt_tokens", "input_tokens")),
        cached=as_count(details.get("cached_tokens")),
        output=as_count(usage_count(usage, "completion_tokens", "output_tokens")),
        reasoning=as_count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )
    return reported if reported.total else None
