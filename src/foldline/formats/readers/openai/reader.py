"""Reader for OpenAI chat messages.

A file is a list, an object with `messages`, or one message per line. Objects with `messages` are written by
`foldline view --json` and by mini-swe-agent, whose trajectories contain further data in `extra`.
"""

import re
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

from foldline.formats.base import (
    ForeignSession,
    JsonLine,
    JsonObject,
    json_lines,
    parse_document,
)
from foldline.formats.parts import (
    UsageFields,
    call_part,
    stop_reason,
    text_in,
    thinking_parts,
    tool_call_parts,
    user_message,
)
from foldline.formats.tool_results import line_count, tool_result
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    Part,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

_CONTENT_FIELDS = frozenset({"content", "tool_calls", "function_call"})
NO_MESSAGES = (
    "{path} has no OpenAI chat messages: nothing in it has both a role and content."
)
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NOTE_OPEN = "<system-note>\n"
_NOTE_CLOSE = "\n</system-note>"
_CLOSES_NOTE = re.compile(r"<\s*+/\s*+system-note", re.IGNORECASE)
_DEFUSED_NOTE = re.compile(r"<\\(?=\s*+/\s*+system-note)", re.IGNORECASE)
"""Matches a closing tag that is escaped inside a note.

Foldline encloses machine text in such notes when it sends the text in the role "user" (`llm/dialect.py`).
"""
_USAGE = UsageFields(
    input=("prompt_tokens|input_tokens",),
    output=("completion_tokens|output_tokens",),
    cached="prompt_tokens_details.cached_tokens|input_tokens_details.cached_tokens",
    reasoning="completion_tokens_details.reasoning_tokens",
)


def recognises(records: Sequence[JsonObject]) -> bool:
    return any(
        any(map(_is_message, (record, *record.objects("messages"))))
        for record in records
    )


def _is_message(record: JsonObject) -> bool:
    return record.role in _ROLES and not _CONTENT_FIELDS.isdisjoint(record)


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a chat. Its indices are the positions of messages."""
    document = parse_document(data, "messages")
    if document is not None and not _is_message(document):
        chats = [document]
        damage = Damage()
    else:
        lines, damage = json_lines(data)
        chats = [
            line.record
            for line in lines
            if isinstance(line.record.get("messages"), list)
        ]
    about = JsonObject()
    if chats:
        about = chats[0]
        lines = list(starmap(JsonLine, enumerate(about.objects("messages"))))
    if not any(_is_message(line.record) for line in lines):
        raise FoldlineError(NO_MESSAGES, path=path)
    reader = _OpenAIReader(about)
    for line in lines:
        reader.read(line.record, line.position)
    notes = [*reader.log.notes(("exit",))]
    if len(chats) > 1:
        notes.insert(
            0,
            f"The file has {len(chats)} chats, one per line. Only the first was read.",
        )
    name = about.text("instance_id") or path.stem
    cwd = about.text("info", "config", "environment", "cwd")
    return reader.log.session("openai", name, cwd, damage, notes)


class _OpenAIReader:
    def __init__(self, about: JsonObject) -> None:
        self.log = Transcript("openai")
        self._is_trajectory = (
            "trajectory_format" in about or "model_stats" in about.object("info")
        )
        """Whether only the first user message was typed.

        A program wrote the others.
        """
        items = enumerate(about.objects("items"))
        self._summaries = {
            place for place, item in items if item.get("kind") == "summary"
        }
        """Positions of leading messages that are summaries.

        They are taken from the `items` that `foldline view` writes.

        Items and messages have the same positions only up to the first tool result with an image. This is
        enough, because summaries are at the start of a view.
        """
        self._is_leading = True
        self._users = 0
        self._unanswered: list[ToolCallPart] = []
        """The newest answer's calls that have no results yet."""

    def read(self, message: JsonObject, position: int) -> None:
        at = message.time("extra", "timestamp", unit=1)
        self.log.put_record(
            position,
            self._entry(message, position),
            message,
            message.role,
            at,
        )
        if message.role not in ("system", "developer") or position in self._summaries:
            self._is_leading = False

    def _entry(self, message: JsonObject, position: int) -> Entry | None:
        match message.role:
            case "system" | "developer":
                parts = self.log.content(message)
                if not self._is_leading:
                    return DeveloperMessage(parts=parts)
                if position in self._summaries:
                    return self.log.compaction(
                        position, parts, self.log.messages(), strategy="openai"
                    )
                return SystemMessage(parts=parts)
            case "user":
                return self._user(message)
            case "assistant":
                return self._assistant(message, position)
            case "tool" | "function":
                return self._tool_result(message)
            case "exit":
                texts = (message.text("extra", "exit_status"), message.text("content"))
                return NoticeRecord(text="\n".join(filter(None, texts)))
            case _:
                return None

    def _user(self, message: JsonObject) -> UserMessage:
        parts = self.log.content(message)
        bare = [_without_note(part) for part in parts]
        self._users += 1
        if any(isinstance(part, TextPart) for part in parts) and None not in bare:
            return user_message(tuple(filter(None, bare)), typed=False)
        by_user = message.text("extra", "interrupt_type").startswith("User")
        return user_message(
            parts, typed=by_user or self._users == 1 or not self._is_trajectory
        )

    def _assistant(self, message: JsonObject, position: int) -> AssistantMessage:
        thinking = thinking_parts(message.first("reasoning_content", "reasoning"))
        calls = tool_call_parts(message.get("tool_calls"), position)
        legacy = message.object("function_call")
        if legacy and not calls:
            calls = (
                call_part(
                    f"call_{position}", legacy.text("name"), legacy.get("arguments")
                ),
            )
        self._unanswered = list(calls)
        content = self.log.content(message) or self.log.parts(message.get("refusal"))
        response = message.object("extra", "response")
        choice = next(iter(response.objects("choices")), JsonObject())
        return AssistantMessage(
            parts=(*thinking, *content, *calls),
            model=response.text("model") or None,
            usage=_USAGE.read(response.get("usage")),
            stop_reason=stop_reason(choice.text("finish_reason")),
        )

    def _tool_result(self, message: JsonObject) -> ToolResultMessage | UserMessage:
        """Return a tool result or, if its call is unknown, a user message."""
        parts = self.log.content(message)
        name = message.first("tool_name", "name")
        call = self._call_of(message.text("tool_call_id"), name)
        if call is None:
            return user_message(parts, typed=False)
        code = message.at("extra", "returncode")
        failed = isinstance(code, int) and code != 0
        text = message.text("extra", "raw_output") or text_in(parts)
        brief = f"exit {code}" if failed else line_count(text)
        return tool_result(
            call.call_id,
            call.name or name,
            parts,
            failed=failed,
            brief=brief,
        )

    def _call_of(self, call_id: str, name: str) -> ToolCallPart | None:
        """Return the call that a result belongs to.

        It is found by its id or, for Ollama, by its name.
        """
        call = self.log.calls.get(call_id)
        if call is None and not call_id:
            named = (call for call in self._unanswered if call.name == name)
            call = next(named, next(iter(self._unanswered), None))
        if call in self._unanswered:
            self._unanswered.remove(call)
        return call


def _without_note(part: Part) -> Part | None:
    """Return the part without the note's tags around machine text.

    Returns None for text without these tags.
    """
    if not isinstance(part, TextPart):
        return part
    if not (part.text.startswith(_NOTE_OPEN) and part.text.endswith(_NOTE_CLOSE)):
        return None
    inner = part.text[len(_NOTE_OPEN) : -len(_NOTE_CLOSE)]
    if _CLOSES_NOTE.search(inner):
        return None
    return TextPart(text=_DEFUSED_NOTE.sub("<", inner))
