"""Converts Claude Code's records to messages: answers, tool results, prompts and attachments."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from foldline.formats.base import Json, JsonLine, JsonObject
from foldline.formats.parts import (
    ANTHROPIC_USAGE,
    arguments_of,
    image,
    of_kind,
    parts_of,
    stop_reason,
    text_in,
)
from foldline.formats.tool_results import (
    FILE_TOOLS,
    Changes,
    edit_of,
    line_count,
    read_file,
)
from foldline.formats.tool_results import tool_result as result_of
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    FileTouch,
    ImagePart,
    NoticeRecord,
    Part,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.protocol.messages import StopReason

SPOKEN = ("user", "assistant", "attachment")
"""Types of records that become messages."""
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d+)")
_NOT_RUN = re.compile(
    r"The user doesn't want to (?:proceed|take)|<tool_use_error>Sibling tool call errored"
)


def is_boundary(record: JsonObject) -> bool:
    return record.kind == "system" and record.get("subtype") == "compact_boundary"


def is_summary(record: JsonObject) -> bool:
    return record.kind == "user" and record.flag("isCompactSummary")


def uuid_of(line: JsonLine) -> str:
    return line.record.text("uuid")


def blocks_of(record: JsonObject) -> list[JsonObject]:
    return record.pieces("message", "content")


def text_of(record: JsonObject) -> str:
    return "\n".join(block.text("text") for block in blocks_of(record))


def sent_parts(blocks: Sequence[JsonObject], left_out: list[str]) -> tuple[Part, ...]:
    """Convert blocks to message parts, without empty texts."""
    return parts_of(
        [block for block in blocks if block.kind != "text" or block.get("text")],
        left_out,
    )


# --- answers and results ----------------------------------------------------------------------------


def answer(log: Transcript, pieces: Sequence[JsonObject]) -> AssistantMessage:
    """Return one answer, assembled from all of its records."""
    if any(piece.flag("isApiErrorMessage") for piece in pieces):
        text = "\n".join(map(text_of, pieces))
        return AssistantMessage(stop_reason="error", error=text or "the request failed")
    usage: Usage | None = None
    model = ""
    reason: StopReason | None = None
    for piece in pieces:
        message = piece.object("message")
        counted = usage_of(message.object("usage"))
        # Records from the start of the stream have preliminary usage, so the largest one is final.
        if counted and (usage is None or counted.output > usage.output):
            usage = counted
        if message.text("model") != "<synthetic>":
            model = model or message.text("model")
        reason = stop_reason(message.text("stop_reason")) or reason
    blocks = [block for piece in pieces for block in blocks_of(piece)]
    parts = _each_call_once(sent_parts(blocks, log.left_out))
    return AssistantMessage(
        parts=parts,
        model=model or None,
        usage=usage,
        stop_reason=reason,
    )


def _each_call_once(parts: Sequence[Part]) -> tuple[Part, ...]:
    unique: dict[str | int, Part] = {}
    for place, part in enumerate(parts):
        unique.setdefault(
            part.call_id if isinstance(part, ToolCallPart) else place, part
        )
    return tuple(unique.values())


def usage_of(usage: JsonObject) -> Usage | None:
    """Return the usage of an answer's last request.

    If the provider itself ran tools for an answer, there were several requests, and the answer's totals
    include the context once for each of them. Requests to an advisor are ignored, because they are a separate
    conversation.
    """
    requests = of_kind(usage.objects("iterations"), "message")
    newest = ANTHROPIC_USAGE.read(requests[-1]) if requests else None
    return newest or ANTHROPIC_USAGE.read(usage)


def tool_result(
    log: Transcript, block: JsonObject, run: JsonObject
) -> ToolResultMessage:
    """Return a tool result.

    `run` is the program's record of the call.
    """
    call_id = block.text("tool_use_id")
    call = log.calls.get(call_id)
    failed = block.flag("is_error")
    parts = sent_parts(block.pieces("content"), log.left_out)
    text = text_in(parts)
    changes = _changes(call, run, failed)
    return result_of(
        call_id,
        call.name if call else "",
        parts,
        failed=failed,
        brief=_failure(text) if failed else _brief(changes, text),
        changes=changes,
        milliseconds=run.count("durationMs") or run.count("totalDurationMs"),
        full_output=run.text("persistedOutputPath"),
    )


def _changes(call: ToolCallPart | None, run: JsonObject, failed: bool) -> Changes:
    diff = _diff(run)
    arguments = arguments_of(call)
    path = run.text("filePath") or run.text("file", "filePath")
    path = path or arguments.first("file_path", "notebook_path")
    if call is None or call.name not in FILE_TOOLS or failed or not path:
        return Changes(diff=diff or None)
    if FILE_TOOLS[call.name] == "read":
        return read_file(path, diff)
    if call.name == "Write" and not diff:
        content = run.text("content") or arguments.text("content")
        return Changes(
            (FileTouch(path=path, action="modified", added=len(content.splitlines())),)
        )
    return edit_of(path, diff)


def _diff(run: JsonObject) -> str:
    path = run.text("filePath")
    lines = [f"--- {path}", f"+++ {path}"]
    hunks = run.objects("structuredPatch")
    for hunk in hunks:
        old = f"{hunk.count('oldStart')},{hunk.count('oldLines')}"
        new = f"{hunk.count('newStart')},{hunk.count('newLines')}"
        lines += [f"@@ -{old} +{new} @@", *hunk.texts("lines")]
    return "\n".join([*lines, ""]) if hunks else ""


def _failure(text: str) -> str:
    exit_code = _EXIT_CODE.match(text)
    if exit_code:
        return f"exit {exit_code[1]}"
    return "not run" if _NOT_RUN.match(text) else "failed"


def _brief(changes: Changes, text: str) -> str:
    for touch in changes.files:
        if changes.diff:
            return f"+{touch.added} −{touch.removed}"
        if touch.added:
            return f"{touch.added} line" if touch.added == 1 else f"{touch.added} lines"
    return line_count(text)


# --- text in the role user --------------------------------------------------------------------------

Voice = Literal["typed", "shell", "command", "program"]

_SHELL = re.compile(r"\s*<bash-(?:input|stdout|stderr)>")
_COMMAND = re.compile(r"\s*<command-(?:name|message)>")
_PROGRAM = re.compile(
    r"\s*(?:<(?:local-command-\w+|system-reminder|task-notification|bash-notification|teammate-message"
    r"|ide_\w+|user-prompt-submit-hook|channel|tick)\b[^>]*>"
    r"|\[Request interrupted by user|Operation stopped by hook:|Stop hook feedback:)"
)
"""Matches the prefixes of texts that the program itself writes in the role "user"."""


def user_messages(
    log: Transcript, record: JsonObject, blocks: Sequence[JsonObject]
) -> list[BaseMessage]:
    """Return one message for each group of adjacent blocks by the same author."""
    messages = []
    for voice, group in groupby(
        blocks, key=lambda block: _voice(record, block.text("text"))
    ):
        parts = sent_parts(list(group), log.left_out)
        if parts:
            messages.append(_message(voice, parts))
    return messages


def _voice(record: JsonObject, text: str) -> Voice:
    """Return the author of a text.

    Text is assumed to be typed by the user unless it is recognised as another author's.
    """
    if _SHELL.match(text):
        return "shell"
    if _COMMAND.match(text) or "planContent" in record:
        return "command"
    by_program = record.flag("isMeta") or record.flag("isCompactSummary")
    if (
        by_program
        or record.text("origin", "kind") not in ("", "human")
        or _PROGRAM.match(text)
    ):
        return "program"
    return "typed"


def _message(voice: Voice, parts: tuple[Part, ...]) -> BaseMessage:
    """Return a message by this author.

    Commands and accepted plans become user messages, because the model must answer them.
    """
    if voice in ("typed", "shell"):
        return UserMessage(parts=parts, origin="shell" if voice == "shell" else "typed")
    if voice == "command" or any(isinstance(part, ImagePart) for part in parts):
        return UserMessage(parts=parts, origin="machine")
    return DeveloperMessage(parts=parts, origin="notice")


def notice(record: JsonObject) -> NoticeRecord | None:
    text = record.text("content") or record.object("error").first(
        "formatted", "message"
    )
    level = record.get("level")
    level = level if level in ("info", "warning", "error") else "info"
    return NoticeRecord(text=text, level=level) if text else None


# --- attachments ------------------------------------------------------------------------------------

_NEVER_SENT = frozenset({
    "already_read_file", "command_permissions", "hook_cancelled", "hook_error_during_execution",
    "hook_non_blocking_error", "hook_permission_decision", "hook_system_message", "max_turns_reached",
    "prompt_snapshot", "structured_output",
})  # fmt: skip
"""Types of attachments that are only for the user or for the program itself."""
_SENT_HOOKS = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events whose hooks print text for the model."""
_TEXT_KEYS = (
    "content", "text", "prompt", "file", "snippet", "message", "subject", "planContent", "addedBlocks",
    "addedLines", "blockingError", "memories", "skills",
)  # fmt: skip
_DEPTH = 6
"""Maximum depth at which text is searched for in an attachment.

The deepest known text is at level 4.
"""


def attached(record: JsonObject) -> BaseMessage | None:
    """Convert an attachment to a message.

    Returns None if it has no text for the model.

    Since version 2.1.332, the record contains the text as it was sent. Models that do not accept system
    messages within a conversation receive it in the role "user".
    """
    attachment = record.object("attachment")
    if not is_for_model(attachment):
        return None
    is_queued = attachment.kind == "queued_command"
    is_prompt = is_queued and attachment.get("commandMode", "prompt") == "prompt"
    source = attachment.first("path", "filename") or None
    rendered = [
        piece
        for message in record.objects("rendered")
        for piece in message.pieces("content")
    ]
    parts = sent_parts(rendered, [])
    if parts and is_prompt:
        return UserMessage(parts=parts)
    if parts:
        role: Literal["system", "user"] = (
            "user" if record.text("renderedRole") == "user" else "system"
        )
        return DeveloperMessage(parts=parts, source=source, role=role)
    if is_queued:
        parts = sent_parts(attachment.pieces("prompt"), [])
        voice = _voice(attachment, text_in(parts)) if is_prompt else "program"
        return _message(voice, parts) if parts else None
    content = attachment.object("content")
    if content.kind == "image":
        picture = image(content.text("file", "base64"), content.text("file", "type"))
        if picture:
            return UserMessage(parts=(picture,), origin="machine")
    text = "\n".join(text for text in _texts(attachment, _DEPTH) if text.strip())
    return DeveloperMessage(parts=text_parts(text), source=source) if text else None


def is_for_model(attachment: JsonObject) -> bool:
    if attachment.kind == "hook_success":
        return attachment.text("hookEvent") in _SENT_HOOKS and bool(
            attachment.text("content")
        )
    return attachment.kind not in _NEVER_SENT


def _texts(value: Json, depth: int) -> Iterator[str]:
    """Yield all strings in a value, down to this depth."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, list):
        for item in value:
            yield from _texts(item, depth - 1)
    elif depth and isinstance(value, dict):
        for key in _TEXT_KEYS:
            yield from _texts(value.get(key), depth - 1)
