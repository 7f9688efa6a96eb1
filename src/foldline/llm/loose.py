"""Reading JSON of which nobody promises anything: compatible servers send other fields, or other types."""

from collections.abc import Mapping, Sequence

from foldline.protocol.messages import json_object


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
    """The value where it is a number above zero, else zero."""
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object, as the arguments of a tool call must be."""
    return json_object(text) is not None
