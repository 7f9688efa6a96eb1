"""What the tools of servers are called by the model: `mcp__SERVER__TOOL`, in letters every provider takes."""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

_LONGEST = 64
"""Characters of a function's name in OpenAI's API: `^[a-zA-Z0-9_-]{1,64}$`."""
_LONGEST_SERVER = 24
"""Characters of a server's part: so much is left for the tool's."""
_MARK = 6
"""Hexadecimal digits that tell apart what would otherwise have one name."""


def prefixes(servers: Collection[str]) -> Mapping[str, str]:
    """How the names of each server's tools begin: `mcp__SERVER__`.

    A server's part neither holds nor ends in what parts it from the tool's: no two servers can have tools of
    one name, and no tool can pass for another server's.
    """
    plain = {server: re.sub(r"__+", "_", _plain(server)).strip("_") or "server" for server in servers}
    parts = {server: part[:_LONGEST_SERVER].rstrip("_") for server, part in plain.items()}
    count = Counter(parts.values())
    return {
        server: f"mcp__{part if count[part] == 1 and part == plain[server] else _marked(part, server)}__"
        for server, part in parts.items()
    }


def tool_names(prefix: str, tools: Iterable[str]) -> Mapping[str, str]:
    """The name for each tool of a server, distinct, whatever order they come in."""
    plain = {tool: prefix + _plain(tool) for tool in tools}
    count = Counter(plain.values())
    # Those that had to be shortened, or are another's now, carry a mark of what they were.
    return {
        tool: _marked(name[: _LONGEST - _MARK - 1], tool) if len(name) > _LONGEST or count[name] > 1 else name
        for tool, name in plain.items()
    }


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _marked(name: str, original: str) -> str:
    return f"{name}_{hashlib.sha256(original.encode('utf-8', 'surrogatepass')).hexdigest()[:_MARK]}"
