"""Renders messages as OpenAI chat messages, in the dialects of different servers."""

import hashlib
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from foldline.json_text import JsonObject
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.protocol.messages import DETAILS

from .base import ToolSpec
from .marks import blocks_of
from .providers import provider_at
from .rendering import (
    OPENING,
    MessageRendering,
    Piece,
    checkpoint_line,
    details_for,
    function_name,
    image_note,
    machine_text,
    reported,
    sent_arguments,
    sent_call_id,
    user_pieces,
)

ChatMessage = JsonObject
"""A `/chat/completions` message, ready to be encoded as JSON."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The message format that a server accepts.

    The defaults suit the strictest servers.
    """

    name: str
    merge_system: bool = True
    """Whether only one leading system message is allowed.

    Later system messages are then sent as system notes in the role "user".
    """
    developer_role: Literal["system", "user"] = "user"
    strict_alternation: bool = True
    """Whether neighbouring messages of the same role are merged.

    Their contents are separated by a blank line.
    """
    user_first: bool = True
    """Whether the first message after the system message must have the role "user"."""
    reasoning_field: Literal["", "reasoning_content", "reasoning"] = ""
    """Field in which reasoning is sent back; empty if it is not sent back."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reasons_before_calls: bool = False
    """Whether tool calls without reasoning are rejected.

    Missing reasoning is then replaced by a note.
    """
    nine_character_ids: bool = False
    """Whether ids of tool calls must consist of exactly nine letters and digits."""
    answer_between: bool = False
    """Whether a user message must not follow a tool result.

    An answer, marked as inserted, is then placed between them.
    """
    marks_cache: bool = False
    """Whether the server accepts cache marks (`marks`)."""
    signed_calls: bool = False
    """Whether tool calls are sent back with their signatures.

    The first call of a message must have one.
    """


OPENAI = Dialect(
    "openai",
    merge_system=False,
    developer_role="system",
    strict_alternation=False,
    user_first=False,
    max_tokens_field="max_completion_tokens",
)
STRICT = Dialect("strict")
STRICT_REASONING = Dialect("strict-reasoning", reasoning_field="reasoning_content")
"""Former dialect for Kimi and DeepSeek, replaced by `STRICT_THINKING`.

It is kept for requests recorded with it.
"""
STRICT_THINKING = replace(
    STRICT_REASONING, name="strict-thinking", reasons_before_calls=True
)
"""Dialect for Kimi and DeepSeek.

Their thinking models reject tool calls without `reasoning_content`. This includes calls that another model
made, and calls that were made without reasoning.
"""
MISTRAL = Dialect("mistral", nine_character_ids=True, answer_between=True)
GEMINI = Dialect("gemini", signed_calls=True)
"""Dialect for Gemini, which rejects calls without a signature.

See ai.google.dev/gemini-api/docs/thought-signatures.
"""
OPENROUTER = Dialect("openrouter", reasoning_field="reasoning", marks_cache=True)

_NAMED = {
    dialect.name: dialect
    for dialect in (
        OPENAI,
        STRICT,
        STRICT_REASONING,
        STRICT_THINKING,
        MISTRAL,
        GEMINI,
        OPENROUTER,
    )
}

NO_REASONING = "(no reasoning was recorded)"
UNSIGNED = "skip_thought_signature_validator"
"""Signature that Gemini accepts for calls that another model made."""


def dialect_for(base_url: str) -> Dialect:
    """Return the dialect of the server at `base_url`.

    For an unknown server, returns the strictest dialect.
    """
    provider = provider_at(base_url)
    return _NAMED[provider.dialect] if provider else STRICT


def dialect_named(name: str) -> Dialect | None:
    """Return the dialect with this name, as recorded in a request, if it exists."""
    return _NAMED.get(name)


def to_openai(
    messages: Sequence[BaseMessage], dialect: Dialect, reader: str = ""
) -> list[ChatMessage]:
    """Render messages for a request.

    Messages without content are left out: reasoning without text or calls, and empty prompts.

    Args:
        reader: the model to which its own signed reasoning is sent back (`can_read`).
    """
    return ChatRendering(dialect, reader).add_all(messages).done


def tools_to_openai(tools: Iterable[ToolSpec]) -> list[JsonObject]:
    """Render a request's tools."""
    return [
        {
            "type": "function",
            "function": {
                "name": function_name(tool.name),
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


class ChatRendering(MessageRendering):
    def __init__(self, dialect: Dialect, reader: str = "") -> None:
        super().__init__(reader)
        self.dialect = dialect

    @property
    def _leading(self) -> bool:
        """Return whether only system messages have been rendered so far."""
        return all(message["role"] in ("system", "developer") for message in self.done)

    def instruct(self, message: SystemMessage | DeveloperMessage) -> None:
        text = message.text
        if not text:
            return
        text = "\n\n".join([text, *checkpoint_line(message)])
        self.flush_images()
        if self.dialect.merge_system:
            if not self._leading:
                self._add_user([text_piece(machine_text(text))])
            elif self.done:
                before = self.done[0]["content"]
                content: str | list[Piece] = f"{before}\n\n{text}"
                if self.dialect.marks_cache:  # keep the block that may have a mark
                    content = [*blocks_of(before), text_piece(text)]
                self.done[0] = {"role": "system", "content": content}
            else:
                self.done.append({"role": "system", "content": text})
            self._note_summary(message)
            return
        role = (
            "system"
            if isinstance(message, SystemMessage)
            else self.dialect.developer_role
        )
        if role == "user":
            self._add_user([text_piece(machine_text(text))])
        else:
            self.done.append({"role": role, "content": text})

    def ask(self, message: UserMessage) -> None:
        self.flush_images()
        if pieces := user_pieces(message, text_piece, _image):
            self._add_user(pieces)

    def answer(self, message: AssistantMessage) -> None:
        text = message.text
        calls = self._calls(message)
        if not text and not calls:
            return
        self.flush_images()
        if self.dialect.user_first and self._leading:
            self._add_user([text_piece(OPENING)])
        rendered: ChatMessage = {"role": "assistant", "content": text or None}
        rendered |= self._reasoning(message, calls)
        if calls:
            rendered["tool_calls"] = calls
        last = self.done[-1] if self.done else {}
        joins = self.dialect.strict_alternation and last.get("role") == "assistant"
        if joins and "tool_calls" not in last:
            self.done[-1] = _joined(last, rendered)
        else:
            self.done.append(rendered)

    def _reasoning(
        self, message: AssistantMessage, calls: Sequence[JsonObject]
    ) -> JsonObject:
        """Return the fields in which reasoning is sent back."""
        field = self.dialect.reasoning_field
        if details := details_for(message, self.reader):
            fields: JsonObject = {DETAILS: details}
            if (
                field == "reasoning_content"
            ):  # for OpenRouter, the blocks contain the text
                fields[field] = message.thinking
            return fields
        fields = {}
        if self.dialect.marks_cache and _GEMINI.match(self.reader):
            fields = {
                DETAILS: [
                    _unsigned(call["id"], place) for place, call in enumerate(calls)
                ]
            }
        must_say = calls and self.dialect.reasons_before_calls
        thinking = message.thinking or (NO_REASONING if must_say else "")
        if field and thinking:
            fields[field] = thinking
        return {name: value for name, value in fields.items() if value}

    def report(self, message: ToolResultMessage) -> None:
        call_id = self._id(message.call_id)
        text, images = reported(message)
        if images:
            self._images += [text_piece(image_note(call_id)), *map(_image, images)]
        self.done.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def _calls(self, message: AssistantMessage) -> list[JsonObject]:
        calls = [_call(call, self._id(call.call_id)) for call in message.calls]
        if self.dialect.signed_calls:
            for number, (part, call) in enumerate(
                zip(message.calls, calls, strict=True)
            ):
                if signature := part.signature or ("" if number else UNSIGNED):
                    call["extra_content"] = {"google": {"thought_signature": signature}}
        return calls

    def _id(self, call_id: str) -> str:
        if self.dialect.nine_character_ids:
            return nine_characters(call_id)
        return sent_call_id(call_id)

    def _add_user(self, pieces: list[JsonObject]) -> None:
        last = self.done[-1] if self.done else None
        if self.dialect.answer_between and last is not None and last["role"] == "tool":
            note = machine_text("The turn ended with these results.")
            self.done.append({"role": "assistant", "content": note})
            last = self.done[-1]
        if (
            self.dialect.strict_alternation
            and last is not None
            and last["role"] == "user"
        ):
            self.done[-1] = {
                **last,
                "content": _content([*blocks_of(last["content"]), *pieces]),
            }
        else:
            self.done.append({"role": "user", "content": _content(pieces)})


def _joined(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    """Join two answers. The first answer must not contain calls."""
    joined = {**second, **first}
    for key in ("content", "reasoning_content", "reasoning"):
        if texts := [message[key] for message in (first, second) if message.get(key)]:
            joined[key] = "\n\n".join(texts)
    if details := [*first.get(DETAILS, ()), *second.get(DETAILS, ())]:
        joined[DETAILS] = details
    return joined


_GEMINI = re.compile(r"~?google/gemini", re.IGNORECASE)
"""Matches the names of Gemini models at OpenRouter."""


def _unsigned(call_id: str, place: int) -> JsonObject:
    """Return the block that OpenRouter accepts for a call made by another model than Gemini."""
    return {
        "type": "reasoning.encrypted",
        "data": UNSIGNED,
        "format": "google-gemini-v1",
        "id": call_id,
        "index": place,
    }


def _content(pieces: Sequence[JsonObject]) -> str | list[JsonObject]:
    """Join neighbouring texts, separated by a blank line.

    If only one text remains, it is returned as a string.
    """
    joined: list[JsonObject] = []
    for piece in pieces:
        if piece["type"] == "text" and joined and joined[-1]["type"] == "text":
            joined[-1] = text_piece(f"{joined[-1]['text']}\n\n{piece['text']}")
        else:
            joined.append(piece)
    if len(joined) == 1 and joined[0]["type"] == "text":
        text: str = joined[0]["text"]
        return text
    return joined


def text_piece(text: str) -> Piece:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> JsonObject:
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{part.media_type};base64,{part.data}"},
    }


def _call(part: ToolCallPart, call_id: str) -> JsonObject:
    return {
        "id": call_id,
        "type": "function",
        "function": {
            "name": function_name(part.name),
            "arguments": sent_arguments(part),
        },
    }


_ALPHANUMERIC = string.ascii_letters + string.digits


def nine_characters(call_id: str) -> str:
    """Convert a call id to nine letters and digits, if necessary.

    A million converted ids are all distinct with a probability of 99.99 %.
    """
    if len(call_id) == 9 and call_id.isalnum() and call_id.isascii():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest())
    digits = []
    for _ in range(9):
        number, digit = divmod(number, len(_ALPHANUMERIC))
        digits.append(_ALPHANUMERIC[digit])
    return "".join(digits)
