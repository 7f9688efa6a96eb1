"""Dialects: how canonical messages become the OpenAI chat messages one kind of server accepts.

Pure and deterministic. Extending a list by whole tool groups or turns extends its rendering: nothing that was
rendered before changes, except that the last rendered message may grow where the dialect merges neighbours.
"""

import hashlib
import re
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from foldline.context.view import extends
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

from .base import ToolSpec
from .marks import Place, blocks_of, request_ends
from .providers import provider_at

ChatMessage = dict[str, Any]
"""One message of `/chat/completions`, ready for JSON."""
Piece = dict[str, Any]
"""A text or an image within a message, ready for JSON."""

NOTE_OPEN, NOTE_CLOSE = "<system-note>", "</system-note>"
_CLOSES_NOTE = re.compile(r"<(?=\s*+/\s*+system-note)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a kind of server accepts. What is not said is as the strictest servers want it."""

    name: str
    merge_system: bool = True
    """One leading system message; what would be a later one becomes marked user text."""
    developer_role: Literal["system", "user"] = "user"
    strict_alternation: bool = True
    """Neighbours of the same role are merged with a blank line."""
    user_first: bool = True
    """The first message after the system message has the role user."""
    reasoning_field: Literal["", "reasoning_content", "reasoning"] = ""
    """Where reasoning goes back; empty: nowhere."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reasons_before_calls: bool = False
    """Tool calls without their reasoning are refused: where there is none, that is said."""
    nine_character_ids: bool = False
    """Ids of tool calls have nine letters and digits, no more and no less."""
    answer_between: bool = False
    """No user message may follow a tool result: a marked answer goes between them."""
    marks_cache: bool = False
    """What a cache is to keep may be marked: see `marks`."""
    signed_calls: bool = False
    """The first tool call of a message carries the signature it came with."""


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
"""What Kimi and DeepSeek were sent before `STRICT_THINKING`; here for requests that were recorded so."""
STRICT_THINKING = replace(STRICT_REASONING, name="strict-thinking", reasons_before_calls=True)
"""Kimi and DeepSeek refuse a thinking model's tool calls that come back without `reasoning_content`, also
where there never was any: calls of another model, or answers given without a thought."""
MISTRAL = Dialect("mistral", nine_character_ids=True, answer_between=True)
GEMINI = Dialect("gemini", signed_calls=True)
"""Gemini refuses calls without their signature (ai.google.dev/gemini-api/docs/thought-signatures)."""
OPENROUTER = Dialect("openrouter", reasoning_field="reasoning", marks_cache=True)

_NAMED = {
    dialect.name: dialect
    for dialect in (OPENAI, STRICT, STRICT_REASONING, STRICT_THINKING, MISTRAL, GEMINI, OPENROUTER)
}

NO_REASONING = "(no reasoning was recorded)"
UNSIGNED = "skip_thought_signature_validator"
"""What Gemini takes for a call that it did not make itself, such as one of another model."""


def dialect_for(base_url: str) -> Dialect:
    """The dialect of the server at `base_url`. Unknown servers get the strictest."""
    known = provider_at(base_url)
    return _NAMED[known.dialect] if known else STRICT


def dialect_named(name: str) -> Dialect | None:
    """The dialect a request was recorded with; None for one that is not ours, or for no server at all."""
    return _NAMED.get(name)


def machine_text(text: str) -> str:
    """Text of ours in the role user, marked so that it is never taken for something the user typed.

    A closing mark inside the text is defused: what a tool or a model wrote cannot step out of the note.
    """
    defused = _CLOSES_NOTE.sub(r"<\\", text)
    return f"{NOTE_OPEN}\n{defused}\n{NOTE_CLOSE}"


def signer(model: str, host: str) -> str:
    """Return the name under which a model at a server signs its reasoning."""
    return f"{model}@{host}"


def can_read(part: ThinkingPart, reader: str) -> bool:
    """Whether reasoning goes back to `reader`, one of `signer`. A bare model name is that model anywhere."""
    return part.signed_by is not None and reader in (part.signed_by, part.signed_by.rpartition("@")[0])


READABLE = ("text", "summary")
"""The field of a block that can be read. A thinking part has it as its text, all else as its signature."""


def details_for(message: AssistantMessage, reader: str) -> list[dict[str, Any]]:
    """Return the reasoning blocks of an answer as they came, for the model and server that signed them."""
    details = []
    for part in message.parts:
        if isinstance(part, ThinkingPart) and part.signature and can_read(part, reader):
            block = (json_object(part.signature) or {}).get(DETAILS)
            if isinstance(block, dict):
                details.append(
                    {name: part.text if name in READABLE else value for name, value in block.items()}
                )
    return details


OPENING = machine_text("The conversation goes on from here.")
"""Stands before a conversation that begins with an answer, where a server wants the user to begin."""


def not_typed(text: str, message: UserMessage) -> str:
    """Text of a user message that the user did not type, marked; of the user's own shell it says so."""
    return machine_text(f"The user ran this in a shell:\n{text}" if message.origin == "shell" else text)


def user_pieces(
    message: UserMessage,
    text: Callable[[str], Piece],
    image: Callable[[ImagePart], Piece],
    says: Callable[[str], object] = bool,
) -> list[Piece]:
    """A user message as the pieces of an API: what the user did not type is marked, the output of a shell as
    one text. Texts of which `says` is false are left out."""
    parts = text_parts(message.text) if message.origin == "shell" else message.parts
    pieces: list[Piece] = []
    for part in parts:
        if isinstance(part, TextPart) and says(part.text):
            pieces.append(text(part.text if message.origin == "typed" else not_typed(part.text, message)))
        elif isinstance(part, ImagePart):
            pieces.append(image(part))
    return pieces + [text(machine_text(line)) for line in checkpoint_line(message)]


_UNSEEN = "A picture stands here. You cannot see pictures: say so if the answer depends on it."


def without_pictures(message: BaseMessage) -> BaseMessage:
    """The message with a note in place of each picture, for a model that takes none."""
    note = TextPart(text=machine_text(_UNSEEN))
    parts = tuple(note if isinstance(part, ImagePart) else part for part in message.parts)
    return message if parts == message.parts else message.model_copy(update={"parts": parts})


def checkpoint_line(message: BaseMessage) -> list[str]:
    """The line at the end of a message that names its checkpoint; empty where there is none."""
    return [] if message.checkpoint is None else [f"CHECKPOINT {message.checkpoint}"]


def reported(message: ToolResultMessage) -> tuple[str, list[ImagePart]]:
    """The text of a result, which is all that a result may hold, and the images to be shown after it."""
    images = [part for part in message.parts if isinstance(part, ImagePart)]
    text = message.text or ("The result is an image; it follows." if images else "")
    return "\n\n".join(filter(None, [text, *map(machine_text, checkpoint_line(message))])), images


def image_note(call_id: str) -> str:
    """What stands before the images of a result."""
    return machine_text(f"What the tool call {call_id} returned as an image:")


def to_openai(messages: Sequence[BaseMessage], dialect: Dialect, reader: str = "") -> list[ChatMessage]:
    """The messages as one request sends them. `reader` is who gets signed reasoning back: see `can_read`.

    Messages with nothing to say (reasoning without text or calls, an empty prompt) are left out.
    """
    return ChatRendering(dialect, reader).add_all(messages).done


def tools_to_openai(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as one request offers them."""
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
    """The messages rendered so far, and the images that wait for the end of their tool group.

    What is rendered may be on its way: it is replaced, never changed.
    """

    def __init__(self, reader: str = "") -> None:
        self.reader = reader
        """Who gets signed reasoning back: see `can_read`."""
        self.done: list[dict[str, Any]] = []
        self.call_ids: set[str] = set()
        self.newest = 0
        """The largest index of an entry."""
        self.summary: Place | None = None
        """The newest summary of a compaction."""
        self.shows_pictures = True
        self._images: list[dict[str, Any]] = []

    @property
    def marks(self) -> list[Place]:
        """See `marks`. Of a system prompt, what a compaction leaves as it is."""
        leads = bool(self.done) and self.done[0]["role"] == "system"
        summary = [self.summary] if self.summary else []
        within = summary[0].block if summary and leads and summary[0].message == 0 else None
        opening = [] if not leads or within == 0 else [Place(0, -1 if within is None else within - 1)]
        return [*opening, *summary, *request_ends(self.done)]

    @abstractmethod
    def instruct(self, message: SystemMessage | DeveloperMessage) -> None: ...

    @abstractmethod
    def ask(self, message: UserMessage) -> None: ...

    @abstractmethod
    def answer(self, message: AssistantMessage) -> None: ...

    @abstractmethod
    def report(self, message: ToolResultMessage) -> None: ...

    @abstractmethod
    def _add_user(self, pieces: list[dict[str, Any]]) -> None: ...

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
            self.summary = Place(len(self.done) - 1, len(blocks_of(self.done[-1]["content"])) - 1)

    def flush_images(self) -> None:
        """Images of tool results go after the whole group: results are text only, and stand together."""
        if self._images:
            pieces, self._images = self._images, []
            self._add_user(pieces)


class Renderings:
    """Renders requests of which most extend the one before: what was rendered is not rendered again."""

    def __init__(self, begin: Callable[[str], MessageRendering]) -> None:
        """`begin` makes an empty one for who gets its reasoning back."""
        self._begin = begin
        self._messages: Sequence[BaseMessage] = ()
        self._rendering = begin("")

    def of(
        self, messages: Sequence[BaseMessage], reader: str = "", *, pictures: bool = True
    ) -> MessageRendering:
        """All of them. It grows with the next request: what is kept of it is to be copied."""
        known = len(self._messages)
        before = self._rendering
        is_same_reader = reader == before.reader and pictures == before.shows_pictures
        if not extends(self._messages, messages) or not is_same_reader:
            known = 0
            self._rendering = self._begin(reader)
            self._rendering.shows_pictures = pictures
        self._messages = (*messages,)
        return self._rendering.add_all(messages[known:])


class ChatRendering(MessageRendering):
    def __init__(self, dialect: Dialect, reader: str = "") -> None:
        super().__init__(reader)
        self.dialect = dialect

    @property
    def _leading(self) -> bool:
        """Whether nothing but system messages has been rendered."""
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
                # Where prefixes are marked, what was there before stays a block of its own.
                together = (
                    [*blocks_of(before), text_piece(text)]
                    if self.dialect.marks_cache
                    else f"{before}\n\n{text}"
                )
                self.done[0] = {"role": "system", "content": together}
            else:
                self.done.append({"role": "system", "content": text})
            self._note_summary(message)
            return
        role = "system" if isinstance(message, SystemMessage) else self.dialect.developer_role
        if role == "user":
            self._add_user([text_piece(machine_text(text))])
        else:
            self.done.append({"role": role, "content": text})

    def ask(self, message: UserMessage) -> None:
        self.flush_images()
        if pieces := user_pieces(message, text_piece, _image):
            self._add_user(pieces)

    def answer(self, message: AssistantMessage) -> None:
        text, calls = message.text, self._calls(message)
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

    def _reasoning(self, message: AssistantMessage, calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the fields in which reasoning goes back."""
        field = self.dialect.reasoning_field
        if details := details_for(message, self.reader):
            # OpenRouter has the text in the blocks.
            return {DETAILS: details} | ({field: message.thinking} if field == "reasoning_content" else {})
        fields: dict[str, Any] = {}
        if self.dialect.marks_cache and _GEMINI.match(self.reader):
            fields = {DETAILS: [_unsigned(call["id"], place) for place, call in enumerate(calls)]}
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

    def _calls(self, message: AssistantMessage) -> list[dict[str, Any]]:
        calls = [_call(call, self._id(call.call_id)) for call in message.calls]
        if self.dialect.signed_calls:
            for number, (part, call) in enumerate(zip(message.calls, calls, strict=True)):
                if signature := part.signature or ("" if number else UNSIGNED):
                    call["extra_content"] = {"google": {"thought_signature": signature}}
        return calls

    def _id(self, call_id: str) -> str:
        return nine_characters(call_id) if self.dialect.nine_character_ids else sent_call_id(call_id)

    def _add_user(self, pieces: list[dict[str, Any]]) -> None:
        last = self.done[-1] if self.done else None
        if self.dialect.answer_between and last is not None and last["role"] == "tool":
            note = machine_text("The turn ended with these results.")
            self.done.append({"role": "assistant", "content": note})
            last = self.done[-1]
        if self.dialect.strict_alternation and last is not None and last["role"] == "user":
            self.done[-1] = {**last, "content": _content([*blocks_of(last["content"]), *pieces])}
        else:
            self.done.append({"role": "user", "content": _content(pieces)})


def _joined(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    """Return two answers as one message; the first calls no tool."""
    joined = {**second, **first}
    for key in ("content", "reasoning_content", "reasoning"):
        if texts := [message[key] for message in (first, second) if message.get(key)]:
            joined[key] = "\n\n".join(texts)
    if details := [*first.get(DETAILS, ()), *second.get(DETAILS, ())]:
        joined[DETAILS] = details
    return joined


_GEMINI = re.compile(r"~?google/gemini", re.IGNORECASE)
"""Its names at OpenRouter."""


def _unsigned(call_id: str, place: int) -> dict[str, Any]:
    """Return the block that OpenRouter takes for a call that Gemini did not make."""
    block = {"type": "reasoning.encrypted", "data": UNSIGNED, "format": "google-gemini-v1"}
    return {**block, "id": call_id, "index": place}


def _content(pieces: Sequence[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Pieces as a content: neighbouring texts joined by a blank line; a plain string where that is all."""
    joined: list[dict[str, Any]] = []
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


def _image(part: ImagePart) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _call(part: ToolCallPart, call_id: str) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {
            "name": function_name(part.name),
            "arguments": part.arguments if json_object(part.arguments) is not None else "{}",
        },
    }


def function_name(name: str) -> str:
    """OpenAI takes letters, digits, `_` and `-`, 64 at most; imported sessions hold other names."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"


def sent_call_id(call_id: str) -> str:
    """OpenAI takes 40 characters; ids of other providers can be longer and must stay distinct."""
    if len(call_id) <= 40:
        return call_id
    return f"{call_id[:23]}_{hashlib.sha256(call_id.encode()).hexdigest()[:16]}"


_ALPHANUMERIC = string.ascii_letters + string.digits


def nine_characters(call_id: str) -> str:
    """Mistral's own ids stay; of others, nine letters and digits: of a million, no two alike in 99.99 %."""
    if len(call_id) == 9 and call_id.isalnum() and call_id.isascii():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest())
    digits = []
    for _ in range(9):
        number, digit = divmod(number, len(_ALPHANUMERIC))
        digits.append(_ALPHANUMERIC[digit])
    return "".join(digits)
