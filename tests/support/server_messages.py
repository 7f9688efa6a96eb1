"""`/v1/messages` of the test server: what Anthropic checks of a request, its stream of events, and its cache.

The cache keeps only what is marked, as "Prompt caching" at platform.claude.com has it: a prefix that ends at
a marked block is written, where it is long enough; a mark finds what an earlier one wrote at its own block or
at one of the 19 before it; what was not used for its life is gone, by a clock that moves only when told to.

Scripts work on chat messages, so a request is also read as such (`as_chat`). Thinking is signed by `signed`,
which the server can tell from anybody else's.
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
"""Blocks, from a mark backwards, at which it is looked for what was written."""
LEAST = 1024
"""Tokens; shorter prefixes are not kept."""
MARKS = 4
LIVES = {"5m": 300.0, "1h": 3_600.0}
"""Seconds."""

_UNMARKED = ("thinking", "redacted_thinking")
_KINDS = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}


def signed(model: str, thinking: str) -> str:
    """What only this server can have signed, for this model and this thought."""
    return "Eq" + hashlib.sha256(f"{model} {thinking}".encode()).hexdigest()


# --- what is checked ------------------------------------------------------------------------------


def spelled_out(body: dict[str, Any]) -> dict[str, Any]:
    """The request with blocks where it has one text, in results too: the API takes both."""
    spelled = dict(_with_blocks(body, "system"))
    if isinstance(body.get("messages"), list):
        spelled["messages"] = [_with_blocks(message, "content") for message in body["messages"]]
    return spelled


def _with_blocks(holder: Any, key: str) -> Any:
    content = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(content, list):
        return {**holder, key: [_with_blocks(block, "content") for block in content]}
    if not (isinstance(content, str) and content):
        return holder
    return {**holder, key: [{"type": "text", "text": content}]}


def check(body: dict[str, Any]) -> list[Violation]:
    """What is wrong with a request, in its order."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return [Violation("shape", "messages: Input should be a valid list")]
    found = [*_check_options(body)]
    if not messages or messages[0].get("role") != "user":
        found.append(Violation("A1", "messages: first message must use the 'user' role"))
    if messages and messages[-1].get("role") == "assistant":
        found.append(Violation("A1", "This model does not support assistant message prefill."))
    open_ids: set[str] = set()
    for at, message in enumerate(messages):
        blocks = message.get("content")
        if message.get("role") not in _KINDS or not isinstance(blocks, list) or not blocks:
            found.append(Violation("shape", f"messages.{at}: Input should have a role and content"))
            continue
        answered = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        if open_ids - set(answered):
            found.append(
                Violation("A2", f"messages.{at}: `tool_use` ids were found without `tool_result` blocks")
            )
        if set(answered) - open_ids:
            found.append(Violation("A2", f"messages.{at}: unexpected `tool_use_id` found"))
        if answered and any(block.get("type") != "tool_result" for block in blocks[: len(answered)]):
            found.append(Violation("A2", f"messages.{at}: `tool_result` blocks come first"))
        open_ids = {block["id"] for block in blocks if block.get("type") == "tool_use"}
        for number, block in enumerate(blocks):
            where = f"messages.{at}.content.{number}"
            found += _check_block(where, block, message["role"], str(body.get("model")))
    if open_ids:
        found.append(Violation("A2", "`tool_use` ids were found without `tool_result` blocks"))
    return found


def _check_options(body: dict[str, Any]) -> Iterator[Violation]:
    known = {"model", "messages", "max_tokens", "stream", "system", "tools", "tool_choice", "thinking"}
    for name in body.keys() - known - {"output_config"}:
        yield Violation("extra", f"{name}: Extra inputs are not permitted")
    if not body.get("max_tokens"):
        yield Violation("A3", "max_tokens: Field required")
    marks = [block["cache_control"] for block in _blocks(body) if "cache_control" in block]
    if len(marks) > MARKS:
        yield Violation(
            "A4", f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
        )
    lives = [LIVES[mark.get("ttl", "5m")] for mark in marks]
    if lives != sorted(lives, reverse=True):
        yield Violation("A4", "a ttl='1h' cache_control block must not come after a ttl='5m' one")
    for at, tool in enumerate(body.get("tools") or ()):
        if not isinstance(tool.get("input_schema"), dict) or not tool.get("name"):
            yield Violation("tools", f"tools.{at}.custom.input_schema: Field required")


def _check_block(where: str, block: Block, role: str, model: str) -> Iterator[Violation]:
    kind = block.get("type")
    if kind not in _KINDS[role]:
        yield Violation("A5", f"{where}: Input tag '{kind}' is not expected")
    if kind in _UNMARKED and "cache_control" in block:
        yield Violation("A4", f"{where}: cache_control cannot be set for thinking blocks")
    if kind == "text" and not str(block.get("text", "")).strip():
        yield Violation("A5", "messages: text content blocks must contain non-whitespace text")
    if kind == "thinking" and block.get("signature") != signed(model, block.get("thinking", "")):
        yield Violation("A6", f"{where}: Invalid `signature` in `thinking` block")
    if kind == "tool_use":
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", str(block.get("id"))):
            yield Violation("A5", f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
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
    """Keeps prefixes that end at a mark. One model, whose minimum is `LEAST`."""

    def __init__(self) -> None:
        self.clock = 0.0
        """Seconds; tests move it."""
        self._kept: dict[str, _Kept] = {}

    def serve(self, body: dict[str, Any]) -> Served:
        """What of a request was kept, and what it leaves."""
        blocks = [*_blocks(body)]
        sizes, prefixes = _sizes(blocks), [*_prefixes(body, blocks)]
        marks = [at for at, block in enumerate(blocks) if "cache_control" in block]
        cached = 0
        for mark in marks:
            for at in range(mark, max(-1, mark - LOOK_BACK), -1):
                kept = self._kept.get(prefixes[at])
                if kept is not None and kept.until >= self.clock:
                    self._kept[prefixes[at]] = kept._replace(until=self.clock + kept.life)
                    cached = max(cached, sizes[at])
                    break
        before, written, hour = cached, 0, 0
        for mark in marks:
            life = LIVES[blocks[mark]["cache_control"].get("ttl", "5m")]
            if sizes[mark] <= before or sizes[mark] < LEAST:
                continue
            self._kept[prefixes[mark]] = _Kept(self.clock + life, life)
            written += sizes[mark] - before
            hour += sizes[mark] - before if life > LIVES["5m"] else 0
            before = sizes[mark]
        return Served(sizes[-1] if sizes else 0, cached, written, hour)


def size(body: dict[str, Any]) -> int:
    """Tokens of a request."""
    sizes = _sizes([*_blocks(body)])
    return sizes[-1] if sizes else 0


def _blocks(body: dict[str, Any]) -> Iterator[Block]:
    """Tools, system and messages, in the order in which they are read."""
    yield from body.get("tools") or ()
    system = body.get("system") or []
    yield from [{"type": "text", "text": system}] if isinstance(system, str) else system
    for message in body.get("messages") or ():
        content = message.get("content") or []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield from ({**block, "role": message.get("role")} for block in blocks)
        if calls := message.get("tool_calls"):  # of chat completions, as OpenRouter takes them
            yield {"type": "tool_calls", "calls": calls, "role": "assistant"}


def _bare(block: Block) -> str:
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(bare, sort_keys=True, ensure_ascii=False)


def _sizes(blocks: Sequence[Block]) -> list[int]:
    """Tokens up to the end of each block."""
    sizes: list[int] = []
    for block in blocks:
        content = block.get("content")
        inner = content if isinstance(content, list) else [block]
        size = sum(
            IMAGE_TOKENS if each.get("type") == "image" else count(_bare({**each, "role": ""}))
            for each in inner
        )
        sizes.append(size + 3 + (sizes[-1] if sizes else 0))
    return sizes


def _prefixes(body: dict[str, Any], blocks: Sequence[Block]) -> Iterator[str]:
    """A hash of the request up to the end of each block. Thinking, effort and the choice of a tool are said
    before the messages: another word of them, and no message is found again."""
    said = json.dumps([body.get(name) for name in ("thinking", "output_config", "tool_choice")])
    running = hashlib.sha256(str(body.get("model")).encode())
    for block in blocks:
        if "role" in block and said:
            running.update(said.encode())
            said = ""
        running.update(_bare(block).encode())
        yield running.hexdigest()


# --- as chat, and the answer ----------------------------------------------------------------------


def as_chat(body: dict[str, Any]) -> dict[str, Any]:
    """The same request as chat messages and tools."""
    chat = {name: body.get(name) for name in ("model", "max_tokens")} | {"messages": [*_messages(body)]}
    if body.get("tools"):
        chat["tools"] = [
            {"type": "function", "function": {"name": tool.get("name"), "parameters": tool["input_schema"]}}
            for tool in body["tools"]
        ]
    return chat


def _messages(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    system = body.get("system") or []
    if text := system if isinstance(system, str) else "\n\n".join(block["text"] for block in system):
        yield {"role": "system", "content": text}
    for message in body.get("messages") or ():
        blocks = message.get("content") or []
        said = "\n\n".join(block["text"] for block in blocks if block.get("type") == "text")
        if message.get("role") == "assistant":
            calls = [
                {
                    "id": block["id"],
                    "type": "function",
                    "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
                }
                for block in blocks
                if block.get("type") == "tool_use"
            ]
            yield {"role": "assistant", "content": said or None, **({"tool_calls": calls} if calls else {})}
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                text = "\n".join(each.get("text", "") for each in block.get("content") or ())
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
        if said:
            yield {"role": "user", "content": said}


_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal", "stop": "end_turn"}


def response(done: Completed, served: Served) -> dict[str, Any]:
    """The answer whole."""
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
            "thinking_tokens": done.usage["completion_tokens_details"]["reasoning_tokens"]
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
        signature = signed(done.model, done.thinking)
        blocks.append({"type": "thinking", "thinking": done.thinking, "signature": signature})
    if done.text:
        blocks.append({"type": "text", "text": done.text})
    for call in done.calls:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments}
        )
    return blocks


def events(done: Completed, served: Served) -> list[dict[str, Any]]:
    """The answer in streamed events."""
    whole = response(done, served)
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    told: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(whole["content"]):
        told += [{**event, "index": index} for event in _block_events(done, block)]
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    told.append(
        {
            "type": "message_delta",
            "delta": delta,
            "usage": {"output_tokens": whole["usage"]["output_tokens"]},
        }
    )
    return [*told, {"type": "message_stop"}]


def _block_events(done: Completed, block: Block) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": part} for part in done.cut(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "text":
            empty = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in done.cut(block["text"])]
        case _:
            empty = {**block, "input": {}}
            parts = done.cut(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    yield {"type": "content_block_start", "content_block": empty}
    yield from ({"type": "content_block_delta", "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop"}
