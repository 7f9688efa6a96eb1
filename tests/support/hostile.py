"""Text that would act on a terminal or an interface, if anybody let it (docs/design/invariants.md, 13)."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from foldline.protocol import Entry, Unknown, events
from foldline.protocol.entries import KnownEntry

Model = TypeVar("Model", bound=BaseModel)

SEQUENCES: Mapping[str, str] = {
    "clipboard": "\x1b]52;c;UFdORUQ=\x07",
    "link": "\x1b]8;;http://pwned.example/\x1b\\here\x1b]8;;\x1b\\",
    "title": "\x1b]0;PWNED\x07\x1b]2;PWNED\x1b\\",
    "cursor": "\x1b[131;37H\x1b[99A\x1b[s\x1b[u",
    "alternate screen": "\x1b[?1049l\x1b[?47h",
    "erase": "\x1b[2J\x1b[3J",
    "reset": "\x1bc\x1b[!p",
    "queries": "\x1b[6n\x1b[>c\x1b[c\x1bP$qm\x1b\\",
    "notifications": "\x1b]9;PWNED\x07\x1b]777;notify;PWNED;x\x1b\\\x1b]1337;File=:UFdORUQ=\x07",
    "strings": "\x1b_GPWNED\x1b\\\x1b^PWNED\x1b\\\x1bXPWNED\x1b\\\x1bP1;2qPWNED\x1b\\",
    "out of a title": "x\x1b\\\x1b]52;c;UFdORUQ=\x07",
    "modes": "\x1b[?1003l\x1b[?2004l\x1b[20h",
    "eight-bit controls": "\x9b131;37H\x9d52;c;UFdORUQ=\x9c\x90q\x9c",
    "overwriting": "safe\b\b\b\b\rPWNED\x7f",
    "bidi": "\u202egpj.exe\u202c \u2066x\u2069 \u200f",
    "zero width": "rm\u200b -\u2060rf\ufeff",
    "tags": "\U000e0041\U000e0042\U000e007f",
    "line ends": "one\u2028two\u2029three\x85four\x0bfive\x0csix",
}
MARKUP = "[bold red]PWNED[/] [@click=app.quit]PWNED[/] [link=http://pwned.example]PWNED[/link] [/] [$accent]"
"""What Textual and Rich would take for orders; shown, it is text like any other."""
HOSTILE = " ".join([*SEQUENCES.values(), MARKUP])

_ACTING = (
    *(b"\x1b]52;", b"\x1b]8;;", b"\x1b]0;PWNED", b"\x1b]2;PWNED"),
    *(b"\x1b[131;37H", b"\x1b[99A", b"\x1b[?47h", b"\x1b[2J", b"\x1b[3J", b"\x1bc", b"\x1b[!p"),
    *(b"\x1b[6n", b"\x1b[>c", b"\x1b[c", b"\x1bP", b"\x1b[20h", b"\x08", b"\x7f", b"\x0b", b"\x0c"),
    *(b"\x1b]9;", b"\x1b]777;", b"\x1b]1337;", b"\x1b_", b"\x1b^", b"\x1bX"),
    *(
        char.encode()
        for char in "\x85\x90\x9b\x9c\x9d\u200b\u200f\u2028\u2029\u202c\u202e\u2060\u2066\u2069\ufeff"
    ),
    *(char.encode() for char in "\U000e0041\U000e0042\U000e007f"),
)


_LINK = r"\x1b\]8;(?:id=[-\d]+;(?:https?|file)://[!-~]*|;)\x1b\\"
"""A link of ours, or its end: an address without a sign that acts."""


def acting(written: bytes | str) -> list[bytes]:
    """What of it reached the terminal: empty where all of it stayed text."""
    raw = written.encode("utf-8", "surrogatepass") if isinstance(written, str) else written
    raw = re.sub(_LINK.encode(), b"", raw)
    return [sign for sign in _ACTING if sign in raw]


def hostile_file(folder: Path) -> Path:
    """A file whose name and content are hostile, as far as the system takes such names."""
    path = folder / f"evil{SEQUENCES['title']}{SEQUENCES['bidi']}.txt"
    path.write_text(HOSTILE + "\n", "utf-8")
    return path


_OURS = re.compile(
    r"\x1b\[[0-9;]*[mHXCr]"  # colours and places; cells erased, gone over and scrolled
    r"|\x1b\[\?(?:25|2026)[hl]"  # the cursor, frames that come whole
    r"|\x1b\[2[23];2t|\x1b\]2;[^\x00-\x1f\x7f-\x9f]*\x1b\\"  # the title, kept and given
    r"|\x1b\]22;[a-z]+\x07"  # the shape of the mouse pointer
    rf"|{_LINK}"
)


def beyond_frames(written: str) -> list[str]:
    """What a screen wrote that is neither text nor one of the few sequences that frames are made of."""
    return re.findall(r"(?:[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]).{0,12}", _OURS.sub("", written))


# --- records with hostile text in every field --------------------------------------------------------------


def hostile_events() -> list[BaseModel]:
    """Every event of the protocol, and each again for every value that a field of it may have; any text in
    them is hostile. A new event or field is among them by itself. Entries are said by `hostile_entries`."""
    return [
        record
        for model in _members(events.Event)
        if model is not events.EntryAppended
        for record in _records(model)
    ]


def hostile_entries() -> list[Entry]:
    """The same of every type of entry, unknown ones included."""
    return [record for model in (*_members(KnownEntry), Unknown) for record in _records(model)]


def _members(union: Any) -> tuple[type[Any], ...]:
    return get_args(get_args(union)[0])


def _records(model: type[Model]) -> Iterator[Model]:
    choices = {name: _values(field.annotation) for name, field in model.model_fields.items()}
    first = {name: values[0] for name, values in choices.items()}
    yield model(**first)
    for name, values in choices.items():
        for value in values[1:]:
            yield model(**first | {name: value})


def _values(kind: Any) -> list[Any]:
    """Values of a field's type; of text one, which is hostile."""
    inner = get_args(kind)
    match get_origin(kind):
        case origin if origin is Annotated:
            return _values(inner[0])
        case origin if origin is Literal:
            return list(inner)
        case origin if origin in (Union, UnionType):
            return [value for each in inner if each is not NoneType for value in _values(each)]
        case origin if origin is tuple:
            many = inner[1:] == (Ellipsis,)
            return [tuple(_values(inner[0]))] if many else [tuple(_values(each)[0] for each in inner)]
        case _ if isinstance(kind, type) and issubclass(kind, BaseModel):
            return list(_records(kind))
        case _:
            return _SIMPLE[kind]


_SIMPLE: Mapping[Any, list[Any]] = {
    str: [HOSTILE],
    int: [1],
    float: [1.0],
    bool: [False, True],
    datetime: [datetime(2026, 3, 14, 12, 0, tzinfo=UTC)],
}
