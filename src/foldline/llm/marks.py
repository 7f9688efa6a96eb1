"""Cache marks (`cache_control`), for Anthropic and OpenRouter.

Their caches keep only marked prefixes.

The prefix up to a mark is written to the cache. The next request finds it through a mark at the same
position, or at most 20 blocks later (platform.claude.com, "Prompt caching"). Therefore, all four allowed
marks are used: at the end of the tools and system prompt, at the summary of a compaction, at the end of the
previous request (which may be more than 20 blocks back), and at the end of this request.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from foldline.json_text import JsonObject
from foldline.protocol import CacheTerms

CacheLife = Literal["5m", "1h"]
"""How long an unused prefix stays in the cache.

Writing to the cache costs 1.25 times the input price for five minutes, and 2 times for an hour.
"""

LEAST = 4_096
"""Minimum size at which every model caches a marked prefix, in tokens.

Some models also cache shorter prefixes.
"""
_SECONDS: Mapping[CacheLife, int] = {"5m": 300, "1h": 3_600}


def marked_terms(life: CacheLife, effort: str = "") -> CacheTerms:
    """Return the cache terms of a marked request."""
    return CacheTerms(life=_SECONDS[life], least=LEAST, effort=effort)


Rendered = JsonObject
"""A rendered message: a role and a content."""

LAST = -1


class MarkPosition(NamedTuple):
    """The message and block at which a mark is placed."""

    message: int
    block: int = LAST


def cache_control(life: CacheLife) -> dict[str, str]:
    """Return a mark.

    The default lifetime of five minutes is not sent, because some servers reject `ttl`.
    """
    mark = {"type": "ephemeral"}
    if life != "5m":
        mark["ttl"] = life
    return mark


def request_ends(messages: Sequence[Rendered]) -> list[MarkPosition]:
    """Return the end of the previous request, and the end of this request.

    The previous request ended before the newest answer.
    """
    following = "assistant"
    ends: list[MarkPosition] = []
    for at in range(len(messages) - 1, -1, -1):
        role = messages[at]["role"]
        if following == "assistant" and role not in ("system", "assistant"):
            ends.insert(0, MarkPosition(at))
        if len(ends) == 2:
            break
        following = role
    return ends


def blocks_of(content: str | list[Rendered]) -> list[Rendered]:
    """Return a message's content as a new list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content)


def marked(
    messages: Sequence[Rendered], positions: Iterable[MarkPosition], life: CacheLife
) -> list[Rendered]:
    """Return copies of the messages, with marks at these positions."""
    result = list(messages)
    for at, block in positions:
        blocks = blocks_of(result[at]["content"])
        # OpenRouter accepts marks only on text blocks.
        if block == LAST and blocks[LAST]["type"] == "image_url":
            texts = [n for n, content in enumerate(blocks) if content["type"] == "text"]
            if not texts:
                continue
            block = texts[-1]
        blocks[block] = {**blocks[block], "cache_control": cache_control(life)}
        result[at] = {**result[at], "content": blocks}
    return result
