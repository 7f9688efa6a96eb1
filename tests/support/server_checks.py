"""The test server's own measurements: validity, length and cached prefix of requests.

Independent of Foldline on purpose: an instrument that shares code with the product would share its bugs.
"""

import hashlib
import itertools
import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

TOKENIZER = "pieces-1"
"""A token: up to 7 letters or 3 digits with the space before them, up to 2 other characters, or a run of
blanks. Han, kana and Hangul count 1 each, the frame of a message 3, an image `IMAGE_TOKENS`. Source code
has 3.3 characters a token, technical prose 3.5.
"""

IMAGE_TOKENS = 765
CACHE_STEP = 128
"""Block size in tokens: a provider's prompt cache serves whole blocks."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE = re.compile(
    rf"[{_CJK}]| ?[^\W\d_{_CJK}]{{1,7}}| ?\d{{1,3}}|\n+| +|[^\S\n ]+|[^\w\s]{{1,2}}|_|.",
    re.DOTALL,
)


class Violation(NamedTuple):
    rule: str
    message: str


_letters = 0
"""Characters per token; 0: by the pattern."""


def count_by(characters: int) -> None:
    """Set the characters per token in this process; 0: by the pattern, the default."""
    global _letters
    if characters != _letters:
        _letters = characters
        pieces.cache_clear()


@lru_cache(maxsize=4096)
def pieces(text: str) -> tuple[str, ...]:
    """Return the tokens of a text."""
    if _letters:
        return tuple(text[at : at + _letters] for at in range(0, len(text), _letters))
    return tuple(_PIECE.findall(text))


def count(text: str) -> int:
    return len(pieces(text))


def text_of(content: Any) -> str:
    """Return the text of a content: a string, a list of parts, or None."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            part.get("text", "") for part in content if isinstance(part, dict)
        )
    return ""


def request_tokens(body: dict[str, Any]) -> list[str]:
    """Serialise a request canonically as tokens: tools first, then message by message.

    The tokens of a request are a prefix of those of a request that only appends messages.
    """
    tokens: list[str] = []
    for tool in body.get("tools") or ():
        tokens += pieces(json.dumps(tool, sort_keys=True, ensure_ascii=False))
    for message in body.get("messages") or ():
        tokens += _message_tokens(message)
    return tokens


def _message_tokens(message: dict[str, Any]) -> list[str]:
    tokens = ["<|start|>", f"<|{message.get('role')}|>"]
    if "tool_call_id" in message:
        tokens += pieces(str(message["tool_call_id"]))
    if message.get("reasoning_content"):
        tokens += ["<|thinking|>", *pieces(message["reasoning_content"])]
    content = message.get("content")
    for part in (
        content
        if isinstance(content, list)
        else [{"type": "text", "text": content or ""}]
    ):
        if part.get("type") == "image_url":
            digest = hashlib.sha256(
                json.dumps(part, sort_keys=True).encode()
            ).hexdigest()[:12]
            tokens += [f"<|image {digest}|>"] * IMAGE_TOKENS
        else:
            tokens += pieces(str(part.get("text", "")))
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        tokens += [
            "<|call|>",
            *pieces(str(call.get("id"))),
            *pieces(str(function.get("name"))),
        ]
        tokens += pieces(str(function.get("arguments")))
    return [*tokens, "<|end|>"]


class PrefixCache:
    """Finds the longest prefix, in whole blocks, shared with an earlier request. Nothing expires."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, tuple[str, ...]], int] = {}
        """A tree: (node, next block of tokens) to node; 0 is the root."""

    def cached(self, tokens: list[str]) -> int:
        """Return the cached tokens of this request."""
        node = 0
        for start in range(0, len(tokens) - CACHE_STEP + 1, CACHE_STEP):
            following = self._next.get(
                (node, tuple(tokens[start : start + CACHE_STEP]))
            )
            if following is None:
                return start
            node = following
        return len(tokens) // CACHE_STEP * CACHE_STEP

    def remember(self, tokens: list[str]) -> None:
        node = 0
        for start in range(0, len(tokens) - CACHE_STEP + 1, CACHE_STEP):
            block = tuple(tokens[start : start + CACHE_STEP])
            node = self._next.setdefault((node, block), len(self._next) + 1)


def validate(body: dict[str, Any], strict: bool = False) -> list[Violation]:
    """Check rules P1 to P7 of `support/safety.py`, and OpenAI's other rules.

    `strict` adds the rules of servers with narrow chat templates: one leading system message, then user
    first, strict alternation.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(
        isinstance(message, dict) for message in messages
    ):
        return [
            Violation(
                "shape", "Invalid type for 'messages': expected an array of objects."
            )
        ]
    violations: list[Violation] = []
    if body.get("tools") == []:
        violations.append(Violation("tools", "[] is too short - 'tools'"))
    if not any(message.get("role") == "user" for message in messages):
        violations.append(
            Violation(
                "P7",
                "Invalid 'messages': at least one message must have the role 'user'.",
            )
        )
    open_ids: set[str] = set()
    opened_at = -1
    for at, message in enumerate(messages):
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            violations.append(
                Violation("role", f"Invalid value: '{role}' at 'messages[{at}].role'.")
            )
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id in open_ids:
                open_ids.discard(call_id)
            else:
                violations.append(
                    Violation(
                        "P2",
                        "Invalid parameter: messages with role 'tool' must be a response to a preceding "
                        f"message with 'tool_calls'. (messages[{at}])",
                    )
                )
            if not isinstance(message.get("content"), str | list):
                violations.append(
                    Violation(
                        "content",
                        f"Invalid value for 'messages[{at}].content': got null.",
                    )
                )
            continue
        if open_ids:
            violations.append(_unanswered(opened_at, open_ids))
            open_ids = set()
        if role == "assistant":
            violations += _check_assistant(at, message)
            open_ids = {str(call.get("id")) for call in message.get("tool_calls") or ()}
            opened_at = at
        elif not message.get("content"):
            violations.append(
                Violation(
                    "content",
                    f"Invalid value for 'messages[{at}].content': it is empty.",
                )
            )
    if open_ids:
        violations.append(_unanswered(opened_at, open_ids))
    return violations + (_check_strict(messages) if strict else [])


def _unanswered(at: int, ids: set[str]) -> Violation:
    return Violation(
        "P1",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: "
        f"{', '.join(sorted(ids))} (messages[{at}])",
    )


def _check_assistant(at: int, message: dict[str, Any]) -> list[Violation]:
    violations: list[Violation] = []
    calls = message.get("tool_calls")
    if calls is not None and not calls:
        violations.append(
            Violation(
                "P5",
                f"Invalid 'messages[{at}].tool_calls': empty array. Expected a minimum length 1.",
            )
        )
    ids = [call.get("id") for call in calls or ()]
    if len(set(ids)) != len(ids) or not all(
        isinstance(call_id, str) and call_id for call_id in ids
    ):
        violations.append(
            Violation("P3", f"Duplicate or missing ids in 'messages[{at}].tool_calls'.")
        )
    if any(isinstance(call_id, str) and len(call_id) > 40 for call_id in ids):
        violations.append(
            Violation(
                "P3", f"Invalid 'messages[{at}].tool_calls[].id': string too long."
            )
        )
    for call in calls or ():
        function = call.get("function") or {}
        arguments: Any = function.get("arguments")
        try:
            json.loads(arguments)
        except (TypeError, ValueError):
            violations.append(
                Violation(
                    "P4",
                    f"Invalid 'messages[{at}].tool_calls[].function.arguments': not valid JSON.",
                )
            )
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(function.get("name", ""))):
            violations.append(
                Violation(
                    "name",
                    f"Invalid 'messages[{at}].tool_calls[].function.name': bad pattern.",
                )
            )
    if not message.get("content") and not calls:
        violations.append(
            Violation(
                "P6",
                f"Invalid 'messages[{at}]': an assistant must have 'content' or 'tool_calls'.",
            )
        )
    return violations


def _check_strict(messages: list[dict[str, Any]]) -> list[Violation]:
    violations: list[Violation] = []
    others = (
        messages[1:] if messages and messages[0].get("role") == "system" else messages
    )
    roles = [message.get("role") for message in others]
    if any(role in ("system", "developer") for role in roles):
        violations.append(Violation("S1", "System message must be at the beginning."))
    if roles and roles[0] != "user":
        violations.append(
            Violation(
                "S2",
                "After the optional system message, conversation must start with user.",
            )
        )
    if any(
        first == second
        for first, second in itertools.pairwise(roles)
        if first != "tool"
    ):
        violations.append(
            Violation(
                "S3",
                "Conversation roles must alternate user/assistant/user/assistant/...",
            )
        )
    return violations
