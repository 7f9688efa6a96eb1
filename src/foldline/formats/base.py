"""Base types and functions for the readers of other agents' sessions.

These cover the readers' results, JSON lines, and checked access to other programs' JSON.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from foldline.files import read_regular
from foldline.history import Damage
from foldline.history.meta import TITLE_CELLS, describe
from foldline.json_text import is_nested_deeper, parse_json
from foldline.protocol import Entry, FoldlineError, SessionHeader, Subagent, UserMessage
from foldline.text.shorten import clip_cells
from foldline.view.projection import Projection

Json: TypeAlias = object
"""A JSON value from another program.

Its shape is unknown, so it is accessed through `JsonObject`.
"""

_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_GLUED = re.compile(rb'(?<=\})(?=\{"\w+":)')
"""Matches the boundary between two objects on one line.

It never matches inside a string, where quotes are escaped.
"""
_DEEPEST = 200
"""Maximum nesting depth of a record. More deeply nested records count as damaged.

pydantic serializes at most 255 levels, including Foldline's wrapper record.
"""
_MOST = 2**53
"""Limit for numbers; larger ones count as 0.

All integers below the limit are exact in every program's JSON.
"""
EPOCH = datetime.fromtimestamp(0, UTC)


class JsonObject(dict[str, Json]):
    """A JSON object from another program, read by paths of field names.

    If a path leads to no value of the right type, the methods return an empty string, object or list, 0, or
    None.
    """

    __slots__ = ()

    @classmethod
    def of(cls, value: Json) -> "JsonObject":
        return cls(value) if isinstance(value, dict) else cls()

    @property
    def kind(self) -> str:
        """The object's field `type`."""
        return self.text("type")

    @property
    def role(self) -> str:
        """The object's field `role`."""
        return self.text("role")

    def at(self, *path: str) -> Json:
        value: Json = self
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def text(self, *path: str) -> str:
        value = self.get(path[0]) if len(path) == 1 else self.at(*path)
        return value if isinstance(value, str) else ""

    def first(self, *keys: str) -> str:
        """Return the first non-empty string among these fields; otherwise an empty string."""
        return next(filter(None, map(self.text, keys)), "")

    def flag(self, key: str) -> bool:
        return self.get(key) is True

    def object(self, *path: str) -> "JsonObject":
        return JsonObject.of(self.at(*path))

    def array(self, *path: str) -> list[Json]:
        value = self.at(*path)
        return value if isinstance(value, list) else []

    def objects(self, *path: str) -> "list[JsonObject]":
        return list(map(JsonObject.of, self.array(*path)))

    def pieces(self, *path: str) -> "list[JsonObject]":
        """Return a message's content, converted to a list of objects.

        In the file, the content may be a string, or a list of strings and objects.
        """
        value = self.at(*path)
        items = value if isinstance(value, list) else [value]
        pieces: list[JsonObject] = []
        for item in items:
            if item and isinstance(item, str):
                pieces.append(JsonObject(type="text", text=item))
            elif item and isinstance(item, dict):
                pieces.append(JsonObject(item))
        return pieces

    def texts(self, *path: str) -> list[str]:
        return [value for value in self.array(*path) if isinstance(value, str)]

    def count(self, *path: str) -> int:
        """Return a number as a non-negative integer.

        Returns 0 for any other value.
        """
        value = self.at(*path)
        if isinstance(value, int | float) and value is not True and 0 <= value < _MOST:
            return int(value)
        return 0

    def time(self, *path: str, unit: float = 1000) -> datetime | None:
        """Parse a time: an ISO 8601 string, or a number counted from 1970.

        Args:
            unit: the number's units per second, such as 1000 for milliseconds.
        """
        try:
            match self.at(*path):
                case str() as text:
                    moment = datetime.fromisoformat(text)
                    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                case int() | float() as number:
                    return datetime.fromtimestamp(number / unit, UTC)
        except (ValueError, OverflowError, OSError):
            pass
        return None


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of messages in a request, as stated by the file.

    The system prompt is not included.
    """

    before: int
    """The index of the first entry that was added after the request."""
    messages: int


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session read from another agent's file."""

    format: str
    header: SessionHeader
    entries: list[Entry]
    """Entries in the order of their indices.

    Usually, an index is the record's position among the file's non-empty lines.
    """
    damage: Damage
    notes: tuple[str, ...] = ()
    """Notes to the user, for example about parts that were left out."""
    counted: tuple[Counted, ...] = ()
    """Message counts that the file states for its requests, oldest first.

    `reader.checked` compares them with the view.
    """
    children: "tuple[ForeignChild, ...]" = ()
    """The session's subagents. Each has a marker entry in the session."""
    digests: "Digests | None" = None
    """The result of checking the file's digests.

    None if the format has no digests.
    """
    projection: Projection | None = field(default=None, compare=False, repr=False)
    """The projection of all entries.

    None if the reader has not built it.
    """


@dataclass(frozen=True, slots=True)
class Digests:
    """The result of checking the digests of a file's documents and records."""

    checked: int
    faults: tuple[str, ...] = ()
    """Wrong digests, and breaks in the chain of digests.

    Each is described by a sentence without its full stop.
    """


@dataclass(frozen=True, slots=True)
class ForeignChild:
    """A subagent's session, and the call that started the subagent."""

    session: ForeignSession
    agent: str = ""
    title: str = ""
    """The subagent's task, on one line."""
    call_id: str = ""
    """The id of the call that started the subagent; empty if unknown."""

    @property
    def id(self) -> str:
        return self.session.header.id

    @property
    def prompt(self) -> str:
        for entry in self.session.entries:
            if isinstance(entry, UserMessage):
                return entry.text
        return ""

    @property
    def marker(self) -> Subagent:
        """The subagent's entry in its parent's history."""
        described = describe(self.session.header, self.session.entries).title
        title = clip_cells(self.title or described or self.prompt, TITLE_CELLS)
        return Subagent(
            child=self.id,
            call_id=self.call_id,
            agent=clip_cells(self.agent, 40),
            title=title,
        )


_CHILD_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


def child_of(
    session: ForeignSession,
    identity: str,
    *,
    agent: str = "",
    title: str = "",
    call_id: str = "",
) -> ForeignChild:
    """Create a subagent with this id.

    An id that is not a valid folder name is replaced by its hash.
    """
    if not _CHILD_ID.fullmatch(identity):
        identity = hashlib.sha256(identity.encode()).hexdigest()[:12]
    header = session.header.model_copy(update={"id": identity})
    return ForeignChild(replace(session, header=header), agent, title, call_id)


def marked_child(
    session: ForeignSession, name: str, above: Iterable[Entry]
) -> ForeignChild:
    """Return a subagent of a Foldline session.

    Its details are taken from its marker in the parent's history.
    """
    for entry in above:
        if isinstance(entry, Subagent) and entry.child == name:
            return child_of(
                session,
                name,
                agent=entry.agent,
                title=entry.title,
                call_id=entry.call_id,
            )
    return child_of(session, name)


def child_in(
    read: Callable[[bytes, Path], ForeignSession], file: Path
) -> ForeignSession | None:
    """Read a subagent's session from a file.

    Returns None if the file contains no session.
    """
    try:
        return read(bytes_in(file), file)
    except FoldlineError:
        return None


# --- JSON lines -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonLine:
    position: int
    """Position among the file's non-empty lines, counted from 0."""
    record: JsonObject

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def at(self) -> datetime | None:
        """The record's time, from the field that most agents use."""
        return self.record.time("timestamp")


def json_lines(data: bytes) -> tuple[list[JsonLine], Damage]:
    """Parse the objects in a JSONL file.

    Also counts the lines that are incomplete or cannot be decoded.
    """
    lines: list[JsonLine] = []
    damaged: list[int] = []
    position = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        content = line.strip(b"\0 \t\r")
        if not content and b"\0" not in line:
            continue
        records = [parse_object(piece) for piece in unglued(content)]
        if None in records:
            damaged.append(number)
        for record in records:
            if record is not None:
                lines.append(JsonLine(position, record))
            position += 1
    return lines, Damage(tuple(damaged))


def known_lines(
    data: bytes,
    path: Path,
    recognises: Callable[[JsonObject], bool],
    lacks: str,
) -> tuple[list[JsonLine], Damage]:
    """Parse a JSONL file that must contain a record of one format.

    Raises:
        FoldlineError: the file has no such record. `lacks` names the missing records and ends the message.
    """
    lines, damage = json_lines(data)
    if not any(recognises(line.record) for line in lines):
        raise FoldlineError(f"{path} has no {lacks}.")
    return lines, damage


def unglued(line: bytes) -> list[bytes]:
    """Split a line into the objects that it contains.

    A line has several objects if a writer was stopped before it ended the line.
    """
    return [line] if b'}{"' not in line else _GLUED.split(line)


def parse_object(text: bytes) -> JsonObject | None:
    """Parse a JSON object.

    Lone surrogates are replaced, so that the object can be serialized again.

    Returns None for other JSON values, and for JSON that is invalid or nested too deeply.
    """
    try:
        value = parse_json(text.decode("utf-8"))
    except ValueError:
        return None
    if not isinstance(value, dict) or _is_too_deep(text, value):
        return None
    if _LONE_SURROGATE.search(text):
        value = _mended(value)
    return JsonObject.of(value)


def lacks_parent(record: JsonObject, records: Iterable[JsonObject]) -> bool:
    """Return whether a record's `parentUuid` names a record that is missing from `records`."""
    parent = record.text("parentUuid")
    return bool(parent) and all(other.text("uuid") != parent for other in records)


def first_value(records: Iterable[JsonObject], *path: str) -> str:
    """Return the first non-empty string at this path in any of the records."""
    for record in records:
        text = record.text(*path)
        if text:
            return text
    return ""


def bytes_in(path: Path) -> bytes:
    """Return a file's content.

    Returns an empty value if the file cannot be read.
    """
    try:
        return read_regular(path)
    except OSError:
        return b""


def object_in(path: Path) -> JsonObject:
    """Return the JSON object in a file.

    Returns an empty object if the file is missing or invalid.
    """
    return parse_object(bytes_in(path)) or JsonObject()


def parse_document(data: bytes, name: str) -> JsonObject | None:
    """Parse a JSON document that is an object or a list.

    A list is returned as an object with the key `name`.
    """
    return parse_object(data) or parse_object(f'{{"{name}":'.encode() + data + b"}")


def _is_too_deep(text: bytes, value: Json) -> bool:
    brackets = text.count(b"[") + text.count(b"{")
    return brackets > _DEEPEST and is_nested_deeper(value, _DEEPEST)


def _mended(value: Json) -> Json:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_mended(item) for item in value]
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case _:
            return value
