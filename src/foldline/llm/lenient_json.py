"""Reading JSON of which nobody promises anything: compatible servers send other fields, or other types."""

import json
from collections.abc import Mapping, Sequence

from foldline.protocol.messages import json_object

LARGEST = 10**12
"""No window and no usage comes near, in tokens. What goes beyond, as 1e999 does, is a mistake or malice."""


def decoded(text: str) -> object:
    """A JSON text.

    Raises:
        ValueError: it is none, or nested too deep to be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested without end") from None


def encoded(value: object) -> str:
    """The value as a JSON text; empty where it is nested too deep to be written."""
    try:
        return json.dumps(value, default=str)
    except RecursionError:
        return ""


def mapping(value: object) -> Mapping[str, object]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[object]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def string(value: object) -> str:
    """The value where it is a text, else none."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """The value where it is a number above zero, and not beyond `LARGEST`, else zero."""
    return int(value) if isinstance(value, int | float) and 0 < value <= LARGEST else 0


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object, as the arguments of a tool call must be."""
    return json_object(text) is not None
