"""Puts one answer together from the pieces of a `/chat/completions` stream. Pure, and forgiving.

The pieces are plain JSON: compatible servers send fields the SDK's models do not know, or of other types.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from foldline.protocol import AssistantMessage, Part, TextPart, ThinkingPart, ToolCallPart, Usage
from foldline.protocol.messages import StopReason

from .base import TextChunk, ThinkingChunk, ToolCallChunk

CONTEXT_WINDOW_EXCEEDED = "model_context_window_exceeded"
"""The finish reason with which Anthropic and z.ai say that the window is full."""

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}


@dataclass
class _Call:
    position: int | None
    """The server's `index`, which some leave out and some repeat for every call."""
    call_id: str = ""
    name: str = ""
    arguments: str = ""

    def add(self, call_id: str, name: str, arguments: str) -> str:
        """What of `arguments` is new."""
        self.call_id = self.call_id or call_id
        if name and name != self.name and not self.arguments:
            self.name += name
        if arguments and arguments == self.arguments and _is_json(arguments):
            return ""  # Some servers repeat the whole call in their last piece.
        self.arguments += arguments
        return arguments


class _Surrogates:
    """Joins the halves of a character that a server cut in two; a half without its other becomes U+FFFD."""

    def __init__(self) -> None:
        self._half = ""

    def push(self, text: str) -> str:
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return whole(text)

    def rest(self) -> str:
        half, self._half = self._half, ""
        return whole(half)


class Assembly:
    """One answer, while it arrives."""

    def __init__(self, model: str, *, taken: Collection[str] = (), stem: str = "call") -> None:
        """`taken` are call ids of the request, not to be given again; `stem` begins the ids made up here."""
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self._model = model
        self._taken = taken
        self._stem = stem
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._text_halves = _Surrogates()
        self._thinking_halves = _Surrogates()

    @property
    def started(self) -> bool:
        """Whether anything of the answer has arrived."""
        return bool(self._text or self._thinking or self._calls)

    def feed(self, piece: object) -> list[TextChunk | ThinkingChunk | ToolCallChunk]:
        """Takes one decoded piece of the stream; what it adds to the answer."""
        data = _mapping(piece)
        self._take_usage(data.get("usage"))
        choices = data.get("choices")
        if not isinstance(choices, Sequence) or not choices:
            return []
        choice = _mapping(choices[0])
        self._take_usage(choice.get("usage"))  # Moonshot puts it here.
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self.finish_reason = reason
        delta = _mapping(choice.get("delta"))
        if not delta and not self.started:
            delta = _mapping(choice.get("message"))
        chunks: list[TextChunk | ThinkingChunk | ToolCallChunk] = []
        thinking = _string(delta.get("reasoning_content")) or _string(delta.get("reasoning"))
        if thinking := self._thinking_halves.push(thinking):
            self._thinking.append(thinking)
            chunks.append(ThinkingChunk(thinking))
        if text := self._text_halves.push(_content(delta.get("content"))):
            self._text.append(text)
            chunks.append(TextChunk(text))
        calls = delta.get("tool_calls")
        if isinstance(calls, Sequence) and not isinstance(calls, str):
            chunks += [self._take_call(_mapping(call)) for call in calls]
        return chunks

    def message(self, error: str | None = None) -> AssistantMessage:
        """The answer so far; with `error`, as what was left by a failure."""
        thinking = "".join(self._thinking) + self._thinking_halves.rest()
        text = "".join(self._text) + self._text_halves.rest()
        parts: list[Part] = []
        if thinking:
            parts.append(ThinkingPart(text=thinking))
        if text:
            parts.append(TextPart(text=text))
        parts += self._tool_calls()
        return AssistantMessage(
            parts=tuple(parts),
            model=self._model,
            usage=self.usage,
            stop_reason="error" if error else self._stop_reason(),
            error=error,
        )

    def _stop_reason(self) -> StopReason:
        reason = _STOP_REASONS.get(self.finish_reason or "", "stop")
        # Several servers say "stop" after tool calls; what counts is whether there are any.
        if reason in ("stop", "tool_calls"):
            return "tool_calls" if self._tool_calls() else "stop"
        return reason

    def _take_usage(self, value: object) -> None:
        usage = _mapping(value)
        if not usage:
            return
        prompt = _mapping(usage.get("prompt_tokens_details"))
        completion = _mapping(usage.get("completion_tokens_details"))
        self.usage = Usage(
            input=_count(usage.get("prompt_tokens")),
            cached=_count(prompt.get("cached_tokens"))
            or _count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
            or _count(usage.get("cached_tokens")),  # Moonshot
            output=_count(usage.get("completion_tokens")),
            reasoning=_count(completion.get("reasoning_tokens")),
        )

    def _take_call(self, delta: Mapping[str, object]) -> ToolCallChunk:
        function = _mapping(delta.get("function"))
        call_id = _string(delta.get("id"))
        name = _string(function.get("name"))
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        position = delta.get("index")
        call = self._call_at(position if isinstance(position, int) else None, call_id, name)
        return ToolCallChunk(name=call.name or whole(name), text=whole(call.add(call_id, name, text)))

    def _call_at(self, position: int | None, call_id: str, name: str) -> _Call:
        """The call a piece belongs to: by position; another id at the same position is another call."""
        same_place = [call for call in self._calls if call.position == position]
        if position is None and not call_id and not name:
            same_place = self._calls
        for call in reversed(same_place):
            if not call_id or not call.call_id or call.call_id == call_id:
                if position is None and name and call.arguments and not call_id:
                    break  # Neither position nor id: a name after arguments begins the next call.
                return call
        self._calls.append(_Call(position))
        return self._calls[-1]

    def _tool_calls(self) -> list[ToolCallPart]:
        used = set(self._taken)
        parts: list[ToolCallPart] = []
        for number, call in enumerate(self._calls):
            if not call.name and not call.arguments:
                continue
            call_id = whole(call.call_id)
            if not call_id or call_id in used:
                call_id = f"{self._stem}_{number}"
            used.add(call_id)
            parts.append(
                ToolCallPart(
                    call_id=call_id, name=whole(call.name), arguments=whole(call.arguments).strip() or "{}"
                )
            )
        return parts


def whole(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates, which no UTF-8 can hold, as U+FFFD."""
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _content(value: object) -> str:
    """A delta's content: a string, or from some servers a list of text parts."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "".join(_string(_mapping(part).get("text")) for part in value)
    return _string(value)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
