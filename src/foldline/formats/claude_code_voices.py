"""Who speaks in the user rows of a Claude Code session: the user, a shell, or the program itself."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from foldline.protocol import (
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    NoticeRecord,
    Part,
    TextPart,
    UserMessage,
)

from .base import Json, JsonObject, as_list, as_object, as_text
from .claude_code_messages import image, parts_of

Voice = Literal["typed", "shell", "command", "program"]

_SHELL = re.compile(r"\s*<bash-(?:input|stdout|stderr)>")
_COMMAND = re.compile(r"\s*<command-(?:name|message)>")
_PROGRAM = re.compile(
    r"\s*(?:<(?:local-command-\w+|system-reminder|task-notification|bash-notification|teammate-message"
    r"|ide_\w+|user-prompt-submit-hook|channel|tick)\b[^>]*>"
    r"|\[Request interrupted by user|Operation stopped by hook:|Stop hook feedback:)"
)
"""How texts begin that the program writes in the user's name."""

_NEVER_SENT = frozenset(
    {
        "already_read_file",
        "command_permissions",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_non_blocking_error",
        "hook_permission_decision",
        "hook_system_message",
        "max_turns_reached",
        "structured_output",
    }
)
"""Kinds of attachments that are meant for people or for the program's own use."""
_HOOKS_THAT_SPEAK = frozenset({"SessionStart", "UserPromptSubmit"})
"""The model is shown what hooks print at these moments only."""
_TEXT_KEYS = (
    "content",
    "text",
    "prompt",
    "file",
    "snippet",
    "message",
    "subject",
    "planContent",
    "addedBlocks",
    "addedLines",
    "blockingError",
    "memories",
    "skills",
)
_DEPTH = 6
"""How deep in an attachment text is looked for; the deepest known lies at 4."""


def said_by_user(record: JsonObject, blocks: Sequence[JsonObject]) -> tuple[list[BaseMessage], list[str]]:
    """The messages of a user row apart from its results, one for each voice; and the blocks left out."""
    messages: list[BaseMessage] = []
    left_out: list[str] = []
    for voice, group in groupby(blocks, key=lambda block: voice_of(record, as_text(block.get("text")))):
        parts, unknown = parts_of(list(group))
        left_out += unknown
        if parts:
            messages.append(message_in(voice, parts))
    return messages, left_out


def voice_of(record: JsonObject, text: str) -> Voice:
    """Who says this text of a row. What nobody else is known to have written, the user has typed."""
    origin = as_text(as_object(record.get("origin")).get("kind"))
    if _SHELL.match(text):
        return "shell"
    if _COMMAND.match(text) or "planContent" in record:
        return "command"
    by_program = record.get("isMeta") is True or record.get("isCompactSummary") is True
    if by_program or origin not in ("", "human") or _PROGRAM.match(text):
        return "program"
    return "typed"


def message_in(voice: Voice, parts: tuple[Part, ...]) -> BaseMessage:
    """A message in this voice. A command, or an accepted plan, asks for an answer as a request does."""
    match voice:
        case "typed" | "shell":
            return UserMessage(parts=parts, origin=voice)
        case "command":
            return UserMessage(parts=parts, origin="machine")
        case "program" if any(isinstance(part, ImagePart) for part in parts):
            return UserMessage(parts=parts, origin="machine")
        case "program":
            return DeveloperMessage(parts=parts, origin="notice")


def attached(attachment: JsonObject) -> BaseMessage | None:
    """What an attachment tells the model; None where it tells nothing, or the file does not hold the text."""
    kind = as_text(attachment.get("type"))
    if not is_for_model(attachment):
        return None
    if kind == "queued_command":
        return _queued(attachment)
    content = as_object(attachment.get("content"))
    file = as_object(content.get("file"))
    if content.get("type") == "image" and (picture := image(file.get("base64"), file.get("type"))):
        return UserMessage(parts=(picture,), origin="machine")
    text = "\n".join(text for text in _texts(attachment, _DEPTH) if text.strip())
    path = as_text(attachment.get("path")) or as_text(attachment.get("filename"))
    return DeveloperMessage(parts=(TextPart(text=text),), source=path or None) if text else None


def is_for_model(attachment: JsonObject) -> bool:
    kind = as_text(attachment.get("type"))
    if kind == "hook_success":
        event, text = as_text(attachment.get("hookEvent")), as_text(attachment.get("content"))
        return event in _HOOKS_THAT_SPEAK and bool(text)
    return kind not in _NEVER_SENT


def _queued(attachment: JsonObject) -> BaseMessage | None:
    """A message that came while the model worked: the user's, or a report of something in the background."""
    prompt = attachment.get("prompt")
    blocks: list[JsonObject] = (
        [{"type": "text", "text": prompt}]
        if isinstance(prompt, str)
        else list(map(as_object, as_list(prompt)))
    )
    parts, _ = parts_of(blocks)
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    typed = attachment.get("commandMode", "prompt") == "prompt"
    voice = voice_of(attachment, text) if typed else "program"
    return message_in(voice, parts) if parts else None


def _texts(value: Json, depth: int) -> Iterator[str]:
    """The texts in an attachment, in the order of the keys known to hold text."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, list):
        for item in value:
            yield from _texts(item, depth - 1)
    elif depth and isinstance(value, dict):
        for key in _TEXT_KEYS:
            if key in value:
                yield from _texts(value[key], depth - 1)


def notice(record: JsonObject) -> NoticeRecord | None:
    """What a system row tells people: never meant for the model."""
    text = as_text(record.get("content"))
    error = as_object(record.get("error"))
    text = text or as_text(error.get("formatted")) or as_text(error.get("message"))
    if not text:
        return None
    level = record.get("level")
    return NoticeRecord(text=text, level=level if level in ("info", "warning", "error") else "info")
