"""Text that would control a terminal or markup (docs/design/invariants.md, 13)."""

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
"""Markup of Textual and Rich; it must be shown literally."""
HOSTILE = " ".join([*SEQUENCES.values(), MARKUP])

_ACTING = (
    *(b"\x1b]52;", b"\x1b]8;;", b"\x1b]0;PWNED", b"\x1b]2;PWNED"),
    *(
        b"\x1b[131;37H",
        b"\x1b[99A",
        b"\x1b[?47h",
        b"\x1b[2J",
        b"\x1b[3J",
        b"\x1bc",
        b"\x1b[!p",
    ),
    *(
        b"\x1b[6n",
        b"\x1b[>c",
        b"\x1b[c",
        b"\x1bP",
        b"\x1b[20h",
        b"\x08",
        b"\x7f",
        b"\x0b",
        b"\x0c",
    ),
    *(b"\x1b]9;", b"\x1b]777;", b"\x1b]1337;", b"\x1b_", b"\x1b^", b"\x1bX"),
    *(
        char.encode()
        for char in "\x85\x90\x9b\x9c\x9d\u200b\u200f\u2028\u2029\u202c\u202e\u2060\u2066\u2069\ufeff"
    ),
    *(char.encode() for char in "\U000e0041\U000e0042\U000e007f"),
)


_LINK = r"\x1b\]8;(?:id=[-\d]+;(?:https?|file)://[!-~]*|;)\x1b\\"
"""The start or end of one of our links: an address without control characters."""


def acting(output: bytes | str) -> list[bytes]:
    """Return the control sequences that reached the terminal; empty if all were defused."""
    raw = output.encode("utf-8", "surrogatepass") if isinstance(output, str) else output
    raw = re.sub(_LINK.encode(), b"", raw)
    return [sign for sign in _ACTING if sign in raw]


def hostile_file(folder: Path) -> Path:
    """Create a file with a hostile name, as far as the file system allows, and content."""
    path = folder / f"evil{SEQUENCES['title']}{SEQUENCES['bidi']}.txt"
    path.write_text(HOSTILE + "\n", "utf-8")
    return path


_OURS = re.compile(
    r"\x1b\[[0-9;]*[mHXCr]"  # colours and cursor positions; erasing, skipping and scrolling
    r"|\x1b\[\?(?:25|2026)[hl]"  # cursor visibility, synchronised output
    r"|\x1b\[2[23];2t|\x1b\]2;[^\x00-\x1f\x7f-\x9f]*\x1b\\"  # saving, restoring and setting the title
    r"|\x1b\]22;[a-z]+\x07"  # the mouse pointer's shape
    rf"|{_LINK}"
)


def beyond_frames(output: str) -> list[str]:
    """Return the output of a screen that is neither text nor an allowed sequence."""
    return re.findall(
        r"(?:[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]).{0,12}", _OURS.sub("", output)
    )


# --- records with hostile text in every field --------------------------------------------------------------


def hostile_events() -> list[BaseModel]:
    """Yield every event of the protocol with hostile text in every field.

    An event is repeated for each value that one of its fields can have; new events and fields are included
    automatically. Entries come from `hostile_entries`.
    """
    return [
        record
        for model in _members(events.Event)
        if model is not events.EntryAppended
        for record in _records(model)
    ]


def hostile_entries() -> list[Entry]:
    """Return the same for every type of entry, unknown ones included."""
    return [
        record
        for model in (*_members(KnownEntry), Unknown)
        for record in _records(model)
    ]


def _members(union: Any) -> tuple[type[Any], ...]:
    return get_args(get_args(union)[0])


def _records(model: type[Model]) -> Iterator[Model]:
    choices = {
        name: _values(field.annotation) for name, field in model.model_fields.items()
    }
    first = {name: values[0] for name, values in choices.items()}
    yield model(**first)
    for name, values in choices.items():
        for value in values[1:]:
            yield model(**first | {name: value})


def _values(kind: Any) -> list[Any]:
    """Return values of a field's type; for text, a hostile one."""
    inner = get_args(kind)
    match get_origin(kind):
        case origin if origin is Annotated:
            return _values(inner[0])
        case origin if origin is Literal:
            return list(inner)
        case origin if origin in (Union, UnionType):
            return [
                value
                for kind in inner
                if kind is not NoneType
                for value in _values(kind)
            ]
        case origin if origin is tuple:
            many = inner[1:] == (Ellipsis,)
            return (
                [tuple(_values(inner[0]))]
                if many
                else [tuple(_values(kind)[0] for kind in inner)]
            )
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
