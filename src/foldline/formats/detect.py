"""What a file is, judged by its content: a format that can be read here, or at least named."""

import json
import re
from dataclasses import dataclass

from foldline.history import is_our_header

from .base import Json, JsonObject, as_list, as_object, objects_in, parse_object
from .known import FOREIGN, Format, Head
from .refusals import refusal_of

_LINES_LOOKED_AT = 20
_TELLING = re.compile(rb'"tool_use"|"toolRequest"')
"""Tells what a chat is whose first lines are talk alone: the first line that holds it is looked at, too."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file without a reader. `what` ends the sentence "it …"."""

    what: str
    instead: str = ""
    """What to do about it: the rest of the sentence. Where it is empty, what can be read is said."""


def detect(data: bytes) -> Format | Unreadable:
    """The format of a file with this content."""
    if not data.strip(b"\0 \t\r\n"):
        return Unreadable("is empty")
    if is_our_header(data.split(b"\n", 1)[0]):
        return "foldline"
    head = _head(data)
    refusal = refusal_of(head)
    if refusal is not None:
        return Unreadable(f"seems to be {refusal.name}, which cannot be read yet", refusal.instead)
    for known in FOREIGN:
        if known.recognises(head):
            return known.name
    return Unreadable(_what_else(data, head))


def _head(data: bytes) -> Head:
    """A document that is spread over lines has none that count: pieces of it may look like records."""
    value = _document(data)
    lines = _head_records(data) if value is None or b"\n" not in data.strip() else []
    items = [item for item in as_list(value) if isinstance(item, dict)]
    return Head(lines=lines, document=as_object(value), items=items)


def _document(data: bytes) -> Json:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _head_records(data: bytes) -> list[JsonObject]:
    """The first JSON objects of a file that has one a line; none where most lines are something else."""
    split = data.split(b"\n", _LINES_LOOKED_AT)
    telling = _TELLING.search(split.pop()) if len(split) > _LINES_LOOKED_AT else None
    if telling is not None:
        rest = telling.string
        start, end = rest.rfind(b"\n", 0, telling.start()) + 1, rest.find(b"\n", telling.end())
        split.append(rest[start : end if end >= 0 else len(rest)])
    lines = [line.strip(b"\0 \t\r") for line in split]
    lines = [piece for line in lines if line for piece in objects_in(line)]
    records = [record for line in lines if (record := parse_object(line)) is not None]
    return records if 2 * len(records) >= len(lines) - 1 else []


def _what_else(data: bytes, head: Head) -> str:
    """What a file is that no format fits."""
    if b"\0" in data[:65536] and not head.lines:
        return "is a binary file"
    if len(head.lines) > 1:
        return "is JSON lines, but no session format known here"
    if head.lines or _document(data) is not None:
        return "is JSON, but no session format known here"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "is a binary file"
    if data.lstrip()[:1] in (b"{", b"["):
        return "is JSON that is cut off or damaged"
    return "is text, not a session"
