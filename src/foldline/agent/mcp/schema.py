"""A tool's schema in the plainest form that says the same: what every OpenAI-compatible server takes.

The server that owns the tool validates the arguments; this is what the model is told about them. So what some
provider refuses is left out rather than kept: references are put in their places, `null` beside another type
goes, and the root is an object without alternatives.
"""

import json
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_BOUNDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_COUNTS = frozenset(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"))
_WORDS = frozenset(("type", "description", "enum", "default", "format", "pattern", "required", "uniqueItems"))
_KEPT = _BOUNDS | _COUNTS | _WORDS
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 24
"""Levels; what lies deeper, or refers to itself, may be anything."""
_LARGEST = 5_000
"""Schemas within one, after references were put in their places."""
_LONGEST = 64_000
"""Characters of one as JSON, about 16,000 tokens of each request: more than any tool needs."""


class BrokenSchema(ValueError):
    """It is no schema of an object, or without end. The text says which, as the end of a sentence."""


def plain_schema(schema: object) -> Schema:
    """The schema of a tool's arguments, plain.

    Raises:
        BrokenSchema: there is none that can be told a model.
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
    required = [name for name in root.get("required", ()) if name in properties]
    described = {"description": root["description"]} if "description" in root else {}
    extra = {key: root[key] for key in ("additionalProperties",) if key in root}
    said = {"type": "object", **described, "properties": properties, "required": required, **extra}
    if len(json.dumps(said, ensure_ascii=False)) > _LONGEST:
        raise BrokenSchema(f"its schema has more than {_LONGEST:,} characters")
    return said


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
