"""Chat completions: what nearly every server speaks."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from foldline.protocol import CacheTerms, Part, TextPart, ThinkingPart, ToolCallPart
from foldline.protocol.messages import DETAILS, StopReason

from .base import ModelInfo, ReadingChunk, Request, TextChunk, ThinkingChunk, ToolCallChunk
from .call_assembly import CallAssembler, CallPiece
from .dialect import STRICT, ChatRendering, dialect_named, signer, tools_to_openai
from .marks import marked_terms
from .own_fields import MARKS
from .providers import Provider
from .reasoning_details import ReasoningDetails
from .wire import (
    DEFAULT,
    AnswerReader,
    Expected,
    Growing,
    Options,
    Room,
    Said,
    Wire,
    arguments_of,
    count,
    mapping,
    sequence,
    string,
)

CONTEXT_WINDOW_EXCEEDED = "model_context_window_exceeded"
"""The finish reason with which Anthropic and z.ai say that the window is full."""
_BROKEN = frozenset({"error", "network_error"})
"""Finish reasons with which OpenRouter and z.ai say that the answer did not come to its end."""

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}


_MARKED = re.compile(r"~?(anthropic|google)/", re.IGNORECASE)
"""Models at OpenRouter whose makers want marks, or take them (openrouter.ai/docs, "Prompt Caching")."""


class ChatReader(AnswerReader):
    """One answer of `/chat/completions`, put together from plain JSON: compatible servers send fields the
    SDK's models do not know, or of other types."""

    _asked, _said = "prompt", "completion"

    def __init__(self, expected: Expected, signer: str = "") -> None:
        """`signer` is who can read signed reasoning again: see `ThinkingPart.signed_by`."""
        super().__init__(expected)
        self.finish_reason: str | None = None
        self._text = Growing(self._room, watched=True)
        self._thinking = Growing(self._room, watched=True)
        self._calls = CallAssembler(self._room)
        self._signer = signer
        self._details = ReasoningDetails(Room(expected.most))
        self._refused = False
        self._accounted = False
        """Whether usage came in a piece of its own: the last one. Some servers also count as they go."""

    @property
    def started(self) -> bool:
        return bool(self._text or self._thinking or self._calls.calls)

    @property
    def complete(self) -> bool:
        if self.finish_reason is None:
            return self._accounted
        return self.finish_reason not in _BROKEN

    @property
    def overflowed(self) -> bool:
        return self.finish_reason == CONTEXT_WINDOW_EXCEEDED

    def feed(self, piece: object) -> list[Said]:
        data = mapping(piece)
        self._take_usage(data.get("usage"))
        progress = mapping(data.get("prompt_progress"))  # llama.cpp
        reading: list[Said] = []
        if total := count(progress.get("total")):
            reading.append(ReadingChunk(count(progress.get("processed")), total))
        choices = sequence(data.get("choices"))
        if not choices:
            self._accounted = self._accounted or bool(data.get("usage"))
            return reading
        choice = mapping(choices[0])
        self._take_usage(choice.get("usage"))  # Moonshot puts it here.
        if reason := string(choice.get("finish_reason")):
            self.finish_reason = reason
        delta = mapping(choice.get("delta"))
        if not delta and not self.started:
            delta = mapping(choice.get("message"))
        chunks = reading
        content = delta.get("content")
        detailed = self._details.add(delta.get(DETAILS))
        thinking = (
            string(delta.get("reasoning_content"))
            or string(delta.get("reasoning"))
            or _thoughts(content)
            or detailed
        )
        if thinking := self._thinking.add(thinking):
            chunks.append(ThinkingChunk(thinking))
        if text := self._text.add(_content(content) + self._refusal(delta)):
            chunks.append(TextChunk(text))
        for call in sequence(delta.get("tool_calls")):
            if self.full:
                break
            chunks += self._take_call(mapping(call))
        return chunks

    def _parts(self) -> list[Part]:
        # What broke off before its end is not signed.
        details = self._details.parts(self._signer) if self.complete else []
        parts: list[Part] = [*details]
        if (thinking := str(self._thinking)) and not any(part.text for part in details):
            parts.append(ThinkingPart(text=thinking))
        if text := str(self._text):
            parts.append(TextPart(text=text))
        ids = self._call_ids()
        return parts + [
            ToolCallPart(
                call_id=ids.unique(call.call_id, number),
                name=call.name,
                arguments=arguments_of(str(call.arguments)),
                signature=call.signature or None,
            )
            for number, call in enumerate(self._calls.calls)
            if self._is_call(call.name, str(call.arguments))
        ]

    def _stop_reason(self, parts: Sequence[Part]) -> StopReason:
        reason = _STOP_REASONS.get(self.finish_reason or "", "stop")
        # Several servers say "stop" after tool calls; what counts is whether there are any.
        if reason in ("stop", "tool_calls"):
            called = any(isinstance(part, ToolCallPart) for part in parts)
            return "tool_calls" if called else "filtered" if self._refused else "stop"
        return reason

    def _refusal(self, delta: Mapping[str, object]) -> str:
        """The model's own words where it declines: they stand in a field of their own."""
        refusal = string(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        return refusal

    def _take_call(self, delta: Mapping[str, object]) -> list[Said]:
        function = mapping(delta.get("function"))
        arguments = function.get("arguments")
        index = delta.get("index")
        google = mapping(mapping(delta.get("extra_content")).get("google"))
        piece = CallPiece(
            index=index if isinstance(index, int) else None,
            call_id=string(delta.get("id")),
            name=string(function.get("name")),
            arguments=json.dumps(arguments) if isinstance(arguments, Mapping) else string(arguments),
            signature=string(google.get("thought_signature")),
        )
        if (added := self._calls.add(piece)) is None:
            return []
        call, text = added
        return [ToolCallChunk(name=call.name, text=text)]


def _content(value: object) -> str:
    """A delta's content: a string, or from some servers a list of text parts."""
    return string(value) or "".join(string(mapping(part).get("text")) for part in sequence(value))


def _thoughts(value: object) -> str:
    """Mistral's reasoning: parts of the content that have parts of their own."""
    return "".join(_content(mapping(part).get("thinking")) for part in sequence(value))


class ChatWire(Wire):
    """`/chat/completions`, in the dialect of one kind of server."""

    path = "/chat/completions"

    def __init__(self, provider: Provider, options: Options = DEFAULT) -> None:
        self._dialect = dialect_named(provider.dialect) or STRICT
        self.name = self._dialect.name
        super().__init__(provider, options)

    def cache(self, model: str) -> CacheTerms | None:
        return marked_terms(self.options.cache_life) if self._marks(model) else super().cache(model)

    def _marks(self, model: str) -> bool:
        return bool(self._dialect.marks_cache and _MARKED.match(model)) and self.left_out.sends(MARKS)

    def _body(self, request: Request, model: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": model,
            "messages": self._messages(request, model, marks=self._marks(model)),
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._session(request),
        }
        if effort := self._effort:
            nested = self._dialect.reasoning_field == "reasoning"
            body |= {"reasoning": {"effort": effort}} if nested else {"reasoning_effort": effort}
        if request.tools:  # An empty list is refused by OpenAI.
            body["tools"] = tools_to_openai(request.tools)
            if request.tools_off:
                body["tool_choice"] = "none"
        if request.max_output is not None:
            body[self._dialect.max_tokens_field] = request.max_output
        return body

    def reading(self, request: Request, info: ModelInfo) -> ChatReader:
        return ChatReader(self._expected(request, info), signer(info.id, self._host))

    def _begin(self, reader: str) -> ChatRendering:
        return ChatRendering(self._dialect, reader)
