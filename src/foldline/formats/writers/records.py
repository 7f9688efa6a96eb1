"""Builds the records in other agents' session files, for the writers."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from foldline.protocol import (
    BaseMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCallPart,
    UserMessage,
)

Record = dict[str, Any]
"""A JSON object that a writer builds."""


def record_line(record: Record) -> bytes:
    """Return a record as one line of JSON. Lone surrogates are escaped, as JSON allows."""
    text = json.dumps(
        record, allow_nan=False, ensure_ascii=False, separators=(",", ":")
    )
    return f"{text}\n".encode(errors="backslashreplace")


def lines(records: Iterable[Record]) -> bytes:
    """Return records as the content of a JSONL file."""
    return b"".join(map(record_line, records))


def iso(moment: datetime) -> str:
    """Format a time in UTC with milliseconds, according to ISO 8601."""
    at = moment.astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def content_of(
    parts: Iterable[Part],
    image: Callable[[ImagePart], Record],
    call: Callable[[ToolCallPart], Record] | None = None,
) -> list[Record]:
    """Convert texts, images and calls to content blocks.

    Other parts are left out.
    """
    content = []
    for part in parts:
        match part:
            case TextPart():
                content.append({"type": "text", "text": part.text})
            case ImagePart():
                content.append(image(part))
            case ToolCallPart() if call is not None:
                content.append(call(part))
    return content


def images_of(message: BaseMessage) -> list[ImagePart]:
    return [part for part in message.parts if isinstance(part, ImagePart)]


def image_url(image: ImagePart) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def chained(
    records: Iterable[Record], session: str, id_key: str, parent_key: str
) -> Iterator[Record]:
    """Give each record an id, and add the preceding record's id."""
    parent = None
    for nth, record in enumerate(records):
        name = str(uuid5(NAMESPACE_OID, f"{session} {nth}"))
        yield {parent_key: parent, id_key: name, **record}
        parent = name


def without_marks(message: BaseMessage) -> BaseMessage:
    """Return the message without marks that name its author.

    The records have a separate field for the author.
    """
    return (
        message.model_copy(update={"origin": "typed"})
        if isinstance(message, UserMessage)
        else message
    )
