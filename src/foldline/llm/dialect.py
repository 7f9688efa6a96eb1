"""Renders messages as OpenAI chat messages, in the dialects of different servers.

Rendering is pure and deterministic. If complete tool groups or turns are appended to a list of messages, its
rendering is only extended: the messages rendered earlier stay unchanged, except that the last one may grow if
the dialect merges neighbours.
"""

import hashlib
import re
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, Self

from foldline.fast_dataclass import dataclass
from foldline.json_text import JsonObject
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.protocol.messages import DETAILS, json_object
from foldline.view.items import extends

from .base import ToolSpec
from .marks import MarkPosition, blocks_of, request_ends
from .providers import provider_at

ChatMessage = JsonObject
"""A `/chat/completions` message, ready to be encoded as JSON."""
Piece = JsonObject
"""A text or image part of a message, ready to be encoded as JSON."""

NOTE_OPEN, NOTE_CLOSE = "<system-note>", "</system-note>"
_CLOSES_NOTE = re.compile(r"<(?=\s*+/\s*+system-note)", re.IGNORECASE)


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


def machine_text(text: str) -> str:
    """Enclose the program's own text in a system note.

    The note shows that the user did not write the text, which is sent in the role "user". A closing tag
    inside the text is neutralised, so that text from a tool or model cannot end the note.
    """
    defused = _CLOSES_NOTE.sub(r"<\\", text)
    return f"{NOTE_OPEN}\n{defused}\n{NOTE_CLOSE}"


def signer(model: str, host: str) -> str:
    """Return the name under which a server's model signs its reasoning."""
    return f"{model}@{host}"


def can_read(part: ThinkingPart, reader: str) -> bool:
    """Return whether reasoning may be sent back to a model.

    Args:
        reader: the model's name, as returned by `signer`. A bare model name means that model on any server.
    """
    return part.signed_by is not None and reader in (
        part.signed_by,
        part.signed_by.rpartition("@")[0],
    )


READABLE = ("text", "summary")
"""Fields of a reasoning block that may contain readable text.

The readable text becomes the text of a thinking part. All other fields become its signature.
"""


def details_for(message: AssistantMessage, reader: str) -> list[JsonObject]:
    """Return an answer's original reasoning blocks, if the reader signed them."""
    details = []
    for part in message.parts:
        if isinstance(part, ThinkingPart) and part.signature and can_read(part, reader):
            block = (json_object(part.signature) or {}).get(DETAILS)
            if isinstance(block, dict):
                details.append(
                    {
                        name: part.text if name in READABLE else value
                        for name, value in block.items()
                    }
                )
    return details


OPENING = machine_text("The conversation goes on from here.")
"""User message inserted before a conversation that begins with an answer.

Some servers require the first message to be from the user.
"""


def not_typed(text: str, message: UserMessage) -> str:
    """Enclose text in a system note, if it is part of a user message but the user did not type it."""
    if message.origin == "shell":
        text = f"The user ran this in a shell:\n{text}"
    return machine_text(text)


def user_pieces(
    message: UserMessage,
    text: Callable[[str], Piece],
    image: Callable[[ImagePart], Piece],
    says: Callable[[str], object] = bool,
) -> list[Piece]:
    """Convert a user message to an API's content pieces.

    Text that the user did not type is enclosed in a system note. Shell output, and a prompt with attached
    text, are each converted to a single piece.

    Args:
        text: converts a string.
        image: converts an image.
        says: returns whether a string is sent. Other strings are left out.
    """
    parts = message.parts
    if message.origin == "shell" or message.attached:
        images = (part for part in parts if isinstance(part, ImagePart))
        parts = (*text_parts(message.text), *images)
    pieces: list[Piece] = []
    for part in parts:
        if isinstance(part, TextPart) and says(part.text):
            pieces.append(
                text(
                    part.text
                    if message.origin == "typed"
                    else not_typed(part.text, message)
                )
            )
        elif isinstance(part, ImagePart):
            pieces.append(image(part))
    return pieces + [text(machine_text(line)) for line in checkpoint_line(message)]


_UNSEEN = "A picture stands here. You cannot see pictures: say so if the answer depends on it."


def without_pictures(message: BaseMessage) -> BaseMessage:
    """Replace each image of a message with a note.

    Used for models that accept no images.
    """
    note = TextPart(text=machine_text(_UNSEEN))
    parts = tuple(
        note if isinstance(part, ImagePart) else part for part in message.parts
    )
    return message.model_copy(update={"parts": parts})


def checkpoint_line(message: BaseMessage) -> list[str]:
    """Return the line that names a message's checkpoint.

    Returns an empty list if the message has none.
    """
    return [] if message.checkpoint is None else [f"CHECKPOINT {message.checkpoint}"]


def reported(message: ToolResultMessage) -> tuple[str, list[ImagePart]]:
    """Return a result's text, and its images.

    The images are sent after the result, because results can only contain text.
    """
    images = [part for part in message.parts if isinstance(part, ImagePart)]
    text = message.text
    if images and not text:
        text = "The result is an image; it follows."
    lines = [text, *map(machine_text, checkpoint_line(message))]
    return "\n\n".join(filter(None, lines)), images


def image_note(call_id: str) -> str:
    """Return the line that is sent before a result's images."""
    return machine_text(f"What the tool call {call_id} returned as an image:")


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


class MessageRendering(ABC):
    """Renders messages one by one.

    Images of tool results are added at the end of their tool group.

    A request may still be using a rendered message, so messages are replaced and never modified.
    """

    def __init__(self, reader: str = "") -> None:
        self.reader = reader
        """The model to which its own signed reasoning is sent back (`can_read`)."""
        self.done: list[JsonObject] = []
        self.call_ids: set[str] = set()
        self.newest = 0
        """The highest entry index rendered so far."""
        self.summary: MarkPosition | None = None
        """Position of the newest summary."""
        self.shows_pictures = True
        self._images: list[JsonObject] = []

    @property
    def marks(self) -> list[MarkPosition]:
        """Positions of cache marks (`marks`).

        In a system prompt, the mark is placed at the end of the part that no compaction changes.
        """
        positions = request_ends(self.done)
        if self.summary is not None:
            positions.insert(0, self.summary)
        if not self.done or self.done[0]["role"] != "system":
            return positions
        if self.summary is None or self.summary.message > 0:
            return [MarkPosition(0), *positions]
        if self.summary.block == 0:  # nothing precedes the summary
            return positions
        return [MarkPosition(0, self.summary.block - 1), *positions]

    @abstractmethod
    def instruct(self, message: SystemMessage | DeveloperMessage) -> None: ...

    @abstractmethod
    def ask(self, message: UserMessage) -> None: ...

    @abstractmethod
    def answer(self, message: AssistantMessage) -> None: ...

    @abstractmethod
    def report(self, message: ToolResultMessage) -> None: ...

    @abstractmethod
    def _add_user(self, pieces: list[JsonObject]) -> None: ...

    def add(self, message: BaseMessage) -> None:
        self.newest = max(self.newest, message.index)
        if not self.shows_pictures:
            message = without_pictures(message)
        match message:
            case SystemMessage() | DeveloperMessage():
                self.instruct(message)
            case UserMessage():
                self.ask(message)
            case AssistantMessage():
                self.call_ids.update(call.call_id for call in message.calls)
                self.answer(message)
            case ToolResultMessage():
                self.report(message)
            case _:
                raise TypeError(message.type)

    def add_all(self, messages: Iterable[BaseMessage]) -> Self:
        for message in messages:
            self.add(message)
        self.flush_images()
        return self

    def _note_summary(self, message: BaseMessage) -> None:
        if isinstance(message, SystemMessage) and message.origin == "summary":
            self.summary = MarkPosition(
                len(self.done) - 1, len(blocks_of(self.done[-1]["content"])) - 1
            )

    def flush_images(self) -> None:
        """Append the images of tool results after their group.

        The results themselves must be adjacent.
        """
        if self._images:
            pieces = self._images
            self._images = []
            self._add_user(pieces)


class Renderings:
    """Renders requests incrementally.

    This is possible because most requests extend the previous one.
    """

    def __init__(self, begin: Callable[[str], MessageRendering]) -> None:
        """
        Args:
            begin: returns an empty rendering for a model.
        """
        self._begin = begin
        self._messages: Sequence[BaseMessage] = ()
        self._rendering = begin("")

    def of(
        self,
        messages: Sequence[BaseMessage],
        reader: str = "",
        *,
        pictures: bool = True,
    ) -> MessageRendering:
        """Render all messages.

        The next call may extend the returned object. Copy its messages to keep them.
        """
        rendered = len(self._messages)
        before = self._rendering
        is_same_reader = reader == before.reader and pictures == before.shows_pictures
        if not extends(self._messages, messages) or not is_same_reader:
            rendered = 0
            self._rendering = self._begin(reader)
            self._rendering.shows_pictures = pictures
        self._messages = (*messages,)
        return self._rendering.add_all(messages[rendered:])


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


def sent_arguments(part: ToolCallPart) -> str:
    """Return a call's arguments as received.

    Arguments that are not a JSON object are replaced by an empty object.
    """
    return part.arguments if json_object(part.arguments) is not None else "{}"


def function_name(name: str) -> str:
    """Convert a tool's name to OpenAI's form: up to 64 letters, digits, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"


def sent_call_id(call_id: str) -> str:
    """Shorten a call id to OpenAI's limit of 40 characters, keeping ids distinct."""
    if len(call_id) <= 40:
        return call_id
    return f"{call_id[:23]}_{hashlib.sha256(call_id.encode()).hexdigest()[:16]}"


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
