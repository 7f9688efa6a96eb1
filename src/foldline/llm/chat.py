"""The chat completions API, which almost every server supports."""

import json
import re
from collections.abc import Mapping, Sequence

from foldline.json_text import JsonFields, JsonObject
from foldline.protocol import CacheTerms, Part, ThinkingPart
from foldline.protocol.messages import DETAILS, StopReason

from .base import ReadingChunk, Request
from .call_assembly import CallAssembler, CallPiece
from .dialect import STRICT, ChatRendering, dialect_named, tools_to_openai
from .growing import Room
from .lenient import count, mapping, sequence, string
from .marks import marked_terms
from .own_fields import MARKS
from .providers import Provider
from .reasoning_details import ReasoningDetails
from .wire import (
    DEFAULT,
    AnswerBlock,
    AnswerReader,
    ContentChunk,
    Expected,
    Options,
    Wire,
    stop_or_calls,
)

CONTEXT_WINDOW_EXCEEDED = "model_context_window_exceeded"
"""Finish reason with which Anthropic and z.ai report a full window."""
_BROKEN = frozenset({"error", "network_error"})
"""Finish reasons with which OpenRouter and z.ai report an incomplete answer."""

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}


_MARKED = re.compile(r"~?(anthropic|google)/", re.IGNORECASE)
"""Matches OpenRouter models that need or accept cache marks.

See openrouter.ai/docs, "Prompt Caching".
"""


class ChatReader(AnswerReader):
    """Reads an answer from `/chat/completions` as plain JSON.

    The SDK's models are not used, because compatible servers send additional fields, and fields of other
    types.
    """

    _input_name, _output_name = "prompt", "completion"

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self.finish_reason: str | None = None
        self._text = AnswerBlock("text", self._room)
        self._thinking = AnswerBlock("thinking", self._room)
        self._calls = CallAssembler(self._room)
        self._details = ReasoningDetails(Room(expected.most))
        self._refused = False
        self._accounted = False
        """Whether the usage was sent in a separate last piece.

        Some servers also send running counts.
        """

    @property
    def _blocks(self) -> list[AnswerBlock]:
        return [self._thinking, self._text, *self._calls.calls]

    @property
    def complete(self) -> bool:
        if self.finish_reason is None:
            return self._accounted
        return self.finish_reason not in _BROKEN

    @property
    def overflowed(self) -> bool:
        return self.finish_reason == CONTEXT_WINDOW_EXCEEDED

    def feed(self, piece: object) -> list[ContentChunk]:
        data = mapping(piece)
        self._take_usage(data.get("usage"))
        progress = mapping(data.get("prompt_progress"))  # llama.cpp
        reading: list[ContentChunk] = []
        if total := count(progress.get("total")):
            reading.append(ReadingChunk(count(progress.get("processed")), total))
        choices = sequence(data.get("choices"))
        if not choices:
            self._accounted = self._accounted or bool(data.get("usage"))
            return reading
        choice = mapping(choices[0])
        self._take_usage(choice.get("usage"))  # Moonshot sends the usage here.
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
        chunks += self._thinking.grow(thinking)
        chunks += self._text.grow(_content(content) + self._refusal(delta))
        for call in sequence(delta.get("tool_calls")):
            if self.full:
                break
            chunks += self._take_call(mapping(call))
        return chunks

    def _parts(self) -> list[Part]:
        parts = super()._parts()
        if not self.complete:
            return parts  # Reasoning that was cut off has no valid signature.
        details = self._details.parts(self._expected.signer)
        if any(part.text for part in details):
            parts = [part for part in parts if not isinstance(part, ThinkingPart)]
        return [*details, *parts]

    def _stop_reason(self, parts: Sequence[Part]) -> StopReason:
        reason = _STOP_REASONS.get(self.finish_reason or "", "stop")
        if reason not in ("stop", "tool_calls"):
            return reason
        reason = stop_or_calls(parts)  # several servers report "stop" after tool calls
        return "filtered" if self._refused and reason == "stop" else reason

    def _refusal(self, delta: JsonFields) -> str:
        """Return the text of a model's refusal, which has its own field."""
        refusal = string(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        return refusal

    def _take_call(self, delta: JsonFields) -> list[ContentChunk]:
        function = mapping(delta.get("function"))
        arguments = function.get("arguments")
        index = delta.get("index")
        google = mapping(mapping(delta.get("extra_content")).get("google"))
        piece = CallPiece(
            index=index if isinstance(index, int) else None,
            call_id=string(delta.get("id")),
            name=string(function.get("name")),
            arguments=json.dumps(arguments)
            if isinstance(arguments, Mapping)
            else string(arguments),
            signature=string(google.get("thought_signature")),
        )
        return self._calls.add(piece)


def _content(value: object) -> str:
    """Return the content of a delta: a string or, from some servers, a list of text parts."""
    return string(value) or "".join(
        string(mapping(part).get("text")) for part in sequence(value)
    )


def _thoughts(value: object) -> str:
    """Return Mistral's reasoning, which is nested inside content parts."""
    return "".join(_content(mapping(part).get("thinking")) for part in sequence(value))


class ChatWire(Wire):
    """The `/chat/completions` API, in a server's dialect."""

    path = "/chat/completions"
    answer_reader = ChatReader

    def __init__(self, provider: Provider, options: Options = DEFAULT) -> None:
        self._dialect = dialect_named(provider.dialect) or STRICT
        self.name = self._dialect.name
        super().__init__(provider, options)

    def cache(self, model: str) -> CacheTerms | None:
        if self._marks(model):
            return marked_terms(self.options.cache_life)
        return super().cache(model)

    def _marks(self, model: str) -> bool:
        return bool(
            self._dialect.marks_cache and _MARKED.match(model)
        ) and self.left_out.sends(MARKS)

    def _body(self, request: Request, model: str) -> JsonObject:
        body: JsonObject = {
            "model": model,
            "messages": self._messages(request, model, marks=self._marks(model)),
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._session(request),
        }
        if effort := self._effort:
            if self._dialect.reasoning_field == "reasoning":
                body["reasoning"] = {"effort": effort}
            else:
                body["reasoning_effort"] = effort
        if request.tools:  # OpenAI rejects an empty list.
            body["tools"] = tools_to_openai(request.tools)
            if request.tools_off:
                body["tool_choice"] = "none"
        if request.max_output is not None:
            body[self._dialect.max_tokens_field] = request.max_output
        return body

    def _begin(self, reader: str) -> ChatRendering:
        return ChatRendering(self._dialect, reader)
