"""Shared by all readers: their result, JSON lines, and careful access to JSON of other programs."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from foldline.context.projection import Projection
from foldline.files import read_regular
from foldline.history import Damage
from foldline.history.meta import TITLE_CELLS, clip_cells, describe
from foldline.protocol import Entry, FoldlineError, SessionHeader, Subagent, UserMessage

Json: TypeAlias = object
"""A value of foreign JSON: looked at through `JsonObject`, never trusted to have a shape."""

_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_GLUED = re.compile(rb'(?<=\})(?=\{"\w+":)')
"""Where one object ends and the next begins. Inside a text, no word follows its closing quote."""
_DEEPEST = 200
"""Levels of nesting; pydantic writes 255 at most, our own record around a foreign one included."""
_MOST = 2**53
"""The numbers below it are whole in JSON of any program."""
EPOCH = datetime.fromtimestamp(0, UTC)


class JsonObject(dict[str, Json]):
    """An object of foreign JSON, read by paths of field names.

    Without a value of the right type at a path, a method returns an empty text, object or list, 0 or None.
    """

    __slots__ = ()

    @classmethod
    def of(cls, value: Json) -> "JsonObject":
        return cls(value) if isinstance(value, dict) else cls()

    @property
    def kind(self) -> str:
        """Its `type`."""
        kind = self.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def role(self) -> str:
        """Its `role`."""
        role = self.get("role")
        return role if isinstance(role, str) else ""

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
        """Return the first of these fields that has a text."""
        return next(filter(None, map(self.text, keys)), "")

    def flag(self, key: str) -> bool:
        return self.get(key) is True

    def object(self, *path: str) -> "JsonObject":
        value = self.at(*path)
        return JsonObject(value) if isinstance(value, dict) else JsonObject()

    def array(self, *path: str) -> list[Json]:
        value = self.at(*path)
        return value if isinstance(value, list) else []

    def objects(self, *path: str) -> "list[JsonObject]":
        return [JsonObject(item) if isinstance(item, dict) else JsonObject() for item in self.array(*path)]

    def pieces(self, *path: str) -> "list[JsonObject]":
        """Return a message's content as pieces: it is a text, or a list of texts and objects."""
        value = self.at(*path)
        return [
            JsonObject(type="text", text=piece) if isinstance(piece, str) else JsonObject(piece)
            for piece in (value if isinstance(value, list) else (value,))
            if piece and isinstance(piece, str | dict)
        ]

    def texts(self, *path: str) -> list[str]:
        return [value for value in self.array(*path) if isinstance(value, str)]

    def count(self, *path: str) -> int:
        """Return a whole number from 0 up; 0 for any other value."""
        value = self.at(*path)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
            return 0
        return int(value)

    def time(self, *path: str, unit: float = 1000) -> datetime | None:
        """Return a time: ISO 8601, or a number since 1970 with `unit` to the second."""
        try:
            match self.at(*path):
                case str() as text:
                    moment = datetime.fromisoformat(text)
                    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                case int() | float() as number:
                    return datetime.fromtimestamp(number / unit, UTC)
                case _:
                    return None
        except (ValueError, OverflowError, OSError):
            return None


@dataclass(frozen=True, slots=True)
class Counted:
    """The file's count of a request's messages, without the system prompt."""

    before: int
    """The index of the first entry that was not there yet."""
    messages: int


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session read from another agent's file, which is never written to."""

    format: str
    header: SessionHeader
    entries: list[Entry]
    """In index order; an index is the position of its record among the file's non-empty lines, from 0."""
    damage: Damage
    notes: tuple[str, ...] = ()
    """Sentences for people: which parts were left out, and why."""
    counted: tuple[Counted, ...] = ()
    """The file's counts of its requests, oldest first: `reader.checked` compares them with the view."""
    children: "tuple[ForeignChild, ...]" = ()
    """Its subagents. Each has a marker among the entries."""
    digests: "Digests | None" = None
    """The checked digests of the files; None if their format has none."""
    projection: Projection | None = field(default=None, compare=False, repr=False)
    """That of all entries, where the reader has made it."""


@dataclass(frozen=True, slots=True)
class Digests:
    """Recomputed digests of documents and records."""

    checked: int
    faults: tuple[str, ...] = ()
    """Differences from a digest, and breaks of the chain. Each is a sentence without its end."""


@dataclass(frozen=True, slots=True)
class ForeignChild:
    """A subagent's session, and the call that started it."""

    session: ForeignSession
    agent: str = ""
    title: str = ""
    """Its task, in one line."""
    call_id: str = ""
    """Empty if unknown."""

    @property
    def id(self) -> str:
        return self.session.header.id

    @property
    def prompt(self) -> str:
        prompts = (entry.text for entry in self.session.entries if isinstance(entry, UserMessage))
        return next(prompts, "")

    @property
    def marker(self) -> Subagent:
        """Its entry in the history of its parent."""
        described = describe(self.session.header, self.session.entries).title
        title = clip_cells(self.title or described or self.prompt, TITLE_CELLS)
        return Subagent(child=self.id, call_id=self.call_id, agent=clip_cells(self.agent, 40), title=title)


_CHILD_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


def child_of(
    session: ForeignSession, identity: str, *, agent: str = "", title: str = "", call_id: str = ""
) -> ForeignChild:
    """Return a subagent of this id, hashed if it cannot name a folder."""
    safe = identity if _CHILD_ID.fullmatch(identity) else hashlib.sha256(identity.encode()).hexdigest()[:12]
    header = session.header.model_copy(update={"id": safe})
    return ForeignChild(replace(session, header=header), agent, title, call_id)


def marked_child(session: ForeignSession, name: str, above: Iterable[Entry]) -> ForeignChild:
    """Return a subagent of ours, described by its marker in its parent's history."""
    markers = (entry for entry in above if isinstance(entry, Subagent) and entry.child == name)
    marker = next(markers, Subagent(child=name, call_id="", agent=""))
    return child_of(session, name, agent=marker.agent, title=marker.title, call_id=marker.call_id)


def child_in(read: Callable[[bytes, Path], ForeignSession], file: Path) -> ForeignSession | None:
    """Read the session of a subagent in a file, if there is one."""
    try:
        return read(bytes_in(file), file)
    except FoldlineError:
        return None


# --- JSON lines -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonLine:
    position: int
    """Its place among the non-empty lines, from 0."""
    record: JsonObject

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def at(self) -> datetime | None:
        """The time of most agents' records."""
        return self.record.time("timestamp")


def json_lines(data: bytes) -> tuple[list[JsonLine], Damage]:
    """Parse the objects of a JSONL file; count torn and undecodable lines."""
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
    data: bytes, path: Path, recognises: Callable[[JsonObject], bool], lacks: str
) -> tuple[list[JsonLine], Damage]:
    """Parse a file that must have a record of one format.

    Raises:
        FoldlineError: it has none. `lacks`, the end of the sentence, names the missing record.
    """
    lines, damage = json_lines(data)
    if not any(recognises(line.record) for line in lines):
        raise FoldlineError(f"{path} has no {lacks}.")
    return lines, damage


def unglued(line: bytes) -> list[bytes]:
    """Split a line into its objects: several, if a writer was stopped before a line's end."""
    return [line] if b'}{"' not in line else _GLUED.split(line)


def parse_object(text: bytes) -> JsonObject | None:
    """Parse an object that can be written again.

    Return None for other JSON, broken JSON, and JSON nested too deep. Text without an encoding is mended.
    """
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _is_too_deep(text, value):
        return None
    return JsonObject.of(_mended(value) if _LONE_SURROGATE.search(text) else value)


def lacks_parent(record: JsonObject, records: Iterable[JsonObject]) -> bool:
    """Return whether a record of a tree by `uuid` names a parent that is not among these."""
    uuids = {other.text("uuid") for other in records}
    return record.text("parentUuid") not in uuids | {""}


def bytes_in(path: Path) -> bytes:
    """Return the content of an optional file; empty if it cannot be read."""
    try:
        return read_regular(path)
    except OSError:
        return b""


def object_in(path: Path) -> JsonObject:
    """Return the JSON object in an optional file; empty if there is none."""
    return parse_object(bytes_in(path)) or JsonObject()


def parse_document(data: bytes, name: str) -> JsonObject | None:
    """Parse a document: an object, or a list, which becomes an object with a field of this name."""
    return parse_object(data) or parse_object(f'{{"{name}":'.encode() + data + b"}")


def _is_too_deep(text: bytes, value: Json) -> bool:
    if text.count(b"[") + text.count(b"{") <= _DEEPEST:
        return False
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


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
