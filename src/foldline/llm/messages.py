"""Anthropic's Messages API: renders messages as blocks, and reads answers from events.

Rendering is pure, deterministic and, as in a dialect, stable: appending messages only appends blocks.
Thinking is sent back unchanged, with its signature, but only to the model and server that produced it,
because others reject it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from foldline.json_text import JsonFields, JsonObject
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CacheTerms,
    DeveloperMessage,
    ImagePart,
    Part,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from foldline.protocol.messages import StopReason, json_object

from .base import MESSAGES, Request, ToolSpec
from .call_assembly import LONGEST_NAME
from .chat import CONTEXT_WINDOW_EXCEEDED
from .dialect import text_piece
from .growing import Room
from .lenient import count, mapping, sequence, string
from .marks import cache_control, marked_terms
from .own_fields import MARKS
from .rendering import (
    OPENING,
    MessageRendering,
    Piece,
    can_read,
    checkpoint_line,
    function_name,
    machine_text,
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


def to_messages(messages: Sequence[BaseMessage], reader: str) -> list[JsonObject]:
    """Render messages for a request.

    A system prompt is rendered as the first message here, and is sent in its own field later.

    Messages without content are left out: thinking without text or calls, and empty prompts.

    Args:
        reader: the model to which its own thinking is sent back (`dialect.can_read`).
    """
    return _BlockRendering(reader).add_all(messages).done


def tools_to_messages(tools: Iterable[ToolSpec]) -> list[JsonObject]:
    """Render a request's tools."""
    return [
        {
            "name": function_name(tool.name),
            "description": tool.description,
            "input_schema": tool.parameters,
        }
        for tool in tools
    ]


class _BlockRendering(MessageRendering):
    """Joins neighbouring messages of the same role into one message with several blocks."""

    def instruct(self, message: SystemMessage | DeveloperMessage) -> None:
        text = "\n\n".join([message.text, *checkpoint_line(message)])
        if not message.text.strip():
            return
        if len(self.done) > 1 or (self.done and self.done[0]["role"] != "system"):
            self._add("user", [text_piece(machine_text(text))])
        else:
            self._add("system", [text_piece(text)])
        self._note_summary(message)

    def ask(self, message: UserMessage) -> None:
        blocks = user_pieces(
            message, text_piece, _image, says=str.strip
        )  # The API rejects blank text blocks.
        if blocks:
            self._add_user(blocks)

    def answer(self, message: AssistantMessage) -> None:
        """Add an answer's parts, in order.

        Thinking is added only if text or a call follows.
        """
        blocks: list[Piece] = []
        thinking: list[Piece] = []
        for part in message.parts:
            match part:
                case ThinkingPart():
                    thinking += _thinking(part, self.reader)
                case TextPart() if part.text.strip():
                    blocks += [*thinking, text_piece(part.text)]
                    thinking = []
                case ToolCallPart():
                    blocks += [*thinking, _call(part)]
                    thinking = []
                case _:
                    pass
        if not blocks:
            return
        if not self.done or self.done[-1]["role"] == "system":
            self._add_user([text_piece(OPENING)])
        self._add("assistant", blocks)

    def report(self, message: ToolResultMessage) -> None:
        content: list[Piece] = (
            [text_piece(message.text)] if message.text.strip() else []
        )
        content += [
            _image(part) for part in message.parts if isinstance(part, ImagePart)
        ]
        content += [text_piece(machine_text(line)) for line in checkpoint_line(message)]
        block: Piece = {"type": "tool_result", "tool_use_id": _id(message.call_id)}
        if content:
            block["content"] = content
        if message.is_error:
            block["is_error"] = True
        self._add_user([block])

    def _add_user(self, pieces: list[Piece]) -> None:
        self._add("user", pieces)

    def _add(self, role: str, blocks: list[Piece]) -> None:
        if self.done and self.done[-1]["role"] == role:
            self.done[-1] = {
                "role": role,
                "content": [*self.done[-1]["content"], *blocks],
            }
        else:
            self.done.append({"role": role, "content": blocks})


def _image(part: ImagePart) -> Piece:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": part.media_type, "data": part.data},
    }


def _call(part: ToolCallPart) -> Piece:
    # Arguments of other models may not be an object, which this API requires.
    return {
        "type": "tool_use",
        "id": _id(part.call_id),
        "name": function_name(part.name),
        "input": json_object(part.arguments) or {},
    }


def _thinking(part: ThinkingPart, reader: str) -> list[Piece]:
    """Return the original thinking block, if it is complete and from this reader."""
    if part.signature is None or not can_read(part, reader):
        return []
    if redacted := (json_object(part.signature) or {}).get("data"):
        return [{"type": "redacted_thinking", "data": redacted}]
    return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]


def _id(call_id: str) -> str:
    """Convert a call id to letters, digits, `_` and `-`, keeping ids distinct."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


_STOP_REASONS: Mapping[str, StopReason] = {
    "max_tokens": "length",
    "refusal": "filtered",
}


_KINDS: Mapping[object, BlockKind] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "tool_use": "call",
}


class _Block(AnswerBlock):
    """A block of the answer that is being received."""

    def __init__(self, kind: BlockKind, block: JsonFields, room: Room) -> None:
        super().__init__(kind, room)
        self.name = string(block.get("name"))[:LONGEST_NAME]
        self.call_id = string(block.get("id"))
        self.proof = string(block.get("signature"))
        """The part of the signature that has arrived.

        Compatible servers do not sign thinking, but require complete thinking to be sent back.
        """
        if block.get("type") == "redacted_thinking":
            self.signature = json.dumps({"data": string(block.get("data"))})
        if complete_input := block.get("input"):
            self.unstreamed = json.dumps(complete_input)

    def finish(self) -> None:
        if self.kind == "thinking" and self.signature is None:
            self.signature = self.proof


class MessagesReader(AnswerReader):
    """Reads an answer from `/messages`.

    An answer is a list of blocks, each with a start, deltas and an end.
    """

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self._by_place: dict[object, _Block] = {}
        self._reason = ""
        self._stopped = False

    @property
    def _blocks(self) -> Iterable[AnswerBlock]:
        return self._by_place.values()

    @property
    def complete(self) -> bool:
        return bool(self._reason) or self._stopped

    @property
    def over(self) -> bool:
        return self._stopped

    @property
    def overflowed(self) -> bool:
        return self._reason == CONTEXT_WINDOW_EXCEEDED

    def feed(self, piece: object) -> list[ContentChunk]:
        event = mapping(piece)
        match event.get("type"):
            case "message_start":
                self._take_usage(mapping(event.get("message")).get("usage"))
            case "content_block_start":
                return self._begin(
                    event.get("index"), mapping(event.get("content_block"))
                )
            case "content_block_delta":
                block = self._by_place.get(event.get("index"))
                return self._grow(block, mapping(event.get("delta")))
            case "content_block_stop" if ended := self._by_place.get(
                event.get("index")
            ):
                ended.finish()
            case "message_delta":
                self._reason = (
                    string(mapping(event.get("delta")).get("stop_reason"))
                    or self._reason
                )
                self._take_usage(event.get("usage"))
            case "message_stop":
                self._stopped = True
            case (
                "message"
            ):  # The server answered in one piece although a stream was requested.
                return self._complete(event)
        return []

    def _complete(self, message: JsonFields) -> list[ContentChunk]:
        chunks: list[ContentChunk] = []
        for index, value in enumerate(sequence(message.get("content"))):
            chunks += self._begin(index, mapping(value))
        for block in self._by_place.values():
            block.finish()
        self._reason = string(message.get("stop_reason"))
        self._stopped = True
        self._take_usage(message.get("usage"))
        return chunks

    def _begin(self, place: object, value: JsonFields) -> list[ContentChunk]:
        self._room.take_call()
        kind = _KINDS.get(value.get("type"))
        if kind is None:
            return []
        block = _Block(kind, value, self._room)
        self._by_place[place] = block
        return block.grow(string(value.get("text")) + string(value.get("thinking")))

    def _grow(self, block: _Block | None, delta: JsonFields) -> list[ContentChunk]:
        if block is None:
            return []
        block.proof += string(delta.get("signature"))
        text = "".join(
            string(delta.get(name)) for name in ("text", "thinking", "partial_json")
        )
        return block.grow(text) if text else []

    def _stop_reason(self, parts: Sequence[Part]) -> StopReason:
        reason = _STOP_REASONS.get(self._reason)
        return reason or stop_or_calls(parts)

    def _take_usage(self, value: object) -> None:
        """Process the running token counts in an event.

        Their `input_tokens` excludes cached tokens.
        """
        if not mapping(value):
            return
        usage = self._reported_so_far(value)
        cached = count(usage.get("cache_read_input_tokens"))
        written = count(usage.get("cache_creation_input_tokens"))
        lives = mapping(usage.get("cache_creation"))
        details = mapping(usage.get("output_tokens_details"))
        self.usage = Usage(
            input=count(usage.get("input_tokens")) + cached + written,
            cached=cached,
            written=written,
            written_1h=count(lives.get("ephemeral_1h_input_tokens")),
            output=count(usage.get("output_tokens")),
            reasoning=count(details.get("thinking_tokens")),
        )


class MessagesWire(Wire):
    """The `/messages` API.

    Each request contains the complete view, because the server is stateless.
    """

    name = MESSAGES
    path = "/messages"
    answer_reader = MessagesReader

    def cache(self, model: str) -> CacheTerms | None:
        if not self.left_out.sends(MARKS):
            return None
        return marked_terms(self.options.cache_life, self._effort)

    def _body(self, request: Request, model: str) -> JsonObject:
        messages = self._messages(request, model, marks=True)
        leads = bool(messages) and messages[0]["role"] == "system"
        system: list[JsonObject] = []
        if leads:
            system = messages[:1]
            messages = messages[1:]
        # An answer at the end would be read as the beginning of the next answer.
        if messages and messages[-1]["role"] == "assistant":
            messages.append(
                {"role": "user", "content": [text_piece(machine_text("Go on."))]}
            )
        body: JsonObject = {
            "model": model,
            "messages": messages,
            "max_tokens": self._output_limit(request),
            "stream": True,
            "thinking": {"type": "adaptive", "display": "summarized"},
        }
        if system:
            body["system"] = system[0]["content"]
        if request.tools:
            body["tools"] = tools_to_messages(request.tools)
            if self.left_out.sends(MARKS) and not system:
                body["tools"][-1]["cache_control"] = cache_control(
                    self.options.cache_life
                )
            if request.tools_off:
                body["tool_choice"] = {"type": "none"}
        if effort := self._effort:
            body["output_config"] = {"effort": effort}
        return body

    def _output_limit(self, request: Request) -> int:
        return request.max_output or 4_096

    def _begin(self, reader: str) -> _BlockRendering:
        return _BlockRendering(reader)
