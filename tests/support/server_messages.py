"""`/v1/messages` of the test server: Anthropic's request checks, event stream and cache.

The cache follows "Prompt caching" at platform.claude.com: a sufficiently long prefix that ends at a marked
block is written; a mark finds an entry written at its own block or at one of the 19 blocks before it; unused
entries expire, by a clock set by tests.

Scripts work on chat messages, so a request is also converted to those (`as_chat`). Thinking is signed by
`signed`, so that the server recognises its own.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from support.server_checks import IMAGE_TOKENS, Violation, count
from support.server_responses import Completed

Block = dict[str, Any]

LOOK_BACK = 20
"""Blocks searched backwards from a mark."""
LEAST = 1024
"""Shortest cached prefix, in tokens."""
MARKS = 4
LIVES = {"5m": 300.0, "1h": 3_600.0}
"""Lifetimes in seconds."""

_UNMARKED = ("thinking", "redacted_thinking")
_KINDS = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}


def sign(model: str, thinking: str) -> str:
    """Return this server's signature for this model and thinking."""
    return "Eq" + hashlib.sha256(f"{model} {thinking}".encode()).hexdigest()


# --- what is checked ------------------------------------------------------------------------------


def with_blocks(body: dict[str, Any]) -> dict[str, Any]:
    """Replace strings by text blocks, in results too: the API accepts both."""
    expanded = dict(_with_blocks(body, "system"))
    if isinstance(body.get("messages"), list):
        expanded["messages"] = [
            _with_blocks(message, "content") for message in body["messages"]
        ]
    return expanded


def _with_blocks(holder: Any, key: str) -> Any:
    content = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(content, list):
        return {**holder, key: [_with_blocks(block, "content") for block in content]}
    if not (isinstance(content, str) and content):
        return holder
    return {**holder, key: [{"type": "text", "text": content}]}


def check(body: dict[str, Any]) -> list[Violation]:
    """Return the violations of a request, in its order."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(
        isinstance(message, dict) for message in messages
    ):
        return [Violation("shape", "messages: Input should be a valid list")]
    violations = [*_check_options(body)]
    if not messages or messages[0].get("role") != "user":
        violations.append(
            Violation("A1", "messages: first message must use the 'user' role")
        )
    if messages and messages[-1].get("role") == "assistant":
        violations.append(
            Violation("A1", "This model does not support assistant message prefill.")
        )
    open_ids: set[str] = set()
    for at, message in enumerate(messages):
        blocks = message.get("content")
        if (
            message.get("role") not in _KINDS
            or not isinstance(blocks, list)
            or not blocks
        ):
            violations.append(
                Violation(
                    "shape", f"messages.{at}: Input should have a role and content"
                )
            )
            continue
        result_ids = [
            block["tool_use_id"]
            for block in blocks
            if block.get("type") == "tool_result"
        ]
        if open_ids - set(result_ids):
            violations.append(
                Violation(
                    "A2",
                    f"messages.{at}: `tool_use` ids were found without `tool_result` blocks",
                )
            )
        if set(result_ids) - open_ids:
            violations.append(
                Violation("A2", f"messages.{at}: unexpected `tool_use_id` found")
            )
        if result_ids and any(
            block.get("type") != "tool_result" for block in blocks[: len(result_ids)]
        ):
            violations.append(
                Violation("A2", f"messages.{at}: `tool_result` blocks come first")
            )
        open_ids = {block["id"] for block in blocks if block.get("type") == "tool_use"}
        for number, block in enumerate(blocks):
            where = f"messages.{at}.content.{number}"
            violations += _check_block(
                where, block, message["role"], str(body.get("model"))
            )
    if open_ids:
        violations.append(
            Violation("A2", "`tool_use` ids were found without `tool_result` blocks")
        )
    return violations


def _check_options(body: dict[str, Any]) -> Iterator[Violation]:
    allowed_keys = {
        "model",
        "messages",
        "max_tokens",
        "stream",
        "system",
        "tools",
        "tool_choice",
        "thinking",
    }
    for name in body.keys() - allowed_keys - {"output_config"}:
        yield Violation("extra", f"{name}: Extra inputs are not permitted")
    if not body.get("max_tokens"):
        yield Violation("A3", "max_tokens: Field required")
    marks = [
        block["cache_control"] for block in _blocks(body) if "cache_control" in block
    ]
    if len(marks) > MARKS:
        yield Violation(
            "A4",
            f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.",
        )
    lives = [LIVES[mark.get("ttl", "5m")] for mark in marks]
    if lives != sorted(lives, reverse=True):
        yield Violation(
            "A4", "a ttl='1h' cache_control block must not come after a ttl='5m' one"
        )
    for at, tool in enumerate(body.get("tools") or ()):
        if not isinstance(tool.get("input_schema"), dict) or not tool.get("name"):
            yield Violation("tools", f"tools.{at}.custom.input_schema: Field required")


def _check_block(
    where: str, block: Block, role: str, model: str
) -> Iterator[Violation]:
    kind = block.get("type")
    if kind not in _KINDS[role]:
        yield Violation("A5", f"{where}: Input tag '{kind}' is not expected")
    if kind in _UNMARKED and "cache_control" in block:
        yield Violation(
            "A4", f"{where}: cache_control cannot be set for thinking blocks"
        )
    if kind == "text" and not str(block.get("text", "")).strip():
        yield Violation(
            "A5", "messages: text content blocks must contain non-whitespace text"
        )
    if kind == "thinking" and block.get("signature") != sign(
        model, block.get("thinking", "")
    ):
        yield Violation("A6", f"{where}: Invalid `signature` in `thinking` block")
    if kind == "tool_use":
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", str(block.get("id"))):
            yield Violation(
                "A5", f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            )
        if not isinstance(block.get("input"), dict):
            yield Violation("A5", f"{where}.input: Input should be a valid dictionary")


# --- the cache ------------------------------------------------------------------------------------


class Served(NamedTuple):
    """Tokens of one request."""

    total: int
    cached: int
    written: int
    written_1h: int


class _Kept(NamedTuple):
    until: float
    life: float


class MarkedCache:
    """Caches prefixes that end at a mark, of a single model."""

    def __init__(self) -> None:
        self.clock = 0.0
        """The clock in seconds, set by tests."""
        self._kept: dict[str, _Kept] = {}

    def serve(self, body: dict[str, Any]) -> Served:
        """Look up a request's prefix, and store its marked ones."""
        blocks = [*_blocks(body)]
        sizes, prefixes = _sizes(blocks), [*_prefixes(body, blocks)]
        marks = [at for at, block in enumerate(blocks) if "cache_control" in block]
        cached = 0
        for mark in marks:
            for at in range(mark, max(-1, mark - LOOK_BACK), -1):
                entry = self._kept.get(prefixes[at])
                if entry is not None and entry.until >= self.clock:
                    self._kept[prefixes[at]] = entry._replace(
                        until=self.clock + entry.life
                    )
                    cached = max(cached, sizes[at])
                    break
        before = cached
        cache_writes = 0
        hour = 0
        for mark in marks:
            life = LIVES[blocks[mark]["cache_control"].get("ttl", "5m")]
            if sizes[mark] <= before or sizes[mark] < LEAST:
                continue
            self._kept[prefixes[mark]] = _Kept(self.clock + life, life)
            cache_writes += sizes[mark] - before
            hour += sizes[mark] - before if life > LIVES["5m"] else 0
            before = sizes[mark]
        return Served(sizes[-1] if sizes else 0, cached, cache_writes, hour)


def size(body: dict[str, Any]) -> int:
    """Return the tokens of a request."""
    sizes = _sizes([*_blocks(body)])
    return sizes[-1] if sizes else 0


def _blocks(body: dict[str, Any]) -> Iterator[Block]:
    """Yield the blocks of tools, system and messages in the order they are read."""
    yield from body.get("tools") or ()
    system = body.get("system") or []
    yield from [{"type": "text", "text": system}] if isinstance(system, str) else system
    for message in body.get("messages") or ():
        content = message.get("content") or []
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        yield from ({**block, "role": message.get("role")} for block in blocks)
        if calls := message.get(
            "tool_calls"
        ):  # chat completions, as OpenRouter accepts them
            yield {"type": "tool_calls", "calls": calls, "role": "assistant"}


def _bare(block: Block) -> str:
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(bare, sort_keys=True, ensure_ascii=False)


def _sizes(blocks: Sequence[Block]) -> list[int]:
    """Return the tokens up to the end of each block."""
    sizes: list[int] = []
    for block in blocks:
        content = block.get("content")
        inner = content if isinstance(content, list) else [block]
        size = sum(
            IMAGE_TOKENS
            if part.get("type") == "image"
            else count(_bare({**part, "role": ""}))
            for part in inner
        )
        sizes.append(size + 3 + (sizes[-1] if sizes else 0))
    return sizes


def _prefixes(body: dict[str, Any], blocks: Sequence[Block]) -> Iterator[str]:
    """Yield a hash of the request up to the end of each block.

    Thinking, effort and tool choice precede the messages: changing them invalidates all messages.
    """
    options = json.dumps(
        [body.get(name) for name in ("thinking", "output_config", "tool_choice")]
    )
    running = hashlib.sha256(str(body.get("model")).encode())
    for block in blocks:
        if "role" in block and options:
            running.update(options.encode())
            options = ""
        running.update(_bare(block).encode())
        yield running.hexdigest()


# --- as chat, and the answer ----------------------------------------------------------------------


def as_chat(body: dict[str, Any]) -> dict[str, Any]:
    """Convert a request to chat messages and tools."""
    chat = {name: body.get(name) for name in ("model", "max_tokens")} | {
        "messages": [*_messages(body)]
    }
    if body.get("tools"):
        chat["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.get("name"),
                    "parameters": tool["input_schema"],
                },
            }
            for tool in body["tools"]
        ]
    return chat


def _messages(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    system = body.get("system") or []
    if (
        text := system
        if isinstance(system, str)
        else "\n\n".join(block["text"] for block in system)
    ):
        yield {"role": "system", "content": text}
    for message in body.get("messages") or ():
        blocks = message.get("content") or []
        joined = "\n\n".join(
            block["text"] for block in blocks if block.get("type") == "text"
        )
        if message.get("role") == "assistant":
            calls = [
                {
                    "id": block["id"],
                    "type": "function",
                    "function": {
                        "name": block["name"],
                        "arguments": json.dumps(block["input"]),
                    },
                }
                for block in blocks
                if block.get("type") == "tool_use"
            ]
            yield {
                "role": "assistant",
                "content": joined or None,
                **({"tool_calls": calls} if calls else {}),
            }
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                text = "\n".join(
                    part.get("text", "") for part in block.get("content") or ()
                )
                yield {
                    "role": "tool",
                    "tool_call_id": block["tool_use_id"],
                    "content": text,
                }
        if joined:
            yield {"role": "user", "content": joined}


_REASONS = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "stop": "end_turn",
}


def response(done: Completed, served: Served) -> dict[str, Any]:
    """Return the whole answer."""
    usage = {
        "input_tokens": served.total - served.cached - served.written,
        "cache_read_input_tokens": served.cached,
        "cache_creation_input_tokens": served.written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": served.written - served.written_1h,
            "ephemeral_1h_input_tokens": served.written_1h,
        },
        "output_tokens": done.usage["completion_tokens"],
        "output_tokens_details": {
            "thinking_tokens": done.usage["completion_tokens_details"][
                "reasoning_tokens"
            ]
        },
    }
    return {
        "id": f"msg_{done.nth}",
        "type": "message",
        "role": "assistant",
        "model": done.model,
        "content": _content(done),
        "stop_reason": _REASONS.get(done.finish, done.finish),
        "stop_sequence": None,
        "usage": usage,
    }


def _content(done: Completed) -> list[Block]:
    blocks: list[Block] = []
    if done.thinking:
        signature = sign(done.model, done.thinking)
        blocks.append(
            {"type": "thinking", "thinking": done.thinking, "signature": signature}
        )
    if done.text:
        blocks.append({"type": "text", "text": done.text})
    for call in done.calls:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        blocks.append(
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": arguments,
            }
        )
    return blocks


def events(done: Completed, served: Served) -> list[dict[str, Any]]:
    """Return the answer as streamed events."""
    message = response(done, served)
    start = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    stream: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "ping"},
    ]
    for index, block in enumerate(message["content"]):
        stream += [{**event, "index": index} for event in _block_events(done, block)]
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    stream.append(
        {
            "type": "message_delta",
            "delta": delta,
            "usage": {"output_tokens": message["usage"]["output_tokens"]},
        }
    )
    return [*stream, {"type": "message_stop"}]


def _block_events(done: Completed, block: Block) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": part}
                for part in done.cut(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "text":
            empty = {"type": "text", "text": ""}
            deltas = [
                {"type": "text_delta", "text": part} for part in done.cut(block["text"])
            ]
        case _:
            empty = {**block, "input": {}}
            parts = done.cut(json.dumps(block["input"]))
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in parts
            ]
    yield {"type": "content_block_start", "content_block": empty}
    yield from ({"type": "content_block_delta", "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop"}
