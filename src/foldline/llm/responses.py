"""OpenAI's Responses API: messages as input items, answers from its events, requests as they are sent.

Pure and deterministic, and as stable as a dialect: extending the messages extends the items. Nothing is
stored at the server, so no item carries an id that it would have to look up; reasoning goes back encrypted,
to the model and server it came from.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

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

from .base import ModelInfo, Request, TextChunk, ThinkingChunk, ToolCallChunk, ToolSpec
from .dialect import (
    OPENAI,
    MessageRendering,
    can_read,
    checkpoint_line,
    dialect_named,
    function_name,
    image_note,
    reported,
    sent_call_id,
    signer,
    to_openai,
    user_pieces,
)
from .messages import MESSAGES, to_messages
from .wire import (
    AnswerReader,
    Expected,
    Growing,
    Room,
    Said,
    Wire,
    arguments_of,
    mapping,
    sequence,
    string,
)

RESPONSES = "responses"
"""The dialect that is recorded with each request of this API."""

Item = dict[str, Any]
"""One input item, ready for JSON."""


def to_input(messages: Sequence[BaseMessage], reader: str) -> list[Item]:
    """The messages as one request sends them. `reader` gets its reasoning back: see `dialect.can_read`.

    Messages with nothing to say (reasoning without text or calls, an empty prompt) are left out.
    """
    return _Rendering(reader).add_all(messages).done


def tools_to_responses(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as one request offers them. Strict schemas are the default here, and ours are none."""
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
    """A reasoning item as it goes back. What was shown of it is left out: it is in there, encrypted, too."""
    item = {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": encrypted}
    return json.dumps(item)


class _Rendering(MessageRendering):
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
        """Parts in the order in which they came. Reasoning goes only with text or a call that follows it."""
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
        self.done.append({"type": "function_call_output", "call_id": call_id, "output": text})

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
        "arguments": part.arguments if json_object(part.arguments) is not None else "{}",
    }


def _reasoning(part: ThinkingPart, reader: str) -> list[Item]:
    """The item as its model knows it; none for another reader."""
    if part.signature is None or not can_read(part, reader) or json_object(part.signature) is None:
        return []
    item: Item = json.loads(part.signature)
    return [item] if item.get("type") == "reasoning" and item.get("encrypted_content") else []


_Kind = Literal["message", "reasoning", "function_call"]

_DELTAS: Mapping[str, _Kind] = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",  # open models, which hide nothing
    "response.function_call_arguments.delta": "function_call",
}
_ENDS = frozenset({"response.completed", "response.incomplete", "response.cancelled", "response.done"})


class _Item:
    """One item of the answer, while it arrives."""

    def __init__(self, kind: _Kind, room: Room) -> None:
        self.kind = kind
        self.text = Growing(room, watched=kind != "function_call")
        """What it says; of a call, its arguments."""
        self.name = ""
        self.call_id = ""
        self.signature: str | None = None
        self._told_as = ""
        self._paragraph: object = None
        self._room = room

    def grow(self, told_as: str, paragraph: object, delta: str) -> str:
        """Adds a delta; returns what can be shown now. Of summary and reasoning, what comes first counts."""
        self._told_as = self._told_as or told_as
        if told_as != self._told_as:
            return ""
        if self.text and paragraph != self._paragraph:
            delta = "\n\n" + delta
        self._paragraph = paragraph
        return self.text.add(delta)

    def finish(self, item: Mapping[str, object]) -> str:
        """Takes the finished item; returns the text that had not been streamed."""
        match self.kind:
            case "function_call":
                self.name = string(item.get("name")) or self.name
                self.call_id = string(item.get("call_id")) or self.call_id
                text = string(item.get("arguments"))
                if self.text and text and str(self.text) != text and json_object(str(self.text)) is None:
                    self.text = Growing(self._room)
            case "message":
                text = "\n".join(_texts(item.get("content")))
            case "reasoning":
                text = "\n\n".join(_texts(item.get("summary")) or _texts(item.get("content")))
                item_id, encrypted = string(item.get("id")), string(item.get("encrypted_content"))
                if item_id and encrypted:
                    self.signature = signature_of(item_id, encrypted)
        return self.text.add(text) if not self.text else ""


class ResponsesReader(AnswerReader):
    """One answer of `/responses`: a list of items. Deltas let them grow; the finished item fills in what was
    not streamed. A full window is an error in this API."""

    _asked, _said = "input", "output"

    def __init__(self, expected: Expected, signer: str) -> None:
        """`signer` is who can read the reasoning again: see `ThinkingPart.signed_by`."""
        super().__init__(expected)
        self._signer = signer
        self._items: dict[Hashable, _Item] = {}
        self._end: Mapping[str, object] | None = None
        self._refused = False

    @property
    def started(self) -> bool:
        return any(item.text or item.name for item in self._items.values())

    @property
    def complete(self) -> bool:
        return self._end is not None

    @property
    def over(self) -> bool:
        return self._end is not None

    def feed(self, piece: object) -> list[Said]:
        event = mapping(piece)
        kind = string(event.get("type"))
        if kind in _DELTAS:
            return self._grow(kind, event)
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = mapping(event.get("item"))
            return self._take(self._key(event, item), item, done=kind.endswith("done"))
        if kind in _ENDS:
            return self._finish(mapping(event.get("response")))
        if event.get("object") == "response":  # Asked for a stream, it answers in one piece.
            return self._finish(event)
        return []

    def _parts(self) -> list[Part]:
        ids = self._call_ids()
        parts: list[Part] = []
        for number, item in enumerate(self._items.values()):
            text = str(item.text)
            match item.kind:
                case "message" if text:
                    parts.append(TextPart(text=text))
                case "reasoning" if item.signature is not None:
                    parts.append(ThinkingPart(text=text, signature=item.signature, signed_by=self._signer))
                case "reasoning" if text:
                    parts.append(ThinkingPart(text=text))
                case "function_call" if self._is_call(item.name, text):
                    call_id = ids.unique(item.call_id, number)
                    parts.append(ToolCallPart(call_id=call_id, name=item.name, arguments=arguments_of(text)))
        return parts

    def _stop_reason(self, parts: Sequence[Part]) -> StopReason:
        end = self._end or {}
        reason = string(mapping(end.get("incomplete_details")).get("reason"))
        if "max_output" in reason or reason == "max_tokens":
            return "length"
        if reason == "content_filter" or self._refused:
            return "filtered"
        return "tool_calls" if any(isinstance(part, ToolCallPart) for part in parts) else "stop"

    def _grow(self, kind: str, event: Mapping[str, object]) -> list[Said]:
        self._refused = self._refused or kind == "response.refusal.delta"
        item = self._item(self._key(event, event), _DELTAS[kind])
        paragraph = event.get("summary_index", event.get("content_index"))
        return _shown(item, item.grow(kind, paragraph, string(event.get("delta"))))

    def _take(self, key: Hashable, item: Mapping[str, object], *, done: bool) -> list[Said]:
        kind = item.get("type")
        if kind not in ("message", "reasoning", "function_call"):
            return []
        found = self._item(key, kind)
        if kind == "function_call" and not done:
            found.name, found.call_id = string(item.get("name")), string(item.get("call_id"))
            return [ToolCallChunk(found.name)]
        if not done:
            return []
        contents = sequence(item.get("content"))
        self._refused = self._refused or any(mapping(part).get("type") == "refusal" for part in contents)
        return _shown(found, found.finish(item))

    def _finish(self, response: Mapping[str, object]) -> list[Said]:
        self._end = response
        self._take_usage(response.get("usage"))
        chunks: list[Said] = []
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

    def _key(self, event: Mapping[str, object], item: Mapping[str, object]) -> Hashable:
        """Which item is meant: by its place, else by its id, else the newest."""
        place, item_id = event.get("output_index"), string(item.get("item_id")) or string(item.get("id"))
        if isinstance(place, int):
            return place
        return item_id or next(reversed(self._items), 0)

    def _item(self, key: Hashable, kind: _Kind) -> _Item:
        found = self._items.get(key)
        if found is None or found.kind != kind:
            key = key if found is None else (key, kind)
            if key not in self._items:
                self._room.take_call()
                self._items[key] = _Item(kind, self._room)
        return self._items[key]


def _shown(item: _Item, text: str) -> list[Said]:
    match item.kind:
        case _ if not text:
            return []
        case "message":
            return [TextChunk(text)]
        case "reasoning":
            return [ThinkingChunk(text)]
        case "function_call":
            return [ToolCallChunk(item.name, text)]


def _texts(value: object) -> list[str]:
    """The texts of a list of content parts, refusals included."""
    parts = [mapping(part) for part in sequence(value)]
    return [text for part in parts if (text := string(part.get("text")) or string(part.get("refusal")))]


class ResponsesWire(Wire):
    """`/responses`. The server keeps nothing: each request carries the whole view."""

    name = RESPONSES
    path = "/responses"

    def _body(self, request: Request, model: str) -> dict[str, Any]:
        body: dict[str, Any] = {
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

    def reading(self, request: Request, info: ModelInfo) -> ResponsesReader:
        return ResponsesReader(self._expected(request, info), signer(info.id, self._host))

    def _begin(self, reader: str) -> _Rendering:
        return _Rendering(reader)


Rendering: TypeAlias = Callable[[Sequence[BaseMessage]], list[dict[str, Any]]]


def as_openai(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The messages as chat completions at OpenAI take them."""
    return to_openai(messages, OPENAI)


def rendering_named(dialect: str, model: str) -> Rendering | None:
    """How a request to this model was rendered; None for a dialect that is not ours, or for no server."""
    if dialect == RESPONSES:
        return partial(to_input, reader=model)
    if dialect == MESSAGES:
        return partial(to_messages, reader=model)
    known = dialect_named(dialect)
    return None if known is None else partial(to_openai, dialect=known, reader=model)
