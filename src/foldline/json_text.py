"""Parses JSON written by other programs, and checks how deeply it is nested."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

JsonObject = dict[str, Any]
"""A JSON object."""
JsonFields = Mapping[str, object]
"""The fields of a JSON object from another program.

Their values can have any type.
"""


def parse_json(text: str | bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: the text is invalid, or nested too deeply for the parser.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def is_nested_deeper(value: object, levels: int) -> bool:
    """Return whether a JSON value has more than `levels` levels of objects and lists.

    This uses a loop, because the maximum depth of a recursion would depend on the caller.
    """
    level: list[object] = [value]
    for _ in range(levels):
        if not level:
            return False
        level = [child for parent in level for child in _children(parent)]
    return any(isinstance(item, dict | list) for item in level)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
