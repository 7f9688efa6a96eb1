"""Reads JSON values of any type, because compatible servers send undocumented ones."""

import json
from collections.abc import Mapping, Sequence

from foldline.json_text import JsonFields

LARGEST = 10**12
"""Largest token count that is accepted, far above any real window or usage.

Larger numbers, such as 1e999, are errors or attacks.
"""


def encoded(value: object) -> str:
    """Encode a value as JSON.

    Returns an empty string if the value is nested too deeply.
    """
    try:
        return json.dumps(value, default=str)
    except RecursionError:
        return ""


def mapping(value: object) -> JsonFields:
    """Return the value if it is a JSON object, otherwise an empty object."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[object]:
    """Return the value if it is a list, otherwise an empty list."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def string(value: object) -> str:
    """Return the value if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return the value as an integer if it is between 0 and `LARGEST`, otherwise 0."""
    if isinstance(value, int | float) and 0 < value <= LARGEST:
        return int(value)
    return 0
