"""What a server answered, as the result of a call: text within its room, pictures, and what else there is."""

import asyncio
import base64
import binascii
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from foldline.context.tokens import message_tokens
from foldline.protocol import ImagePart, ToolResultMessage

from ..tools import ToolContext, ToolFailure, ToolOutcome
from ..tools.clip import fitted
from ..tools.pictures import picture
from ..tools.text import counted, line_count, printed, sized

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock, EmbeddedResource
from collections.abc import Sequence

from foldline.context.numbers import many
from foldline.llm.base import ToolSpec

from ..tools.text import sendable
from .connection import Listing
from .naming import tool_names
from .schema import BrokenSchema, plain_schema


async def outcome_of(result: "CallToolResult", context: ToolContext, name: str) -> ToolOutcome:
    """The result of a call. What does not fit its room is in a file that the text names."""
    answer, text = await asyncio.to_thread(_gathered, result, context.max_tokens)  # it may be megabytes
    said = text if text.strip() else "" if answer.images else "[no output]"
    pictures = answer.weight() if answer.images else 0
    fits = replace(context, max_tokens=context.max_tokens - pictures)
    shown, full = await fitted(said, fits, name)
    if result.is_error:
        brief = "failed ✗"
    elif answer.images:
        brief = counted(len(answer.images), "image")
    else:
        brief = counted(line_count(text), "line") if text.strip() else "no output"
    return ToolOutcome(
        shown, is_error=bool(result.is_error), brief=brief, full_output=full, images=tuple(answer.images)
    )


def _gathered(result: "CallToolResult", room: int) -> tuple["_Answer", str]:
    """All of it, and its texts as a terminal would have left them."""
    answer = _Answer(room)
    for block in result.content:
        answer.add(block)
    if not answer.texts and not answer.images and result.structured_content is not None:
        # Beside texts it says the same once more (MCP, "Structured Content").
        answer.texts.append(json.dumps(result.structured_content, ensure_ascii=False, indent=1))
    return answer, printed("\n".join(answer.texts).encode("utf-8", "replace"))


@dataclass
class _Answer:
    room: int
    """Estimated tokens for all of it."""
    texts: list[str] = field(default_factory=list)
    images: list[ImagePart] = field(default_factory=list)

    def add(self, block: "ContentBlock") -> None:
        from mcp.types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

        match block:
            case TextContent():
                self.texts.append(block.text)
            case ImageContent():
                self._picture(block.mime_type, block.data)
            case AudioContent():
                self.texts.append(f"[a sound, {block.mime_type}, is not shown]")
            case ResourceLink():
                about = f": {block.description}" if block.description else ""
                self.texts.append(f"[resource {block.name}, {block.uri}{about}]")
            case EmbeddedResource():
                self._resource(block)

    def _resource(self, block: "EmbeddedResource") -> None:
        from mcp.types import TextResourceContents

        resource = block.resource
        if isinstance(resource, TextResourceContents):
            self.texts.append(f"[resource {resource.uri}]\n{resource.text}")
        elif (resource.mime_type or "").startswith("image/"):
            self._picture(resource.mime_type or "", resource.blob)
        else:
            kind = resource.mime_type or "of an unknown type"
            self.texts.append(f"[resource {resource.uri}, {kind}, is not text and not shown]")

    def _picture(self, media_type: str, data: str) -> None:
        try:
            image = picture(base64.b64decode(data, validate=True), "this")
        except (binascii.Error, ValueError):
            self.texts.append(f"[a picture, {media_type}, is damaged and not shown]")
            return
        except ToolFailure as failure:
            self.texts.append(f"[{failure}]")
            return
        if image is None or self.weight(image) > self.room:
            self.texts.append(f"[a picture, {media_type}, {sized(len(data) * 3 // 4)}, cannot be shown]")
        else:
            self.images.append(image)

    def weight(self, *more: ImagePart) -> int:
        """Estimated tokens of all pictures, with these."""
        return message_tokens(ToolResultMessage(call_id="", name="", parts=(*self.images, *more)))


_LONGEST = 1024
"""Characters of a description: what several OpenAI-compatible servers take at most."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool of a server."""

    spec: ToolSpec
    tool: str
    """What its server calls it."""


def offered(server: str, prefix: str, listing: Listing) -> tuple[list[Offered], list[str]]:
    """The tools that can be offered, by their names, which begin with `prefix`; and a sentence for what is
    wrong with others.
    """
    names = tool_names(prefix, (tool.name for tool in listing.tools))
    found: dict[str, Offered] = {}
    twice: list[str] = []
    broken = list(listing.broken)
    for tool in listing.tools:
        name = names[tool.name]
        if name in found:
            twice.append(tool.name)
            continue
        try:
            schema = plain_schema(tool.schema)
        except BrokenSchema as problem:
            broken.append(f"{tool.name} ({problem})")
            continue
        found[name] = Offered(ToolSpec(name, _bounded(tool.description), schema), tool.name)
    complaints = []
    if twice:
        complaints.append(
            f"The MCP server {server} lists {_some(twice)} twice: the first of that name is used."
        )
    if broken:
        complaints.append(
            f"The MCP server {server} has {many(len(broken), 'tool')} that cannot be used: {_some(broken)}."
        )
    return [found[name] for name in sorted(found)], complaints


def _bounded(text: str) -> str:
    text = sendable(text).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
