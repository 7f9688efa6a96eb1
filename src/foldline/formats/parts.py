"""Converts the parts of other agents' messages, and writes notes for users."""

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
from foldline.text.numbers import many

from .base import Json, JsonObject

V = TypeVar("V")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NAMED_KINDS = 8
BESIDE = "A request outside the conversation."
"""The notice for a request outside the conversation.

The request's tokens are counted.
"""
LEFT_OUT = "Left out: message parts of unsupported types: {kinds}."
UNKNOWN_RECORDS = "Not in the view: records of unknown types: {kinds}."
BEGINNING_LOST = "The beginning of the session is not in the file."
BY_SUBAGENT = "This is a subagent's session: its prompts were written by the agent that started it."
PROMPT_CHANGED = (
    "The system prompt changed during the session. Only the last one is shown."
)
OTHER_BRANCHES = (
    "{messages} on other branches than the current one. Use /rewind to see them."
)
BROKEN_CHAIN = "The chain of records has {gaps}. At each gap, the preceding record was used as the parent."
LOST_CUTS = "{compactions} to kept messages that are not in the file: nothing before them is kept."
LONGEST_KIND = 40
"""Maximum length of a record's type in notes, in characters.

Longer types are cut off.
"""


def parts_of(content: Json, left_out: list[str]) -> tuple[Part, ...]:
    """Convert a message's content, which is a string or a list of pieces.

    Args:
        left_out: receives the types of pieces that are not supported.
    """
    if isinstance(content, str):
        return text_parts(content)
    parts: list[Part] = []
    values = content if isinstance(content, list) else []
    for value in values:
        if isinstance(value, str):
            parts.append(TextPart(text=value))
            continue
        piece = JsonObject.of(value)
        part = _text_part(piece) or _image_part(piece) or _call_part(piece)
        if part:
            parts.append(part)
        else:
            left_out.append(kind_of(piece))
    return tuple(parts)


def _text_part(piece: JsonObject) -> TextPart | ThinkingPart | None:
    match piece.kind:
        case "text" | "input_text" | "output_text":
            return TextPart(text=piece.text("text"))
        case "refusal":
            return TextPart(text=piece.text("refusal"))
        case "think":
            return ThinkingPart(
                text=piece.text("think"), signature=piece.text("encrypted") or None
            )
        case "thinking":
            signature = piece.first("signature", "thinkingSignature")
            return ThinkingPart(
                text=piece.text("thinking"), signature=signature or None
            )
        case "thinking_text":
            return ThinkingPart(text=piece.text("text"))
        case "tool_reference" if piece.text("tool_name"):
            return TextPart(text=f"(loaded the tool {piece.text('tool_name')})")
        case _:
            return None


def _image_part(piece: JsonObject) -> Part | None:
    match piece.kind:
        case "image":
            source = piece.object("source")
            data = piece.text("data") or source.text("data")
            return image(data, piece.text("mimeType") or source.text("media_type"))
        case "image_url" | "input_image":
            url = piece.text("image_url") or piece.text("image_url", "url")
            return image_at(url or piece.text("url"))
        case "image_file" if piece.text("file_path"):
            return TextPart(text=f"(image: {piece.text('file_path')})")
        case _:
            return None


def _call_part(piece: JsonObject) -> ToolCallPart | None:
    fields = _CALL_FIELDS.get(piece.kind)
    if fields is None:
        return None
    call_id, name, arguments = fields
    return call_part(piece.text(call_id), piece.text(name), piece.get(arguments))


_CALL_FIELDS = {
    "tool_use": ("id", "name", "input"),
    "toolCall": ("id", "name", "arguments"),
    "tool_call": ("call_id", "tool_name", "arguments_json"),
}
"""For each type of call, the fields that contain its id, name and arguments."""


def image(data: str, media_type: str) -> ImagePart | None:
    return ImagePart(media_type=media_type or "image/png", data=data) if data else None


def image_at(url: str) -> Part | None:
    """Return the image in a `data:` URL.

    For any other URL, returns a text part.

    Returns None if the URL is invalid.
    """
    head = _DATA_URL.match(url)
    if head:
        return ImagePart(media_type=head[1], data=url[head.end() :])
    if not url or url.startswith("data:"):
        return None
    return TextPart(text=f"(image: {url})")


def text_in(parts: Iterable[Part], between: str = "\n") -> str:
    return between.join(part.text for part in parts if isinstance(part, TextPart))


def of_kind(pieces: Iterable[JsonObject], kind: str) -> list[JsonObject]:
    return [piece for piece in pieces if piece.kind == kind]


def first_text(texts: Iterable[str]) -> str:
    """Return the first non-empty string; otherwise an empty string."""
    return next(filter(None, texts), "")


# --- calls ------------------------------------------------------------------------------------------


def call_part(call_id: str, name: str, arguments: Json) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, name=name, arguments=arguments_text(arguments))


def tool_call_parts(calls: Json, position: int) -> tuple[ToolCallPart, ...]:
    """Return the calls in an answer that is in OpenAI's format.

    A call without an id gets an id that is derived from the answer's position.
    """
    parts: list[ToolCallPart] = []
    for number, call in enumerate(JsonObject(calls=calls).objects("calls")):
        call_id = call.text("id") or f"call_{position}_{number}"
        parts.append(
            call_part(
                call_id, call.text("function", "name"), call.at("function", "arguments")
            )
        )
    return tuple(parts)


def arguments_of(call: ToolCallPart | None) -> JsonObject:
    return JsonObject.of(call.parsed()) if call else JsonObject()


def arguments_text(arguments: Json) -> str:
    """Return a call's arguments as JSON text.

    A string is returned unchanged, as the model wrote it.
    """
    if isinstance(arguments, str):
        return arguments or "{}"
    return _COMPACT.encode({} if arguments is None else arguments)


def thinking_parts(text: str) -> tuple[ThinkingPart, ...]:
    """Convert a thought to message parts.

    Returns no parts if the text is empty.
    """
    return (ThinkingPart(text=text),) if text else ()


def has_image(parts: Iterable[Part]) -> bool:
    return any(isinstance(part, ImagePart) for part in parts)


# --- usage ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UsageFields:
    """The field names that an agent uses for a request's token counts.

    Each count is the sum of its fields.

    `cache.read` names the field `read` in the object `cache`. `input|prompt` names the first of the two
    fields that exists.
    """

    input: tuple[str, ...]
    output: tuple[str, ...]
    cached: str
    reasoning: str = "reasoning"

    def read(self, usage: Json) -> Usage | None:
        """Convert an agent's usage record.

        Returns None if all counts are 0, as is the case after an aborted answer.
        """
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
    """Return the stop reason for another agent's word."""
    return _STOP_REASONS.get(word)


# --- authors ----------------------------------------------------------------------------------------


def by_voice(pairs: Iterable[tuple[V, Part]]) -> Iterator[tuple[V, tuple[Part, ...]]]:
    """Group adjacent parts by the same author."""
    for author, group in groupby(pairs, key=itemgetter(0)):
        yield author, tuple(part for _, part in group)


def user_message(parts: tuple[Part, ...], *, typed: bool) -> UserMessage:
    return UserMessage(parts=parts, origin="typed" if typed else "machine")


def user_messages(
    parts: Iterable[Part], is_program: Callable[[str], bool]
) -> list[UserMessage]:
    """Return user messages.

    The user's own parts and the program's parts are placed in separate messages.

    Args:
        is_program: returns whether the program wrote a given text. For an image, the text is empty.
    """

    def by_program(part: Part) -> bool:
        return is_program(part.text if isinstance(part, TextPart) else "")

    groups = groupby(parts, key=by_program)
    return [user_message(tuple(group), typed=not program) for program, group in groups]


# --- notes ------------------------------------------------------------------------------------------


def kind_of(piece: JsonObject) -> str:
    return piece.kind.strip()[:LONGEST_KIND] or "without a type"


def left_out_note(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return a note on message parts of unsupported types, if there are any."""
    named = by_kind(kinds)
    return (LEFT_OUT.format(kinds=named),) if named else ()


def unknown_note(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return a note on records of unknown types, if there are any."""
    named = by_kind(kinds)
    return (UNKNOWN_RECORDS.format(kinds=named),) if named else ()


def branch_notes(messages: int, gaps: int) -> Iterator[str]:
    """Yield notes on the branches in a tree of records.

    Args:
        messages: the number of messages on other branches.
        gaps: the number of records whose parent had to be guessed.
    """
    if messages:
        are = many(messages, "message is", "messages are")
        yield OTHER_BRANCHES.format(messages=are)
    if gaps:
        yield BROKEN_CHAIN.format(gaps=many(gaps, "gap"))


def lost_cuts_note(count: int) -> tuple[str, ...]:
    """Return a note on compactions that refer to missing messages, if there are any."""
    compactions = many(count, "compaction refers", "compactions refer")
    return (LOST_CUTS.format(compactions=compactions),) if count else ()


def counted_notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the notes with a count above 0."""
    return (note for note, count in counts.items() if count)


def by_kind(kinds: Iterable[str]) -> str:
    """Return types with their counts, most frequent first.

    For example, `audio (2), document (1)`.
    """
    counts = Counter(kinds)
    frequent = counts.most_common(_NAMED_KINDS)
    names = [f"{kind} ({count})" for kind, count in frequent]
    others = len(counts) - len(frequent)
    if others:
        other_pieces = counts.total() - sum(count for _, count in frequent)
        names.append(f"{others} more types ({other_pieces})")
    return ", ".join(names)


def beginning_note(*, is_lost: bool) -> tuple[str, ...]:
    return (BEGINNING_LOST,) if is_lost else ()


def sub_agent_note(by_agent: bool) -> tuple[str, ...]:
    return (BY_SUBAGENT,) if by_agent else ()
