"""A server's listing as it came, tool by tool: one that is not as it should be does not spoil the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as its server describes it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """All tools of a server, in its order; and those that are none, each with the reason."""

    tools: Sequence[Listed]
    broken: Sequence[str] = ()


def mended(result: Any, broken: list[str]) -> None:
    """Of a result that lists tools, take out in place what the package would refuse, and all else with it.

    What is taken out is added to `broken`. Of the others only what is used here stays.
    """
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list):
        return
    kept = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            broken.append("one without a name")
        elif not isinstance(schema := tool.get("inputSchema"), dict):
            broken.append(f"{name} (it has no schema)")
        elif schema.get("type", "object") != "object":
            broken.append(f"{name} (its arguments are {str(schema['type'])[:40]}, not an object)")
        else:
            words = {key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)}
            kept.append({"name": name, **words, "inputSchema": {**schema, "type": "object"}})
    result["tools"] = kept
