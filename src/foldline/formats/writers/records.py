"""What the writers of other agents' sessions share: records, times, and arguments that JSON can hold."""

import json
from datetime import UTC, datetime
from typing import Any

from ..base import parse_object

Record = dict[str, Any]
"""A line of JSON that a writer puts together."""

PROVIDER = "unknown"
"""Whose model answered: agents ask for a model of theirs when they open the session."""

_LEVELS = 8
"""More than the levels of a record around the arguments in it."""


def record_line(record: Record) -> bytes:
    """A record as a line of a JSONL file. Half characters, which UTF-8 cannot hold, stay escaped."""
    try:
        return json.dumps(record, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def iso(moment: datetime) -> str:
    """A moment in UTC, to the millisecond."""
    at = moment.astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def arguments_held(text: str) -> Record | None:
    """The arguments of a call, if they are an object that JSON around them can hold."""
    data = text.encode()
    arguments = parse_object(data)
    if arguments is None or parse_object(b'{"":' * _LEVELS + data + b"}" * _LEVELS) is None:
        return None
    try:
        json.dumps(arguments, allow_nan=False)
    except ValueError:  # Python reads NaN and numbers without end, which are no JSON
        return None
    return arguments
