"""The parts of messages in the formats of agents: texts, thoughts, images and calls; usage and authors."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from foldline.protocol import (
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.protocol.messages import StopReason

from .base import Json, JsonObject

V = TypeVar("V")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NAMED_KINDS = 8
BESIDE = "A request beside the conversation."
"""The notice of a request that is not part of the conversation, but whose tokens count."""
LONGEST_KIND = 40


def parts_of(content: Json, left_out: list[str]) -> tuple[Part, ...]:
    """Return the parts of a content: a text, or a list of pieces.

    Args:
        left_out: the types of pieces that cannot be shown are added to it.
    """
    if isinstance(content, str):
        return text_parts(content)
    parts: list[Part] = []
    for value in content if isinstance(content, list) else ():
        piece = JsonObject.of(value)
        part = TextPart(text=value) if isinstance(value, str) else _part(piece)
        if part:
            parts.append(part)
        else:
            left_out.append(kind_of(piece))
    return tuple(parts)


def _part(piece: JsonObject) -> Part | None:
    """Return a piece of a message in the format of any agent."""
    return _text_part(piece) or _image_part(piece) or _call_part(piece)


def _text_part(piece: JsonObject) -> TextPart | ThinkingPart | None:
    match piece.kind:
        case "text" | "input_text" | "output_text":
            return TextPart(text=piece.text("text"))
        case "refusal":
            return TextPart(text=piece.text("refusal"))
        case "think":
            return ThinkingPart(text=piece.text("think"), signature=piece.text("encrypted") or None)
        case "thinking":
            signature = piece.first("signature", "thinkingSignature")
            return ThinkingPart(text=piece.text("thinking"), signature=signature or None)
        case "thinking_text":
            return ThinkingPart(text=piece.text("text"))
        case "tool_reference" if piece.text("tool_name"):
            return TextPart(text=f"(loaded the tool {piece.text('tool_name')})")
        case _:
            return None


def _image_part(piece: JsonObject) -> Part | None:
    match piece.kind:
        case "image":
            data = piece.text("data") or piece.text("source", "data")
            return image(data, piece.text("mimeType") or piece.text("source", "media_type"))
        case "image_url" | "input_image":
            return image_at(piece.text("image_url") or piece.text("image_url", "url") or piece.text("url"))
        case "image_file" if piece.text("file_path"):
            return TextPart(text=f"(image: {piece.text('file_path')})")
        case _:
            return None


def _call_part(piece: JsonObject) -> ToolCallPart | None:
    match piece.kind:
        case "tool_use":
            return call_part(piece.text("id"), piece.text("name"), piece.at("input"))
        case "toolCall":
            return call_part(piece.text("id"), piece.text("name"), piece.at("arguments"))
        case "tool_call":
            return call_part(piece.text("call_id"), piece.text("tool_name"), piece.at("arguments_json"))
        case _:
            return None


def image(data: str, media_type: str) -> ImagePart | None:
    return ImagePart(media_type=media_type or "image/png", data=data) if data else None


def image_at(url: str) -> Part | None:
    """Return the image in a `data:` URL. Other URLs become text."""
    head = _DATA_URL.match(url)
    if head:
        return ImagePart(media_type=head[1], data=url[head.end() :])
    return TextPart(text=f"(image: {url})") if url and not url.startswith("data:") else None


def text_in(parts: Iterable[Part], between: str = "\n") -> str:
    return between.join(part.text for part in parts if isinstance(part, TextPart))


def of_kind(pieces: Iterable[JsonObject], kind: str) -> list[JsonObject]:
    """Return the pieces of this type."""
    return [piece for piece in pieces if piece.kind == kind]


def first_text(texts: Iterable[str]) -> str:
    """Return the first text that is not empty, or an empty one."""
    return next(filter(None, texts), "")


# --- calls ------------------------------------------------------------------------------------------


def call_part(call_id: str, name: str, arguments: Json) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, name=name, arguments=arguments_text(arguments))


def tool_call_parts(calls: Json, position: int) -> tuple[ToolCallPart, ...]:
    """Return the calls of an answer in OpenAI's format.

    A call without an id gets one from the answer's position.
    """
    parts: list[ToolCallPart] = []
    for number, call in enumerate(JsonObject(calls=calls).objects("calls")):
        call_id = call.text("id") or f"call_{position}_{number}"
        parts.append(call_part(call_id, call.text("function", "name"), call.at("function", "arguments")))
    return tuple(parts)


def arguments_of(call: ToolCallPart | None) -> JsonObject:
    return JsonObject.of(call.parsed()) if call else JsonObject()


def arguments_text(arguments: Json) -> str:
    """Return arguments as JSON text. Text stays as the model wrote it."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return _COMPACT.encode({} if arguments is None else arguments)


def thinking_parts(text: str) -> tuple[ThinkingPart, ...]:
    """Return a thought as the parts of a message; none for an empty text."""
    return (ThinkingPart(text=text),) if text else ()


def has_image(parts: Iterable[Part]) -> bool:
    return any(isinstance(part, ImagePart) for part in parts)


# --- usage ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UsageFields:
    """An agent's names for the token counts of a request. Each count is the sum of its fields.

    `cache.read` is the field `read` of the field `cache`. `input|prompt` is the first of these that exists.
    """

    input: tuple[str, ...]
    output: tuple[str, ...]
    cached: str
    reasoning: str = "reasoning"

    def read(self, usage: Json) -> Usage | None:
        """Return the usage, unless it is 0 as for an aborted answer."""
        tokens = JsonObject.of(usage)
        reported = Usage(
            input=sum(_count(tokens, name) for name in self.input),
            cached=_count(tokens, self.cached),
            output=sum(_count(tokens, name) for name in self.output),
            reasoning=_count(tokens, self.reasoning),
        )
        return reported if reported.total else None


def _count(tokens: JsonObject, name: str) -> int:
    for path in _paths(name):
        if tokens.at(*path) is not None:
            return tokens.count(*path)
    return 0


@cache
def _paths(name: str) -> list[list[str]]:
    return [path.split(".") for path in name.split("|")]


ANTHROPIC_USAGE = UsageFields(
    input=("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    cached="cache_read_input_tokens",
    output=("output_tokens",),
)


_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop",
    "tool_calls": "tool_calls", "tool-calls": "tool_calls", "tool_use": "tool_calls", "toolUse": "tool_calls",
    "function_call": "tool_calls",
    "length": "length", "max_tokens": "length", "model_context_window_exceeded": "length",
    "content_filter": "filtered", "content-filter": "filtered", "refusal": "filtered",
    "aborted": "cancelled", "error": "error",
}  # fmt: skip


def stop_reason(word: str) -> StopReason | None:
    """Return the reason why an answer ended, from any agent's word."""
    return _STOP_REASONS.get(word)


# --- authors ----------------------------------------------------------------------------------------


def by_voice(pairs: Iterable[tuple[V, Part]]) -> Iterator[tuple[V, tuple[Part, ...]]]:
    """Group the neighbouring parts of one author."""
    for author, group in groupby(pairs, key=itemgetter(0)):
        yield author, tuple(part for _, part in group)


def user_message(parts: tuple[Part, ...], *, typed: bool) -> UserMessage:
    return UserMessage(parts=parts, origin="typed" if typed else "machine")


def user_messages(parts: Iterable[Part], is_program: Callable[[str], bool]) -> list[UserMessage]:
    """Return the messages in the role user: the user's and the program's.

    Args:
        is_program: tells by the text of a part, empty for an image, whether the program wrote it.
    """
    authors = ((is_program(part.text if isinstance(part, TextPart) else ""), part) for part in parts)
    return [user_message(its_parts, typed=not program) for program, its_parts in by_voice(authors)]


# --- notes ------------------------------------------------------------------------------------------


def kind_of(piece: JsonObject) -> str:
    return piece.kind.strip()[:LONGEST_KIND] or "without a type"


def left_out_note(kinds: Iterable[str]) -> tuple[str, ...]:
    named = by_kind(kinds)
    return (f"Left out, pieces of messages of a kind that cannot be shown here: {named}.",) if named else ()


def unknown_note(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence on records of unknown kinds."""
    named = by_kind(kinds)
    return (f"Not in the view, records of kinds unknown here: {named}.",) if named else ()


def counted_notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the notes whose count is not 0."""
    return (note for note, count in counts.items() if count)


def by_kind(kinds: Iterable[str]) -> str:
    """Return `audio (2), document (1)`, the most frequent first."""
    counts = Counter(kinds).most_common()
    names = [f"{kind} ({count})" for kind, count in counts[:_NAMED_KINDS]]
    others = [count for _, count in counts[_NAMED_KINDS:]]
    if others:
        names.append(f"{len(others)} more kinds ({sum(others)})")
    return ", ".join(names)


def beginning_note(*, is_lost: bool) -> tuple[str, ...]:
    return ("The beginning of the session is not in the file.",) if is_lost else ()


def sub_agent_note(by_agent: bool) -> tuple[str, ...]:
    note = "These are the steps of a sub-agent: the agent that started it wrote its prompts."
    return (note,) if by_agent else ()
