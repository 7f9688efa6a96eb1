"""What every reader shares: its result, JSON lines, and careful ways into JSON that somebody else wrote."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

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
    """An object of foreign JSON. A path leads to the field of a field …; where there is no such way, or what
    stands there is of another type, a method gives nothing: an empty text, object or list, 0, None."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Json) -> "JsonObject":
        return cls(value) if isinstance(value, dict) else cls()

    @property
    def kind(self) -> str:
        """Its `type`."""
        kind = self.get("type")
        return kind if isinstance(kind, str) else ""

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
        """The first of these fields that holds a text."""
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
        """Those of the content of a message: a text is one piece; a list has texts and objects."""
        value = self.at(*path)
        return [
            JsonObject(type="text", text=piece) if isinstance(piece, str) else JsonObject(piece)
            for piece in (value if isinstance(value, list) else (value,))
            if piece and isinstance(piece, str | dict)
        ]

    def texts(self, *path: str) -> list[str]:
        return [value for value in self.array(*path) if isinstance(value, str)]

    def count(self, *path: str) -> int:
        """A number of things: a whole number from 0 up, and 0 for what no count can be."""
        value = self.at(*path)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
            return 0
        return int(value)

    def time(self, *path: str, unit: float = 1000) -> datetime | None:
        """A moment, from ISO 8601 text or from a number since 1970, `unit` of which are a second."""
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
    """How many messages a request had, its system prompt aside, by the count in the file."""

    before: int
    """The index of the first entry that was not there yet."""
    messages: int


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session read from a file that may not be ours. The file itself is never written to."""

    format: str
    header: SessionHeader
    entries: list[Entry]
    """In index order; an index is the position of its record among the file's non-empty lines, from 0."""
    damage: Damage
    notes: tuple[str, ...] = ()
    """What a reader should know: what was left out, and why. Sentences."""
    counted: tuple[Counted, ...] = ()
    """What the file says of its requests, oldest first: held against the view by `reader.checked`."""
    children: "tuple[ForeignChild, ...]" = ()
    """Its subagents. Each has a marker among the entries."""
    digests: "Digests | None" = None
    """What came of the digests in the files; None where their format has none."""


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of documents and records that lie beside them, recomputed."""

    checked: int
    faults: tuple[str, ...] = ()
    """What differs from its digest, or breaks the chain. Each is a sentence without its end."""


@dataclass(frozen=True, slots=True)
class ForeignChild:
    """A subagent's session, and what is known of how it came about."""

    session: ForeignSession
    agent: str = ""
    title: str = ""
    """Its task, in one line."""
    call_id: str = ""
    """The call that started it; empty where nothing says which."""

    @property
    def id(self) -> str:
        return self.session.header.id

    @property
    def prompt(self) -> str:
        said = (entry.text for entry in self.session.entries if isinstance(entry, UserMessage))
        return next(said, "")

    @property
    def marker(self) -> Subagent:
        """What stands for it in the history of its parent."""
        known = describe(self.session.header, self.session.entries).title
        title = clip_cells(self.title or known or self.prompt, TITLE_CELLS)
        return Subagent(child=self.id, call_id=self.call_id, agent=clip_cells(self.agent, 40), title=title)


_CHILD_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


def child_of(
    session: ForeignSession, identity: str, *, agent: str = "", title: str = "", call_id: str = ""
) -> ForeignChild:
    """A subagent of this id. A folder is going to have that name: one that may lead elsewhere is hashed."""
    safe = identity if _CHILD_ID.fullmatch(identity) else hashlib.sha256(identity.encode()).hexdigest()[:12]
    header = session.header.model_copy(update={"id": safe})
    return ForeignChild(replace(session, header=header), agent, title, call_id)


def marked_child(session: ForeignSession, name: str, above: Iterable[Entry]) -> ForeignChild:
    """A subagent of ours in the folder of this name; the marker in the history `above` it says the rest."""
    markers = (entry for entry in above if isinstance(entry, Subagent) and entry.child == name)
    marker = next(markers, Subagent(child=name, call_id="", agent=""))
    return child_of(session, name, agent=marker.agent, title=marker.title, call_id=marker.call_id)


def child_in(read: Callable[[bytes, Path], ForeignSession], file: Path) -> ForeignSession | None:
    """The session of a subagent in a file; None where it holds none."""
    try:
        return read(bytes_in(file), file)
    except FoldlineError:
        return None


# --- JSON lines -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonLine:
    position: int
    """Among the non-empty lines, from 0."""
    record: JsonObject

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def at(self) -> datetime | None:
        """The time of most agents' records."""
        return self.record.time("timestamp")


def json_lines(data: bytes) -> tuple[list[JsonLine], Damage]:
    """The objects of a JSONL file. What is torn, undecodable or full of NULs is counted."""
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
    """The same, of a file that has to be of one format.

    Raises:
        FoldlineError: it is none: `lacks` says what it has not, the end of a sentence.
    """
    lines, damage = json_lines(data)
    if not any(recognises(line.record) for line in lines):
        raise FoldlineError(f"{path} has no {lacks}.")
    return lines, damage


def unglued(line: bytes) -> list[bytes]:
    """The objects of a line, of which it has several where a writer was torn away before a line's end."""
    return [line] if b'}{"' not in line else _GLUED.split(line)


def parse_object(text: bytes) -> JsonObject | None:
    """The JSON object this is, with text that can be encoded again; None where it is none, or is nested so
    deep that it could not be written again."""
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _is_too_deep(text, value):
        return None
    return JsonObject.of(_mended(value) if _LONE_SURROGATE.search(text) else value)


def bytes_in(path: Path) -> bytes:
    """The content of a file that only adds to what is known; nothing where it cannot be had."""
    try:
        return read_regular(path)
    except OSError:
        return b""


def object_in(path: Path) -> JsonObject:
    """The JSON object in such a file; an empty one where there is none."""
    return parse_object(bytes_in(path)) or JsonObject()


def parse_document(data: bytes, name: str) -> JsonObject | None:
    """A document that is an object or a list; a list comes back as an object that has it by this name.

    A list is parsed as an object around it: the same mending of half characters then serves both.
    """
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
    """Half characters, which JSON can spell and UTF-8 cannot, become replacement characters."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_mended(item) for item in value]
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case _:
            return value
