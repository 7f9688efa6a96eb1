"""Writer for pi.

A summary at the start of the view becomes a compaction that keeps no messages.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from foldline.formats.export import PROVIDER, Exported, HandedView
from foldline.formats.readers.pi.reader import FRAME
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ImagePart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    is_typed,
)
from foldline.text.numbers import many
from foldline.view.items import is_summary

from .records import Record, content_of, images_of, iso, lines

BROKEN_OFF = (
    "{answers} written as complete. Otherwise, pi would not show them to its model."
)


def write_pi(view: HandedView) -> Exported:
    """Write records that are linked by `id` and `parentId`."""
    header = view.header
    session = {
        "type": "session",
        "version": 3,
        "id": header.id,
        "timestamp": iso(header.created_at),
        "cwd": header.cwd,
    }
    notes = []
    cut_off = sum(
        isinstance(message, AssistantMessage)
        and message.stop_reason in ("cancelled", "error")
        for _, message in view.messages
    )
    if cut_off:
        answers = many(cut_off, "interrupted answer was", "interrupted answers were")
        notes.append(BROKEN_OFF.format(answers=answers))
    return view.exported("pi", lines([session, *_pi_chain(_pi_records(view))]), *notes)


def _pi_chain(records: Iterable[Record]) -> Iterator[Record]:
    parent = None
    for nth, record in enumerate(records):
        if record["type"] == "compaction":
            record["firstKeptEntryId"] = parent  # an empty record, so nothing is kept
        name = f"{nth:08x}"
        yield {"id": name, "parentId": parent, **record}
        parent = name


def _pi_records(view: HandedView) -> Iterator[Record]:
    start = iso(view.header.created_at)
    if view.title:
        yield {"type": "session_info", "timestamp": start, "name": view.title}
    if view.model:
        yield {
            "type": "model_change",
            "timestamp": start,
            "provider": PROVIDER,
            "modelId": view.model,
        }
    if view.summary is not None:
        time = iso(view.summary.at or view.header.created_at)
        files = view.files
        yield {"type": "custom", "timestamp": time, "customType": "foldline.cut"}
        yield {
            "type": "compaction",
            "timestamp": time,
            "summary": view.summary.text.removeprefix(FRAME[0]).removesuffix(FRAME[1]),
            "tokensBefore": 0,
            "details": {
                "readFiles": files.read_files,
                "modifiedFiles": files.modified_files,
            },
            "fromHook": False,
        }
    for at, message in view.messages:
        yield {"timestamp": iso(at), **_pi_record(at, message)}


def _pi_record(at: datetime, message: BaseMessage) -> Record:
    match message:
        case AssistantMessage():
            record = _pi_answer(message)
        case ToolResultMessage():
            record = _pi_result(message)
        case UserMessage():
            record = _pi_prompt(message)
        case _:
            kind = "foldline.summary" if is_summary(message) else "foldline.notice"
            content = _pi_content(message)
            return {
                "type": "custom_message",
                "customType": kind,
                "content": content,
                "display": True,
            }
    return {
        "type": "message",
        "message": {**record, "timestamp": int(at.timestamp() * 1000)},
    }


def _pi_answer(message: AssistantMessage) -> Record:
    stop_reason = "length" if message.stop_reason in ("length", "repeated") else "stop"
    record = {
        "role": "assistant",
        "content": _pi_content(message),
        "api": "openai-completions",
        "provider": PROVIDER,
        "model": message.model or PROVIDER,
        "usage": _pi_usage(message.usage or Usage()),
        "stopReason": "toolUse" if message.calls else stop_reason,
    }
    if message.error:
        record["errorMessage"] = message.error
    return record


def _pi_usage(usage: Usage) -> Record:
    record: Record = {
        "input": max(0, usage.input - usage.cached),
        "output": usage.output,
        "cacheRead": usage.cached,
        "cacheWrite": 0,
        "totalTokens": usage.total,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }
    if usage.reasoning:
        record["reasoning"] = usage.reasoning
    return record


def _pi_result(message: ToolResultMessage) -> Record:
    files = message.details.files
    details = {
        "diff": message.details.diff,
        "fullOutputPath": message.details.full_output,
        "path": files[0].path if files else None,
    }
    return {
        "role": "toolResult",
        "toolCallId": message.call_id,
        "toolName": message.name,
        "content": _pi_content(message),
        "details": {name: value for name, value in details.items() if value},
        "isError": message.is_error,
    }


def _pi_prompt(message: UserMessage) -> Record:
    if message.origin == "shell":
        command, _, output = message.text.removeprefix("$ ").partition("\n")
        # Use pi's own type of record only if pi would then send the same text.
        is_same = f"$ {command}\n{output}".rstrip("\n") == message.text
        if is_same and not images_of(message):
            run = {"role": "bashExecution", "command": command, "output": output}
            return {**run, "cancelled": False, "truncated": False}
    record = {"role": "user", "content": _pi_content(message)}
    return record if is_typed(message) else {**record, "attribution": "agent"}


def _pi_content(message: BaseMessage) -> list[Record]:
    return content_of(message.parts, _pi_image, _pi_call)


def _pi_image(image: ImagePart) -> Record:
    return {"type": "image", "data": image.data, "mimeType": image.media_type}


def _pi_call(call: ToolCallPart) -> Record:
    return {
        "type": "toolCall",
        "id": call.call_id,
        "name": call.name,
        "arguments": call.parsed(),
    }
