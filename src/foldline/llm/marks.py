"""Marks for caches that keep only what is marked: `cache_control`, of Anthropic and of OpenRouter for it.

A mark stands at the end of a prefix. What ends there is written, and the next request finds it by a mark at
the same place, or by one no more than 20 blocks behind it (platform.claude.com, "Prompt caching"). Hence the
marks: the end of tools and system prompt, and the summary of a compaction, which stay where they are; the end
of the request before this one, where it left its mark, however many blocks came since; and the end of this
request. Four are allowed, and four they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from foldline.protocol import CacheTerms

CacheLife = Literal["5m", "1h"]
"""How long a cache keeps what was not used; writing costs 1.25 times the input, or twice that price."""

LEAST = 4_096
"""Tokens from which on what is marked is kept by every model; by some from 512 or 1,024 on ("Prompt caching",
as above)."""
_SECONDS: Mapping[CacheLife, int] = {"5m": 300, "1h": 3_600}


def marked_terms(life: CacheLife, effort: str = "") -> CacheTerms:
    """What is kept of a request with marks."""
    return CacheTerms(life=_SECONDS[life], least=LEAST, effort=effort)


Rendered = dict[str, Any]
"""A message as it is sent: a role and a content."""

LAST = -1


class Place(NamedTuple):
    """Where a mark goes: which message, and which block of it."""

    message: int
    block: int = LAST


def cache_control(life: CacheLife) -> dict[str, str]:
    """A mark. Where nothing is said five minutes are meant; servers that know no others refuse `ttl`."""
    return {"type": "ephemeral"} if life == "5m" else {"type": "ephemeral", "ttl": life}


def request_ends(messages: Sequence[Rendered]) -> list[Place]:
    """The ends of the request before this one and of this one: what stands before the newest answer, and the
    last message."""
    following = "assistant"
    ends: list[Place] = []
    for at in range(len(messages) - 1, -1, -1):
        role = messages[at]["role"]
        if following == "assistant" and role not in ("system", "assistant"):
            ends.insert(0, Place(at))
        if len(ends) == 2:
            break
        following = role
    return ends


def blocks_of(content: str | list[Rendered]) -> list[Rendered]:
    """A content as blocks, in a list of its own."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*content]


def marked(messages: Sequence[Rendered], places: Iterable[Place], life: CacheLife) -> list[Rendered]:
    """The messages with marks at these places. What was rendered stays as it is: copies carry the marks."""
    result = [*messages]
    for at, block in places:
        blocks = blocks_of(result[at]["content"])
        if block == LAST and blocks[LAST]["type"] == "image_url":  # OpenRouter takes marks on texts only
            texts = [place for place, each in enumerate(blocks) if each["type"] == "text"]
            if not texts:
                continue
            block = texts[-1]
        blocks[block] = {**blocks[block], "cache_control": cache_control(life)}
        result[at] = {**result[at], "content": blocks}
    return result
