"""What the tools of servers are for the model: names, schemas and results every provider takes."""

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from foldline.context.digest import clip
from foldline.context.numbers import many, some
from foldline.context.tokens import message_tokens
from foldline.llm.base import ToolSpec
from foldline.protocol import ImagePart, ToolResultMessage

from ..tools import ToolContext, ToolFailure, ToolOutcome
from ..tools.base import fitted
from ..tools.images import image_part
from ..tools.text import line_count, printed, sendable, sized
from .listing import Listing

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock, EmbeddedResource

_LONGEST_NAME = 64
"""Characters of a function's name in OpenAI's API: `^[a-zA-Z0-9_-]{1,64}$`."""
_LONGEST_SERVER = 24
"""Characters of a server's part: so much is left for the tool's."""
_MARK = 6
"""Hexadecimal digits that keep apart what would otherwise have one name."""


def prefixes(servers: Collection[str]) -> Mapping[str, str]:
    """How the names of each server's tools begin: `mcp__SERVER__`.

    A server's part neither holds nor ends in what parts it from the tool's: no two servers can have tools of
    one name, and no tool can pass for another server's.
    """
    plain = {server: re.sub(r"__+", "_", _plain(server)).strip("_") or "server" for server in servers}
    parts = {server: part[:_LONGEST_SERVER].rstrip("_") for server, part in plain.items()}
    count = Counter(parts.values())
    return {
        server: f"mcp__{part if count[part] == 1 and part == plain[server] else marked(part, server)}__"
        for server, part in parts.items()
    }


def tool_names(prefix: str, tools: Iterable[str]) -> Mapping[str, str]:
    """The name for each tool of a server, distinct, whatever order they come in."""
    plain = {tool: prefix + _plain(tool) for tool in tools}
    count = Counter(plain.values())
    # Those that had to be shortened, or are another's now, carry a mark of what they were.
    return {
        tool: marked(name[: _LONGEST_NAME - _MARK - 1], tool)
        if len(name) > _LONGEST_NAME or count[name] > 1
        else name
        for tool, name in plain.items()
    }


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def marked(name: str, original: str) -> str:
    """A name that no other original has."""
    return f"{name}_{hashlib.sha256(original.encode('utf-8', 'surrogatepass')).hexdigest()[:_MARK]}"


Schema = dict[str, Any]

_BOUNDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_COUNTS = frozenset(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"))
_WORDS = frozenset(("type", "description", "enum", "default", "format", "pattern", "required", "uniqueItems"))
_KEPT = _BOUNDS | _COUNTS | _WORDS
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_MOST_TYPES = 32
"""Alternatives of one argument that are searched for `null`."""
_DEEPEST = 24
"""Levels; what lies deeper, or refers to itself, may be anything."""
_LARGEST = 5_000
"""Schemas within one, after references were put in their places."""
_LONGEST_SCHEMA = 64_000
"""Characters of one as JSON, about 16,000 tokens of each request: more than any tool needs."""


class BrokenSchema(ValueError):
    """It is no schema of an object, or without end. The text says which, as the end of a sentence."""


def plain_schema(schema: object) -> Schema:
    """The schema of a tool's arguments, plain.

    Raises:
        BrokenSchema: there is none that a model can be sent.
    """
    if not isinstance(schema, Mapping):
        raise BrokenSchema("its schema is not an object")
    plain = _Plain(schema)
    root = plain.of(schema, 0)
    if root.get("type", "object") != "object":
        raise BrokenSchema(f"its arguments are {root['type']}, not an object")
    for word in _ALTERNATIVES:  # refused at the root: what they would demand, the server does
        for branch in root.pop(word, ()):
            root["properties"] = {**branch.get("properties", {}), **root.get("properties", {})}
    properties = root.get("properties", {})
    nullable = nullable_arguments(schema)
    required = [name for name in root.get("required", ()) if name in properties and name not in nullable]
    described = {"description": root["description"]} if "description" in root else {}
    extra = {key: root[key] for key in ("additionalProperties",) if key in root}
    said = {"type": "object", **described, "properties": properties, "required": required, **extra}
    if len(json.dumps(said, ensure_ascii=False)) > _LONGEST_SCHEMA:
        raise BrokenSchema(f"its schema has more than {_LONGEST_SCHEMA:,} characters")
    return said


def nullable_arguments(schema: object) -> frozenset[str]:
    """Required arguments that may be `null`: a model may leave them out, and the server gets `null`."""
    if not isinstance(schema, Mapping):
        return frozenset()
    plain = _Plain(schema)
    root = plain.resolved(schema)
    properties = root.get("properties")
    if not (_is_right("required", root.get("required")) and isinstance(properties, Mapping)):
        return frozenset()
    return frozenset(name for name in root["required"] if plain.admits_null(properties.get(name)))


class _Plain:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._count = 0

    def of(self, schema: object, depth: int, within: frozenset[str] = frozenset()) -> Schema:
        """`within` are the references that led here."""
        self._count += 1
        if self._count > _LARGEST:
            raise BrokenSchema(f"its schema holds more than {_LARGEST:,} others")
        if depth > _DEEPEST or not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            found = None if reference in within else self._found(reference)
            schema, within = {**(found or {}), **beside}, within | {reference}
            if "$ref" in schema:
                return self.of(schema, depth + 1, within)
        plain = {key: value for key, value in schema.items() if key in _KEPT and _is_right(key, value)}
        if "const" in schema:
            plain["enum"] = [schema["const"]]
        self._type(schema, plain)
        if isinstance(schema.get("properties"), Mapping):
            plain["properties"] = {
                str(name): self.of(each, depth + 1, within) for name, each in schema["properties"].items()
            }
        extra = schema.get("additionalProperties")
        if isinstance(extra, bool):
            plain["additionalProperties"] = extra
        elif isinstance(extra, Mapping):
            plain["additionalProperties"] = self.of(extra, depth + 1, within)
        if plain.get("type") == "array" or "items" in schema:
            plain["items"] = self.of(schema.get("items"), depth + 1, within)
        return self._alternatives(schema, plain, depth, within)

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema; if it is a reference, what that names within the document."""
        reference = schema.get("$ref")
        return (self._found(reference) or {}) if isinstance(reference, str) else schema

    def admits_null(self, schema: object) -> bool:
        """Whether `null` is one of the values or types that it names."""
        alternatives = [schema]
        for each in alternatives:  # grows while it is read
            if not isinstance(each, Mapping):
                continue
            named = self.resolved(each)
            types = (named.get("type"), *_listed(named.get("type")))
            if "null" in types or None in _listed(named.get("enum")) or named.get("nullable") is True:
                return True
            further = [*_listed(named.get("anyOf")), *_listed(named.get("oneOf"))]
            alternatives += further[: _MOST_TYPES - len(alternatives)]
        return False

    def _type(self, schema: Mapping[str, Any], plain: Schema) -> None:
        """A list of types without `null`, which says no more than that it may be left out."""
        kinds = schema.get("type")
        if isinstance(kinds, list):
            named = [kind for kind in kinds if kind in _TYPES and kind != "null"]
            if len(named) == 1:
                plain["type"] = named[0]
            elif named:
                plain["anyOf"] = [{"type": kind} for kind in named]
        elif "properties" in schema and "type" not in plain:
            plain["type"] = "object"

    def _alternatives(
        self, schema: Mapping[str, Any], plain: Schema, depth: int, within: frozenset[str]
    ) -> Schema:
        for word in _ALTERNATIVES:
            branches = schema.get(word)
            if not isinstance(branches, list):
                continue
            choices = [self.of(each, depth + 1, within) for each in branches if each != {"type": "null"}]
            if len(choices) == 1:
                plain = {**choices[0], **plain}
            elif choices:
                plain[word] = choices
        return plain

    def _found(self, reference: str) -> Mapping[str, Any] | None:
        """What a reference within the document names; one that leads out of it names nothing."""
        place: object = self._root
        if not reference.startswith("#"):
            return None
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            place = place.get(name) if isinstance(place, Mapping) else None
        return place if isinstance(place, Mapping) else None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_right(key: str, value: object) -> bool:
    match key:
        case "type":
            return isinstance(value, str) and value in _TYPES
        case "required":
            return isinstance(value, list) and all(isinstance(name, str) for name in value)
        case "enum":
            return isinstance(value, list) and bool(value)
        case "default":
            return value is not None
        case "description" | "pattern" | "format":
            return isinstance(value, str)
        case "uniqueItems":
            return isinstance(value, bool)
        case _ if key in _COUNTS:
            return isinstance(value, int) and not isinstance(value, bool) and value >= 0
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


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
        brief = many(len(answer.images), "image")
    else:
        brief = many(line_count(text), "line") if text.strip() else "no output"
    return ToolOutcome(
        shown, is_error=bool(result.is_error), brief=brief, full_output=full, images=tuple(answer.images)
    )


def _gathered(result: "CallToolResult", room: int) -> tuple["_Answer", str]:
    """All parts of a result, and its texts as a terminal would have left them."""
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
            image = image_part(base64.b64decode(data, validate=True), "this")
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


_LONGEST_DESCRIPTION = 1024
"""Characters of a description: what several OpenAI-compatible servers take at most."""


def offered(server: str, prefix: str, listing: Listing) -> tuple[dict[str, ToolSpec], list[str]]:
    """The tools that can be offered, by the server's own names, in the order of ours, which begin with
    `prefix`; and a sentence for what is wrong with others."""
    names = tool_names(prefix, (tool.name for tool in listing.tools))
    found: dict[str, tuple[str, ToolSpec]] = {}
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
        description = clip(sendable(tool.description).strip(), _LONGEST_DESCRIPTION)
        found[name] = tool.name, ToolSpec(name, description, schema)
    complaints = []
    if twice:
        complaints.append(
            f"The MCP server {server} lists {some(twice, 3)} twice: the first of that name is used."
        )
    if broken:
        complaints.append(
            f"The MCP server {server} has {many(len(broken), 'tool')} that cannot be used: {some(broken, 3)}."
        )
    return dict(found[name] for name in sorted(found)), complaints
