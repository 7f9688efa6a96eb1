"""Anthropic's Messages API: messages as blocks, answers from its events, marks for its cache.

Pure and deterministic, and as stable as a dialect: extending the messages extends the blocks. Thinking goes
back as it came, signature included, to the model and server it came from: another one refuses it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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

from .base import ModelInfo, Request, TextChunk, ThinkingChunk, ToolCallChunk, ToolSpec
from .call_assembly import LONGEST_NAME
from .chat import CONTEXT_WINDOW_EXCEEDED
from .dialect import (
    OPENING,
    MessageRendering,
    Piece,
    can_read,
    checkpoint_line,
    function_name,
    machine_text,
    signer,
    text_piece,
    user_pieces,
)
from .marks import cache_control, marked_terms
from .own_fields import MARKS
from .wire import (
    AnswerReader,
    Expected,
    Growing,
    Room,
    Said,
    Wire,
    arguments_of,
    count,
    mapping,
    sequence,
    string,
)

MESSAGES = "messages"
"""The dialect that is recorded with each request of this API."""


def to_messages(messages: Sequence[BaseMessage], reader: str) -> list[dict[str, Any]]:
    """The messages as one request sends them; the system prompt, which has a place of its own there, as the
    first. `reader` is who gets its thinking back: see `dialect.can_read`.

    Messages with nothing to say (thinking without text or calls, an empty prompt) are left out.
    """
    return _Rendering(reader).add_all(messages).done


def tools_to_messages(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as one request offers them."""
    return [
        {
            "name": function_name(tool.name),
            "description": tool.description,
            "input_schema": tool.parameters,
        }
        for tool in tools
    ]


class _Rendering(MessageRendering):
    """Neighbours of the same role are one message of several blocks."""

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
        blocks = user_pieces(message, text_piece, _image, says=str.strip)  # Blank texts are refused.
        if blocks:
            self._add_user(blocks)

    def answer(self, message: AssistantMessage) -> None:
        """Parts in the order in which they came. Thinking goes only with text or a call that follows it."""
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
        content: list[Piece] = [text_piece(message.text)] if message.text.strip() else []
        content += [_image(part) for part in message.parts if isinstance(part, ImagePart)]
        content += [text_piece(machine_text(line)) for line in checkpoint_line(message)]
        block: Piece = {"type": "tool_result", "tool_use_id": _id(message.call_id)}
        said = {"content": content} if content else {}
        self._add_user([block | said | ({"is_error": True} if message.is_error else {})])

    def _add_user(self, pieces: list[Piece]) -> None:
        self._add("user", pieces)

    def _add(self, role: str, blocks: list[Piece]) -> None:
        if self.done and self.done[-1]["role"] == role:
            self.done[-1] = {"role": role, "content": [*self.done[-1]["content"], *blocks]}
        else:
            self.done.append({"role": role, "content": blocks})


def _image(part: ImagePart) -> Piece:
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _call(part: ToolCallPart) -> Piece:
    # What is no object was written by no model of theirs, which gets it back as an object.
    return {
        "type": "tool_use",
        "id": _id(part.call_id),
        "name": function_name(part.name),
        "input": json_object(part.arguments) or {},
    }


def _thinking(part: ThinkingPart, reader: str) -> list[Piece]:
    """The block as its model knows it; none for another reader, and none that was cut off."""
    if part.signature is None or not can_read(part, reader):
        return []
    if redacted := (json_object(part.signature) or {}).get("data"):
        return [{"type": "redacted_thinking", "data": redacted}]
    return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]


def _id(call_id: str) -> str:
    """Letters, digits, `_` and `-`; ids of other providers must stay distinct."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


_STOP_REASONS: Mapping[str, StopReason] = {
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "filtered",
}


class _Block:
    """One block of the answer, while it arrives."""

    def __init__(self, block: Mapping[str, object], room: Room) -> None:
        self.kind = string(block.get("type"))
        self.name = string(block.get("name"))[:LONGEST_NAME]
        self.call_id = string(block.get("id"))
        self.text = Growing(room, watched=self.kind != "tool_use")
        """What it says; of a call, its input."""
        self.data = string(block.get("data"))
        """Of thinking that nobody may read."""
        self.signature = string(block.get("signature"))
        self.ended = False
        given = block.get("input")
        self.given = json.dumps(given) if given else ""
        """Input that came whole, as some servers send it."""

    def grow(self, text: str) -> Said | None:
        """Adds a piece; what can be shown of it now."""
        new = self.text.add(text)
        match self.kind:
            case "tool_use":
                return ToolCallChunk(self.name, new)
            case "text" if new:
                return TextChunk(new)
            case "thinking" if new:
                return ThinkingChunk(new)
            case _:
                return None


class MessagesReader(AnswerReader):
    """One answer of `/messages`: a list of blocks, each begun, grown and ended."""

    def __init__(self, expected: Expected, signer: str) -> None:
        """`signer` is who can read the thinking again: see `ThinkingPart.signed_by`."""
        super().__init__(expected)
        self._signer = signer
        self._blocks: dict[object, _Block] = {}
        self._reason = ""
        self._stopped = False

    @property
    def started(self) -> bool:
        return any(block.text or block.name for block in self._blocks.values())

    @property
    def complete(self) -> bool:
        return bool(self._reason) or self._stopped

    @property
    def over(self) -> bool:
        return self._stopped

    @property
    def overflowed(self) -> bool:
        return self._reason == CONTEXT_WINDOW_EXCEEDED

    def feed(self, piece: object) -> list[Said]:
        event = mapping(piece)
        match event.get("type"):
            case "message_start":
                self._take_usage(mapping(event.get("message")).get("usage"))
            case "content_block_start":
                return self._begin(event.get("index"), mapping(event.get("content_block")))
            case "content_block_delta":
                return self._grow(self._blocks.get(event.get("index")), mapping(event.get("delta")))
            case "content_block_stop" if block := self._blocks.get(event.get("index")):
                block.ended = True
            case "message_delta":
                self._reason = string(mapping(event.get("delta")).get("stop_reason")) or self._reason
                self._take_usage(event.get("usage"))
            case "message_stop":
                self._stopped = True
            case "message":  # Asked for a stream, it answers in one piece.
                return self._whole(event)
        return []

    def _whole(self, message: Mapping[str, object]) -> list[Said]:
        said: list[Said] = []
        for place, value in enumerate(sequence(message.get("content"))):
            said += self._begin(place, mapping(value))
            self._blocks[place].ended = True
        self._reason, self._stopped = string(message.get("stop_reason")), True
        self._take_usage(message.get("usage"))
        return said

    def _begin(self, place: object, value: Mapping[str, object]) -> list[Said]:
        self._room.take_call()
        block = self._blocks[place] = _Block(value, self._room)
        said = block.grow(string(value.get("text")) + string(value.get("thinking")))
        return [said] if said else []

    def _grow(self, block: _Block | None, delta: Mapping[str, object]) -> list[Said]:
        if block is None:
            return []
        block.signature += string(delta.get("signature"))
        text = "".join(string(delta.get(name)) for name in ("text", "thinking", "partial_json"))
        said = block.grow(text) if text else None
        return [said] if said else []

    def _parts(self) -> list[Part]:
        ids = self._call_ids()
        parts: list[Part] = []
        for number, block in enumerate(self._blocks.values()):
            text = str(block.text)
            match block.kind:
                case "text" if text:
                    parts.append(TextPart(text=text))
                case "thinking" if text or block.signature:
                    # Compatible servers sign nothing, and want it back all the same, once it is whole.
                    proof = {"signature": block.signature, "signed_by": self._signer} if block.ended else {}
                    parts.append(ThinkingPart(text=text, **proof))
                case "redacted_thinking":
                    sealed = json.dumps({"data": block.data})
                    parts.append(ThinkingPart(text="", signature=sealed, signed_by=self._signer))
                case "tool_use" if self._is_call(block.name, text):
                    call_id, said = ids.unique(block.call_id, number), arguments_of(text or block.given)
                    parts.append(ToolCallPart(call_id=call_id, name=block.name, arguments=said))
        return parts

    def _stop_reason(self, parts: Sequence[Part]) -> StopReason:
        reason = _STOP_REASONS.get(self._reason, "stop")
        if reason in ("stop", "tool_calls"):
            return "tool_calls" if any(isinstance(part, ToolCallPart) for part in parts) else "stop"
        return reason

    def _take_usage(self, value: object) -> None:
        """The numbers of an event are those of the answer so far; `input_tokens` leaves out cached ones."""
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
    """`/messages`. The server keeps nothing but its cache: each request carries the whole view."""

    name = MESSAGES
    path = "/messages"

    def cache(self, model: str) -> CacheTerms | None:
        return marked_terms(self.options.cache_life, self._effort) if self.left_out.sends(MARKS) else None

    def _body(self, request: Request, model: str) -> dict[str, Any]:
        messages = self._messages(request, model, marks=True)
        leads = bool(messages) and messages[0]["role"] == "system"
        system, messages = (messages[:1], messages[1:]) if leads else ([], messages)
        if messages and messages[-1]["role"] == "assistant":  # It would be taken for the start of an answer.
            messages.append({"role": "user", "content": [text_piece(machine_text("Go on."))]})
        body: dict[str, Any] = {
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
                body["tools"][-1]["cache_control"] = cache_control(self.options.cache_life)
            if request.tools_off:
                body["tool_choice"] = {"type": "none"}
        if effort := self._effort:
            body["output_config"] = {"effort": effort}
        return body

    def _output_limit(self, request: Request) -> int:
        return request.max_output or 4_096

    def reading(self, request: Request, info: ModelInfo) -> MessagesReader:
        return MessagesReader(self._expected(request, info), signer(info.id, self._host))

    def _begin(self, reader: str) -> _Rendering:
        return _Rendering(reader)
