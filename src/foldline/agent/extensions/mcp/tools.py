"""Converts the names, schemas and results of a server's tools into a form that every provider accepts."""

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from foldline.agent.tools import ToolContext, ToolFailure, ToolOutcome
from foldline.agent.tools.base import fitted
from foldline.agent.tools.images import image_part
from foldline.agent.tools.text import line_count, printed, sendable
from foldline.json_text import JsonObject
from foldline.llm.base import ToolSpec
from foldline.protocol import ImagePart, ToolResultMessage
from foldline.text.numbers import many, sized, some
from foldline.text.shorten import clip
from foldline.view.tokens import message_tokens

from .listing import ServerListing, description_of

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock, EmbeddedResource

_LONGEST_NAME = 64
"""Maximum length of a function name in OpenAI's API, in characters (`^[a-zA-Z0-9_-]{1,64}$`)."""
_LONGEST_SERVER = 24
"""Maximum length of the server's part of a tool name, in characters."""
_MARK = 6
"""Number of hash digits (hexadecimal) that are appended to distinguish equal names."""
NO_OBJECT_SCHEMA = "its schema is not an object"
NO_OBJECT = "its arguments are {type}, not an object"
LONG_SCHEMA = "its schema has more than {most:,} characters"
LARGE_SCHEMA = "its schema contains more than {most:,} subschemas"
NO_OUTPUT = "[no output]"
AUDIO = "[audio ({type}) is not shown]"
LINK = "[resource {name}, {uri}{about}]"
BINARY = "[resource {uri} ({type}) is not text and is not shown]"
DAMAGED_IMAGE = "[an image ({type}) is damaged and is not shown]"
LARGE_IMAGE = "[an image ({type}, {size}) cannot be shown]"
DUPLICATES = (
    "The MCP server {server} lists {names} more than once: only the first one is used."
)
BROKEN = "The MCP server {server} has {tools} that cannot be used: {names}."


def prefixes(servers: Collection[str]) -> Mapping[str, str]:
    """Return the prefix of each server's tool names, `mcp__SERVER__`.

    The server's part contains no `__`, so that two servers cannot have tools with the same name.
    """
    plain = {
        server: re.sub(r"__+", "_", _plain(server)).strip("_") or "server"
        for server in servers
    }
    parts = {
        server: part[:_LONGEST_SERVER].rstrip("_") for server, part in plain.items()
    }
    count = Counter(parts.values())
    for server, part in parts.items():
        if count[part] > 1 or part != plain[server]:
            parts[server] = marked(part, server)
    return {server: f"mcp__{part}__" for server, part in parts.items()}


def tool_names(prefix: str, tools: Iterable[str]) -> Mapping[str, str]:
    """Return a distinct name for each tool of a server.

    The names do not depend on the order of the tools.
    """
    names = {tool: prefix + _plain(tool) for tool in tools}
    count = Counter(names.values())
    for tool, name in names.items():
        if len(name) > _LONGEST_NAME or count[name] > 1:
            names[tool] = marked(name[: _LONGEST_NAME - _MARK - 1], tool)
    return names


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def marked(name: str, original: str) -> str:
    """Append a hash of the original name, to make the name unique."""
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name}_{digest[:_MARK]}"


Schema = JsonObject

_BOUNDS = frozenset(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
)
_COUNTS = frozenset(
    ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
)
_WORDS = frozenset(
    (
        "type",
        "description",
        "enum",
        "default",
        "format",
        "pattern",
        "required",
        "uniqueItems",
    )
)
_KEPT = _BOUNDS | _COUNTS | _WORDS
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_MOST_TYPES = 32
"""Maximum number of alternatives in an argument's schema that are searched for `null`.

Further alternatives are ignored."""
_DEEPEST = 24
"""Maximum nesting depth of a tool's schema.

Deeper and recursive subschemas are replaced by one that allows any value.
"""
_LARGEST = 5_000
"""Maximum number of subschemas in a tool's schema, after references have been resolved.

A tool with more of them is not offered.
"""
_LONGEST_SCHEMA = 64_000
"""Maximum length of a schema as JSON, in characters.

This is about 16,000 tokens in each request. A tool with a longer schema is not offered.
"""


class BrokenSchema(ValueError):
    """A schema is invalid or too large.

    The message is a clause that states the reason.
    """


def plain_schema(schema: object) -> Schema:
    """Simplify the schema of a tool's arguments.

    Raises:
        BrokenSchema: the schema is not valid, or too large.
    """
    if not isinstance(schema, dict):
        raise BrokenSchema(NO_OBJECT_SCHEMA)
    root = _SchemaSimplifier(schema).simplified(schema, 0)
    if root.get("type", "object") != "object":
        raise BrokenSchema(NO_OBJECT.format(type=root["type"]))
    # Providers reject alternatives at the root. The server checks them itself.
    for word in _ALTERNATIVES:
        for branch in root.pop(word, ()):
            root["properties"] = {
                **branch.get("properties", {}),
                **root.get("properties", {}),
            }
    properties = root.get("properties", {})
    nullable = nullable_arguments(schema)
    required = [
        name
        for name in root.get("required", ())
        if name in properties and name not in nullable
    ]
    plain: Schema = {"type": "object"}
    if "description" in root:
        plain["description"] = root["description"]
    plain["properties"] = properties
    plain["required"] = required
    if "additionalProperties" in root:
        plain["additionalProperties"] = root["additionalProperties"]
    if len(json.dumps(plain, ensure_ascii=False)) > _LONGEST_SCHEMA:
        raise BrokenSchema(LONG_SCHEMA.format(most=_LONGEST_SCHEMA))
    return plain


def nullable_arguments(schema: object) -> frozenset[str]:
    """Return the required arguments that may be `null`.

    If the model omits one of them, `null` is sent to the server.
    """
    if not isinstance(schema, dict):
        return frozenset()
    simplifier = _SchemaSimplifier(schema)
    root = simplifier.resolved(schema)
    properties = root.get("properties")
    if not (
        _is_valid("required", root.get("required")) and isinstance(properties, dict)
    ):
        return frozenset()
    return frozenset(
        name
        for name in root["required"]
        if simplifier.allows_null(properties.get(name))
    )


class _SchemaSimplifier:
    """Resolves references, and removes keywords that some providers reject."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._count = 0

    def simplified(
        self, schema: object, depth: int, within: frozenset[str] = frozenset()
    ) -> Schema:
        """Simplify a subschema.

        Args:
            depth: level of nesting.
            within: references that led to the subschema.
        """
        self._count += 1
        if self._count > _LARGEST:
            raise BrokenSchema(LARGE_SCHEMA.format(most=_LARGEST))
        if depth > _DEEPEST or not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            others = {key: value for key, value in schema.items() if key != "$ref"}
            target = {} if reference in within else self._target(reference)
            schema = {**target, **others}
            within |= {reference}
            if "$ref" in schema:
                return self.simplified(schema, depth + 1, within)
        plain = {
            key: value
            for key, value in schema.items()
            if key in _KEPT and _is_valid(key, value)
        }
        if "const" in schema:
            plain["enum"] = [schema["const"]]
        self._type(schema, plain)
        if isinstance(schema.get("properties"), dict):
            plain["properties"] = {
                str(name): self.simplified(value, depth + 1, within)
                for name, value in schema["properties"].items()
            }
        extra = schema.get("additionalProperties")
        if isinstance(extra, bool):
            plain["additionalProperties"] = extra
        elif isinstance(extra, dict):
            plain["additionalProperties"] = self.simplified(extra, depth + 1, within)
        if plain.get("type") == "array" or "items" in schema:
            plain["items"] = self.simplified(schema.get("items"), depth + 1, within)
        return self._alternatives(schema, plain, depth, within)

    def resolved(self, schema: JsonObject) -> JsonObject:
        """Return the target of a reference, or the schema itself if it is not a reference."""
        reference = schema.get("$ref")
        return self._target(reference) if isinstance(reference, str) else schema

    def allows_null(self, schema: object) -> bool:
        """Return whether the schema allows `null`."""
        alternatives = [schema]
        for alternative in alternatives:  # the list grows during the loop
            if not isinstance(alternative, dict):
                continue
            plain = self.resolved(alternative)
            types = plain.get("type")
            if types == "null" or "null" in _as_list(types):
                return True
            if None in _as_list(plain.get("enum")) or plain.get("nullable") is True:
                return True
            further = _as_list(plain.get("anyOf")) + _as_list(plain.get("oneOf"))
            alternatives += further[: _MOST_TYPES - len(alternatives)]
        return False

    def _type(self, schema: JsonObject, plain: Schema) -> None:
        """Convert a list of types.

        Leaves out `null`, which only makes an argument optional.
        """
        kinds = schema.get("type")
        if isinstance(kinds, list):
            types = [kind for kind in kinds if kind in _TYPES and kind != "null"]
            if len(types) == 1:
                plain["type"] = types[0]
            elif types:
                plain["anyOf"] = [{"type": kind} for kind in types]
        elif "properties" in schema and "type" not in plain:
            plain["type"] = "object"

    def _alternatives(
        self,
        schema: JsonObject,
        plain: Schema,
        depth: int,
        within: frozenset[str],
    ) -> Schema:
        for word in _ALTERNATIVES:
            branches = schema.get(word)
            if not isinstance(branches, list):
                continue
            choices = [
                self.simplified(branch, depth + 1, within)
                for branch in branches
                if branch != {"type": "null"}
            ]
            if len(choices) == 1:
                plain = {**choices[0], **plain}
            elif choices:
                plain[word] = choices
        return plain

    def _target(self, reference: str) -> JsonObject:
        """Return the target of a reference within the document.

        Returns an empty object if the target is missing or external.
        """
        target: object = self._root
        if not reference.startswith("#"):
            return {}
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, dict) else None
        return target if isinstance(target, dict) else {}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_valid(key: str, value: object) -> bool:
    """Return whether the value of a keyword has the right type."""
    match key:
        case "type":
            return isinstance(value, str) and value in _TYPES
        case "required":
            return isinstance(value, list) and all(
                isinstance(name, str) for name in value
            )
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


async def outcome_of(
    result: "CallToolResult", context: ToolContext, name: str
) -> ToolOutcome:
    """Convert a call's result.

    Long output is clipped and written to a file.
    """
    # In a thread, because the result may be large.
    content, text = await asyncio.to_thread(_collect, result, context.max_tokens)
    if not text.strip():
        text = ""
    if content.images:
        brief = many(len(content.images), "image")
        context = replace(context, max_tokens=context.max_tokens - content.weight())
    elif text:
        brief = many(line_count(text), "line")
    else:
        brief = "no output"
        text = NO_OUTPUT
    text, full = await fitted(text, context, name)
    if result.is_error:
        brief = "failed ✗"
    return ToolOutcome(
        text,
        is_error=bool(result.is_error),
        brief=brief,
        full_output=full,
        images=tuple(content.images),
    )


def _collect(result: "CallToolResult", room: int) -> tuple["_ResultContent", str]:
    """Return the parts of a result, and its text without terminal sequences."""
    content = _ResultContent(room)
    for block in result.content:
        content.add(block)
    if (
        not content.texts
        and not content.images
        and result.structured_content is not None
    ):
        # Structured content would only repeat any other content (MCP, "Structured Content").
        content.texts.append(
            json.dumps(result.structured_content, ensure_ascii=False, indent=1)
        )
    return content, printed("\n".join(content.texts).encode("utf-8", "replace"))


@dataclass
class _ResultContent:
    """The text and images of a result."""

    room: int
    """Maximum total size of all images, in estimated tokens."""
    texts: list[str] = field(default_factory=list)
    images: list[ImagePart] = field(default_factory=list)

    def add(self, block: "ContentBlock") -> None:
        from mcp.types import (
            AudioContent,
            EmbeddedResource,
            ImageContent,
            ResourceLink,
            TextContent,
        )

        match block:
            case TextContent():
                self.texts.append(block.text)
            case ImageContent():
                self._add_image(block.mime_type, block.data)
            case AudioContent():
                self.texts.append(AUDIO.format(type=block.mime_type))
            case ResourceLink():
                about = f": {block.description}" if block.description else ""
                link = LINK.format(name=block.name, uri=block.uri, about=about)
                self.texts.append(link)
            case EmbeddedResource():
                self._add_resource(block)

    def _add_resource(self, block: "EmbeddedResource") -> None:
        from mcp.types import TextResourceContents

        resource = block.resource
        if isinstance(resource, TextResourceContents):
            self.texts.append(f"[resource {resource.uri}]\n{resource.text}")
        elif (resource.mime_type or "").startswith("image/"):
            self._add_image(resource.mime_type or "", resource.blob)
        else:
            kind = resource.mime_type or "of an unknown type"
            self.texts.append(BINARY.format(uri=resource.uri, type=kind))

    def _add_image(self, media_type: str, data: str) -> None:
        try:
            image = image_part(base64.b64decode(data, validate=True), "this")
        except (binascii.Error, ValueError):
            self.texts.append(DAMAGED_IMAGE.format(type=media_type))
            return
        except ToolFailure as failure:
            self.texts.append(f"[{failure}]")
            return
        if image is None or self.weight(image) > self.room:
            size = sized(len(data) * 3 // 4)
            self.texts.append(LARGE_IMAGE.format(type=media_type, size=size))
        else:
            self.images.append(image)

    def weight(self, *more: ImagePart) -> int:
        """Return the total size of all images and of `more`, in estimated tokens."""
        return message_tokens(
            ToolResultMessage(call_id="", name="", parts=(*self.images, *more))
        )


_LONGEST_DESCRIPTION = 1024
"""Maximum length of a description, in characters.

Longer ones are clipped, because some OpenAI-compatible servers reject them.
"""


def offered(
    server: str, prefix: str, listing: ServerListing
) -> tuple[dict[str, ToolSpec], list[str]]:
    """Return the usable tools, and messages about the others.

    The usable tools are keyed by the server's names for them, and ordered by Foldline's, which begin with
    `prefix`.
    """
    names = tool_names(prefix, (tool.name for tool in listing.tools))
    specs: dict[str, ToolSpec] = {}
    duplicates: list[str] = []
    broken = list(listing.broken)
    for tool in listing.tools:
        if tool.name in specs:
            duplicates.append(tool.name)
            continue
        try:
            schema = plain_schema(tool.input_schema)
        except BrokenSchema as problem:
            broken.append(f"{tool.name} ({problem})")
            continue
        description = clip(sendable(description_of(tool)).strip(), _LONGEST_DESCRIPTION)
        specs[tool.name] = ToolSpec(names[tool.name], description, schema)
    complaints = []
    if duplicates:
        names_text = some(duplicates, 3)
        complaints.append(DUPLICATES.format(server=server, names=names_text))
    if broken:
        tools = many(len(broken), "tool")
        complaints.append(
            BROKEN.format(server=server, tools=tools, names=some(broken, 3))
        )
    return dict(sorted(specs.items(), key=lambda item: item[1].name)), complaints
