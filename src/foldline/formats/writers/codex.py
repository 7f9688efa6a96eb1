"""Writer for Codex.

A summary at the start of the view becomes the result of a compaction.
"""

from collections.abc import Iterator
from datetime import datetime

from foldline.formats.export import Exported, HandedView
from foldline.llm.responses import to_input
from foldline.protocol import (
    BaseMessage,
    DeveloperMessage,
    ToolResultMessage,
    UserMessage,
    is_typed,
)
from foldline.version import __version__

from .records import Record, image_url, images_of, iso, lines, without_marks


def write_codex(view: HandedView) -> Exported:
    """Write a rollout file.

    It consists of Responses API items, and of events for prompts.
    """
    return view.exported("Codex", lines(_codex_rows(view)))


def _codex_rows(view: HandedView) -> Iterator[Record]:
    header = view.header
    start = header.created_at
    meta = {
        "id": header.id,
        "timestamp": iso(start),
        "cwd": header.cwd,
        "source": "cli",
        "originator": "foldline",
        "cli_version": __version__,
        "model_provider": None,
    }
    yield _codex_row(start, "session_meta", meta)
    if view.title:
        renamed = {
            "type": "thread_name_updated",
            "thread_id": header.id,
            "thread_name": view.title,
        }
        yield _codex_row(start, "event_msg", renamed)
    if view.summary is not None:
        text = view.summary.text
        compacted = {
            "message": text,
            "replacement_history": [_codex_text("user", text)],
        }
        yield _codex_row(view.summary.at or start, "compacted", compacted)
    for at, message in view.messages:
        items = list(_codex_items(message))
        for item in items:
            yield _codex_row(at, "response_item", item)
        if is_typed(message) and items:
            yield _codex_row(
                at, "event_msg", {"type": "user_message", "message": message.text}
            )


def _codex_row(at: datetime, kind: str, payload: Record) -> Record:
    return {"timestamp": iso(at), "type": kind, "payload": payload}


def _codex_text(role: str, text: str) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _codex_items(message: BaseMessage) -> Iterator[Record]:
    images = images_of(message)
    if isinstance(message, UserMessage) and not is_typed(message) and not images:
        message = DeveloperMessage(parts=message.parts)
    for item in to_input([without_marks(message)], ""):
        match item:
            case {"type": "message", "content": str(text), "role": role}:
                yield _codex_text("developer" if role == "system" else role, text)
            case {"type": "message", "role": "user"} if isinstance(
                message, ToolResultMessage
            ):
                pass  # skip the images of a result, which Codex keeps in the result itself
            case {"type": "function_call_output"} if images:
                texts = (
                    [{"type": "input_text", "text": message.text}]
                    if message.text
                    else []
                )
                pictures = [
                    {"type": "input_image", "image_url": image_url(image)}
                    for image in images
                ]
                yield {**item, "output": [*texts, *pictures]}
            case _:
                yield item
