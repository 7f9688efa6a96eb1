"""OpenAI's Responses API: renders messages as input items, and reads answers from events.

Rendering is pure, deterministic and, as in a dialect, stable: appending messages only appends items. The
request asks the server to store nothing, so items are sent without ids. Reasoning is sent back in encrypted
form, only to the model and server that produced it.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from foldline.json_text import JsonFields, JsonObject
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    Part,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.protocol.messages import StopReason, json_object

from .base import MESSAGES, RESPONSES, Request, ToolCallChunk, ToolSpec
from .dialect import OPENAI, dialect_named, to_openai
from .growing import Growing, Room
from .lenient import mapping, sequence, string
from .messages import to_messages
from .rendering import (
    MessageRendering,
    can_read,
    checkpoint_line,
    function_name,
    image_note,
    reported,
    sent_arguments,
    sent_call_id,
    user_pieces,
)
from .wire import (
    AnswerBlock,
    AnswerReader,
    BlockKind,
    ContentChunk,
    Expected,
    Wire,
    stop_or_calls,
)

Item = JsonObject
"""An input item, ready to be encoded as JSON."""


def to_input(messages: Sequence[BaseMessage], reader: str) -> list[Item]:
    """Render messages for a request.

    Messages without content are left out: reasoning without text or calls, and empty prompts.

    Args:
        reader: the model to which its own reasoning is sent back (`dialect.can_read`).
    """
    return _ItemRendering(reader).add_all(messages).done


def tools_to_responses(tools: Iterable[ToolSpec]) -> list[JsonObject]:
    """Render a request's tools.

    Strict schemas, which are this API's default, are turned off.
    """
    return [
        {
            "type": "function",
            "name": function_name(tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in tools
    ]


def signature_of(item_id: str, encrypted: str) -> str:
    """Return a reasoning item as a signature, so that it can be sent back.

    The summary is not included, because the encrypted part contains it.
    """
    item = {
        "type": "reasoning",
        "id": item_id,
        "summary": [],
        "encrypted_content": encrypted,
    }
    return json.dumps(item)


class _ItemRendering(MessageRendering):
    def instruct(self, message: SystemMessage | DeveloperMessage) -> None:
        if message.text:
            self.flush_images()
            role = "system" if isinstance(message, SystemMessage) else "developer"
            self._say(role, "\n\n".join([message.text, *checkpoint_line(message)]))

    def ask(self, message: UserMessage) -> None:
        self.flush_images()
        pieces = user_pieces(message, _text, _image)
        if pieces:
            self._add_user(pieces)

    def answer(self, message: AssistantMessage) -> None:
        """Add an answer's parts, in order.

        Reasoning is added only if text or a call follows.
        """
        reasoning: list[Item] = []
        for part in message.parts:
            match part:
                case ThinkingPart():
                    reasoning += _reasoning(part, self.reader)
                case TextPart() if part.text:
                    self.flush_images()
                    self.done += reasoning
                    self._say("assistant", part.text)
                    reasoning = []
                case ToolCallPart():
                    self.flush_images()
                    self.done += [*reasoning, _call(part)]
                    reasoning = []
                case _:
                    pass

    def report(self, message: ToolResultMessage) -> None:
        call_id = sent_call_id(message.call_id)
        text, images = reported(message)
        if images:
            self._images += [_text(image_note(call_id)), *map(_image, images)]
        self.done.append(
            {"type": "function_call_output", "call_id": call_id, "output": text}
        )

    def _add_user(self, pieces: list[Item]) -> None:
        self._say("user", pieces)

    def _say(self, role: str, content: str | list[Item]) -> None:
        self.done.append({"type": "message", "role": role, "content": content})


def _text(text: str) -> Item:
    return {"type": "input_text", "text": text}


def _image(part: ImagePart) -> Item:
    url = f"data:{part.media_type};base64,{part.data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _call(part: ToolCallPart) -> Item:
    return {
        "type": "function_call",
        "call_id": sent_call_id(part.call_id),
        "name": function_name(part.name),
        "arguments": sent_arguments(part),
    }


def _reasoning(part: ThinkingPart, reader: str) -> list[Item]:
    """Return the original reasoning item, if it is from this reader."""
    if part.signature is None or not can_read(part, reader):
        return []
    item = json_object(part.signature) or {}
    if item.get("type") == "reasoning" and item.get("encrypted_content"):
        return [item]
    return []


_KINDS: Mapping[object, BlockKind] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "call",
}
_DELTAS: Mapping[str, BlockKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",  # open models, whose reasoning is not hidden
    "response.function_call_arguments.delta": "call",
}
_ENDS = frozenset(
    {"response.completed", "response.incomplete", "response.cancelled", "response.done"}
)


class _Item(AnswerBlock):
    """An item of the answer that is being received."""

    def __init__(self, kind: BlockKind, room: Room) -> None:
        super().__init__(kind, room)
        self._source = ""
        """Type of the events from which the text is taken."""
        self._paragraph: object = None
        self._room = room

    def grow_from(
        self, source: str, paragraph: object, delta: str
    ) -> list[ContentChunk]:
        """Add a delta, and return the chunk to display.

        If a server sends both a summary and the reasoning, only the one that arrives first is used.
        """
        self._source = self._source or source
        if source != self._source or not delta:
            return []
        if self.text and paragraph != self._paragraph:
            delta = "\n\n" + delta
        self._paragraph = paragraph
        return self.grow(delta)

    def finish(self, item: JsonFields) -> list[ContentChunk]:
        """Process the finished item, and return the chunk for text that was not streamed."""
        match self.kind:
            case "call":
                self.name = string(item.get("name")) or self.name
                self.call_id = string(item.get("call_id")) or self.call_id
                text = string(item.get("arguments"))
                streamed = str(self.text)
                if text and text != streamed and json_object(streamed) is None:
                    self.text = Growing(self._room)
            case "text":
                text = "\n".join(_texts(item.get("content")))
            case "thinking":
                text = "\n\n".join(
                    _texts(item.get("summary")) or _texts(item.get("content"))
                )
                item_id = string(item.get("id"))
                encrypted = string(item.get("encrypted_content"))
                if item_id and encrypted:
                    self.signature = signature_of(item_id, encrypted)
        return self.grow(text) if text and not self.text else []


class ResponsesReader(AnswerReader):
    """Reads an answer from `/responses`, which is a list of items.

    A finished item contains any text that was not streamed. The server reports a full window as an error.
    """

    _input_name, _output_name = "input", "output"

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self._items: dict[Hashable, _Item] = {}
        self._end: JsonFields | None = None
        self._refused = False

    @property
    def _blocks(self) -> Iterable[AnswerBlock]:
        return self._items.values()

    @property
    def complete(self) -> bool:
        return self._end is not None

    @property
    def over(self) -> bool:
        return self._end is not None

    def feed(self, piece: object) -> list[ContentChunk]:
        event = mapping(piece)
        kind = string(event.get("type"))
        if kind in _DELTAS:
            return self._grow(kind, event)
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = mapping(event.get("item"))
            return self._take(self._key(event, item), item, done=kind.endswith("done"))
        if kind in _ENDS:
            return self._finish(mapping(event.get("response")))
        if (
            event.get("object") == "response"
        ):  # not a stream, although one was requested
            return self._finish(event)
        return []

    def _stop_reason(self, parts: Sequence[Part]) -> StopReason:
        end = self._end or {}
        reason = string(mapping(end.get("incomplete_details")).get("reason"))
        if "max_output" in reason or reason == "max_tokens":
            return "length"
        if reason == "content_filter" or self._refused:
            return "filtered"
        return stop_or_calls(parts)

    def _grow(self, kind: str, event: JsonFields) -> list[ContentChunk]:
        self._refused = self._refused or kind == "response.refusal.delta"
        item = self._item(self._key(event, event), _DELTAS[kind])
        paragraph = event.get("summary_index", event.get("content_index"))
        return item.grow_from(kind, paragraph, string(event.get("delta")))

    def _take(
        self, key: Hashable, item: JsonFields, *, done: bool
    ) -> list[ContentChunk]:
        kind = _KINDS.get(item.get("type"))
        if kind is None:
            return []
        answer_item = self._item(key, kind)
        if kind == "call" and not done:
            answer_item.name = string(item.get("name"))
            answer_item.call_id = string(item.get("call_id"))
            return [ToolCallChunk(answer_item.name)]
        if not done:
            return []
        contents = sequence(item.get("content"))
        self._refused = self._refused or any(
            mapping(part).get("type") == "refusal" for part in contents
        )
        return answer_item.finish(item)

    def _finish(self, response: JsonFields) -> list[ContentChunk]:
        self._end = response
        self._take_usage(response.get("usage"))
        chunks: list[ContentChunk] = []
        streamed = bool(self._items)
        for place, value in enumerate(sequence(response.get("output"))):
            if self.full:
                break
            item = mapping(value)
            key: Hashable = place if place in self._items else string(item.get("id"))
            if not streamed:
                chunks += self._take(place, item, done=True)
            elif key in self._items:
                chunks += self._take(key, item, done=True)
        return chunks

    def _key(self, event: JsonFields, item: JsonFields) -> Hashable:
        """Return the key of the item that an event belongs to.

        The key is an index or an id. By default, this is the key of the newest item.
        """
        index = event.get("output_index")
        if isinstance(index, int):
            return index
        item_id = string(item.get("item_id")) or string(item.get("id"))
        return item_id or next(reversed(self._items), 0)

    def _item(self, key: Hashable, kind: BlockKind) -> _Item:
        item = self._items.get(key)
        if item is None or item.kind != kind:
            key = key if item is None else (key, kind)
            if key not in self._items:
                self._room.take_call()
                self._items[key] = _Item(kind, self._room)
        return self._items[key]


def _texts(value: object) -> list[str]:
    """Return the texts in a list of content parts, including refusals."""
    parts = [mapping(part) for part in sequence(value)]
    return [
        text
        for part in parts
        if (text := string(part.get("text")) or string(part.get("refusal")))
    ]


class ResponsesWire(Wire):
    """The `/responses` API.

    Each request contains the complete view, because the server is stateless.
    """

    name = RESPONSES
    path = "/responses"
    answer_reader = ResponsesReader

    def _body(self, request: Request, model: str) -> JsonObject:
        body: JsonObject = {
            "model": model,
            "input": self._messages(request, model),
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"summary": "auto"},
            **self._session(request),
        }
        if self._effort:
            body["reasoning"]["effort"] = self._effort
        if request.tools:
            body["tools"] = tools_to_responses(request.tools)
            if request.tools_off:
                body["tool_choice"] = "none"
        if request.max_output is not None:
            body["max_output_tokens"] = request.max_output
        return body

    def _begin(self, reader: str) -> _ItemRendering:
        return _ItemRendering(reader)


Rendering: TypeAlias = Callable[[Sequence[BaseMessage]], list[JsonObject]]


def as_openai(messages: Sequence[BaseMessage]) -> list[JsonObject]:
    """Render messages for OpenAI's chat completions."""
    return to_openai(messages, OPENAI)


def rendering_named(dialect: str, model: str) -> Rendering | None:
    """Return the function that renders messages in a recorded request's dialect.

    Returns None if the dialect is unknown.
    """
    if dialect == RESPONSES:
        return partial(to_input, reader=model)
    if dialect == MESSAGES:
        return partial(to_messages, reader=model)
    chat_dialect = dialect_named(dialect)
    if chat_dialect is None:
        return None
    return partial(to_openai, dialect=chat_dialect, reader=model)
