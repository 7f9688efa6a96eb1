"""The parts of a chat message as OpenAI spells them and others do, too: content, images, tool calls."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from foldline.protocol import ImagePart, Part, TextPart, ThinkingPart, ToolCallPart, text_parts

from .base import Json, JsonObject, as_list, as_object, as_text
from .detection import kind_of

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)


def content_parts(content: Json) -> tuple[tuple[Part, ...], list[str]]:
    """The parts of a content, a text or a list of pieces; and the kinds of those left out."""
    if isinstance(content, str):
        return text_parts(content), []
    return shown(as_list(content), _part)


def shown(pieces: Sequence[Any], part_of: Callable[[Any], Part | None]) -> tuple[tuple[Part, ...], list[str]]:
    """The parts that pieces become, and the kinds of those that become none."""
    found = [(piece, part_of(piece)) for piece in pieces]
    return (
        tuple(part for _, part in found if part is not None),
        [kind_of(piece) for piece, part in found if part is None],
    )


def _part(piece: Json) -> Part | None:
    if isinstance(piece, str):
        return TextPart(text=piece)
    record = as_object(piece)
    match record.get("type"):
        case "text" | "input_text" | "output_text":
            return TextPart(text=as_text(record.get("text")))
        case "refusal":
            return TextPart(text=as_text(record.get("refusal")))
        case "think":
            return ThinkingPart(
                text=as_text(record.get("think")), signature=as_text(record.get("encrypted")) or None
            )
        case "image_url" | "input_image":
            url = record.get("image_url")
            return image_at(as_text(url) or as_text(as_object(url).get("url")) or as_text(record.get("url")))
        case _:
            return None


def image_at(url: str) -> Part | None:
    """The image a URL holds; where it only points to one, the place it points to, as text."""
    head = _DATA_URL.match(url)
    if head is None:
        return TextPart(text=f"(image: {url})") if url and not url.startswith("data:") else None
    return ImagePart(media_type=head[1], data=url[head.end() :])


def tool_call_parts(calls: Json, position: int) -> tuple[ToolCallPart, ...]:
    """The calls of an answer. One without an id gets one made of the answer's position."""
    return tuple(
        ToolCallPart(
            call_id=as_text(call.get("id")) or f"call_{position}_{nth}",
            name=as_text(as_object(call.get("function")).get("name")),
            arguments=arguments_text(as_object(call.get("function")).get("arguments")),
        )
        for nth, call in enumerate(map(as_object, as_list(calls)))
    )


def arguments_text(arguments: Json) -> str:
    """Arguments as JSON text: as the model wrote them where the file holds text, else written anew."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False, separators=(",", ":"))


def line_count(text: str) -> str:
    """How long a text is, in the words of an outcome."""
    lines = len(text.splitlines())
    return f"{lines} line" if lines == 1 else f"{lines} lines"


def usage_count(record: JsonObject, *keys: str) -> Json:
    """The first of these numbers that a usage has: servers name them differently."""
    return next((record[key] for key in keys if record.get(key) is not None), None)
