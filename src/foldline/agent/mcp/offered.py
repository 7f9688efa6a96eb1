"""A server's listing as the model is told of it: names, descriptions, schemas that every provider takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.numbers import many
from foldline.llm.base import ToolSpec

from ..tools.text import sendable
from .listing import Listing
from .naming import tool_names
from .schema import BrokenSchema, plain_schema

_LONGEST = 1024
"""Characters of a description: what several OpenAI-compatible servers take at most."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool of a server."""

    spec: ToolSpec
    tool: str
    """What its server calls it."""


def offered(server: str, prefix: str, listing: Listing) -> tuple[list[Offered], list[str]]:
    """The tools that can be offered, by their names, which begin with `prefix`; and a sentence for what is
    wrong with others.
    """
    names = tool_names(prefix, (tool.name for tool in listing.tools))
    found: dict[str, Offered] = {}
    twice: list[str] = []
    broken = list(listing.broken)
    for tool in listing.tools:
        name = names[tool.name]
        if name in found:
            twice.append(tool.name)
            continue
        try:
            schema = plain_schema(tool.schema)
        except BrokenSchema as problem:
            broken.append(f"{tool.name} ({problem})")
            continue
        found[name] = Offered(ToolSpec(name, _bounded(tool.description), schema), tool.name)
    complaints = []
    if twice:
        complaints.append(
            f"The MCP server {server} lists {_some(twice)} twice: the first of that name is used."
        )
    if broken:
        complaints.append(
            f"The MCP server {server} has {many(len(broken), 'tool')} that cannot be used: {_some(broken)}."
        )
    return [found[name] for name in sorted(found)], complaints


def _bounded(text: str) -> str:
    text = sendable(text).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
